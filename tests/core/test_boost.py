"""The loop and all its settings, on data small enough to do the sums by hand."""

import io
import sys

import numpy as np
import pandas as pd
import pytest
from settings import fit_with
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor

import recalibrate as rc
from recalibrate.classes.groups import GroupLearner
from recalibrate.core.boost import Settings
from recalibrate.core.learning import Penalty
from recalibrate.core.levels import MARGIN_LIMIT, Levels

# Fitted numbers are multiples of 2**-40; residuals are summed in steps of 2**-30.
VALUE = 2.0**-29
# Hessians have 24 bits, and p and 1 - p are rounded before they are multiplied.
NEWTON = 2.0**-20
HALVES = rc.Trees(depth=1, features=["half"])


def sample(seed=0, n=600):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"half": np.arange(n) % 2, "kind": rng.choice(list("abc"), n), "x": rng.normal(size=n)}
    )
    base = rng.uniform(0.1, 0.9, n)
    truth = np.clip(0.8 * base + 0.15 * X["half"] + 0.05 * (X["kind"] == "a"), 0, 1)
    return base, X, (rng.random(n) < truth) * 1.0


def loop(base, X, y, H=HALVES, **options):
    """A run without validation on the scale of the labels, unless told otherwise."""
    options = {"link": "identity", "validation": False, "max_rounds": 1, **options}
    return fit_with(base, X, y, H, **options)


def residual_means(base, y, cells):
    """Mean of y - base in the row's cell."""
    _, cell = np.unique(cells, return_inverse=True, axis=0)
    cell = cell.ravel()
    return (np.bincount(cell, y - base) / np.bincount(cell))[cell]


# --- level sets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0.1, 0.5, 1.0])
def test_one_level_set_and_the_step(step):
    base, X, y = sample()
    model = loop(base, X, y, levels=1, step=step)
    expected = base + step * residual_means(base, y, X["half"])
    np.testing.assert_allclose(model.margins(X, base=base), expected, atol=VALUE)
    assert (model.n_rounds_, model.n_learners_) == (1, 1)


def test_uniform_level_sets_have_equal_width():
    base, X, y = sample()
    model = loop(base, X, y, levels=4, level_kind="uniform", step=1.0)
    level = np.floor(base * 4 + 0.5)  # around the grid 0, 1/4, ..., 1
    expected = base + residual_means(base, y, np.column_stack([level, X["half"]]))
    np.testing.assert_allclose(model.margins(X, base=base), expected, atol=VALUE)
    assert model.n_learners_ == len(np.unique(level))


def test_quantile_level_sets_have_equal_weight():
    base, X, y = sample()
    model = loop(base, X, y, levels=4, step=1.0)
    (step,) = model.rounds.steps
    level = step.partition.index(base)
    # Cuts are at the borders of 2**16 cells of the score, so a row or two may be beyond.
    assert np.bincount(level) == pytest.approx([150] * 4, abs=2)
    expected = base + residual_means(base, y, np.column_stack([level, X["half"]]))
    np.testing.assert_allclose(model.margins(X, base=base), expected, atol=VALUE)


def test_quantile_level_sets_count_weights():
    base, X, y = sample()
    weight = np.where(base < 0.5, 3, 1)
    model = loop(base, X, y, levels=4, sample_weight=weight)
    level = model.rounds.steps[0].partition.index(base)
    # A level has two ends, with at most a row of weight 3 on the wrong side of each.
    assert np.bincount(level, weight) == pytest.approx([weight.sum() / 4] * 4, abs=6)


def test_level_sets_are_drawn_anew_each_round():
    base, X, y = sample()
    model = loop(base, X, y, levels=3, max_rounds=3, step=0.5)
    first, *later = [step.partition.thresholds for step in model.rounds.steps]
    assert all(not np.array_equal(first, thresholds) for thresholds in later)


