"""Two trees as one: the same numbers for every row, NaN and thresholds included."""

import numpy as np
import pytest

from recalibrate.graph import updates
from recalibrate.graph.trees import MARGIN, Leaf, Split, flatten
from recalibrate.graph.updates import compose_adding, compose_replacing

COLUMNS = 3
STEP = 2.0**-10


def random_tree(rng, depth, *, score):
    """Splits on the score first, where it is looked at, then on columns; one of them by sets."""
    if depth == 0:
        return Leaf(float(rng.integers(-40, 40)) * STEP)
    left, right = (random_tree(rng, depth - 1, score=score and depth > 3) for _ in range(2))
    if score:
        return Split(MARGIN, float(rng.normal(0, 0.03)), False, left, right)
    column, missing = int(rng.integers(COLUMNS)), bool(rng.integers(2))
    if column == 2:
        members = np.unique(rng.integers(1, 6, 2)).astype(float)
        return Split(column, 0.0, missing, left, right, members)
    return Split(column, float(rng.integers(-2, 3)), missing, left, right)


def values(tree, X, score):
    if isinstance(tree, Leaf):
        return np.full(len(X), tree.value)
    ensemble = flatten([tree], COLUMNS + 1, lambda column: COLUMNS if column == MARGIN else column)
    return ensemble.evaluate(np.column_stack([X, score]))


def rows(rng, n):
    X = rng.integers(-3, 4, (n, COLUMNS)).astype(float)
    X[:, 2] = rng.integers(1, 7, n)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X, rng.integers(-80, 80, n) * STEP


def splits(tree):
    return 0 if isinstance(tree, Leaf) else 1 + splits(tree.left) + splits(tree.right)


@pytest.mark.parametrize("seed", range(40))
def test_a_composed_tree_is_one_tree_after_the_other(seed):
    rng = np.random.default_rng(seed)
    first, second = (random_tree(rng, 5, score=True) for _ in range(2))
    X, score = rows(rng, 400)
    after = values(first, X, score)
    added = score + after
    replaced = compose_replacing(first, second)
    summed = compose_adding(first, second)
    np.testing.assert_array_equal(values(replaced, X, score), values(second, X, after))
    np.testing.assert_array_equal(values(summed, X, score), after + values(second, X, added))


def test_scores_next_to_a_shifted_threshold_stay_on_their_side():
    """A threshold that has no exact difference with what a leaf adds."""
    first = Split(0, 0.0, False, Leaf(0.75), Leaf(-(2.0**-20)))
    second = Split(MARGIN, np.nextafter(0.1, -1), False, Leaf(1.0), Leaf(2.0))
    both = compose_adding(first, second)
    ticks = np.arange(-4, 5) * 2.0**-36
    near = np.round((0.1 - 0.75) * 2.0**36) / 2.0**36 + ticks
    far = np.round((0.1 + 2.0**-20) * 2.0**36) / 2.0**36 + ticks
    for x, score in ((-1.0, near), (1.0, far)):
        X = np.full((len(score), COLUMNS), x)
        after = values(first, X, score)
        expected = after + values(second, X, score + after)
        np.testing.assert_array_equal(values(both, X, score), expected)
        assert len(set(expected)) == 2


def test_what_the_first_tree_knows_is_not_asked_again():
    second = Split(MARGIN, 0.5, False, Leaf(1.0), Split(0, 2.0, True, Leaf(2.0), Leaf(3.0)))
    first = Split(0, 1.0, True, Leaf(0.0), Leaf(1.0))
    # On the left the score is 0. On the right it is 1 and x is above 1, but maybe not above 2.
    assert splits(compose_replacing(first, second)) == 2
    lower = Split(0, 3.0, True, Leaf(1.0), Leaf(1.5))
    # Above 3 is above 2, and NaN has gone left; if it has not, the second tree must ask.
    assert splits(compose_replacing(lower, second)) == 1 + 1
    assert splits(compose_replacing(Split(0, 3.0, False, Leaf(1.0), Leaf(1.5)), second)) == 3


def test_a_tree_that_would_be_too_large_is_not_composed(monkeypatch):
    rng = np.random.default_rng(0)
    first, second = (random_tree(rng, 5, score=True) for _ in range(2))
    monkeypatch.setattr(updates, "MOST_SPLITS", 40)
    assert compose_replacing(first, second) is None
    assert compose_adding(first, second) is None
