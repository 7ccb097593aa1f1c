"""The quality benchmark: its figures against slow versions, its counts, and whole runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scripts import load
from sklearn.metrics import average_precision_score, log_loss, mean_poisson_deviance

from recalibrate import metrics
from recalibrate.simulate import census

Floats = NDArray[np.float64]
# `pytest.approx` allows 1e-6 of a value: slow versions and averages add up in another order.


cases, figures, quality = map(load, ("quality_cases", "quality_figures", "quality"))


def made_rows(task: str, n: int = 600, seed: int = 0) -> tuple[Floats, Floats, pd.DataFrame]:
    """Labels, predictions with ties that are off for one group, and two group columns."""
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(2, 3, n), 2)
    X = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 80, n)})
    truth = np.clip(p + 0.15 * (X["sex"] == "F").to_numpy(), 0, 1)
    noisy = truth + rng.normal(0, 0.1, n)
    y = (rng.random(n) < truth).astype(np.float64) if task == "binary" else np.clip(noisy, 0, 1)
    return y, p, X


# --- figures against slow versions --------------------------------------------------------------


def test_segments_are_everyone_groups_and_crossings() -> None:
    X = made_rows("binary", n=1000)[2]
    X["one"] = "same"  # not a group: everyone is in it
    X["rare"] = np.where(np.arange(1000) < 4, "few", "many")  # 4 of 1000 are under the share
    quartiles = np.quantile(X["age"], [0.25, 0.5, 0.75])
    band = np.array([sum(age >= edge for edge in quartiles) for age in X["age"]])

    found = cases.find_segments(X, ["sex", "age", "one", "rare"])

    expected = [("everyone", 1000, 0)]
    expected += [(f"sex={sex}", sum(X["sex"] == sex), 1) for sex in X["sex"].unique()]
    ends = ["-inf", *(f"{edge:g}" for edge in quartiles), "inf"]
    bands = [f"age in [{ends[k]}, {ends[k + 1]})" for k in range(4)]
    expected += [(bands[k], sum(band == k), 1) for k in range(4)]
    expected += [("rare=many", 996, 1)]
    crossed = [segment for segment in found if segment.columns == 2]
    assert [(s.label, s.rows.sum(), s.columns) for s in found if s.columns < 2] == expected
    # Crossings with the constant column are the groups again, as every crossing is looked at.
    by_label = {segment.label: segment.rows for segment in crossed}
    for sex in ("F", "M"):
        for k in range(4):
            rows = (X["sex"] == sex).to_numpy() & (band == k)
            assert np.array_equal(by_label[f"sex={sex} and {bands[k]}"], rows)
    assert not any("few" in label for label in by_label)


def test_few_distinct_numbers_and_missing_values_are_groups() -> None:
    codes, names = cases.group_codes(pd.Series([2, 1, 2, 3], name="school"))
    assert codes.tolist() == [0, 1, 0, 2]
    assert names == ["school=2", "school=1", "school=3"]

    codes, names = cases.group_codes(pd.Series(["a", None, "b", None], name="job"))
    assert codes.tolist() == [0, 1, 2, 1]
    assert len(names) == 3


def test_calibration_rows_of_a_group_of_test_rows() -> None:
    test = pd.DataFrame({"age": np.arange(100.0), "job": ["a", None] * 50})
    cal = pd.DataFrame({"age": [-5.0, 24.0, 25.0, 200.0], "job": ["new", "a", None, "a"]})
    y = np.zeros(4), np.zeros(100)
    case = cases.Case("made", "binary", (cal, test), y, ("age", "job"), (), {})

    found = {
        segment.label: cases.calibration_rows(case, segment.label).tolist()
        for segment in cases.find_segments(test, case.groups)
        if segment.columns == 1
    }

    first, second, third, last = (found[label] for label in list(found)[:4])
    assert [first, second, third, last] == [
        [True, True, False, False],
        [False, False, True, False],
        [False, False, False, False],
        [False, False, False, True],
    ]
    assert found["job=a"] == [False, True, False, True]
    assert list(found.values())[5] == [False, False, True, False]


def test_row_losses() -> None:
    y, p, _ = made_rows("binary")

    assert figures.squared_errors(y, p).mean() == pytest.approx(
        sum((p[i] - y[i]) ** 2 for i in range(len(y))) / len(y)
    )
    inside = np.clip(p, 1e-6, 1 - 1e-6)
    assert figures.log_losses(y, p).mean() == pytest.approx(log_loss(y, inside))
    counts = np.array([0.0, 3.0, 1.0])
    rates = np.array([0.2, 2.0, 1.0])
    found = figures.deviances(counts, rates).mean()
    assert found == pytest.approx(mean_poisson_deviance(counts, rates))
    sure = figures.log_losses(np.array([1.0]), np.array([0.0]))
    assert sure[0] == pytest.approx(-np.log(1e-6))


def test_pr_auc_takes_ties_together() -> None:
    y, p, _ = made_rows("binary")

    assert figures.pr_auc(y, p) == pytest.approx(average_precision_score(y, p))
    assert figures.pr_auc(np.array([0.0, 1.0, 1.0]), np.full(3, 0.5)) == pytest.approx(2 / 3)


def test_ece_by_bin() -> None:
    y, p, _ = made_rows("binary")
    p[:3] = [0.0, 1.0, 1.2]  # both ends, and beyond: the last bin takes it
    total = 0.0
    for k in range(10):
        rows = [i for i in range(len(y)) if min(int(p[i] * 10), 9) == k]
        total += abs(sum(p[i] - y[i] for i in rows))

    assert figures.ece(y, p) == pytest.approx(total / len(y))


def test_worst_group_ece_leaves_crossings_out() -> None:
    y, p, X = made_rows("binary")
    segments = cases.find_segments(X, ["sex", "age"])
    by_segment = [figures.ece(y[s.rows], p[s.rows]) for s in segments]

    worst = figures.worst_group_ece(y, p, segments)

    assert worst == max(e for e, s in zip(by_segment, segments, strict=True) if s.columns < 2)
    assert worst < max(by_segment)  # small crossings are noisier, so this can tell


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_mce_sigma_is_the_largest_walk(task: str) -> None:
    y, p, X = made_rows(task)
    segments = cases.find_segments(X, ["sex", "age"])

    def walk(y: Floats, p: Floats) -> float:
        sums = [0.0] + [float(np.sum((y - p)[p <= t])) for t in sorted(set(p))]
        if task == "binary":
            variance = sum(q * (1 - q) for q in p)
        else:
            residual = [y[i] - p[i] for i in sorted(range(len(y)), key=lambda i: p[i])]
            variance = sum((b - a) ** 2 for a, b in pairwise(residual)) / 2
        return float((max(sums) - min(sums)) / np.sqrt(variance))

    expected = max(walk(y[s.rows], p[s.rows]) for s in segments)
    assert figures.mce_sigma(y, p, segments, task) == pytest.approx(expected)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_cell_excess_by_cell(task: str) -> None:
    y, p, X = made_rows(task)
    segments = cases.find_segments(X, ["sex", "age"])
    edges = sorted(set(np.quantile(p, np.arange(1, 10) / 10)))
    decile = np.array([sum(value >= edge for edge in edges) for value in p])
    squares, left_out = [], 0
    for segment in segments:
        for k in range(10):
            rows = segment.rows & (decile == k)
            if task == "binary":
                variance = sum(q * (1 - q) for q in np.clip(p[rows], 1e-4, 1 - 1e-4))
            else:
                variance = rows.sum() * np.var((y - p)[decile == k], ddof=1)
            if rows.sum() < 25 or (task == "binary" and variance <= 1):
                left_out += rows.any()
                continue
            squares.append(float(np.sum((y - p)[rows])) ** 2 / variance)

    assert left_out > 0
    expected = np.mean(squares) - 1
    assert figures.cell_excess(y, p, segments, task) == pytest.approx(expected)
    assert expected > 0.3  # a group is off


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_cell_excess_without_some_rows(task: str) -> None:
    y, p, X = made_rows(task)
    segments = cases.find_segments(X, ["sex"])
    part = np.arange(len(y)) % 3

    found = figures.cell_excess_without(y, p, segments, task, part)

    decile = figures.deciles(p)
    spread = [np.var((y - p)[decile == k], ddof=1) for k in range(decile.max() + 1)]
    variance = p * (1 - p) if task == "binary" else np.array(spread)[decile]
    for k in range(3):
        squares = []
        for segment in segments:
            for d in range(10):
                rows = segment.rows & (decile == d) & (part != k)
                if rows.sum() >= 25 and (task == "regression" or variance[rows].sum() > 1):
                    squares.append(np.sum((y - p)[rows]) ** 2 / variance[rows].sum())
        assert found[k] == pytest.approx(np.mean(squares) - 1)


def test_error_of_a_difference_in_cell_excess_is_that_of_other_rows() -> None:
    X = made_rows("binary", n=3000)[2]
    segments = cases.find_segments(X, ["sex", "age"])
    rng = np.random.default_rng(0)
    truth = rng.beta(2, 3, 3000)
    off = np.clip(truth + 0.05 * (X["sex"] == "F").to_numpy(), 0.01, 0.99)

    found, errors = [], []
    for _ in range(60):
        y = (rng.random(3000) < truth).astype(np.float64)
        each = [figures.cell_excess(y, p, segments, "binary") for p in (truth, off)]
        found.append(each[1] - each[0])
        errors.append(figures.excess_error(y, off, truth, segments, "binary"))

    assert 0.6 < np.mean(errors) / np.std(found) < 1.6
    assert figures.excess_error(y, off, off, segments, "binary") == 0.0


def test_cell_excess_of_the_truth_is_about_zero() -> None:
    data = census(20_000, seed=4)
    segments = cases.find_segments(data.X, ["SEX", "AGEP", "MAR"])

    assert abs(figures.cell_excess(data.y, data.probability, segments, "binary")) < 0.15
    assert figures.cell_excess(data.y, data.scores, segments, "binary") > 1.0


def test_gap_and_group_k2() -> None:
    y, p, X = made_rows("binary")
    rows = (X["sex"] == "F").to_numpy()
    edges = np.unique(np.quantile(p, np.arange(1, 10) / 10))

    assert figures.gap(y, p, rows) == pytest.approx(y[rows].mean() - p[rows].mean())
    k2 = figures.group_k2(y, p, rows)
    assert k2 == pytest.approx(metrics.group_k2(p, y, rows, bins=edges))
    unbiased = figures.group_k2(y, p, rows, unbiased=True)
    assert unbiased == pytest.approx(metrics.k2_unbiased(p[rows], y[rows], bins=edges))
    assert unbiased < k2


def test_standardised_gain() -> None:
    theirs, ours = np.array([1.0, 2.0, 4.0]), np.array([0.0, 2.0, 2.0])  # better by 1, 0, 2

    assert figures.standardised_gain(theirs, ours) == pytest.approx(1.0 / (1.0 / np.sqrt(3)))
    assert figures.standardised_gain(ours, theirs) == pytest.approx(-np.sqrt(3))
    assert figures.standardised_gain(ours, ours) == 0.0


# --- counts -------------------------------------------------------------------------------------


@pytest.fixture
def make_pair() -> Callable[..., Any]:
    """A pair with made-up predictions instead of fits."""

    def make(task: str, seed: int, **shifts: float) -> Any:
        y, p, X = made_rows(task, seed=seed)
        p = np.clip(p, 0.01, 0.99)
        right = np.clip(p + 0.15 * (X["sex"] == "F").to_numpy(), 0.01, 0.99)
        case = cases.Case(f"made{seed}", task, (X, X), (y, y), ("sex",), (), {"b": (p, p)})
        predictions = {"base": p}
        for method, shift in shifts.items():
            predictions[method.replace("_", " ")] = np.clip(right + shift, 0.01, 0.99)
        predictions["recalibrate H=Groups"] = right
        segments = cases.find_segments(X, ["sex"])
        measured = {name: quality.figures(case, p, segments) for name, p in predictions.items()}
        return quality.Pair(case, "b", segments, predictions, {}, measured)

    return make


def test_wins_are_counted_where_the_reference_exists(make_pair: Callable[..., Any]) -> None:
    pairs = [
        make_pair("binary", 1, recalibrate=0.0, other=0.2),
        make_pair("regression", 2, recalibrate=0.2, other=0.0),
        make_pair("binary", 3, recalibrate=0.0),
    ]
    loss = [[pair.figures[m]["loss"] for m in ("recalibrate", "other")] for pair in pairs[:2]]
    cells = [
        [pair.figures[m]["cell_excess"] for m in ("recalibrate", "other")] for pair in pairs[:2]
    ]

    wins = quality.count_wins(pairs, "other")

    assert (wins["pairs"], wins["loss_lower"], wins["loss_beyond_noise"]) == (2, 1, 1)
    assert wins["loss_worst_excess"] == pytest.approx(loss[1][0] / loss[1][1] - 1)
    assert wins["cell_excess_lower"] == wins["worst_group_ece_lower"] == 1
    positive = [ours / theirs for ours, theirs in cells if theirs > 0]
    assert wins["cell_excess_ratio_pairs"] == len(positive)
    assert wins["cell_excess_ratio"] == pytest.approx(np.mean(positive))
    assert wins["cell_excess_means"] == pytest.approx(np.mean(cells, axis=0))
    assert wins["pr_auc_pairs"] == 1  # the regression has none
    assert "loss lower on 1 of 2 (1 beyond 2 standard errors" in quality.show_wins(wins)
    assert wins["cell_excess_beyond_noise"] == wins["cell_excess_higher_beyond_noise"] == 1
    assert "standard errors lower on 1, higher on 1)" in quality.show_wins(wins)


def test_no_ratio_to_a_calibrated_reference(make_pair: Callable[..., Any]) -> None:
    pair = make_pair("binary", 1, recalibrate=0.0, other=0.0)
    pair.figures["other"]["cell_excess"] = -0.1

    wins = quality.count_wins([pair], "other")

    assert np.isnan(wins["cell_excess_ratio"])
    assert "mean ratio - over 0" in quality.show_wins(wins)
    assert "cell_excess_ratio" not in quality.known(wins)
    assert wins["pr_auc_not_lower"] == 1  # equal is not lower


def test_worse_than_the_base_is_named(make_pair: Callable[..., Any]) -> None:
    pairs = [
        make_pair("binary", 1, recalibrate=0.0),
        make_pair("regression", 2, recalibrate=0.4),
    ]

    brier = quality.compare_with_base(pairs, "recalibrate", squared=True)
    logs = quality.compare_with_base(pairs, "recalibrate", squared=False)

    assert brier["worse"] == ["made2/b"]
    assert brier["gains"]["made1/b"] > 2
    assert list(logs["gains"]) == ["made1/b"]
    assert "on 1 of 2; worse on made2/b (-" in quality.show_comparison(brier)
    assert quality.show_comparison(logs).endswith("on 1 of 1")


def test_worst_group_before_and_after(make_pair: Callable[..., Any]) -> None:
    pair = make_pair("regression", 1, recalibrate=0.0)
    y, p, rows = pair.case.y[1], pair.predictions["base"], (pair.case.X[1]["sex"] == "F").to_numpy()

    found = quality.follow_worst_group(pair)

    assert (found["group"], found["rows"]) == ("sex=F", rows.sum())
    assert found["gap"][0] == pytest.approx(np.mean((y - p)[rows]))
    assert abs(found["gap"][1]) < 0.03 < 0.1 < found["gap"][0]
    assert found["k2"][1] < 0.1 * found["k2"][0]
    assert found["gap_error"] == pytest.approx(
        np.std((y - pair.predictions["recalibrate H=Groups"])[rows]) / np.sqrt(rows.sum())
    )
    assert abs(found["worst_after"]["gap"]) >= abs(found["gap"][1])
    assert found["calibration_gap"] == found["gap"][0]  # the same rows here
    assert "b: sex=F" in quality.show_worst_group(found)


# --- whole runs ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_run_without_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "out.json"

    result = quality.main(["--rows", "6000", "--threads", "1", "--json", str(written)])

    printed = capsys.readouterr().out
    assert json.loads(written.read_text()) == result
    assert [(pair["case"], pair["base"]) for pair in result["pairs"]] == [
        ("simulated census", "lr"),
        ("simulated census", "tree"),
    ]
    methods = ["base", "isotonic", "Platt/linear", "recalibrate", "recalibrate H=Groups"]
    for pair in result["pairs"]:
        assert list(pair["methods"]) == methods
        # The bases are too simple or over-fitted: recalibration has to pay.
        assert pair["methods"]["recalibrate"]["log_loss"] < pair["methods"]["base"]["log_loss"]
        assert "fit_s" in pair["methods"]["isotonic"]
        assert "fit_s" not in pair["methods"]["base"]
    assert [wins["reference"] for wins in result["wins"]] == ["isotonic", "Platt/linear"]
    assert "simulated census / lr: binary, 2,000 calibration rows, 2,000 test rows" in printed
    assert "recalibrate against base: log loss not worse beyond one standard error on" in printed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tiny cases; a numeric category, a column with a space, a reference for one base only."""
    path = tmp_path_factory.mktemp("cases")
    for name, task in (("few", "binary"), ("money", "regression")):
        data = census(3000, seed=5, task="binary" if task == "binary" else "income", gap=0.1)
        columns = ["AGEP", "SEX", "MAR", "WKHP"]
        frame = data.X[columns].rename(columns={"MAR": "marital status"})
        frame["y"] = data.y
        frame["split"] = np.where(np.arange(3000) % 2, "test", "cal")
        frame["base_gap"] = data.scores.astype(np.float32)
        frame["base_flat"] = data.y.mean()
        frame["best_gap"] = np.where(np.arange(3000) % 2, data.probability, np.nan)
        frame.to_parquet(path / f"{name}.parquet")
        about = {
            "task": task,
            "cat": ["SEX", "marital status"],
            "num": ["AGEP", "WKHP"],
            "groups": ["SEX", "marital status", "AGEP"],
            "seconds": {"best_gap": {"fit": 12.5}},
        }
        (path / f"{name}.json").write_text(json.dumps(about))
    return path


