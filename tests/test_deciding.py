"""Decisions of a model, and the theorem on omniprediction."""

from math import sqrt

import numpy as np
import pandas as pd
import pytest
from convex import CONVEX, expected

import recalibrate as rc
from recalibrate.losses import Logistic, Lookup, Pinball

PROBABILITIES = np.linspace(0, 1, 201)


def binary_model(n=600):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (n, 1)).astype(float)
    y = rng.random(n) < np.where(X[:, 0] > 0, 0.6, 0.2)
    model = rc.fit(
        np.full(n, 0.4), X, y, rc.Groups("x0"), validation=False, loop=rc.Loop(max_rounds=3)
    )
    return model, X, np.full(n, 0.4)


def regression_model(n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 1))
    y = 10 * X[:, 0] + rng.normal(size=n) * 20
    return rc.fit(np.zeros(n), X, y, rc.Linear(), validation=False, loop=rc.Loop(max_rounds=3)), X


# --- the model's decision -----------------------------------------------------------------------


def test_actions_follow_the_predictions():
    model, X, base = binary_model()
    p = model.predict(X, base=base)
    decision = model.decide([[0, 1], [2, 0]])
    np.testing.assert_array_equal(decision.actions(X, base=base), (p >= 1 / 3) * 1)
    np.testing.assert_array_equal(decision.actions(X, base=base), decision.best(p))
    np.testing.assert_array_equal(model.decide("squared").actions(X, base=base), p)
    np.testing.assert_allclose(decision.expected_loss([0.1, 0.5]), [0.2, 0.5])


def test_own_losses():
    model, _, _ = binary_model()

    def loss(y, a):
        return 3.0 * (y - a) if y > a else a - y

    decision = model.decide(loss, actions=[0.0, 0.5, 1.0])
    pinball = Pinball(0.75).rule()
    np.testing.assert_array_equal(
        decision.best(PROBABILITIES), pinball.best(PROBABILITIES), "the middle is never best"
    )
    np.testing.assert_allclose(decision.expected_loss([0.1]), [0.3])
    smooth = model.decide(lambda y, a: (y - a) ** 2, between=(0, 1))
    # A thousand and one actions: the nearest is at most half a step away.
    np.testing.assert_allclose(smooth.best(PROBABILITIES), PROBABILITIES, atol=0.0005 + 1e-12)
    named = model.decide(lambda y, a: {"no": y, "yes": 1 - y}[a], actions=["no", "yes"])
    assert named.best([0.4, 0.5]).tolist() == ["no", "yes"]


def test_a_known_loss_among_few_actions():
    model, _, _ = binary_model()
    decision = model.decide("squared", actions=[1.0, 0.0, 0.25])
    assert decision.rule.thresholds.tolist() == [0.125, 0.625]
    assert decision.best([0.1, 0.125, 0.7]).tolist() == [0.0, 0.25, 1.0]
    logistic = model.decide("logistic", actions=[-1.0, 0.0, 1.0])
    assert isinstance(logistic.rule, Lookup)


