"""Evidence and limits against the product that they bound, and against their promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalibrate.monitoring.judging import (
    MOST_AT_RISK,
    N_OLD_SUMS,
    STAKES,
    WEIGHT,
    Z1,
    flip,
    limits,
    log_evidence,
    moments,
)


def exact(z, weight, most, bound=1.0):
    """The mixed wealth row by row, with the same gap in every row."""
    allowed = [s for s in STAKES if s <= 0.7 or s * max(bound, 0.005) <= MOST_AT_RISK]
    logs = [np.sum(np.log1p(s * z) - np.log1p(s * most * weight)) for s in allowed]
    return np.logaddexp.reduce(logs) - np.log(len(allowed))


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1)), min_size=1, max_size=60),
    st.floats(0, 0.5),
    st.sampled_from([1.0, 0.5, 0.1, 0.01, 0.0]),
)
def test_the_sums_never_claim_more_than_the_product(rows, most, bound):
    x, weight = np.array(rows).T
    x = np.maximum(x, -bound)
    columns = moments(weight, x)
    # The rounding of sums of at most 60 terms, whose logarithms are up to 10.
    assert log_evidence(columns.sum(axis=0), most, bound) <= (
        exact(weight * x, weight, most, bound) + 1e-7
    )
    other = flip(moments(weight, -x).sum(axis=0))
    np.testing.assert_allclose(other, columns.sum(axis=0), atol=1e-9)  # the order of additions


def test_little_is_lost_where_events_are_rare():
    """All positive residuals are nearly equal, and all negative ones nearly the bound."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.004, 0.006, 2000)
    x = (rng.random(2000) < 0.03) - p
    weight = np.full(2000, 0.4)
    sums = moments(weight, x).sum(axis=0)
    for most in (0.0, 0.01):
        best = exact(weight * x, weight, most, 0.01)
        assert 0.97 * best < log_evidence(sums, most, 0.01) < best
        assert best > 1.3 * log_evidence(sums, most)  # with the stakes of everybody


def test_gaps_that_change_pay_no_more_than_their_mean():
    rng = np.random.default_rng(1)
    weight, gap = rng.random(50), rng.uniform(-0.005, 0.3, 50)
    for stake in STAKES:
        mean = weight @ gap / weight.sum()
        paid = 50 * np.log1p(stake * mean * weight.sum() / 50)
        assert np.log1p(stake * weight * gap).sum() <= paid


@pytest.mark.parametrize("bound", [1.0, 0.05])
def test_sums_of_older_releases_have_the_older_bound_only(bound):
    """Against the four sums at the stakes of everybody; larger stakes have lost their share."""
    rng = np.random.default_rng(2)
    sums = moments(np.ones(300), (rng.random(300) < 0.06) - rng.uniform(0, bound, 300)).sum(axis=0)
    old = np.where(np.arange(len(sums)) < N_OLD_SUMS, sums, np.nan)
    stakes = STAKES[STAKES <= 0.7]
    fourth = -np.log1p(-stakes) - stakes - stakes**2 / 2 - stakes**3 / 3
    coefficients = np.stack([stakes, -(stakes**2) / 2, stakes**3 / 3, -fourth])
    logs = sums[Z1:N_OLD_SUMS] @ coefficients - 300 * np.log1p(0.01 * stakes)
    count = sum(s <= 0.7 or s * bound <= MOST_AT_RISK for s in STAKES)
    expected = np.logaddexp.reduce(logs) - np.log(count)
    assert log_evidence(old, 0.01, bound) == pytest.approx(expected, abs=1e-9)
    assert log_evidence(flip(flip(old)), 0.01, bound) == pytest.approx(expected, abs=1e-9)
    assert log_evidence(sums, 0.01, bound) >= expected + (0.5 if bound < 1 else 0)


def test_little_is_lost_where_outcomes_are_frequent():
    rng = np.random.default_rng(0)
    x = (rng.random(5000) < 0.5) - 0.4
    weight = np.ones(5000)
    found = log_evidence(moments(weight, x).sum(axis=0), 0.01)
    assert 0.95 * exact(x, weight, 0.01) < found < exact(x, weight, 0.01)


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (0.3, 1.0), (0.02, 1.0), (1.0, 0.02)])
def test_limits_are_where_the_evidence_passes_the_line(bounds):
    rng = np.random.default_rng(1)
    under, over = bounds
    residual = rng.uniform(-under, over, 400)
    sums = moments(rng.random(400), residual).sum(axis=0)
    low, high = limits(sums, np.log(100), bounds)
    assert low < sums[Z1] / sums[WEIGHT] < high
    # Halved 40 times, so that the ends are within rounding.
    assert log_evidence(sums, float(low), under) == pytest.approx(np.log(100), abs=1e-6)
    assert log_evidence(flip(sums), float(-high), over) == pytest.approx(np.log(100), abs=1e-6)


def test_limits_know_nothing_without_rows():
    low, high = limits(np.zeros((2, 8)), np.array([1.0, 2.0]))
    assert np.isnan([*low, *high]).all()


def test_limits_hold_at_all_times_while_the_gap_changes():
    """The mean gap so far is inside of the limits at every look, except in a share of runs."""
    rng = np.random.default_rng(2)
    runs, n, alpha = 200, 800, 0.1
    gap = np.where(np.arange(n) < 300, 0.2, -0.1)
    y = rng.random((runs, n)) < 0.5 + gap
    looks = np.arange(9, n, 10)
    sums = np.stack([moments(np.ones(n), own - 0.5).cumsum(axis=0)[looks] for own in y])
    low, high = limits(sums, np.log(2 / alpha))
    truth = (np.cumsum(gap) / np.arange(1, n + 1))[looks]
    missed = ((truth < low) | (truth > high)).any(axis=1).mean()
    assert missed <= alpha + 2 * np.sqrt(alpha * (1 - alpha) / runs)
    assert (high - low)[:, -1].max() < 0.25


def test_wealth_is_fair_on_the_edge():
    """The mean of the wealth over many streams is at most one where the gap is the tolerance."""
    rng = np.random.default_rng(3)
    y = rng.random((20_000, 40)) < 0.55
    wealth = np.exp(
        log_evidence(moments(1.0, (y - 0.5).ravel()).reshape(20_000, 40, 8).sum(1), 0.05)
    )
    assert wealth.mean() <= 1 + 3 * wealth.std() / np.sqrt(len(wealth))
    assert wealth.mean() > 0.9


@pytest.mark.parametrize("rate", [0.004, 0.014])
def test_wealth_of_rare_events_is_fair_on_the_edge(rate):
    """Scores of .004 in a band up to .01, whose largest stake is 90, and a tolerance of the gap."""
    rng = np.random.default_rng(4)
    y = rng.random((50_000, 60)) < rate
    sums = moments(1.0, (y - 0.004).ravel()).reshape(50_000, 60, 8).sum(1)
    wealth = np.exp(log_evidence(sums, rate - 0.004, 0.01))
    assert wealth.mean() <= 1 + 3 * wealth.std() / np.sqrt(len(wealth))
    assert (
        wealth.mean() > 0.75
    )  # the bounds lose a part at the largest stakes: .87 and .81 are left