@pytest.mark.slow
def test_run_on_a_folder(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quality, "warm_up", lambda threads: None)  # times are not judged here

    result = quality.main([str(folder), "--threads", "1"])

    printed = capsys.readouterr().out
    pairs = {(pair["case"], pair["base"]): pair["methods"] for pair in result["pairs"]}
    assert list(pairs) == [("few", "gap"), ("few", "flat"), ("money", "gap"), ("money", "flat")]
    assert pairs["few", "gap"]["best"]["fit_s"] == 12.5
    assert "best" not in pairs["few", "flat"]
    assert "log_loss" not in pairs["money", "gap"]["recalibrate"]
    assert pairs["money", "gap"]["best"]["loss"] == pairs["money", "gap"]["best"]["brier"]
    best = next(wins for wins in result["wins"] if wins["reference"] == "best")
    assert (best["pairs"], best["loss_lower"]) == (2, 0)  # nothing is better than the truth
    assert [found["group"] for found in result["worst_groups"][::2]] == ["SEX=2", "SEX=2"]
    for found in result["worst_groups"][::2]:  # the planted gap of .1 is closed
        assert found["gap"][0] > 0.07
        assert abs(found["gap"][1]) < 0.04
    assert "best" in printed
    assert "12.50" in printed


@pytest.mark.slow
def test_cases_and_bases_can_be_chosen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "warm_up", lambda threads: None)
    chosen = [str(folder), "--cases", "money", "--bases", "flat", "--threads", "1"]

    result = quality.main(chosen)

    assert [(pair["case"], pair["base"]) for pair in result["pairs"]] == [("money", "flat")]