def test_tables_of_a_round_share_its_level_sets():
    base, X, y = sample()
    model = loop(base, X, y, levels=3, max_rounds=2, tables_per_round=3, step=0.3)
    drawn = [step.partition is not None for step in model.rounds.steps]
    assert drawn == [True, False, False, True, False, False]
    assert model.n_rounds_ == 2
    assert len(model.history_.errors) == 3, "errors are by round"
    level = model.rounds.steps[0].partition.index(base)
    cells = np.column_stack([level, X["half"]])
    f = base.copy()
    for _ in range(3):
        f += 0.3 * residual_means(f, y, cells)
    stages = list(model.staged_predict(X, base=base))
    np.testing.assert_allclose(stages[3], np.clip(f, 0, 1), atol=3 * VALUE)


def test_constant_scores_are_one_level_set():
    _, X, y = sample()
    model = loop(np.full(len(y), 0.5), X, y, levels=10)
    assert model.n_learners_ == 1


# --- links, penalties ---------------------------------------------------------------------------


@pytest.mark.parametrize("l2", [0.0, 25.0])
def test_newton_step_on_the_log_odds(l2):
    base, X, y = sample()
    model = loop(base, X, y, link="logit", levels=1, step=0.5, l2=l2)
    start = np.log(base / (1 - base))
    update = np.empty(len(y))
    for half in (0, 1):
        rows = X["half"] == half
        gradient = np.sum((y - base)[rows])
        hessian = np.sum((base * (1 - base))[rows])
        update[rows] = 0.5 * gradient / (hessian + l2)
    np.testing.assert_allclose(model.margins(X, base=base), start + update, atol=NEWTON)
    p = 1 / (1 + np.exp(-(start + update)))
    np.testing.assert_allclose(model.predict(X, base=base), p, atol=NEWTON)
    log_loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    assert model.history_.errors[1] == pytest.approx(log_loss, abs=NEWTON)


@pytest.mark.filterwarnings("ignore:all base scores are exactly 0 or 1")
def test_log_odds_stay_finite_for_certain_scores():
    _, X, y = sample()
    base = np.where(np.arange(len(y)) % 3 == 0, 0.0, 1.0)
    model = loop(base, X, y, link="logit", levels=2, l2=1.0, max_rounds=3)
    margins = model.margins(X, base=base)
    assert np.isfinite(margins).all()
    assert np.abs(loop(base, X, y, link="logit", max_rounds=0).margins(X, base=base)).max() == (
        MARGIN_LIMIT
    )


def test_ridge_shrinks_by_the_rows_of_the_leaf():
    base, X, y = sample()
    model = loop(base, X, y, levels=1, step=1.0, l2=100.0)
    rows = np.bincount(X["half"])[X["half"]]
    expected = base + residual_means(base, y, X["half"]) * rows / (rows + 100.0)
    np.testing.assert_allclose(model.margins(X, base=base), expected, atol=VALUE)


def test_minimum_gain_of_a_split():
    base, X, y = sample()
    split = residual_means(base, y, X["half"])
    whole = np.mean(y - base)
    gain = np.sum(split**2) - len(y) * whole**2  # fall of the summed squared error
    below = loop(base, X, y, levels=1, step=1.0, min_gain=0.999 * gain)
    above = loop(base, X, y, levels=1, step=1.0, min_gain=1.001 * gain)
    np.testing.assert_allclose(below.margins(X, base=base), base + split, atol=VALUE)
    np.testing.assert_allclose(above.margins(X, base=base), base + whole, atol=VALUE)


def test_small_level_sets_are_left_alone():
    base, X, y = sample()
    base = np.where(np.arange(len(y)) < 30, 0.05, base)
    model = loop(base, X, y, levels=20, level_kind="uniform", step=1.0, min_level_rows=31)
    level = np.floor(base * 20 + 0.5)
    count = np.bincount(level.astype(int))[level.astype(int)]
    changed = np.abs(model.margins(X, base=base) - base) > 1e-6  # log-odds are rounded
    np.testing.assert_array_equal(changed, count >= 31)
    assert 0 < changed.sum() < len(y)
    assert model.history_.skipped == pytest.approx(np.mean(count < 31))


