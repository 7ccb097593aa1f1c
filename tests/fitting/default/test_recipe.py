"""The stages of a default fit: what each of them promises, by way of ``fit``.

The truth of all rows is known, so that a repair is measured without the noise of new labels. Where
a promise has a tolerance, it is in standard errors of the calibration rows: what no method could
know better. Four of them are an accident of one in 16,000 for a single number.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from situations import (
    BOOSTING,
    CERTAIN,
    LARGE,
    LEVEL_SETS,
    ON_LEVELS,
    SCORE,
    SHIFTS,
    Rows,
    decisions,
    most,
    people,
    sigmoid,
)

import recalibrate as rc


def line_through(margin, truth):
    """Intercept and slope of the log-odds that fit the truth best, and their standard errors."""
    design = np.column_stack([np.ones(len(margin)), margin])
    line = np.zeros(2)  # from certain scores Newton's method may run away
    for _ in range(20):
        p = sigmoid(design @ line)
        hessian = (design * (p * (1 - p))[:, None]).T @ design
        line += np.linalg.solve(hessian, design.T @ (truth - p))
    return line, np.sqrt(np.diag(np.linalg.inv(hessian)))


# --- a line through the base score ----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("slope", [0.5, 2.0, 5.0], ids=["shy", "over-confident", "very"])
def test_the_line_repairs_a_base_of_the_wrong_confidence(slope):
    def score(f):
        return slope * f - 0.5

    rows, new = people(0, 4000, score=score), people(1, 20_000, score=score)
    model = rc.fit(rows.base, rows.X, rows.y)
    assert decisions(model)[SCORE]
    _, errors = line_through(np.log(rows.truth / (1 - rows.truth)), rows.truth)
    before, _ = line_through(new.margin, new.truth)
    after, _ = line_through(model.margins(new.X, base=new.base), new.truth)
    assert abs(before[1] - 1.0) > 4 * errors[1]
    assert (np.abs(after - [0.0, 1.0]) < 4 * errors).all()


def test_the_line_of_a_regression_is_least_squares():
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.3, 0.7, 3000)
    X = pd.DataFrame({"a": rng.normal(size=3000)})
    base, y = 0.2 + 2 * (truth - 0.5), np.clip(truth + rng.normal(0, 0.1, 3000), 0, 1)
    model = rc.fit(base, X, y)
    decided = decisions(model)
    assert decided[SCORE]
    assert not decided[BOOSTING]
    slope, intercept = np.polyfit(base, y, 1)
    away = model.predict(X, base=base) - (intercept + slope * base)
    # The curve of 20 levels comes after it and may move each by the noise of its 150 labels.
    assert np.sqrt(np.mean(away**2)) < 0.1 / np.sqrt(150)


@pytest.mark.slow
def test_the_line_is_left_out_where_the_base_is_calibrated():
    """It has to lower the held-out loss by two standard errors, an accident of 2.3 % at most."""
    taken = 0
    for seed in range(20):
        rows = people(seed, 1000)
        taken += decisions(rc.fit(rows.base, rows.X, rows.y, rc.Groups("h")))[SCORE]
    assert taken <= most(20, norm.sf(2.0))


# --- certain gaps ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_group_that_is_certainly_off_is_moved_in_full_and_the_others_are_not(seed):
    def off(X, f):
        return 0.5 * (X["g"] == "a")

    rows, new = people(seed, 6000, off=off), people(50 + seed, 20_000, off=off)
    model = rc.fit(rows.base, rows.X, rows.y)
    decided = decisions(model)
    assert decided[CERTAIN]
    assert not decided[BOOSTING]  # nothing is left for it to do
    after = model.predict(new.X, base=new.base)
    for group in "abcd":
        own, known = new.where("g", group), rows.standard_error(rows.where("g", group))
        gap = np.mean((new.truth - new.base)[own])
        assert (abs(gap) > 8 * known) == (group == "a")
        assert abs(np.mean((new.truth - after)[own])) < 4 * known


def test_a_threshold_that_is_certainly_off_is_moved():
    def off(X, f):
        return -0.7 * (X["a"] > 1.0)

    rows, new = people(0, 6000, off=off), people(50, 20_000, off=off)
    model = rc.fit(rows.base, rows.X, rows.y)
    assert decisions(model)[CERTAIN]
    above = (new.X["a"] > 1.0).to_numpy()
    known = rows.standard_error((rows.X["a"] > 1.0).to_numpy())
    after = model.predict(new.X, base=new.base)
    assert np.mean((new.truth - new.base)[above]) < -8 * known
    assert abs(np.mean((new.truth - after)[above])) < 4 * known


def test_a_gap_of_two_standard_errors_is_not_certain():
    rows = people(0, 6000)
    own = rows.where("g", "a")
    error = np.sqrt(np.sum((rows.base * (1 - rows.base))[own]))
    # Labels are exchanged until the group's residuals sum to two standard errors.
    missing = round(2 * error - np.sum((rows.y - rows.base)[own]))
    assert missing > 0
    y = rows.y.copy()
    y[np.flatnonzero(own & (y == 0))[:missing]] = 1.0
    assert CERTAIN not in decisions(rc.fit(rows.base, rows.X, y))


def test_a_base_that_is_off_everywhere_is_left_to_boosting():
    """More than three certain gaps."""
    rows = people(3, 6000, off=lambda X, f: 0.6 * np.sin(3 * X["a"]))
    decided = decisions(rc.fit(rows.base, rows.X, rows.y))
    assert CERTAIN not in decided
    assert decided[BOOSTING]


# --- columns --------------------------------------------------------------------------------------


def test_few_rows_move_the_column_that_is_off_and_no_other():
    """No tree, no level set: shifts of one column, or a trend, by their evidence."""

    def off(X, f):
        return 1.2 * (X["g"] == "a") - 0.9 * X["b"]

    rows, new = people(0, 800, off=off), people(1, 20_000, off=off)
    model = rc.fit(rows.base, rows.X, rows.y)
    decided = decisions(model)
    assert decided[LARGE]
    assert LEVEL_SETS not in decided
    before, after = new.margin, model.margins(new.X, base=new.base)
    moved = after - before
    for group in "abcd":
        own, known = new.where("g", group), rows.standard_error(rows.where("g", group))
        assert abs(np.mean((new.truth - model.predict(new.X, base=new.base))[own])) < 4 * known
    # Bands leave what is inside of them: a fifth of a normal column's variance.
    left = np.polyfit(new.X["b"], np.log(new.truth / (1 - new.truth)) - after, 1)[0]
    assert abs(left) < 0.35 * 0.9
    assert abs(np.polyfit(new.X["a"], moved, 1)[0]) < 0.1


@pytest.mark.slow
def test_nothing_is_boosted_that_held_out_rows_cannot_judge():
    for seed in range(6):
        rows = waves(seed, 190)
        model = rc.fit(rows.base, rows.X, rows.y)
        assert not decisions(model)[BOOSTING]
        assert not any(step.table.kind == "trees" for step in model.rounds.steps)


# --- columns of many categories -------------------------------------------------------------------

SIZES = np.repeat([2000, 100, 2], [4, 40, 120])
TOWN = np.repeat(np.arange(len(SIZES)), SIZES)
TOWN_OFF = np.where(np.arange(len(SIZES)) % 2 == 0, 0.6, -0.6)


def towns(seed):
    """Every town is off by .6 of log-odds, up or down; they have 2,000, 100 or 2 rows."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=len(TOWN))
    X = pd.DataFrame({"town": [f"t{k}" for k in TOWN], "x": rng.normal(size=len(TOWN))})
    truth = sigmoid(f + TOWN_OFF[TOWN])
    return Rows(X, sigmoid(f), truth, (rng.random(len(TOWN)) < truth) * 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_categories_move_by_what_their_rows_support(seed):
    rows = towns(seed)
    model = rc.fit(rows.base, rows.X, rows.y)
    assert decisions(model)[LARGE]
    moved = model.margins(rows.X, base=rows.base) - rows.margin
    moved = np.bincount(TOWN, moved) / SIZES
    variance = rows.truth * (1 - rows.truth)
    gap, mass = np.bincount(TOWN, rows.y - rows.base), np.bincount(TOWN, variance)
    large, small = SIZES == 2000, SIZES == 2
    # Those of 2,000 rows: where the truth is, as far as their rows tell.
    assert (np.abs(moved - TOWN_OFF)[large] < 4 / np.sqrt(mass[large])).all()
    # Those of 2 rows: tau^2 is .36 and v about .2, so that .4 / (.4 + 1 / .36), an eighth of what
    # their rows say is believed; a quarter leaves room for the estimate of tau.
    size = np.sqrt(np.mean(moved[small] ** 2))
    assert size < np.sqrt(np.mean((gap / mass)[small] ** 2)) / 4


@pytest.mark.slow
def test_categories_that_do_not_differ_are_not_moved():
    """Two standard errors of the held-out loss, as for the line."""
    taken = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"town": rng.integers(0, 200, 2000).astype(str)})
        f = rng.normal(size=2000)
        y = (rng.random(2000) < sigmoid(f)) * 1.0
        taken += decisions(rc.fit(sigmoid(f), X, y)).get(LARGE, False)
    assert taken <= most(10, norm.sf(2.0))


