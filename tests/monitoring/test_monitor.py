"""Monitor: planted drift is found in the right group, calibrated streams stay quiet, bad input."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from streams import GROUPS, batch, rows_of, run

import recalibrate as rc


@pytest.fixture(scope="module")
def drifted():
    return run(np.random.default_rng(0))


def test_a_drift_is_found_in_the_right_group_and_dated(drifted):
    table = rows_of(drifted.table)
    assert drifted.alarm
    assert table.loc["sex = F", ["alarm", "direction", "where", "since"]].tolist() == [
        True, "under", "all scores", "6",
    ]  # fmt: skip
    assert not table.loc["sex = M", "alarm"]
    found = table.loc["sex = F"]
    assert found["low_since"] < 0.25 < found["high_since"]
    assert found["low_since"] > 0.01
    assert found["alarm_time"] in ("6", "7")
    assert found["p"] < 0.001 < 0.05 < table.loc["sex = M", "p"]


def test_gaps_and_rows_are_those_of_the_audit():
    rng = np.random.default_rng(1)
    parts = [batch(rng, 300, gap=0.1) for _ in range(4)]
    monitor = rc.Monitor(groups=GROUPS)
    for X, p, y in parts:
        monitor.update(X, y, scores=p)
    X = pd.concat([part[0] for part in parts])
    p, y = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    audited = rows_of(rc.audit(p, X, y, groups=GROUPS).table)
    table = rows_of(monitor.table)
    assert table["rows"].tolist() == audited["rows"].tolist()
    # Sums in another order.
    assert table["gap"].to_numpy() == pytest.approx(audited["gap"].to_numpy(), abs=1e-12)
    assert (table["low"] < audited["low"]).all()
    assert (table["high"] > audited["high"]).all()


def test_a_row_of_weight_two_moves_the_gap_as_two_rows():
    rng = np.random.default_rng(2)
    X, p, y = batch(rng, 400, gap=0.2)
    weight = rng.integers(0, 3, 400)
    weighted, repeated = rc.Monitor(groups=GROUPS), rc.Monitor(groups=GROUPS)
    weighted.update(X, y, scores=p, sample_weight=weight)
    rows = np.repeat(np.arange(400), weight)
    repeated.update(X.iloc[rows], y[rows], scores=p[rows])
    assert weighted.table["gap"].to_numpy() == pytest.approx(repeated.table["gap"].to_numpy())
    # Weights say less than rows of their own.
    assert weighted.table["low"][0] < repeated.table["low"][0]


def test_how_rows_are_cut_into_batches_hardly_matters():
    rng = np.random.default_rng(3)
    X, p, y = batch(rng, 3000, gap=0.1)
    time = np.sort(rng.uniform(0, 10, 3000))
    whole, pieces = rc.Monitor(groups=GROUPS).start(X, scores=p), rc.Monitor(groups=GROUPS)
    pieces.start(X, scores=p)
    whole.update(X, y, scores=p, time=time)
    for rows in np.array_split(np.arange(3000), 7):
        pieces.update(X.iloc[rows], y[rows], scores=p[rows], time=time[rows])
    columns = ["rows", "gap", "low", "high"]
    a, b = (monitor.table[columns].to_numpy() for monitor in (whole, pieces))
    assert a == pytest.approx(b, abs=1e-9)  # sums in another order
    assert len(whole.report().ends) == 16


def test_late_labels_are_counted_where_they_belong():
    rng = np.random.default_rng(4)
    parts = [batch(rng, 300, gap=0.3 if k >= 4 else 0.0) for k in range(8)]
    monitor = rc.Monitor(groups="sex")
    for k in (0, 1, 3, 4, 6, 7):
        X, p, y = parts[k]
        monitor.update(X, y, scores=p, time=k)
    X, p, y = parts[2]
    with pytest.raises(ValueError, match="time goes backwards: the batch begins at 2"):
        monitor.update(X, y, scores=p, time=2)
    for k in (5, 2):
        X, p, y = parts[k]
        monitor.update(X, y, scores=p, time=k, late=True)
    report = monitor.report()
    assert report.n_rows == 2400
    # Times 2 and 5 are in the buckets that begin at 1 and 4.
    assert report.starts == (0, 1, 3, 4, 6, 7)
    assert report.history[0].rows == (300, 600, 300, 600, 300, 300)
    assert rows_of(report.table).loc["sex = F", "since"] == "4"


def test_late_rows_mixed_with_new_ones_are_added_once_each():
    rng = np.random.default_rng(5)
    monitor = rc.Monitor()
    monitor.update(None, rng.random(400) < 0.5, scores=np.full(400, 0.5), time=np.arange(400))
    time = rng.permutation(np.r_[np.arange(0, 200), np.arange(500, 700)])
    y = (time < 200).astype(float)  # late rows are all positive
    monitor.update(None, y, scores=np.full(400, 0.5), time=time, late=True)
    history = monitor.report().history[0]
    assert sum(history.rows) == 800
    early = np.array(monitor.report().starts) < 200
    assert (np.array(history.gap)[early] > 0.1).all()


def test_a_fault_in_one_band_of_scores_is_found_there():
    rng = np.random.default_rng(6)
    monitor = rc.Monitor(groups="sex", tolerance=0.02)
    for _ in range(8):
        X, p, y = batch(rng, 1500, gap=-0.2, band=(0.6, 0.8))
        X2, p2, y2 = batch(rng, 1500, gap=0.2, band=(0.1, 0.3))
        monitor.update(
            pd.concat([X, X2]), np.r_[y, y2], scores=np.r_[p, p2]
        )  # the two faults cancel in the mean
    table = rows_of(monitor.table)
    assert abs(table.loc["sex = F", "gap"]) < 0.02
    assert table.loc["sex = F", "alarm"]
    assert table.loc["sex = F", "where"].startswith("score")
    blind = rc.Monitor(groups="sex", tolerance=0.02, levels=1)
    rng = np.random.default_rng(6)
    for _ in range(8):
        X, p, y = batch(rng, 1500, gap=-0.2, band=(0.6, 0.8))
        X2, p2, y2 = batch(rng, 1500, gap=0.2, band=(0.1, 0.3))
        blind.update(pd.concat([X, X2]), np.r_[y, y2], scores=np.r_[p, p2])
    assert not blind.alarm


def test_bounded_regressions_are_scaled():
    rng = np.random.default_rng(7)
    monitor, unit = rc.Monitor(bounds=(100, 300), tolerance=2.0), rc.Monitor(tolerance=0.01)
    for _ in range(3):
        p = rng.uniform(0.3, 0.6, 500)
        y = np.clip(p + 0.1 + rng.normal(0, 0.1, 500), 0, 1)
        monitor.update(None, 100 + 200 * y, scores=100 + 200 * p)
        unit.update(None, y, scores=p)
    scaled, plain = monitor.table.loc[0], unit.table.loc[0]
    # Scaled there and back.
    assert scaled["gap"] == pytest.approx(200 * plain["gap"])
    assert scaled["low"] == pytest.approx(200 * plain["low"])
    assert scaled["evidence"] == pytest.approx(plain["evidence"], rel=1e-6)
    with pytest.warns(
        UserWarning, match=r"1 of 2 predictions are outside of the bounds \(100, 300\)"
    ):
        monitor.update(None, [120, 130], scores=[90, 150])


def test_several_classes_are_watched_one_by_one():
    rng = np.random.default_rng(8)
    monitor = rc.Monitor(groups="sex", classes=["a", "b", "c"])
    for k in range(6):
        X, _, _ = batch(rng, 800)
        p = rng.dirichlet([2, 2, 2], 800)
        truth = p.copy()
        women = (X["sex"] == "F").to_numpy()
        moved = 0.8 * truth[women, 0]
        truth[women, 0] -= moved
        truth[women, 1] += moved
        y = np.array(["a", "b", "c"])[(truth.cumsum(axis=1) < rng.random((800, 1))).sum(axis=1)]
        monitor.update(X, y, scores=p, time=k)
    table = monitor.table.set_index(["label", "group"])
    assert table.loc[("a", "sex = F"), ["alarm", "direction"]].tolist() == [True, "over"]
    assert table.loc[("b", "sex = F"), ["alarm", "direction"]].tolist() == [True, "under"]
    assert not table.loc["c"]["alarm"].any()
    assert "sex = F, class a" in str(monitor.report())
    with pytest.raises(ValueError, match="not classes of the base model: 'd'"):
        monitor.update(X, np.full(800, "d"), scores=p)
    with pytest.raises(ValueError, match="one column for each of the 3 classes"):
        monitor.update(X, y, scores=p[:, :2])


def test_columns_of_scores_name_the_classes_by_number():
    rng = np.random.default_rng(9)
    monitor = rc.Monitor()
    monitor.update(None, rng.integers(0, 3, 200), scores=np.full((200, 3), 1 / 3))
    assert monitor.table["label"].tolist() == ["0", "1", "2"]
    two = rc.Monitor()
    two.update(None, [0, 1], scores=[[0.8, 0.2], [0.4, 0.6]])
    assert two.table["gap"][0] == pytest.approx(0.1)


def test_the_model_predicts_where_no_scores_are_given():
    rng = np.random.default_rng(10)
    X, p, y = batch(rng, 2000)
    model = rc.fit(p, X, y, H=rc.Groups("sex"))
    asked, given = (rc.Monitor(m, groups=GROUPS) for m in (model, None))
    asked.update(X, y, base=p)
    given.update(X, y, scores=model.predict(X, base=p))
    assert str(asked.report()) == str(given.report())
    plain = rc.Monitor(lambda X: np.full(len(X), 0.45), groups="sex")
    plain.update(X, y)
    assert plain.table["gap"][0] == pytest.approx(y.mean() - 0.45)


def test_rows_without_labels_only_move_the_hint():
    rng = np.random.default_rng(11)
    monitor = rc.Monitor(groups="sex")
    X, p, y = batch(rng, 2000)
    monitor.start(X, scores=p)
    assert monitor.update(X, None, scores=np.clip(p + 0.1 * (X["sex"] == "F"), 0, 1)) == ()
    report = monitor.report()
    assert (report.n_rows, report.n_batches) == (0, 1)
    assert [group.group for group in report.hints] == ["all", "sex = F"]
    assert not report.alarms
    assert "hint without labels" in report.verdict.lower()
    monitor.update(X, y, scores=p)
    assert monitor.report().n_rows == 2000
    assert not monitor.report().hints


@pytest.mark.slow
def test_calibrated_streams_hardly_ever_raise_an_alarm():
    """A reduced form of benchmarks/monitoring.py: on the edge of the hypothesis, tolerance 0."""
    alarms = [
        run(np.random.default_rng([12, k]), 10, gap=0.0, n=120, tolerance=0.0).alarm
        for k in range(40)
    ]
    assert sum(alarms) <= 0.05 * 40 + 2 * np.sqrt(0.05 * 0.95 * 40)


@pytest.mark.slow
def test_states_do_not_grow_with_the_stream(tmp_path):
    rng = np.random.default_rng(13)
    monitor = rc.Monitor(groups="sex")
    sizes = []
    for k in range(120):
        X, p, y = batch(rng, 100)
        monitor.update(X, y, scores=p, time=k)
        if k in (59, 119):
            sizes.append(monitor.save(tmp_path / "m.json").stat().st_size)
    assert sizes[1] < 1.1 * sizes[0] + 60 * 20  # digits of numbers, and hashes of batches
    assert len(monitor.report().ends) == 32


def test_new_categories_are_named():
    rng = np.random.default_rng(14)
    monitor = rc.Monitor(groups="sex")
    X, p, y = batch(rng)
    monitor.update(X, y, scores=p)
    X, p, y = batch(rng)
    X.loc[:9, "sex"] = "D"
    with pytest.warns(UserWarning, match="Column 'sex' has values that no group is for: 'D'"):
        monitor.update(X, y, scores=p)
    table = rows_of(monitor.table)
    assert table["rows"].tolist()[0] - table["rows"].iloc[1:].sum() == 10


RECODED = {
    "text": ("sex", ["F", "M"], ["female", "male"]),
    "a text for a code": ("sex", ["1", "2"], ["M", "F"]),
    "numbers": ("sex", [1, 2], [3, 4]),
    "most of the numbers": ("sex", [1, 2, 3], [1, 7, 8]),
    "missing": ("sex", [1, 2], [np.nan, np.nan]),
    "missing numbers of bands": ("age", [float(k) for k in range(100)], [np.nan] * 100),
    "a condition": ("sex == 'F'", ["F", "M"], ["f", "m"]),
    "a condition on what is missing": ("age < 50", [30.0, 60.0], [np.nan, np.nan]),
    "text for numbers": ("sex", [1, 2], ["M", "F"]),
    "text for numbers in a condition": ("sex == 1", [1, 2], ["M", "F"]),
    "numbers for text": ("sex", ["M", "F"], [1, 2]),
}


@pytest.mark.parametrize("case", RECODED)
def test_a_column_that_was_recoded_is_refused(case):
    term, before, after = RECODED[case]
    name = term.partition(" ")[0]
    rng = np.random.default_rng(0)
    at = np.arange(400) % len(before)
    p = rng.uniform(0.2, 0.8, 400)
    y = (rng.random(400) < p).astype(int)
    old, new = (pd.DataFrame({name: [own[k] for k in at]}) for own in (before, after))
    monitor = rc.Monitor(groups=[term]).start(old, scores=p)
    assert monitor.update(old, y, scores=p) == ()
    refuse(monitor, f"Column '{name}' h.*probably recoded.*allow_unknown", new, 1 - y, scores=p)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        monitor.update(new, 1 - y, scores=p, allow_unknown=True)
    assert monitor.report().n_rows == 800


def test_missing_values_that_have_a_group_are_welcome():
    rng = np.random.default_rng(0)
    p, y = rng.uniform(0.2, 0.8, 400), rng.integers(0, 2, 400)
    X = pd.DataFrame({"sex": rng.choice(["F", "M", None], 400), "age": 30.0})
    monitor = rc.Monitor(groups=["sex", "age > 40 or age is missing"]).start(
        X.assign(age=rng.choice([30.0, np.nan], 400)), scores=p
    )
    monitor.update(X.assign(sex=rng.choice(["F", None], 400), age=np.nan), y, scores=p)
    refuse(monitor, "'sex = F', which had .*recoded", X.assign(sex=None), 1 - y, scores=p)
    assert monitor.report().n_rows == 400


@pytest.mark.parametrize(
    ("group", "change", "name"),
    [
        ("sex == 1", {"sex": lambda sex: sex + 10}, "sex == 1"),
        ("sex * (age < 50)", {"age": lambda age: 12 * age}, "age < 50"),
        ("age", {"age": lambda age: 12 * age}, "age < "),
        ("sex", {"sex": lambda sex: np.where(sex == 1, 7, sex)}, "sex = 1"),
    ],
)
def test_groups_that_nobody_is_in_any_more_are_refused(group, change, name):
    """1 and 2 became 11 and 12, years became months; another group has rows all the same."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"sex": rng.choice([1, 2], 400, p=[0.4, 0.6]), "age": rng.uniform(20, 80, 400)}
    )
    X["area"] = rng.choice(["N", "S"], 400)
    p, y = rng.uniform(0.2, 0.8, 400), rng.integers(0, 2, 400)
    monitor = rc.Monitor(groups=[group, "area"]).start(X, scores=p)
    new = X.assign(**{column: how(X[column]) for column, how in change.items()})
    refuse(monitor_after(monitor, X, y, p), f"{name}.* which had .*recoded", new, 1 - y, scores=p)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        monitor.update(new[:4], 1 - y[:4], scores=p[:4])  # so few rows may be in no group
        monitor.update(new, 1 - y, scores=p, allow_unknown=True)