# --- rounding -----------------------------------------------------------------------------------


def test_rounded_run_replaces_and_rounds():
    base, X, y = sample()
    model = loop(base, X, y, rounded=True, levels=20)
    start = np.floor(base * 20 + 0.5) / 20
    mean = start + residual_means(start, y, np.column_stack([start, X["half"]]))
    f = model.predict(X, base=base)
    assert np.isin(f, np.arange(21) / 20).all()
    assert np.abs(f - np.clip(mean, 0, 1)).max() <= 1 / 40 + VALUE
    np.testing.assert_array_equal(next(iter(model.staged_predict(X, base=base))), start)


def test_rounded_run_with_a_smaller_step_mixes():
    base, X, y = sample()
    model = loop(base, X, y, rounded=True, levels=1000, step=0.25)
    start = np.floor(base * 1000 + 0.5) / 1000
    mixed = start + 0.25 * residual_means(start, y, np.column_stack([start, X["half"]]))
    f = model.predict(X, base=base)
    assert np.abs(f - mixed).max() <= 1 / 2000 + VALUE
    assert np.isin(f, np.arange(1001) / 1000).all()


def test_rounded_quantile_grid_follows_the_labels():
    rng = np.random.default_rng(3)
    n = 1000
    X = pd.DataFrame({"half": np.arange(n) % 2})
    y = rng.beta(2, 8, n)
    base = np.full(n, 0.2)
    model = loop(base, X, y, rounded=True, levels=5, level_kind="quantile")
    values = model.settings.grid.values
    borders = np.quantile(y, np.linspace(0, 1, 6))
    # Quantiles between two of 1,000 sorted labels may be cut anywhere between them.
    np.testing.assert_allclose(values, (borders[1:] + borders[:-1]) / 2, atol=0.01)
    assert np.isin(model.predict(X, base=base), values).all()


def test_rounded_on_the_log_odds():
    base, X, y = sample()
    model = loop(base, X, y, link="logit", rounded=True, levels=10, l2=0.0)
    grid = np.arange(11) / 10
    f = model.predict(X, base=base)
    distance = np.abs(f[:, None] - grid).min(axis=1)
    assert distance.max() < 2e-7, "0 and 1 have no log-odds: there the grid ends at +-16"


def test_keep_unrounded_keeps_the_rejected_update():
    base, X, y = sample()
    options = {"rounded": True, "levels": 10, "tolerance": 0.01, "max_rounds": 50}
    rounded = loop(base, X, y, **options)
    kept = loop(base, X, y, keep_unrounded=True, **options)
    f = rounded.predict(X, base=base)
    best = f + residual_means(f, y, np.column_stack([f, X["half"]]))
    assert kept.n_rounds_ == rounded.n_rounds_ + 1
    np.testing.assert_allclose(kept.margins(X, base=base), best, atol=VALUE)


def test_keep_unrounded_adds_an_update_after_the_last_round():
    base, X, y = sample()
    options = {"rounded": True, "levels": 10, "max_rounds": 2}
    rounded = loop(base, X, y, **options)
    kept = loop(base, X, y, keep_unrounded=True, **options)
    assert rounded.history_.stopped == kept.history_.stopped == "max_rounds"
    f = rounded.predict(X, base=base)
    best = f + residual_means(f, y, np.column_stack([f, X["half"]]))
    assert kept.n_rounds_ == 3
    np.testing.assert_allclose(kept.margins(X, base=base), best, atol=VALUE)
    # Losses are summed in steps of 2**-40.
    assert kept.history_.final == pytest.approx(np.mean((best - y) ** 2), abs=1e-9)
    unchanged = loop(base, X, y, keep_unrounded=True, **{**options, "max_rounds": 0})
    assert unchanged.n_rounds_ == 0


