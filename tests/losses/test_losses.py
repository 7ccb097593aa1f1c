"""Losses: the best action for every probability, and how losses are read."""

import numpy as np
import pytest
from convex import CONVEX, expected
from hypothesis import given
from hypothesis import strategies as st

from recalibrate.losses import (
    Absolute,
    Asymmetric,
    CostMatrix,
    Formula,
    Hinge,
    Logistic,
    Pinball,
    Squared,
    cheapest,
    read_loss,
)

PROBABILITIES = np.linspace(0, 1, 201)
MATRICES = [CostMatrix([[0, 1], [5, 0]]), CostMatrix([[0, 1, 0.3], [2, 0, 1]])]


def candidates(loss):
    """Actions among which the best one must be."""
    if isinstance(loss, CostMatrix):
        return np.array(loss.actions)
    low, high = (-1.0, 1.0) if isinstance(loss, Hinge | Logistic) else (0.0, 1.0)
    return np.linspace(low, high, 801)


# --- best actions -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [*CONVEX, *MATRICES], ids=repr)
def test_no_action_beats_the_best_one(loss):
    best = loss.rule().best(PROBABILITIES)
    lowest = np.min([expected(loss, PROBABILITIES, a) for a in candidates(loss)], axis=0)
    # The formulas lie between the candidates and can only be better than them.
    assert (expected(loss, PROBABILITIES, best) <= lowest + 1e-12).all()


@pytest.mark.parametrize(
    ("loss", "threshold", "values"),
    [
        (Absolute(), 0.5, [0, 1]),
        (Pinball(0.9), 0.1, [0, 1]),
        (Pinball(0.5), 0.5, [0, 1]),
        (Hinge(), 0.5, [-1, 1]),
        (CostMatrix([[0, 1], [5, 0]]), 1 / 6, [0, 1]),
    ],
    ids=repr,
)
def test_ties_go_up(loss, threshold, values):
    rule = loss.rule()
    # A threshold is a quotient: the last bit may differ from the one written here.
    assert rule.thresholds == pytest.approx([threshold], abs=1e-15)
    assert rule.values.tolist() == values
    at = float(rule.thresholds[0])
    assert rule.best(np.array([np.nextafter(at, 0), at])).tolist() == values


def test_formulas():
    p = np.array([0.0, 0.2, 0.5, 1.0])
    np.testing.assert_array_equal(Squared().rule().best(p), p)
    np.testing.assert_allclose(
        # The difference of two logarithms, each rounded.
        Logistic().rule().best(p),
        [-16, np.log(0.25), 0, 16],
        rtol=1e-12,
        atol=1e-15,
    )
    np.testing.assert_allclose(Asymmetric(1, 4).rule().best(p), [0, 0.5, 0.8, 1.0])
    assert Logistic(3.0).rule() == Formula("log-odds", limit=3.0)


COSTS = st.lists(
    st.tuples(st.integers(-9, 9).map(float), st.integers(-9, 9).map(float)), min_size=1, max_size=8
)


@given(COSTS)
def test_the_cheapest_of_any_actions(costs):
    zero, one = np.array(costs).T
    rule = cheapest(zero, one, np.arange(len(zero)))
    assert (np.diff(rule.thresholds) > 0).all()
    assert len(rule.values) == len(rule.thresholds) + 1
    assert ((rule.thresholds > 0) & (rule.thresholds <= 1)).all()
    p = np.unique(np.concatenate([PROBABILITIES, rule.thresholds]))
    best = rule.best(p)
    lowest = np.min([p * b + (1 - p) * a for a, b in costs], axis=0)
    # Costs up to 9 in sums of two products.
    np.testing.assert_allclose(p * one[best] + (1 - p) * zero[best], lowest, atol=1e-12)


def test_of_equal_actions_the_first_is_taken():
    rule = cheapest(np.array([1.0, 0.0, 0.0]), np.array([1.0, 2.0, 2.0]), np.array([7, 8, 9]))
    assert rule.values.tolist() == [8, 7]


def test_names_of_actions():
    rule = CostMatrix([[0, 1], [5, 0]], actions=["wait", "treat"]).rule()
    assert rule.best(np.array([0.1, 0.2])).tolist() == ["wait", "treat"]
    costs = CostMatrix([[0, 1], [5, 0]], actions=["wait", "treat"])
    assert costs([1, 0, 1], ["wait", "treat", "treat"]).tolist() == [5, 1, 0]


# --- reading losses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("squared", Squared()),
        (" absolute ", Absolute()),
        ("hinge", Hinge()),
        ("logistic", Logistic()),
        ("logistic(2)", Logistic(2.0)),
        ("pinball(0.9)", Pinball(0.9)),
        ("asymmetric( 1, 4 )", Asymmetric(1.0, 4.0)),
        ("cost_matrix(0, 1, 5, 0)", CostMatrix([[0, 1], [5, 0]])),
    ],
)
def test_short_texts(text, loss):
    assert read_loss(text) == loss


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("median", "there is no loss 'median'; use squared, absolute"),
        ("pinball", "cannot be read"),
        ("pinball(1.5)", "between 0 and 1"),
        ("pinball(a)", "cannot be read"),
        ("squared(1)", "cannot be read"),
        ("asymmetric(0, 1)", "above 0"),
        ("cost_matrix(1, 2, 3)", "as many costs"),
        ("cost_matrix", "as many costs"),
        ("cost_matrix(nan, 1)", "finite"),
        ("__import__('os')", "there is no loss"),
        ("", "there is no loss"),
    ],
)
def test_texts_that_are_no_loss(text, message):
    with pytest.raises(ValueError, match=message):
        read_loss(text)


@pytest.mark.parametrize("loss", [5, None, {"a": 1}])
def test_things_that_are_no_loss(loss):
    with pytest.raises(TypeError, match="is not a loss"):
        read_loss(loss)
    with pytest.raises(TypeError, match="the class itself"):
        read_loss(Squared)


def test_cost_matrices_are_checked():
    for costs in ([0, 1], [[0, 1]], [[0], [1], [2]], [[], []]):
        with pytest.raises(ValueError, match="two rows"):
            CostMatrix(costs)
    with pytest.raises(ValueError, match="3 names were given for 2 actions"):
        CostMatrix([[0, 1], [1, 0]], actions="abc")


# --- Lipschitz constants --------------------------------------------------------------------------


@pytest.mark.parametrize("loss", CONVEX, ids=repr)
def test_lipschitz_constants(loss):
    for radius in (1.0, 2.0):
        a = np.linspace(-radius, radius, 2001)
        for y in (0.0, 1.0):
            slope = np.abs(np.diff(loss(y, a))) / np.diff(a)
            # Differences over .001 enlarge rounding a thousand times.
            assert slope.max() <= loss.lipschitz(radius) + 1e-9