def test_bad_questions():
    model, _, _ = binary_model()

    def own(y, a):
        return abs(y - a)

    for options, message in [
        ({}, "say which actions there are"),
        ({"actions": []}, "at least one action"),
        ({"actions": [0], "between": (0, 1)}, "not both"),
        ({"between": (1, 0)}, "low < high"),
        ({"between": 3}, "two numbers"),
        ({"between": (0, np.inf)}, "low < high"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.decide(own, **options)
    with pytest.raises(ValueError, match="must return one number"):
        model.decide(lambda y, a: [1, 2], actions=[0, 1])
    with pytest.raises(ValueError, match=r"loss\(0, 1\) is not finite"):
        model.decide(lambda y, a: np.nan if a else 0.0, actions=[0, 1])


def test_regression_is_for_squared_loss_only():
    model, X = regression_model()
    base = np.zeros(len(X))
    decision = model.decide("squared")
    np.testing.assert_array_equal(decision.actions(X, base=base), model.predict(X, base=base))
    nearest = model.decide("squared", actions=[-10, 0, 10])
    assert nearest.best([-6, -5, 4.9, 100]).tolist() == [-10, 0, 0, 10]
    for loss in ("absolute", "pinball(0.9)", [[0, 1], [1, 0]], lambda y, a: 0.0):
        with pytest.raises(ValueError, match="a mean does not determine a quantile"):
            model.decide(loss, between=None if isinstance(loss, str | list) else (0, 1))
    with pytest.raises(ValueError, match="labels 0 and 1 only"):
        decision.expected_loss([1.0])


def test_soft_labels_are_no_binary_labels():
    rng = np.random.default_rng(0)
    model = rc.fit(
        np.full(200, 0.5), rng.normal(size=(200, 1)), rng.random(200), rc.Linear(),
        validation=False, loop=rc.Loop(max_rounds=1),
    )  # fmt: skip
    assert model.decide("squared").best([0.3]).tolist() == [0.3]
    with pytest.raises(ValueError, match="not 0 and 1"):
        model.decide("absolute")


def test_a_decision_says_what_it_does():
    model, _, _ = binary_model()
    assert repr(model.decide("hinge")) == "<Decision: Hinge(), action -1.0, 1.0 from 0.5>"
    assert "mean of the prediction" in repr(model.decide("squared"))
    many = repr(model.decide(lambda y, a: (y - a) ** 2, between=(0, 1)))
    assert many.endswith("and 995 more>")


def test_a_saved_model_decides_the_same(tmp_path):
    model, X, base = binary_model()
    again = rc.load(model.save(tmp_path / "model.rcal"))
    for loss in ("logistic", "pinball(0.7)"):
        np.testing.assert_array_equal(
            again.decide(loss).actions(X, base=base), model.decide(loss).actions(X, base=base)
        )


# --- the theorem --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def multicalibrated():
    """Binary labels whose probability depends on a group that the base knows nothing about."""
    rng = np.random.default_rng(0)
    n = 40_000
    X = pd.DataFrame({"g": rng.choice(list("abcd"), n), "x": rng.uniform(size=n)})
    truth = X["g"].map({"a": 0.05, "b": 0.35, "c": 0.6, "d": 0.95}).to_numpy()
    truth = np.clip(truth + 0.2 * (X["x"].to_numpy() - 0.5), 0, 1)
    y = (rng.random(n) < truth) * 1.0
    base = 0.3 + 0.4 * X["x"].to_numpy()
    model = rc.fit(base, X, y, rc.Groups("g"), alpha=0.002, B=1.0)
    return model, X, base, y


def best_in_class(loss, X, y):
    """Loss of the best h in H_1: a number in [-1, 1] per group, as the groups are disjoint."""
    actions = np.linspace(-1, 1, 801)
    total = 0.0
    for group in "abcd":
        share = y[(X["g"] == group).to_numpy()]
        total += len(share) * min(float(expected(loss, share.mean(), a)) for a in actions)
    return total / len(y)


@pytest.mark.parametrize("loss", CONVEX, ids=repr)
def test_decided_actions_are_as_good_as_the_best_of_the_class(loss, multicalibrated):
    model, X, base, y = multicalibrated
    assert model.certificate_.holds
    decision = model.decide(loss)
    decided = float(np.mean(loss(y, decision.actions(X, base=base))))
    best = best_in_class(loss, X, y)
    bound = decision.excess_bound()
    known = loss.lipschitz(1.0)
    # Products of roots in another order, here and below.
    assert bound == pytest.approx(4 * known * sqrt(model.certificate_.bound))
    assert decided <= best + bound
    # The bound is worth something: deciding on the base's own scores breaks it.
    by_base = float(np.mean(loss(y, decision.best(base))))
    assert by_base > best + bound


def test_the_bound_speaks_of_new_rows_through_a_given_alpha(multicalibrated):
    model, _, _, _ = multicalibrated
    decision = model.decide("absolute")
    assert decision.excess_bound(alpha=0.01) == pytest.approx(0.4)
    assert decision.excess_bound(alpha=0.01, B=4.0) == pytest.approx(0.6)
    with pytest.raises(ValueError, match="B must be at least 1"):
        decision.excess_bound(alpha=0.01, B=0.5)
    with pytest.raises(ValueError, match="proves no multicalibration error"):
        decision.excess_bound(B=4.0)


def test_no_bound_for_actions_that_the_theorem_does_not_speak_of(multicalibrated):
    """A log-odds of 16 costs 16 where a label is not as expected; no h in [-1, 1] does."""
    model = multicalibrated[0]
    with pytest.raises(ValueError, match=r"reach 16: decide with between=\(-1, 1\)"):
        model.decide("logistic").excess_bound()
    assert model.decide("logistic", between=(-1, 1)).excess_bound() > 0
    assert model.decide(Logistic(limit=1.0)).excess_bound() > 0


def test_no_bound_without_a_proof_or_a_convex_loss(multicalibrated):
    model = binary_model()[0]
    with pytest.raises(ValueError, match="proves no multicalibration error"):
        model.decide("absolute").excess_bound()
    with pytest.raises(ValueError, match="convex losses"):
        multicalibrated[0].decide([[0, 1], [5, 0]]).excess_bound()
    with pytest.raises(ValueError, match="convex losses"):
        model.decide(lambda y, a: abs(y - a), actions=[0, 1]).excess_bound(alpha=0.1)