def test_keep_unrounded_after_going_back_to_the_best_step():
    base, X, y = sample(n=1500)
    options = {"rounded": True, "levels": 10, "max_rounds": 50, "step": 0.3, "patience": 3}
    rounded, kept = (
        loop(base, X, y, rc.Trees(depth=2), keep_unrounded=keep, validation=held_out(), **options)
        for keep in (False, True)
    )
    steps = rounded.rounds.steps
    assert 0 < len(steps) < len(rounded.history_.held_out) - 1
    assert len(kept.rounds.steps) == len(steps) + 1
    assert kept.rounds.steps[-1].grid is None
    before = kept.rounds.first(len(steps))
    margin, blocks, _ = kept._encode(X, base, None)
    np.testing.assert_array_equal(before.apply(blocks, margin), rounded.margins(X, base=base))


def test_rejected_round_of_several_tables_is_kept_whole():
    base, X, y = sample()
    options = {"rounded": True, "levels": 50, "tables_per_round": 3, "step": 0.3}
    rounded = loop(base, X, y, tolerance=0.01, max_rounds=50, **options)
    kept = loop(base, X, y, tolerance=0.01, max_rounds=50, keep_unrounded=True, **options)
    assert kept.history_.stopped == "tolerance"
    added = kept.rounds.steps[len(rounded.rounds.steps) :]
    assert [step.partition is not None for step in added] == [True, False, False]
    assert [step.grid is None for step in added] == [False, False, True]


# --- stopping -----------------------------------------------------------------------------------


def test_tolerance_rejects_the_last_round():
    base, X, y = sample()
    model = loop(base, X, y, tolerance=1e-3, step=0.5, max_rounds=100)
    errors = np.array(model.history_.errors)
    assert model.history_.stopped == "tolerance"
    assert (-np.diff(errors)[:-1] >= 1e-3).all()
    assert errors[-2] - errors[-1] < 1e-3
    assert len(errors) == model.n_rounds_ + 2
    stages = [np.mean((f - y) ** 2) for f in model.staged_predict(X, base=base)]
    # Predictions are cut at 0 and 1, which may only help, and here by less than 1e-6.
    assert errors[:-1] == pytest.approx(stages, abs=1e-6)


def by_the_authors_rule(learner, start, X, y, levels, most=100):
    """Errors by round, and the last predictions, of the rule as their code has it."""

    def rounded(f):
        return np.floor(np.clip(f, 0, 1) * levels + 0.5) / levels

    def updated(f):
        out = f.copy()
        for v in np.unique(f):
            rows = f == v
            if rows.sum() > 1:
                out[rows] = clone(learner).fit(X[rows], y[rows]).predict(X[rows])
        return out

    f = rounded(start)
    errors = [np.mean((start - y) ** 2)]
    for i in range(most):
        if i == most - 1 or (i >= 2 and errors[-2] - errors[-1] <= 0.1 / levels):
            return errors[1:], np.clip(updated(f), 0, 1)
        f = rounded(updated(f))
        errors.append(np.mean((f - y) ** 2))
    raise AssertionError("the last round returns")


@pytest.mark.parametrize("most", [100, 3])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("levels", [10, 60])
def test_the_rule_of_the_authors(levels, constant, most):
    """At least two rounds, the poor one stays, and an update that is not rounded comes last."""
    rng = np.random.default_rng(2)
    X = rng.integers(0, 12, (2000, 2)).astype(float)
    y = np.clip(0.5 + 0.05 * X[:, 0] * (X[:, 1] > 5) - 0.3 + rng.normal(0, 0.1, 2000), 0, 1)
    stump = DecisionTreeRegressor(max_depth=1)
    given = np.full(2000, 0.4) if constant else np.clip(y + rng.normal(0, 0.2, 2000), 0, 1)
    # Without a model of the user's the authors start from the weak learner on all rows.
    start = stump.fit(X, y).predict(X) if constant else given
    errors, last = by_the_authors_rule(stump, start, X, y, levels, most)
    options = {"rounded": True, "levels": levels, "max_rounds": most}
    model = loop(given, X, y, rc.Trees(depth=1), tolerance="authors", **options)
    found = model.history_.errors[2 if constant else 1 :]
    # Fitted numbers are multiples of 2**-40.
    assert found == pytest.approx(errors, abs=1e-9)
    np.testing.assert_allclose(model.predict(X, base=given), last, atol=1e-9)
    assert model.history_.stopped == "tolerance" or most == 3
    final = loop(
        given, X, y, rc.Trees(depth=1), tolerance="authors", keep_unrounded=False, **options
    )
    assert final.rounds.steps[-1].grid is not None