def monitor_after(monitor, X, y, p):
    monitor.update(X, y, scores=p)
    return monitor


def test_batches_may_be_of_some_categories_only_and_rare_groups_absent():
    rng = np.random.default_rng(0)
    X, p, y = batch(rng, 2000)
    X["age"] = np.where(rng.random(2000) < 0.01, 90.0, 30.0)
    monitor = rc.Monitor(groups=["sex", "region * (age < 50)", "age > 80"]).start(X, scores=p)
    women = (X["sex"] == "F").to_numpy()
    monitor.update(X[women], y[women], scores=p[women])
    south = (X["region"] == "S").to_numpy() & (X["age"] < 50).to_numpy()
    monitor.update(X[south][:300], y[south][:300], scores=p[south][:300])


def test_a_condition_on_a_missing_column_is_refused_beside_groups_with_rows():
    rng = np.random.default_rng(0)
    X, p, y = batch(rng)
    X["age"] = np.where(rng.random(600) < 0.01, 30.0, 60.0)
    monitor = rc.Monitor(groups=["sex", "age < 50"], min_rows=1).start(X, scores=p)
    refuse(monitor_after(monitor, X, y, p), "'age' has missing", X.assign(age=np.nan), y, scores=p)


def test_one_row_with_a_new_category_is_added():
    rng = np.random.default_rng(0)
    X, p, y = batch(rng)
    monitor = rc.Monitor(groups=["sex"]).start(X, scores=p)
    for k, sex in enumerate(["D", None]):
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            monitor.update(X[k : k + 1].assign(sex=sex), y[k : k + 1], scores=p[k : k + 1])
    assert monitor.report().n_rows == 2


