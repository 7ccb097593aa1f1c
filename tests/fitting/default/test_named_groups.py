"""H = named groups: what is moved, what is not, and what the model says about it."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit as sigmoid
from situations import ON_LEVELS, SHIFTS, Rows, decisions, people

import recalibrate as rc
from recalibrate.explain.notes import show_groups


def ages(seed, n, off):
    """People of all ages; ``off(age, f)`` is what the base misses, in log-odds."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.integers(18, 80, n), "sex": rng.choice(["f", "m"], n)})
    f = rng.normal(size=n)
    truth = sigmoid(f + off(X["age"].to_numpy(), f))
    return Rows(X, sigmoid(f), truth, (rng.random(n) < truth) * 1.0)


def test_people_outside_of_the_groups_with_equal_scores_are_treated_equally():
    rows = ages(0, 6000, lambda age, f: 0.8 * (age < 25) - 0.8 * (age > 60))
    model = rc.fit(rows.base, rows.X, rows.y, rc.Groups("age < 25"))
    assert decisions(model)[SHIFTS]
    same = pd.DataFrame({"age": [26, 61, 79], "sex": ["f", "m", "f"]})
    for score in (0.1, 0.4, 0.9):
        after = model.predict(same, base=np.full(3, score))
        assert len(set(after.tolist())) == 1
    young = model.predict(pd.DataFrame({"age": [20], "sex": ["f"]}), base=[0.4])
    assert young[0] > after[0] - 0.5  # it does look at the age of the young
    assert young[0] != model.predict(same, base=np.full(3, 0.4))[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "H", [rc.Trees(depth=1, features=["age"]), rc.Linear(features=["age"]), rc.Groups("age < 25")]
)
def test_no_stage_looks_at_a_column_that_is_not_named(H):
    rows = people(0, 4000, off=lambda X, f: 0.9 * (X["g"] == "a"))
    X = rows.X.assign(age=np.random.default_rng(1).integers(18, 80, 4000))
    model = rc.fit(rows.base, X, rows.y, H)
    other = X.assign(g="b", h="x", a=0.0, b=0.0)
    one, two = (model.predict(each, base=rows.base) for each in (X, other))
    np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_different_classes_give_different_models():
    rows = ages(0, 6000, lambda age, f: 0.8 * np.sin(age / 8.0) * np.sign(f))
    fitted = [
        rc.fit(rows.base, rows.X, rows.y, H).predict(rows.X, base=rows.base)
        for H in (rc.Trees(depth=1), rc.Trees(depth=2), rc.Linear(), rc.Groups("age"))
    ]
    for k, one in enumerate(fitted):
        assert all(np.abs(one - two).max() > 0.01 for two in fitted[:k])


@pytest.mark.slow
def test_a_planted_gap_shrinks_by_half_or_more():
    """.15 in a fifth of 1,000 rows."""
    left = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"g": rng.choice(list("abcde"), 1000), "h": rng.choice(["x", "y"], 1000)})
        base = rng.uniform(0.1, 0.7, 1000)
        own = (X["g"] == "a").to_numpy()
        y = (rng.random(1000) < base + 0.15 * own) * 1.0
        after = rc.fit(base, X, y, ["g", "h"]).predict(X, base=base)
        left.append(np.mean((base + 0.15 - after)[own]) / 0.15)
    assert np.mean(np.abs(left) <= 0.5) >= 0.9


def test_rare_events_are_no_reason_to_leave_a_group_alone():
    """A group of 4 % events where 8 % are predicted: its information is in events, not in rows."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.choice(list("abcd"), 20_000)})
    base = np.where(X["g"] == "a", 0.08, 0.05)
    truth = np.where(X["g"] == "a", 0.04, 0.05)
    y = (rng.random(20_000) < truth) * 1.0
    after = rc.fit(base, X, y, ["g"]).predict(X, base=base)
    own = (X["g"] == "a").to_numpy()
    error = np.sqrt(0.04 * 0.96 / own.sum())
    assert abs(np.mean(after[own]) - np.mean(y[own])) < 2.5 * error
    assert np.abs(after - truth)[~own].max() < 4 * np.sqrt(0.05 * 0.95 / 5000)


@pytest.mark.slow
def test_no_named_group_of_the_calibration_rows_is_left_off():
    """Overlapping and nested groups, a crossing of a hundred cells."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(
        {
            "a": rng.choice([f"a{k}" for k in range(10)], 20_000),
            "b": rng.choice([f"b{k}" for k in range(10)], 20_000),
            "c": rng.integers(0, 100, 20_000),
        }
    )
    f = rng.normal(size=20_000)
    off = 0.5 * (X["a"] == "a3") - 0.4 * (X["c"] < 20) + 0.9 * ((X["a"] == "a1") & (X["b"] == "b1"))
    truth = sigmoid(f + off.to_numpy())
    y = (rng.random(20_000) < truth) * 1.0
    H = rc.Groups("a", "b", "a*b", "c < 20", "c < 40")
    after = rc.fit(sigmoid(f), X, y, H).predict(X, base=sigmoid(f))
    far = [
        abs(np.sum((y - after)[rows])) / np.sqrt(np.sum((after * (1 - after))[rows]))
        for _, rows in H.masks(X)
    ]
    # The limit is two; level sets that come after it may move a group by a little.
    assert max(far) < 2.6
    new = (X["a"] == "a1") & (X["b"] == "b1")
    assert abs(np.mean((truth - after)[new])) < 4 * np.sqrt(0.2 / new.sum())


