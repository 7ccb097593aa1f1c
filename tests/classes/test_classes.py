"""What every class H does alike."""

import numpy as np
import pytest
from onestep import two_levels, update
from settings import fit_with
from sklearn.linear_model import LinearRegression

import recalibrate as rc
from recalibrate.core.learning import MARGIN_STEP_LIMIT

ALL = [
    rc.Trees(depth=2),
    rc.Linear(),
    rc.Groups("a < 0", "b < 500"),
    rc.Estimator(LinearRegression()),
]


@pytest.mark.parametrize("H", ALL, ids=lambda H: type(H).__name__)
def test_keep_leaves_the_other_level_sets_alone(H):
    X, base, response = two_levels()
    model, _ = update(X, response, H, levels=base)
    (one,) = model.rounds.steps
    low_level = one.partition.index(model.labels.scale([0.25]))[0]
    kept = np.arange(one.partition.count) == low_level
    table = one.table.keep(kept)
    assert (one.table.n_learners, table.n_learners) == (2, 1)
    start = model.rounds.begin(model.labels.scale(base)).f
    block = model._encode(X, base, None)[1][0]
    level = one.partition.index(start)
    before = one.table.update(block, level, start, False)
    after = table.update(block, level, start, False)
    low = kept[level]
    np.testing.assert_array_equal(after[low], before[low])
    np.testing.assert_array_equal(after[~low], start[~low])
    assert not np.array_equal(before[~low], start[~low])


@pytest.mark.parametrize("H", ALL, ids=lambda H: type(H).__name__)
def test_a_newton_step_on_certain_scores_is_limited(H):
    """Scores of 0 leave no curvature: without a limit the log-odds would jump by thousands."""
    X = two_levels()[0]
    base = np.where(np.arange(len(X)) < 100, 1e-12, 0.5)
    y = (np.random.default_rng(0).random(len(X)) < 0.4) * 1.0
    options = {"step": 1.0, "levels": 4, "level_kind": "uniform", "l2": 0.0}
    model = fit_with(base, X, y, H, validation=False, max_rounds=1, **options)
    start, after = (model.rounds.first(k).apply(*_encoded(model, X, base)) for k in (0, 1))
    # Margins are multiples of 2**-40, and a difference of two has twice the rounding.
    assert np.abs(after - start).max() <= MARGIN_STEP_LIMIT + 1e-9
    assert model.history_.errors[1] < model.history_.errors[0]


def _encoded(model, X, base):
    margin, blocks, *_ = model._encode(X, base, None)
    return blocks, margin


def test_reprs_show_what_was_chosen():
    assert repr(rc.Trees()) == "Trees(depth=2)"
    assert repr(rc.Trees(3, leaves=4, features=["a"])) == (
        "Trees(depth=3, leaves=4, features=('a',))"
    )
    assert repr(rc.Groups("a", "b < 3", min_rows=5)) == "Groups('a', 'b < 3', min_rows=5)"
    assert rc.Trees(features=["a"]) == rc.Trees(features=("a",))