def test_few_equal_rows_at_another_time_are_other_rows():
    """One row at a time, or rows that are all alike, are often equal by chance."""
    monitor = rc.Monitor()
    for time in range(3):
        monitor.update(None, [1], scores=[0.5], time=time)
        monitor.update(None, [0] * 50, scores=[0.1] * 50, time=time)
    assert monitor.report().n_batches == 6
    refuse(monitor, "added before", None, [1], scores=[0.5], time=2)


def test_the_same_rows_in_another_order_are_the_same_rows():
    rng = np.random.default_rng(0)
    X, p, y = batch(rng, 3000)
    monitor = rc.Monitor(groups=["sex", "region"])
    monitor.update(X, y, scores=p, time="2024-01-01", sample_weight=y + 0.5)
    for seed in range(3):
        at = np.random.default_rng(seed).permutation(3000)
        new = {"scores": p[at], "time": "2024-01-02", "sample_weight": y[at] + 0.5}
        refuse(monitor, "The same rows were added before", X.iloc[at], y[at], **new)
    moved = np.roll(y, 1)  # the same columns, but other rows
    monitor.update(X, moved, scores=p, time="2024-01-02", sample_weight=moved + 0.5)


def test_few_rows_of_few_kinds_at_another_time_are_other_rows():
    """20 rows of 4 kinds are often as many of each kind, though seldom in the same order."""
    monitor = rc.Monitor()
    labels, scores = np.repeat([0, 1, 0, 1], 5), np.repeat([0.1, 0.1, 0.7, 0.7], 5)
    for time in range(3):
        at = np.random.default_rng(time).permutation(20)
        monitor.update(None, labels[at], scores=scores[at], time=time)
    refuse(monitor, "added before", None, labels, scores=scores, time=2)