# --- boosting -------------------------------------------------------------------------------------


def waves(seed, n):
    """An interaction that no single column shows."""
    return people(seed, n, off=lambda X, f: 0.8 * np.sin(2 * X["a"]) * np.cos(2 * X["b"]))


@pytest.mark.slow
def test_more_rows_support_more_steps():
    """Four times the rows halve the noise, and what was noise becomes worth a step."""
    new = waves(100, 20_000)
    steps, left = np.zeros(3), np.zeros(3)
    for seed in range(3):
        for k, n in enumerate((1000, 4000, 16_000)):
            rows = waves(seed, n)
            model = rc.fit(rows.base, rows.X, rows.y)
            steps[k] += len(model.rounds.steps) if decisions(model)[BOOSTING] else 0
            left[k] += np.mean((model.predict(new.X, base=new.base) - new.truth) ** 2)
    assert steps[0] < steps[1] < steps[2]
    assert left[0] > left[1] > left[2]


def test_held_out_rows_say_when_to_stop():
    """The refit has a quarter more rows than a fold, and a quarter more steps."""
    rows = waves(2, 8000)
    fold = (np.arange(6000), np.arange(6000, 8000))
    model = rc.fit(rows.base, rows.X, rows.y, rc.Trees(depth=3, base_score=True), cv=[fold])
    assert decisions(model)[BOOSTING]
    curve = model.history_.held_out[1:]  # the first is the base's
    best = int(np.argmin(curve))
    assert 0 < best < len(curve) - 1
    trees = [step for step in model.rounds.steps if step.table.kind == "trees"]
    assert len(trees) == round(1.25 * best)