@pytest.mark.slow
def test_groups_that_are_right_are_not_made_wrong():
    """One group is off; the others stay within what chance gives."""
    worse = []
    for seed in range(8):
        rows = people(seed, 3000, off=lambda X, f: 0.8 * (X["g"] == "a"))
        new = people(100 + seed, 20_000, off=lambda X, f: 0.8 * (X["g"] == "a"))
        after = rc.fit(rows.base, rows.X, rows.y, ["g", "h"]).predict(new.X, base=new.base)
        for group in "bcd":
            own = new.where("g", group)
            worse.append(np.mean((new.truth - after)[own]) / rows.standard_error(own[:3000]))
    assert np.mean(np.abs(worse) > 3) <= 0.05


@pytest.mark.slow
def test_a_gap_at_some_levels_is_repaired_there():
    rows = people(0, 20_000, off=lambda X, f: 0.8 * np.sign(f) * (X["g"] == "a"))
    model = rc.fit(rows.base, rows.X, rows.y, ["g"])
    assert decisions(model)[ON_LEVELS]


@pytest.mark.parametrize("H", [["h", "g*h"], "groups(h, g*h)"])
def test_lists_and_texts_mean_groups(H):
    rows = people(0, 1000)
    assert rc.Groups("h", "g*h") == rc.fit(rows.base, rows.X, rows.y, H).H


def test_groups_as_an_argument_are_told_to_be_h():
    rows = people(0, 100)
    with pytest.raises(TypeError, match=r"H=\['g'\]"):
        rc.fit(rows.base, rows.X, rows.y, groups=["g"])
    with pytest.raises(TypeError, match="group expressions"):
        rc.fit(rows.base, rows.X, rows.y, H=["g", 3])
    with pytest.raises(TypeError, match="empty"):
        rc.fit(rows.base, rows.X, rows.y, H=[])


def line_of_group_a(model):
    """Rows, gap of the base, shift and standard error of one group, as the summary says them."""
    said = model.summary()
    (line,) = [each for each in said.splitlines() if each.strip().startswith("g = a ")]
    return [float(each.replace(",", "")) for each in line.split()[3:]]


def off_in_a(X, f):
    return 0.8 * (X["g"] == "a")


def test_the_summary_has_a_line_for_every_group():
    rows = people(0, 4000, off=off_in_a)
    model = rc.fit(rows.base, rows.X, rows.y, ["g", "h"])
    count, off, moved, error = line_of_group_a(model)
    own = rows.where("g", "a")
    assert count == own.sum()
    assert off == pytest.approx(np.mean((rows.y - rows.base)[own]), abs=1e-4)
    after = model.predict(rows.X, base=rows.base)
    assert moved == pytest.approx(np.mean((after - rows.base)[own]), abs=1e-4)
    assert abs(off - moved) < 4 * error < off


@pytest.mark.slow
def test_what_is_left_in_new_rows_is_as_uncertain_as_the_summary_says():
    new = people(10_000, 50_000, off=off_in_a)
    own, missed, errors = new.where("g", "a"), [], []
    for seed in range(40):
        rows = people(seed, 2000, off=off_in_a)
        model = rc.fit(rows.base, rows.X, rows.y, ["g", "h"])
        _, off, moved, error = line_of_group_a(model)
        left = np.mean((new.truth - model.predict(new.X, base=new.base))[own])
        missed.append(left - (off - moved))
        errors.append(error)
    # A root mean square of 40 draws has a relative standard error of 11 %.
    assert 0.7 < np.sqrt(np.mean(np.square(missed))) / np.mean(errors) < 1.35


def test_of_many_groups_the_summary_shows_the_most_significant_gaps():
    many = [(f"g{k}", 100, 0.001 * k, 0.0, 0.01) for k in range(100)]
    said = show_groups(many)
    assert "g99" in said
    assert "g59" not in said
    assert "and 60 groups with less significant gaps" in said


@pytest.mark.slow
def test_an_audit_looks_at_the_named_groups_first():
    rows = people(0, 1000)
    model = rc.fit(rows.base, rows.X, rows.y, ["g", "h"])
    report = rc.audit(model, rows.X, rows.y, base=rows.base)
    expected = ["all", *(f"g = {k}" for k in "abcd"), "h = x", "h = y"]
    assert report.table["group"].tolist() == expected