def test_max_rounds():
    base, X, y = sample()
    assert loop(base, X, y, max_rounds=7).n_rounds_ == 7
    untouched = loop(base, X, y, max_rounds=0)
    assert untouched.history_.stopped == "max_rounds"
    np.testing.assert_array_equal(untouched.predict(X, base=base), base)


def test_nothing_to_learn_stops():
    base, X, y = sample()
    model = loop(base, X, y, min_level_rows=10**6, max_rounds=50)
    assert model.history_.stopped == "nothing learned"
    assert model.n_rounds_ == 0
    np.testing.assert_array_equal(model.predict(X, base=base), base)


def test_error_never_rises_without_rounding():
    base, X, y = sample()
    for link in ("identity", "logit"):
        errors = loop(base, X, y, rc.Trees(), link=link, step=0.3, max_rounds=40).history_.errors
        assert (np.diff(errors) <= 0).all()


# --- held-out rows ------------------------------------------------------------------------------


def held_out(seed=1, n=300):
    base, X, y = sample(seed, n)
    return {"X": X, "y": y, "base": base}


def test_patience_goes_back_to_the_best_step():
    base, X, y = sample(n=150)
    new = held_out()
    H = rc.Trees(depth=3)
    options = {"validation": new, "patience": 5, "max_rounds": 500, "step": 0.3}
    model = loop(base, X, y, H, **options)
    curve = model.history_.held_out
    best = int(np.argmin(curve))
    assert model.history_.stopped == "patience"
    assert len(curve) - 1 == best + 5
    assert len(model.rounds.steps) == best
    error = np.mean((model.margins(new["X"], base=new["base"]) - new["y"]) ** 2)
    assert min(curve) == pytest.approx(error, abs=1e-9)
    longer = loop(base, X, y, H, **{**options, "patience": 20})
    assert len(longer.history_.held_out) > len(curve)


def test_held_out_curve_is_by_table():
    base, X, y = sample()
    model = loop(base, X, y, validation=held_out(), tables_per_round=4, max_rounds=3, patience=99)
    assert len(model.history_.held_out) == 1 + 12