@pytest.mark.slow
def test_no_steps_on_pure_noise():
    """In full by two standard errors, in part by two and a half."""
    taken = 0
    for seed in range(20):
        rows = people(seed, 1000)
        taken += decisions(rc.fit(rows.base, rows.X, rows.y))[BOOSTING]
    assert taken <= most(20, norm.sf(2.0) + norm.sf(2.5))


def weak_signal(seed, n):
    """A base that misses a small, smooth effect."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    base = rng.uniform(0.3, 0.7, n)
    truth = (base + 0.04 * np.sin(3 * X["a"]) * np.cos(2 * X["b"])).to_numpy()
    return Rows(X, base, truth, np.clip(truth + 0.1 * rng.normal(size=n), 0, 1))


@pytest.mark.slow
def test_boosting_that_goes_too_far_is_taken_in_part_and_helps():
    new = weak_signal(104, 20_000)
    before, after = np.mean((new.base - new.truth) ** 2), []
    for seed in range(6):
        rows = weak_signal(seed, 3000)
        model = rc.fit(rows.base, rows.X, rows.y)
        for note in model.notes:
            if "applied at" in note:
                assert 0 < int(note.split("applied at ")[1].split("%")[0]) <= 100
                after.append(np.mean((model.predict(new.X, base=new.base) - new.truth) ** 2))
    assert after
    # 3,000 rows hardly tell this effect from noise, but a part of it points the right way.
    assert np.mean(after) < before


# --- weights from held-out rows -------------------------------------------------------------------


def over_confident(seed, n):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "g": rng.choice(list("abcdefgh"), n)})
    margin = 1.2 * X["a"].to_numpy()
    base = sigmoid(2 * (margin + rng.normal(size=n)))
    truth = sigmoid(margin + 0.8 * np.isin(X["g"], ["a", "b", "c"]))
    return Rows(X, base, truth, (rng.random(n) < truth) * 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "H", [None, rc.Groups("g"), rc.Linear()], ids=["default", "Groups", "Linear"]
)
def test_new_rows_have_the_slope_that_they_should(H):
    rows, new = over_confident(0, 6000), over_confident(1, 40_000)
    model = rc.fit(rows.base, rows.X, rows.y, H=H)
    if not isinstance(H, rc.Groups):  # for which moving certain gaps is enough here
        assert any(note.startswith("shrinkage: ") for note in model.notes)
    line, _ = line_through(model.margins(new.X, base=new.base), new.truth)
    _, errors = line_through(model.margins(rows.X, base=rows.base), rows.y)
    assert (np.abs(line - [0.0, 1.0]) < 4 * errors).all()


@pytest.mark.slow
def test_weights_undo_the_over_confidence_of_boosting():
    """Twenty columns of noise beside two that matter: trees learn some of both."""

    def crowd(seed, n):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.normal(size=(n, 22)), columns=[f"x{k}" for k in range(22)])
        truth = sigmoid(1.5 * np.sin(2 * X["x0"]) + X["x1"]).to_numpy()
        return Rows(X, np.full(n, 0.5), truth, (rng.random(n) < truth) * 1.0)

    rows, new = crowd(0, 2000), crowd(1, 20_000)
    model = rc.fit(rows.base, rows.X, rows.y)
    assert any(note.startswith("shrinkage: slope ") for note in model.notes)
    margin = model.margins(new.X, base=new.base)
    line, _ = line_through(margin, new.truth)
    _, errors = line_through(margin[:2000], new.truth[:2000])
    assert (np.abs(line - [0.0, 1.0]) < 4 * errors).all()


# --- level sets have the last word ----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "H", [None, rc.Trees(depth=1, base_score=True), rc.Linear(features=["h"])], ids=repr
)
def test_level_sets_repair_a_gap_of_a_group_at_some_levels(H):
    """Sums of stumps of the score and of the group cannot: the group as a whole is right.

    Nor can linear functions of another column; no stage does more than H may.
    """

    def off(X, f):
        return 0.8 * np.sign(f) * (X["g"] == "a")

    rows, new = people(0, 20_000, off=off), people(1, 20_000, off=off)
    after = rc.fit(rows.base, rows.X, rows.y, H).predict(new.X, base=new.base)
    for high in (False, True):
        cell = new.where("g", "a") & ((new.margin > 0) == high)
        gap, left = (abs(np.mean((new.truth - p)[cell])) for p in (new.base, after))
        assert gap > 0.1
        # An update takes half of what is certain; noise may stop the second, not the first.
        assert (left < 0.5 * gap) == (H is None)


@pytest.mark.slow
def test_level_sets_repair_a_group_of_their_own():
    def off(X, f):
        return 0.8 * np.sign(f) * (X["g"] == "a")

    rows, new = people(0, 20_000, off=off), people(1, 20_000, off=off)
    after = rc.fit(rows.base, rows.X, rows.y, rc.Groups("g")).predict(new.X, base=new.base)
    for high in (False, True):
        own = rows.where("g", "a") & ((rows.margin > 0) == high)
        cell = new.where("g", "a") & ((new.margin > 0) == high)
        # Levels have other borders than the gap, the cell between them is moved by the mean of
        # both sides: a tenth of the gap at most.
        room = 4 * rows.standard_error(own) + 0.1 * np.abs(np.mean((new.truth - new.base)[cell]))
        assert abs(np.mean((new.truth - after)[cell])) < room


# --- what was decided -----------------------------------------------------------------------------


def one_group(X, f):
    return 0.8 * (X["g"] == "a")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "off", "H", "stages"),
    [
        (4000, None, None, [SCORE, BOOSTING, LEVEL_SETS]),
        (4000, None, rc.Groups("g"), [SCORE, SHIFTS, ON_LEVELS]),
        (900, one_group, None, [SCORE, LARGE, BOOSTING]),
        (4000, one_group, None, [SCORE, LARGE, BOOSTING, LEVEL_SETS]),
        (6000, one_group, None, [SCORE, CERTAIN, BOOSTING, LEVEL_SETS]),
        (4000, one_group, rc.Linear(), [SCORE, BOOSTING, LEVEL_SETS]),
    ],
    ids=["nothing", "nothing, Groups", "few", "a group", "a group of many", "a group, Linear"],
)
def test_every_stage_has_a_note(n, off, H, stages):
    rows = people(0, n, off=off)
    model = rc.fit(rows.base, rows.X, rows.y, H)
    decided = decisions(model)
    assert list(decided) == stages
    unchanged = [note for note in model.notes if "returned unchanged" in note]
    assert len(unchanged) == (not any(decided.values()))
    assert bool(model.rounds.steps) == any(decided.values())
    assert {tuple(note.split(": ", 1)) for note in model.notes} <= set(model.summary().facts)


def test_notes_give_the_gain_that_held_out_rows_have():
    """The fall of the curve from the base to the best step is the sum of the stages' gains."""
    rows = waves(1, 8000)
    fold = (np.arange(6000), np.arange(6000, 8000))
    model = rc.fit(rows.base, rows.X, rows.y, rc.Trees(base_score=True), cv=[fold])
    decided = decisions(model)
    assert decided[BOOSTING]
    curve, gain = model.history_.held_out, 0.0
    for note in model.notes:
        if ": applied, held-out log loss -" in note:
            gain += float(note.split("held-out log loss -")[1].split(" ")[0])
    # Notes have three digits.
    assert gain == pytest.approx(curve[0] - min(curve), rel=0.01)


@pytest.mark.parametrize("name", ["a`b", "in", ""])
@pytest.mark.parametrize("H", [None, "linear"])
def test_columns_may_be_called_anything(name, H):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.choice(["u", "v"], 2000), "z": rng.normal(size=2000)})
    y = (rng.random(2000) < np.where(X[name] == "u", 0.3, 0.7)).astype(int)
    score = np.full(2000, 0.5)
    model = rc.fit(score, X, y, H)
    left = pd.Series(y - model.predict(X, base=score)).groupby(X[name]).mean()
    assert left.abs().max() < 0.03
