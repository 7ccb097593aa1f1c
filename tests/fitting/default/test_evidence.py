"""Evidence of few numbers: against slow integrals, and where it is nothing."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit as sigmoid
from scipy.stats import norm

from recalibrate.fitting.default.judging import (
    LIMIT,
    SPREAD_CHANCES,
    SPREADS,
    Counts,
    Effects,
    certainly_off,
    laplace,
)


def some_counts(link="logit", n=200, shift=0.4):
    rng = np.random.default_rng(0)
    score = rng.normal(size=n)
    if link == "logit":
        return Counts(score, np.ones(n), (rng.random(n) < sigmoid(score + shift)) * 1.0, link)
    y = score + shift + 0.5 * rng.normal(size=n)
    return Counts(score, np.ones(n), y, link, noise=0.25)


@pytest.mark.parametrize("link", ["logit", "identity"])
def test_the_evidence_is_the_integral_over_the_prior(link):
    counts, deviation = some_counts(link), 0.7
    found, log_evidence = laplace(counts, np.ones((200, 1)), np.array([deviation]))
    best = -counts.loss(counts.score + found[0])

    def likelihood(a):
        return np.exp(-counts.loss(counts.score + a) - best) * norm.pdf(a, 0, deviation)

    integral, _ = quad(likelihood, found[0] - 3, found[0] + 3, points=[found[0]])
    # Exact for a normal likelihood; of 200 labels Laplace's error is a few thousandths.
    assert log_evidence - best == pytest.approx(np.log(integral), abs=0.01)


def test_priors_hold_parameters_back():
    """Ten labels of one class have no most likely shift; with a prior they have one."""
    counts = Counts(np.zeros(1), np.array([10.0]), np.array([10.0]), "logit")
    shifts = [laplace(counts, np.ones((1, 1)), np.array([d]))[0][0] for d in (0.5, 1.0, 2.0)]
    assert 0 < shifts[0] < shifts[1] < shifts[2] < 4.0


def test_weights_of_rows_and_copies_say_the_same():
    counts = some_counts()
    design = np.column_stack([np.ones(200), counts.score])
    twice = Counts(counts.score, 2 * counts.weight, 2 * counts.label, "logit", spread=2.0)
    one, two = (laplace(each, design, np.array([0.5, 0.5])) for each in (counts, twice))
    np.testing.assert_allclose(one[0], two[0], rtol=1e-9)
    assert one[1] == pytest.approx(two[1], rel=1e-9)


def test_effects_are_the_mean_over_their_possible_spreads():
    pull, information = np.array([30.0, -5.0, 12.0]), np.array([100.0, 50.0, 80.0])
    believed, odds = Effects(pull, information).believed()
    chances = SPREAD_CHANCES / SPREAD_CHANCES.sum()
    known = pull / information
    evidence, means = [], []
    for spread in SPREADS:
        error = 1 / np.sqrt(information)
        both = norm.pdf(known, 0, np.hypot(spread, error)) / norm.pdf(known, 0, error)
        evidence.append(np.prod(both))
        means.append(known * spread**2 / (spread**2 + error**2))
    assert odds == pytest.approx(np.sum(chances * evidence), rel=1e-9)
    weight = 0.75 * chances * evidence
    expected = np.sum(weight[:, None] * means, axis=0) / (weight.sum() + 0.25)
    np.testing.assert_allclose(believed, expected, rtol=1e-9)


def test_effects_that_do_not_vary_are_hardly_believed():
    rng = np.random.default_rng(0)
    information = np.full(200, 50.0)
    noise = rng.normal(size=200) * np.sqrt(information)
    believed, odds = Effects(noise, information).believed()
    assert odds < 1
    assert np.std(believed) < 0.1 * np.std(noise / information)


def test_one_group_that_is_far_off_is_not_pulled_back_by_many_that_are_not():
    pull, information = np.zeros(100), np.full(100, 50.0)
    pull[0] = 6 * np.sqrt(50.0)  # six standard errors
    free, _ = Effects(pull, information).believed()
    held, _ = Effects(pull, information).believed(LIMIT)
    error = 1 / np.sqrt(50.0)
    assert free[0] < (6 - LIMIT) * error
    assert held[0] == pytest.approx((6 - LIMIT) * error)


def test_groups_without_rows_do_not_move():
    believed, _ = Effects(np.array([0.0, 20.0]), np.array([0.0, 30.0])).believed(LIMIT)
    assert believed[0] == 0
    assert believed[1] > 0


def test_of_many_distances_one_is_large_by_chance():
    rng = np.random.default_rng(0)
    alarms = [certainly_off(np.abs(rng.normal(size=50))) for _ in range(2000)]
    assert 0.02 < np.mean(alarms) < 0.08
    assert not certainly_off(np.empty(0))
