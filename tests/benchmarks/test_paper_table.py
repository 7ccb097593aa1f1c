"""benchmarks/paper_table.py prints what its README says; its times are not judged here."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scripts import load

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


@pytest.fixture(scope="module")
def paper_table() -> ModuleType:
    return load("paper_table")


SMALL = ["--rows", "3000", "--learners", "20,60", "--depths", "1,2", "--levels", "10"]


@pytest.mark.slow
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
        # The same division: approx only spares a look at the last bit.
        assert line.ratio(line.plain) == pytest.approx(line.plain / line.ours.seconds)
        assert line.authors is None
        assert paper_table.show_line(line) in printed
    assert paper_table.HEADER in printed
    assert "measured at 1 and 3 learners" in printed
    assert len(re.findall(r"^(?:20|60) learners, (?:plain|GBR): \d+ to \d+", printed, re.M)) == 4


@pytest.mark.slow
def test_paper_table_skips_gradient_boosting_on_request(
    paper_table: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = paper_table.main(
        ["--rows", "2000", "--learners", "10", "--depths", "1", "--levels", "5", "--skip-gbr"]
    )

    assert [line.gbr for line in lines] == [None]
    assert "GBR: skipped" in capsys.readouterr().out


@pytest.mark.slow
def test_paper_table_times_the_authors_code_at_the_end_of_rounds(
    paper_table: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "LSBoost.py").write_text(AUTHORS_STUB)
    X, y = paper_table.make_data(50)

    seconds = paper_table.time_authors(tmp_path, X, y, [2, 3, 7], depth=1, levels=5, threads=1)

    assert list(seconds) == [2, 3, 7]
    assert seconds[2] == seconds[3]  # the first round of three learners serves both
    assert seconds[3] < seconds[7]


@pytest.mark.slow
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

    assert "target 60 in every cell: reached" in paper_table.show_summary([good])[0]
    summary = paper_table.show_summary([good, bad])
    assert "20 to 100 times as long; target 60 in every cell: NOT reached" in summary[0]
    assert "target 500 in every cell: reached" in summary[1]