def test_accept_keeps_updates_that_hold_on_other_rows():
    n = 400
    X = pd.DataFrame({"half": np.zeros(n)})
    base = np.where(np.arange(n) < n // 2, 0.25, 0.75)
    y = np.full(n, 0.5)  # both level sets are to move to one half,
    other = np.where(base < 0.5, 0.5, 0.9)  # which on the other rows is wrong for the upper one
    new = {"X": X, "y": other, "base": base}
    options = {"levels": 4, "level_kind": "uniform", "step": 1.0, "validation": new}
    free = loop(base, X, y, **options)
    strict = loop(base, X, y, accept=0.0, **options)
    # The free run's step makes things worse on average, so it goes back; alone it moves both.
    moved = loop(base, X, y, **{**options, "validation": False})
    np.testing.assert_allclose(moved.predict(X, base=base), 0.5, atol=VALUE)
    assert free.n_rounds_ == 0
    np.testing.assert_allclose(
        strict.predict(X, base=base), np.where(base < 0.5, 0.5, 0.75), atol=VALUE
    )
    assert strict.n_learners_ == 1


@pytest.mark.parametrize(("accept", "kept"), [(0.0, True), (0.7, True), (0.8, False)])
def test_accept_asks_for_a_share_of_the_error(accept, kept):
    X = pd.DataFrame({"half": np.zeros(100)})
    base = np.full(100, 0.5)
    y = np.full(100, 0.75)
    # From 0.5 to 0.75 where 0.5 + 0.5 would be right: the error falls from 1/4 to 1/16, by 75 %.
    new = {"X": X, "y": np.full(100, 1.0), "base": base}
    model = loop(base, X, y, levels=1, step=1.0, accept=accept, validation=new)
    assert (model.n_learners_ == 1) is kept


def test_validation_labels_need_not_be_of_the_fitted_kind():
    """Fitted on soft labels, validated on labels that happen to be 0 and 1."""
    base, X, y = sample()
    soft = np.clip(y, 0.1, 0.9)
    model = loop(base, X, soft, validation=held_out(), patience=3, max_rounds=30)
    assert model.labels.kind == "soft"
    curve = model.history_.held_out
    new = held_out()
    assert curve[0] == pytest.approx(np.mean((new["base"] - new["y"]) ** 2), abs=1e-9)


# --- interruption and progress ------------------------------------------------------------------


def interrupt(monkeypatch, call):
    """Ctrl-C while the class learns for the ``call``-th time."""
    learn, calls = GroupLearner.learn, []

    def interrupted(self, task):
        calls.append(task)
        if len(calls) == call:
            raise KeyboardInterrupt
        return learn(self, task)

    monkeypatch.setattr(GroupLearner, "learn", interrupted)


@pytest.mark.parametrize("rounded", [False, True])
def test_interrupt_leaves_a_usable_model(monkeypatch, rounded):
    base, X, y = sample()
    H = rc.Groups("kind", "half == 1")
    options = {"rounded": rounded, "levels": 20, "max_rounds": 10}
    two = loop(base, X, y, H, **{**options, "max_rounds": 2})
    interrupt(monkeypatch, 3)
    with pytest.warns(UserWarning, match="interrupted: the model has the 2 rounds") as caught:
        model = rc.fit(base, X, y, H, link="identity", validation=False, loop=rc.Loop(**options))
    assert caught[0].filename == __file__
    assert model.history_.stopped == "interrupted"
    assert model.n_rounds_ == 2
    np.testing.assert_array_equal(model.predict(X, base=base), two.predict(X, base=base))


def test_interrupted_run_of_the_paper_proves_nothing(monkeypatch):
    base, X, y = sample()
    interrupt(monkeypatch, 2)
    with pytest.warns(UserWarning, match="interrupted: the model has the 1 round finished"):
        model = rc.fit(base, X, y, rc.Groups("kind", "half == 1"), alpha=0.01)
    c = model.certificate_
    assert not c.exact
    assert not c.holds
    assert "interrupted" in c.reason
    assert c.rounds == model.n_rounds_ == 1
    f = model.predict(X, base=base)
    assert c.errors[1] == pytest.approx(np.mean((f - y) ** 2), abs=1e-9)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal(monkeypatch):
    base, X, y = sample()
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    model = loop(
        base, X, y, validation=held_out(), tolerance=0.0, patience=99, max_rounds=3, step=0.5
    )
    last = screen.getvalue().split("\r")[-1]
    assert "round 3/3" in last
    assert f"error {model.history_.errors[-1]:.6g}" in last
    assert f"validation {model.history_.held_out[-1]:.6g}" in last
    screen.truncate(0)
    loop(base, X, y, progress=False)
    assert screen.getvalue().strip("\0") == ""


def test_no_progress_off_a_terminal(capsys):
    base, X, y = sample()
    loop(base, X, y, max_rounds=3)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


# --- settings -----------------------------------------------------------------------------------


def test_only_plain_rounded_runs_replace():
    grid = Levels.uniform(10)
    assert Settings(grid=grid).replaces
    assert not Settings().replaces
    assert not Settings(grid=grid, step=0.5).replaces
    assert not Settings(grid=grid, link="logit").replaces
    assert not Settings(grid=grid, penalty=Penalty(l2=1.0)).replaces