def refuse(monitor, match, *args, error=ValueError, **options):
    """An update that must be refused and leave everything as it was."""
    before = str(monitor.report())
    with pytest.raises(error, match=match):
        monitor.update(*args, **options)
    assert str(monitor.report()) == before


def test_bad_batches_are_refused_and_change_nothing():
    rng = np.random.default_rng(15)
    monitor = rc.Monitor(groups="sex", tolerance=0.01)
    X, p, y = batch(rng, 50)
    monitor.update(X, y, scores=p, time="2024-01-01")
    for time in ("2024-01-01", "2024-01-02"):  # the same rows, whenever they are said to be from
        refuse(monitor, "The same rows were added before", X, y, scores=p, time=time)
    refuse(monitor, "no rows", X[:0], y[:0], scores=p[:0], time="2024-01-02")
    refuse(monitor, r"inside bounds=\(0, 1\).*2.0 in row 0", X, y + 2, scores=p, time="2024-01-02")
    refuse(monitor, "no column 'sex'", X[["age"]], y, scores=p, time="2024-01-02")
    refuse(monitor, "pass the table X", None, y, scores=p, time="2024-01-02")
    refuse(monitor, r"outside of \[0, 1\]", X, y, scores=p + 1, time="2024-01-02")
    refuse(monitor, "no model: pass the predictions", X, y, time="2024-01-02")
    refuse(monitor, "time goes backwards.*2023-12-31", X, y, scores=p, time="2023-12-31")
    refuse(monitor, "this one had numbers", X, y, scores=p, time=3)
    refuse(monitor, "this one had no time", X, y, scores=p)
    refuse(monitor, "time must be dates", X, y, scores=p, time="yesterday")
    refuse(monitor, r"time has shape \(2,\)", X, y, scores=p, time=["2024-01-02"] * 2)
    refuse(monitor, "has 49 entries", X, y[1:], scores=p, time="2024-01-02")
    refuse(monitor, "weights of at most 1", X, y, scores=p, time="2024-01-02", sample_weight=y * 3)
    refuse(monitor, "not be missing", X, y * np.nan, scores=p, time="2024-01-02")
    mixed = pd.Series(y).sample(frac=1, random_state=0)
    refuse(monitor, "index of y holds the same rows", X, mixed, scores=p, time="2024-01-02")
    assert monitor.update(X, y, scores=p, time="2024-01-01", force=True) == ()
    assert monitor.report().n_rows == 100


