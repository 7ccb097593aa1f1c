"""The paper's experiments run at tiny sizes and say what their documentation says."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "paper"
MODULES = ("common", "surfaces", "survey", "c0", "c1", "census_income", "timing")

Load = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def load() -> Any:
    """Import scripts as Python does when it runs one: with their folder on the path."""
    pytest.importorskip("matplotlib")
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(FOLDER))
    before = {name: sys.modules.pop(name) for name in MODULES if name in sys.modules}
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.modules.update(before)
    patch.undo()


def test_c0_follows_its_definition_in_every_quadrant(load: Load) -> None:
    x, y = np.array([0.5, -0.5, -0.5, 0.5, 0.0]), np.array([1.5, 1.5, -1.5, -1.5, 0.0])
    assert load("surfaces").c0(x, y).tolist() == [0.5, 0.5, 0.5, 0.5, 2.0]


def test_c1_follows_its_definition_in_every_quadrant(load: Load) -> None:
    def by_hand(x: float, y: float, left: float, up: float) -> float:
        wave = 20 * x * y**2 * np.cos(8 * x) * np.sin(8 * y)
        return x + wave * ((1.5 * x + 4) * (x + left) ** 2 / (y + 3) + (y - up) ** 2)

    points = [(0.3, 0.8, -1, 1), (-0.3, 0.8, 1, 1), (-0.3, -0.8, 1, -1), (0.3, -0.8, -1, -1)]
    found = load("surfaces").c1(*np.array(points, dtype=float).T[:2])
    # The same formula with its factors in another order.
    assert found == pytest.approx([by_hand(*point) for point in points], rel=1e-12)


def test_labels_to_train_on_fill_the_unit_interval(load: Load) -> None:
    surfaces = load("surfaces")
    data = surfaces.sample(surfaces.C1, 500, 200, 3)
    assert (data.train[1].min(), data.train[1].max()) == (0.0, 1.0)
    assert data.test[0].shape == (200, 2)
    assert np.abs(data.map[0]).max() < 1.0


def test_stops_read_off_a_long_run_are_those_of_runs_with_the_rule(load: Load) -> None:
    common, surfaces = load("common"), load("surfaces")
    data = surfaces.sample(surfaces.C0, 3000, 500, 0)
    trial = common.boost(rc.Trees(depth=1), data.train, data.test, levels=50, rounds=30)
    loop = rc.Loop(
        levels=50, rounded=True, tolerance="authors", max_rounds=30, keep_unrounded=False
    )
    stopped = rc.LSBoostRegressor(rc.Trees(depth=1), loop=loop, validation=False).fit(*data.train)
    assert stopped.history_.stopped == "tolerance"
    assert trial.stop(0.1) == trial.authors[0] == stopped.n_rounds_ > 0
    X, y = data.test
    assert trial.test[stopped.n_rounds_] == np.mean((stopped.predict(X) - y) ** 2)
    rounds, error, _ = trial.at(0.1, 30)
    assert rounds == str(stopped.n_rounds_)
    assert error < trial.test[stopped.n_rounds_], "one more update, which is not rounded"


def test_a_run_that_never_stops_is_told_apart(load: Load) -> None:
    common = load("common")
    assert common.stopping_round([5.0, 5.0, 3.0, 2.0, 1.5], 0.5) == 4
    assert common.stopping_round([5.0, 3.0, 2.0, 1.5], 0.5) == 3
    assert common.stopping_round([5.0, 5.0, 3.0, 2.0, 1.5], 0.4) is None
    assert common.count(None, 100) == "> 100"


@pytest.mark.slow
def test_c0_is_learned_and_shown_beside_the_paper(
    load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--rows", "20000", "--test-rows", "2000", "--rounds", "25", "--levels", "100"]
    trial = load("c0").main([*size, "--out", str(tmp_path / "new")])
    assert trial.explained(1) < 0.2
    assert trial.explained(25) > 0.95
    printed = capsys.readouterr().out
    assert re.search(rf"authors' code \(gamma 0\.1\) +{trial.stop(0.1)} ", printed)
    assert re.search(r"paper \(gamma not stated\) +199 ", printed)
    assert_pictures(tmp_path / "new", "c0_maps", "c0_errors")


@pytest.mark.slow
def test_c1_is_learned_by_trees_and_not_by_lines(
    load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--rows", "40000", "--test-rows", "4000", "--rounds", "25", "--levels", "20,50"]
    by_levels = load("c1").main([*size, "--out", str(tmp_path)])
    assert list(by_levels) == [20, 50]
    end = {name: trial.explained(25) for name, trial in by_levels[50].items()}
    assert end.pop("linear") < 0.75
    assert min(end.values()) > 0.85
    assert "weakest trees" in capsys.readouterr().out
    assert_pictures(tmp_path, "c1_classes", "c1_levels")


@pytest.mark.slow
def test_census_compares_errors_by_round(
    load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--rows", "20000", "--rounds", "8", "--levels", "30"]
    pairs = load("census_income").main([*size, "--out", str(tmp_path)])
    stumps = pairs["depth 1"]
    assert len(stumps.gradient.mse) == len(stumps.lsboost.mse) == 9
    assert (stumps.lsboost.mse[1:] < stumps.gradient.mse[1:]).all()
    assert (stumps.lsboost.msce[1:] < stumps.gradient.msce[1:]).all()
    # Two means of the same squares.
    assert stumps.lsboost.mse == pytest.approx(stumps.trial.test, rel=1e-12)
    printed = capsys.readouterr().out
    assert "simulated census: 16,000 rows to train on, 4,000 to test on" in printed
    assert load("census_income").show_line("depth 1", stumps) in printed
    assert_pictures(tmp_path, "census")


def documented(*beginning: str) -> list[str]:
    """Cells of the line of a table in the docs that begins so."""
    page = (FOLDER.parents[1] / "docs" / "paper.md").read_text()
    start = "| " + " | ".join(beginning) + " |"
    line = next(line for line in page.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.strip("|").split("|")][len(beginning) :]


@pytest.mark.slow
def test_the_documented_numbers_of_c1_are_the_scripts(load: Load) -> None:
    surfaces, common = load("surfaces"), load("common")
    data = surfaces.sample(surfaces.C1, 1_000_000, 100_000, 0)
    trial = common.boost(common.LEARNERS["depth 1"], data.train, data.test, levels=50, rounds=5)
    stop, _, explained = trial.at(common.RULES["authors' code"], 5)
    assert documented("50", "depth 1")[0] == f"{explained:.3f} ({stop})"


@pytest.mark.slow
def test_the_documented_numbers_of_the_census_are_the_scripts(load: Load) -> None:
    script = load("census_income")
    data = script.split(*script.simulated(500_000, 0), 0)
    pair = script.compare("linear", data, levels=100, rounds=4, level_kind="quantile")
    stop = pair.trial.stop(script.STOP_RULE)
    stops, shown = documented("linear")[:2]
    assert stops.split(" / ")[0] == str(stop)
    mse, msce = shown.split(", ")
    assert mse == f"{pair.lsboost.mse[stop]:.4f}"
    assert float(msce) == pytest.approx(pair.lsboost.msce[stop], rel=0.01)  # two digits are shown


def test_boosted_lines_approach_least_squares(load: Load) -> None:
    script = load("census_income")
    data = script.split(*script.simulated(500, 0), 0)
    stages = list(script.gradient_boosting("linear", data, 200))
    (X, y), (X_test, _) = data
    design = np.column_stack([np.ones(len(X)), X])
    best, *_ = np.linalg.lstsq(design, y, rcond=None)
    line = np.column_stack([np.ones(len(X_test)), X_test]) @ best
    # Labels are scaled to [0, 1] and back; Linear rounds its columns to 2**-15 and snaps.
    assert stages[0] == pytest.approx(np.full(len(X_test), y.mean()))
    assert stages[1] == pytest.approx(0.9 * stages[0] + 0.1 * line, abs=1e-6)
    assert stages[-1] == pytest.approx(line, abs=1e-6)


@pytest.fixture
def person_file(load: Load, tmp_path: Path) -> Path:
    """Six persons, three of whom ACSIncome takes; the relation has its name since 2019."""
    table = pd.DataFrame(
        {
            "AGEP": [40, 16, 30, 50, 60, 70],
            "PINCP": [50_000, 50_000, 100, 250_000, np.nan, 100_000],
            "WKHP": [40, 40, 40, 10, 40, 1],
            "PWGTP": 1,
            "RELSHIPP": [20, 21, 22, 23, 24, np.nan],
            "SERIALNO": "2019",
        }
    )
    for name in ("COW", "SCHL", "MAR", "OCCP", "POBP", "SEX", "RAC1P"):
        table[name] = 1
    path = tmp_path / "psam.csv"
    table.to_csv(path, index=False)
    return path


def test_survey_takes_the_rows_of_acs_income_and_caps(load: Load, person_file: Path) -> None:
    X, y = load("survey").read_income([person_file], drop_above_cap=False)
    assert y.tolist() == [0.5, 1.0, 1.0]
    assert X[:, 0].tolist() == [40.0, 50.0, 70.0]
    assert X[:, 6].tolist() == [20.0, 23.0, 0.0]


def test_survey_reads_parquet_without_weights(load: Load, person_file: Path) -> None:
    path = person_file.with_suffix(".parquet")
    pd.read_csv(person_file).drop(columns="PWGTP").to_parquet(path)
    read = load("survey").read_income
    for ours, theirs in zip(
        read([path], drop_above_cap=False), read([person_file], drop_above_cap=False), strict=True
    ):
        assert np.array_equal(ours, theirs)


def test_survey_drops_incomes_above_the_cap_on_request(load: Load, person_file: Path) -> None:
    _, y = load("survey").read_income([person_file, person_file], drop_above_cap=True)
    assert y.tolist() == [0.5, 1.0, 0.5, 1.0]


def test_survey_says_what_a_file_lacks(load: Load, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    pd.DataFrame({"AGEP": [1], "income": [2]}).to_csv(path, index=False)
    with pytest.raises(SystemExit, match=r"other\.csv has no column COW, .*psam_p06\.csv"):
        load("survey").read_income([path], drop_above_cap=False)


@pytest.mark.slow
def test_timing_shows_the_benchmark_beside_the_paper(
    load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--rows", "2000", "--learners", "20,100", "--depths", "1,2", "--levels", "50"]
    script = load("timing")
    lines = script.main([*size, "--gbr-learners", "2", "--threads", "1", "--out", str(tmp_path)])
    cells = [(line.depth, line.ours.learners) for line in lines]
    assert cells == [(1, 20), (1, 100), (2, 20), (2, 100)]
    printed = capsys.readouterr().out
    assert all(script.show_line(line) in printed for line in lines)
    assert script.show_line(lines[2]).endswith(" -")
    assert script.show_line(lines[3]).endswith(" 3.9")  # 23.0 / 5.9
    assert_pictures(tmp_path, "timing")


def test_options_refuse_sizes_below_one(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load("c0").main(["--rows", "0"])
    assert "must be at least 1, got 0" in capsys.readouterr().err


def assert_pictures(folder: Path, *names: str) -> None:
    """Pictures exist and are not blank."""
    from matplotlib.image import imread

    assert sorted(path.name for path in folder.glob("*.png")) == sorted(
        f"paper_{name}.png" for name in names
    )
    for name in names:
        assert imread(folder / f"paper_{name}.png").std() > 0.01