def test_wrong_choices_and_folders_say_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality, "warm_up", lambda threads: None)

    with pytest.raises(SystemExit, match=r"has no case many; it has few, money"):
        quality.main([str(folder), "--cases", "many"])
    with pytest.raises(SystemExit, match=r"no case has a base x"):
        quality.main([str(folder), "--bases", "x"])
    with pytest.raises(SystemExit, match=r"has no cases \(NAME.json, NAME.parquet\)"):
        quality.main([str(tmp_path)])


@pytest.mark.parametrize(
    ("change", "drop", "message"),
    [
        ({"task": "ranking"}, "", "task must be binary, regression, counts, got 'ranking'"),
        ({"groups": ["race"]}, "", r"groups must name columns of cat or num, got \['race'\]"),
        ({"groups": []}, "", "groups must name columns"),
        ({}, "AGEP", "few.parquet has no column AGEP"),
        ({}, "base_", "has no scores base_<base>"),
        ({}, "test rows", "needs cal and test rows, all of them finite"),
    ],
)
def test_unreadable_cases_say_why(
    folder: Path,
    tmp_path: Path,
    change: dict[str, Any],
    drop: str,
    message: str,
) -> None:
    about = json.loads((folder / "few.json").read_text()) | change
    frame = pd.read_parquet(folder / "few.parquet")
    if drop == "test rows":
        frame = frame[frame["split"] == "cal"]
    elif drop:
        frame = frame.drop(columns=[c for c in frame.columns if c.startswith(drop)])
    frame.to_parquet(tmp_path / "few.parquet")
    (tmp_path / "few.json").write_text(json.dumps(about))

    with pytest.raises(SystemExit, match=message):
        cases.read_case(tmp_path, "few")