def test_the_same_batch_without_times_is_known_again():
    monitor = rc.Monitor()
    monitor.update(None, [0, 1, 1], scores=[0.1, 0.5, 0.7])
    refuse(monitor, "added before", None, [0, 1, 1], scores=[0.1, 0.5, 0.7])
    monitor.update(None, [0, 1, 1], scores=[0.1, 0.5, 0.8])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"tolerance": -0.1}, "tolerance must be at least 0"),
        ({"alpha": 0}, "alpha must be above 0"),
        ({"levels": 0}, "levels must be a whole number"),
        ({"classes": ["a"]}, "two classes or more"),
        ({"classes": ["a", "b", "a"]}, "more than once"),
        ({"bounds": (1, 1)}, "low < high"),
        ({"max_weight": 0}, "max_weight must be above 0"),
    ],
)
def test_bad_settings(options, match):
    with pytest.raises(ValueError, match=match):
        rc.Monitor(**options)


def test_masks_and_arrays_of_scores_are_for_one_table_only():
    with pytest.raises(TypeError, match="masks cannot be computed for the rows of the next batch"):
        rc.Monitor(groups={"odd": np.array([True, False])}).update(None, [0, 1], scores=[0.5, 0.4])
    with pytest.raises(TypeError, match="belongs to one batch only"):
        rc.Monitor(np.array([0.5, 0.4])).update(pd.DataFrame({"a": [1, 2]}), [0, 1])
    with pytest.raises(ValueError, match="has seen no rows yet"):
        rc.Monitor().report()


