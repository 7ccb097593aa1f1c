"""Columns of many categories: every category moves by what its rows support."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.bases.problem import Reading, read_problem
from recalibrate.classes.groups.cells import CellTotals
from recalibrate.classes.groups.spec import GroupTable
from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.part import Rows
from recalibrate.core.rounds import Rounds
from recalibrate.data.columns import Columns
from recalibrate.fitting.default.large_categories import (
    MANY_CATEGORIES,
    LargeCategories,
    large_columns,
)
from recalibrate.fitting.default.level_sets import weight_spread
from recalibrate.rows.memory import rows_in_memory
from recalibrate.scores import as_base, sigmoid


def towns(seed, n, kinds=200, spread=0.5):
    """Margins, towns, and how much each town is off."""
    rng = np.random.default_rng(seed)
    off = np.random.default_rng(99).normal(0, spread, kinds)
    town = (kinds * rng.random(n) ** 2).astype(int)  # some have hundreds of rows, some a few
    X = pd.DataFrame({"town": [f"t{k:04d}" for k in town], "x": rng.normal(size=n)})
    return rng, X, rng.normal(size=n), off[town]


def learn(base, X, y, names, *, weight=None, blocks=None, link=None):
    """The stage alone: the encoded rows, and the log after it."""
    problem = read_problem(as_base(base), X, y, Reading(weight))
    link = link or problem.link
    problem = replace(problem, link=link)
    scale = make_scale(len(y), problem.labels.weight, newton=link == "logit")
    bound = rc.Groups(*names).bind(Columns.of(problem.table))
    quantised = scale.quantise_weight(problem.labels.weight)
    block = bound.encoder.encode(problem.table)
    rows = Rows((block,), problem.labels.values, problem.base, quantised)
    stage = LargeCategories(bound.encoder, 0, weight_spread(problem.labels.weight))
    with rows_in_memory(rows, scale, blocks=blocks) as source:
        return problem, block, stage.fit(source, Rounds(link, None, (bound.encoder,)))


def test_large_columns_are_categories_that_may_be_seen():
    n = MANY_CATEGORIES + 1
    frame = pd.DataFrame(
        {
            "id": [f"i{k}" for k in range(n)],
            "few": [f"f{k % MANY_CATEGORIES}" for k in range(n)],
            "number": np.arange(n),
            "back`tick": [f"b{k}" for k in range(n)],
        }
    )
    schema = read_problem(as_base(np.full(n, 0.5)), frame, np.arange(n) % 2, Reading()).table.schema
    assert large_columns(schema, ("id", "few", "number", "back`tick")) == ("id",)
    assert large_columns(schema, ("few",)) == ()


def test_one_column_of_residuals_is_the_textbook_formula():
    """Squared error: with one column a turn is exact, and turns after it change little."""
    rng, X, _, off = towns(0, 4000)
    base = rng.uniform(0.3, 0.7, 4000)
    y = np.clip(base + 0.1 * off + rng.normal(0, 0.1, 4000), 0, 1)
    _, _, log = learn(base, X, y, ["town"], link="identity")
    (step,) = log.steps
    assert isinstance(step.table, GroupTable)
    names = sorted(set(X["town"]))
    residual = pd.Series(y - base).groupby(X["town"]).agg(["sum", "size"]).loc[names]
    s = residual["size"].to_numpy(float)
    g = residual["sum"].to_numpy() - s * np.mean(y - base)
    shift = np.zeros(len(s))
    for _ in range(4):  # the noise is that of the rows after the shifts so far
        per_row = pd.Series(shift, index=names)[X["town"]].to_numpy()
        noise = np.mean((y - base - per_row) ** 2)
        v = s * noise
        tau2 = np.sum((g**2 - v) / (v + noise)) / np.sum(s**2 / (v + noise))
        shift = g / (s + noise / tau2)
    # Four turns come within a thousandth of the fixed point; residuals are summed in 2**-30.
    np.testing.assert_allclose(step.table.coefficient[0, 1:], shift, rtol=1e-3, atol=1e-6)
    assert step.table.coefficient[0, 0] == 0.0


@pytest.mark.parametrize("link", ["logit", "identity"])
def test_shifts_come_near_the_truth(link):
    rng, X, margin, off = towns(1, 30_000)
    if link == "logit":
        base, truth = sigmoid(margin), sigmoid(margin + off)
        y = (rng.random(30_000) < truth) * 1.0
    else:
        base = rng.uniform(0.3, 0.7, 30_000)
        truth = np.clip(base + 0.1 * off, 0, 1)
        y = np.clip(truth + rng.normal(0, 0.1, 30_000), 0, 1)
    problem, block, log = learn(base, X, y, ["town"], link=link)
    f = log.apply([block], problem.base)
    after = sigmoid(f) if link == "logit" else f
    # A gap that all towns share is not theirs to repair.
    after += np.mean(truth - after)
    assert np.mean((after - truth) ** 2) < 0.15 * np.mean((base - truth) ** 2)


def test_two_columns_share_what_both_explain():
    """Moved one by one without regard to each other, both would take the whole of it."""
    rng, X, margin, off = towns(2, 20_000)
    X["same"] = X["town"].str.replace("t", "s")
    y = (rng.random(20_000) < sigmoid(margin + off)) * 1.0
    problem, block, log = learn(sigmoid(margin), X, y, ["town", "same"])
    both = log.apply([block], problem.base) - problem.base
    problem, block, log = learn(sigmoid(margin), X, y, ["town"])
    one = log.apply([block], problem.base) - problem.base
    assert np.std(both) < 1.2 * np.std(one)
    assert np.corrcoef(both, off)[0, 1] > np.corrcoef(one, off)[0, 1] - 0.02


def test_noise_moves_next_to_nothing():
    moved = []
    for seed in range(10):
        rng, X, margin, _ = towns(seed, 3000)
        y = (rng.random(3000) < sigmoid(margin)) * 1.0
        problem, block, log = learn(sigmoid(margin), X, y, ["town"])
        moved.append(np.std(log.apply([block], problem.base) - problem.base))
        if moved[-1] == 0:
            assert log.steps == ()
    assert 0.0 in moved
    assert np.mean(moved) < 0.05


def test_a_single_rare_event_moves_nobody_far():
    """Its square is a thousand times its variance, and says nothing about other categories."""
    n = 2000
    X = pd.DataFrame({"id": [f"i{k}" for k in range(n)]})
    y = np.zeros(n)
    y[7] = 1.0
    base = np.full(n, 0.0005)
    problem, block, log = learn(base, X, y, ["id"])
    assert np.abs(log.apply([block], problem.base) - problem.base).max() < 0.2


def test_blocks_change_nothing_with_weights_either():
    rng, X, margin, off = towns(3, 6000)
    y = (rng.random(6000) < sigmoid(margin + off)) * 1.0
    weight = rng.integers(1, 4, 6000).astype(float)
    _, _, whole = learn(sigmoid(margin), X, y, ["town"], weight=weight)
    _, _, cut = learn(sigmoid(margin), X, y, ["town"], weight=weight, blocks=5)
    first, second = whole.steps[0].table, cut.steps[0].table
    np.testing.assert_array_equal(first.coefficient, second.coefficient)


def test_spread_of_cells():
    """E G^2 = V + tau^2 s^2, whatever cells count by."""
    rng = np.random.default_rng(0)
    s = rng.uniform(0.2, 30.0, 40_000)
    g = s * rng.normal(0, 0.3, 40_000) + rng.normal(0, np.sqrt(s))
    cells = CellTotals(np.ones(40_000, np.bool_), s, g, s)
    # 40,000 cells: the estimate has a standard error of about 2 %.
    assert cells.spread() == pytest.approx(0.09, rel=0.1)
    assert cells.spread(1.0) == pytest.approx(0.09, rel=0.1)
    none = replace(cells, g=0.9 * rng.normal(0, np.sqrt(s)))
    assert none.spread() == 0.0
    assert not none.believed(none.spread()).any()


def test_the_default_moves_towns_and_says_so():
    rng, X, margin, off = towns(4, 8000)
    y = (rng.random(8000) < sigmoid(margin + off)) * 1.0
    model = rc.fit(sigmoid(margin), X, y)
    assert any(n.startswith("moving the categories of large columns pays") for n in model.notes)
    rng, new, margin, off = towns(5, 20_000)
    truth, base = sigmoid(margin + off), sigmoid(margin)
    left = np.mean((model.predict(new, base=base) - truth) ** 2)
    assert left < 0.5 * np.mean((base - truth) ** 2)
    unknown = new.assign(town="nowhere")
    assert np.isfinite(model.predict(unknown, base=base)).all()


def test_a_class_that_may_not_see_them_leaves_them_alone():
    rng, X, margin, off = towns(6, 3000)
    y = (rng.random(3000) < sigmoid(margin + off)) * 1.0
    for H in (rc.Trees(features=["x"]), rc.Groups("x > 0")):
        model = rc.fit(sigmoid(margin), X, y, H)
        assert not any("large columns" in note for note in model.notes)
