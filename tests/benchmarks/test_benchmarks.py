"""The speed benchmarks run and print what their README says; their times are not judged here."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"

# What paper_table.py needs of the authors' module: rounds of learners, and a fit that takes
# Ctrl-C as the end. Three learners a round.
AUTHORS_STUB = """
class LSBoostingRegressor:
    def __init__(self, T, num_bins, global_gamma, weak_learner, n_jobs):
        self.T, self.updates = T, 0

    def update(self):
        self.updates += 3
        return True

    def fit(self, X, y):
        print("a lot of output")
        try:
            for _ in range(self.T):
                self.update()
        except KeyboardInterrupt:
            pass
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def paper_table() -> ModuleType:
    return load("paper_table")


@pytest.fixture(scope="module")
def scaling() -> ModuleType:
    return load("scaling")


SMALL = ["--rows", "3000", "--learners", "20,60", "--depths", "1,2", "--levels", "10"]


def test_paper_table_has_a_line_per_cell_and_ratios(
    paper_table: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = paper_table.main([*SMALL, "--gbr-learners", "3"])
    printed = capsys.readouterr().out

    assert [(line.depth, line.levels, line.ours.learners) for line in lines] == [
        (1, 10, 20),
        (1, 10, 60),
        (2, 10, 20),
        (2, 10, 60),
    ]
    for line in lines:
        assert line.ours.trained >= line.ours.learners
        assert line.ratio(line.plain) == pytest.approx(line.plain / line.ours.seconds)
        assert line.authors is None
        assert paper_table.show_line(line) in printed
    assert paper_table.HEADER in printed
    assert "measured at 1 and 3 learners" in printed
    assert len(re.findall(r"^(?:20|60) learners, (?:plain|GBR): \d+ to \d+", printed, re.M)) == 4


def test_paper_table_skips_gradient_boosting_on_request(
    paper_table: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = paper_table.main(
        ["--rows", "2000", "--learners", "10", "--depths", "1", "--levels", "5", "--skip-gbr"]
    )

    assert [line.gbr for line in lines] == [None]
    assert "GBR: skipped" in capsys.readouterr().out


def test_paper_table_times_the_authors_code_at_the_end_of_rounds(
    paper_table: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "LSBoost.py").write_text(AUTHORS_STUB)
    X, y = paper_table.make_data(50)

    seconds = paper_table.time_authors(tmp_path, X, y, [2, 3, 7], depth=1, levels=5, threads=1)

    assert list(seconds) == [2, 3, 7]
    assert seconds[2] == seconds[3]  # the first round of three learners serves both
    assert seconds[3] < seconds[7]


def test_paper_table_says_when_the_authors_code_is_not_there(
    paper_table: ModuleType, tmp_path: Path
) -> None:
    X, y = paper_table.make_data(50)

    with pytest.raises(RuntimeError, match="LSBoost"):
        paper_table.time_authors(tmp_path, X, y, [2], depth=1, levels=5, threads=1)


def test_plain_loop_and_library_learn_the_same(paper_table: ModuleType) -> None:
    """The comparison is between two ways to compute one thing."""
    X, y = paper_table.make_data(3000)
    X = X[:, [0, 2, 7]]  # at most 255 values each, so binning loses nothing

    _, errors = paper_table.plan_ours(X, y, [40], depth=1, levels=10, threads=1)
    plain = paper_table.time_plain(X, y, [40], depth=1, levels=10)

    shared = min(len(errors), len(plain.errors))
    assert shared > 3
    # Thresholds and ties at the grid's midpoints may differ, the learners may not.
    np.testing.assert_allclose(errors[:shared], plain.errors[:shared], rtol=1e-3)


def test_summary_judges_the_targets_at_a_thousand_learners(paper_table: ModuleType) -> None:
    ours = paper_table.Ours(learners=1000, rounds=10, trained=1010, seconds=0.5)
    good = paper_table.Line(1, 50, ours, plain=50.0, authors=None, gbr=300.0)
    bad = paper_table.Line(2, 50, ours, plain=10.0, authors=None, gbr=300.0)

    assert "target 40 in every cell: reached" in paper_table.show_summary([good])[0]
    summary = paper_table.show_summary([good, bad])
    assert "20 to 100 times as long; target 40 in every cell: NOT reached" in summary[0]
    assert "target 500 in every cell: reached" in summary[1]


def test_scaling_measures_in_fresh_processes(
    scaling: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--rows", "3000", "--features", "12", "--rows-for-features", "2000"]
    quick = ["--rounds", "2", "--levels", "5", "--repeats", "1", "--threads", "1"]
    by_rows, by_features = scaling.main([*sizes, *quick])
    printed = capsys.readouterr().out

    assert [(r.rows, r.features) for r in by_rows + by_features] == [(3000, 10), (2000, 12)]
    for result in by_rows + by_features:
        assert result.table_bytes == 4 * result.rows * result.features
        assert result.learners >= 2
        assert scaling.show(result) in printed
    assert scaling.HEADER in printed
    assert "times its float32 size on top of the input" in printed


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the mark is not inherited")
def test_scaling_does_not_count_the_memory_of_the_starting_process(
    scaling: ModuleType, tmp_path: Path
) -> None:
    scaling.write_data(tmp_path, 2000, 5)
    ballast = np.ones(40_000_000)  # 320 MB that this process holds and the child does not

    result = scaling.in_child(scaling.Order(str(tmp_path), 1, 5, 1, 1, 1))

    assert result.extra_bytes < ballast.nbytes / 4


def test_scaling_verdicts(scaling: ModuleType) -> None:
    def result(rows: int, features: int, seconds: float, extra: int) -> object:
        return scaling.Result(rows, features, seconds, 10, 4 * rows * features, extra)

    by_rows = [result(1_000_000, 10, 1.0, 0), result(10_000_000, 10, 16.0, 2_000_000_000)]
    by_features = [result(1000, 5, 1.0, 0), result(1000, 10, 2.0, 0)]

    assert scaling.verdicts(by_rows, by_features) == [
        "10,000,000 rows cost 1.60 times as much a row as 1,000,000; limit 1.5: EXCEEDED",
        "10 features cost 1.00 times as much a feature as 5",
        "largest table: 5.00 times its float32 size on top of the input; limit 3: EXCEEDED",
    ]


@pytest.mark.parametrize("name", ["paper_table", "scaling"])
def test_numbers_on_the_command_line(
    name: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    module = request.getfixturevalue(name)

    assert module.parser().parse_args(["--rows", "7"]).rows in (7, [7])
    assert module.numbers("30,10,30") == [10, 30]
    with pytest.raises(SystemExit):
        module.parser().parse_args(["--levels" if name == "paper_table" else "--features", "0"])
    assert "must be positive" in capsys.readouterr().err


def test_harm_says_how_far_the_truth_was_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harm = load("harm")
    for what, said in [
        ("calibrated", r"mean harm \d+\.\d{4} % .* base changed in \d of 2"),
        ("planted", r"of the gap is left"),
        ("small-groups", r"moved by \d+\.\d{3} standard errors"),
    ]:
        monkeypatch.setattr(sys, "argv", ["harm.py", what, "--rows", "800", "--seeds", "2"])
        harm.main()
        assert re.search(said, capsys.readouterr().out)