def test_an_alarm_stays_when_the_evidence_falls():
    rng = np.random.default_rng(16)
    monitor = rc.Monitor(groups="sex", levels=1)
    for k in range(40):
        X, p, y = batch(rng, 400, gap=0.4 if k == 3 else 0.0)
        monitor.update(X, y, scores=p, time=k)
    found = rows_of(monitor.table).loc["sex = F"]
    assert found["evidence"] < 20
    assert found["alarm"]
    assert (found["alarm_time"], found["since"]) == ("3", "3")
    assert found["p"] < 0.05


@pytest.mark.slow
def test_advice_on_a_refit(drifted):
    rng = np.random.default_rng(17)
    X, p, y = batch(rng, 3000, gap=0.25)
    X["p"] = p
    drifted.model = lambda X: X["p"].to_numpy()
    advice = drifted.report(X, y).advice
    assert advice.helps
    assert (advice.rows, advice.held_out) == (1800, 1200)
    gap = next(gap for gap in advice.gaps if gap.group == "sex = F")
    assert abs(gap.after) < 0.08 < 0.15 < gap.before
    X, p, y = batch(rng, 3000)
    assert not drifted.report(X.assign(p=p), y).advice.helps
    with pytest.raises(ValueError, match="belong together"):
        drifted.report(X)
    with pytest.raises(ValueError, match="too few for a refit"):
        drifted.report(X[:50], y[:50])
    drifted.model = None


def test_views_agree(drifted, tmp_path):
    report = drifted.report()
    found = json.loads(drifted.to_json(tmp_path / "r.json"))
    assert json.loads((tmp_path / "r.json").read_text()) == found
    assert [group["group"] for group in found["groups"]] == drifted.table["group"].tolist()
    assert found["alarm"] is True
    assert found["verdict"] == report.verdict
    assert len(found["times"]) == len(found["groups"][0]["history"]["gap"]) == 12
    html = drifted.to_html(tmp_path / "r.html", title="Loans <1>")
    assert (tmp_path / "r.html").read_text() == html
    assert "Loans &lt;1&gt;" in html
    assert html == drifted.to_html(title="Loans <1>")
    assert "Alarm: a group is off" in html
    assert "rc-audit compact" in report._repr_html_()
    assert "sex = F" in str(report)


def test_the_figure_has_two_panels_a_group(drifted):
    figure = drifted.plot(most=2)
    assert len(figure.axes) == 4
    assert figure.axes[0].get_title() == "sex = F"
    assert figure.axes[0].lines[0].get_ydata()[0] == pytest.approx(20)


def test_dates_are_shown_as_dates():
    rng = np.random.default_rng(18)
    monitor = rc.Monitor()
    for day in pd.date_range("2024-03-01", periods=3):
        monitor.update(None, rng.random(200) < 0.5, scores=rng.uniform(0.4, 0.6, 200), time=day)
    report = monitor.report()
    assert "2024-03-01 to 2024-03-03" in str(report)
    assert "2024-03-02" in report.to_html()
    assert report.plot().axes


def test_two_classes_that_are_named():
    rng = np.random.default_rng(19)
    X, p, y = batch(rng, 1500, gap=0.1)
    named = np.where(y == 1, "late", "on time")
    numbers, words = rc.Monitor(groups="sex"), rc.Monitor(groups="sex", classes=["on time", "late"])
    numbers.update(X, y, scores=p)
    words.update(X, named, scores=p)
    assert str(numbers.report()) == str(words.report())
    with pytest.raises(ValueError, match="y holds text: 'late', 'on time'"):
        numbers.update(X, named, scores=p)
    model = rc.fit(p, X, named, H=rc.Groups("sex"), positive="late")
    fitted = rc.Monitor(model, groups="sex")
    fitted.update(X, np.full(1500, "late"), base=p)  # a batch of one class only
    assert fitted.table["gap"][0] == pytest.approx(1 - model.predict(X, base=p).mean())


@pytest.mark.slow
def test_models_of_several_classes_are_asked_for_all_of_them():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(20)
    X, p, _ = batch(rng, 1200)
    X["x"] = p
    shares = np.column_stack([p / 2, p / 2, 1 - p])
    y = np.array(["a", "b", "c"])[(shares.cumsum(axis=1) < rng.random((1200, 1))).sum(axis=1)]
    ours = rc.fit(shares, X, y, H=rc.Groups("sex"), classes=["a", "b", "c"])
    theirs = LogisticRegression().fit(X[["x"]], y)
    for model, options in ((ours, {"base": shares}), (theirs, {})):
        monitor = rc.Monitor(model, groups="sex")
        monitor.update(X, y, **options)
        assert monitor.table["label"].unique().tolist() == ["a", "b", "c"]
        assert monitor.table["gap"].abs().max() < 0.05


def test_rare_events_that_are_under_predicted_are_found():
    """Scores of .005 and events of .025 or more; the same rows are not enough for stakes of .7."""
    rng = np.random.default_rng(0)
    monitor = rc.Monitor(groups="sex", tolerance=0.0)
    for k in range(20):
        X = pd.DataFrame({"sex": rng.choice(["F", "M"], 60)})
        y = rng.random(60) < np.where(X["sex"] == "F", 0.035, 0.005)
        monitor.update(X, y, scores=np.full(60, 0.005), time=k)
    women = rows_of(monitor.table).loc["sex = F"]
    assert women["alarm"]
    assert women["where"] == "score < 0.01"
    state = monitor._known()
    assert state.watched.edges[0].tolist() == [0.01]
    wide = replace(state.judgement, bounds=np.ones_like(state.watched.bounds))
    g = state.watched.names.index("sex = F")
    assert wide.evidence[0, g] < wide.log_line < state.judgement.evidence[0, g]
    assert not rows_of(monitor.table).loc["sex = M", "alarm"]


def test_events_that_are_nearly_certain_are_the_mirror_image():
    rng = np.random.default_rng(1)
    p, y = rng.uniform(0, 0.02, 800), rng.random(800) < 0.04
    rare, certain = (rc.Monitor(tolerance=0.0) for _ in range(2))
    rare.update(None, y, scores=p)
    certain.update(None, ~y, scores=1 - p)
    ours, theirs = (each._known().judgement.adjusted for each in (rare, certain))
    # Quantiles take values of the data, the upper end of a band, so inner bands differ by a row.
    assert ours[0, 0, 0, 0] == pytest.approx(theirs[1, 0, 0, 0], rel=1e-6)
    bounds = [each._known().watched.bounds for each in (rare, certain)]
    np.testing.assert_allclose(bounds[0][0, 0, 1:], bounds[1][1, 0, :0:-1], atol=1e-4)
    assert rare.alarm == certain.alarm


def test_means_only_have_no_bands():
    monitor = rc.Monitor(levels=1).start(None, scores=np.full(20, 0.005))
    assert monitor._known().watched.bounds.tolist() == [[[1.0]], [[1.0]]]
