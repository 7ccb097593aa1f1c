"""Evidence and limits against the product that they bound, and against their promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalibrate.monitoring.evidence import (
    FLIP,
    STAKES,
    WEIGHT,
    Z1,
    limits,
    log_evidence,
    moments,
)


def exact(z, weight, most):
    """The mixed wealth row by row."""
    logs = [np.log1p(s * z).sum() - s * most * weight.sum() for s in STAKES]
    return np.logaddexp.reduce(logs) - np.log(len(STAKES))


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1)), min_size=1, max_size=60),
    st.floats(0, 0.5),
)
def test_the_sums_never_claim_more_than_the_product(rows, most):
    x, weight = np.array(rows).T
    sums = moments(weight, x).sum(axis=0)
    # The rounding of sums of at most 60 terms.
    assert log_evidence(sums, most) <= exact(weight * x, weight, most) + 1e-9


def test_little_is_lost_where_outcomes_are_frequent():
    rng = np.random.default_rng(0)
    x = (rng.random(5000) < 0.5) - 0.4
    weight = np.ones(5000)
    found = log_evidence(moments(weight, x).sum(axis=0), 0.01)
    assert 0.95 * exact(x, weight, 0.01) < found < exact(x, weight, 0.01)


def test_limits_are_where_the_evidence_passes_the_line():
    rng = np.random.default_rng(1)
    sums = moments(rng.random(400), rng.uniform(-1, 1, 400)).sum(axis=0)
    low, high = limits(sums, np.log(100))
    assert low < sums[Z1] / sums[WEIGHT] < high
    # Halved 40 times, so that the ends are within rounding.
    assert log_evidence(sums, float(low)) == pytest.approx(np.log(100), abs=1e-6)
    assert log_evidence(sums * FLIP, float(-high)) == pytest.approx(np.log(100), abs=1e-6)


def test_limits_know_nothing_without_rows():
    low, high = limits(np.zeros((2, 6)), np.array([1.0, 2.0]))
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
        log_evidence(moments(1.0, (y - 0.5).ravel()).reshape(20_000, 40, 6).sum(1), 0.05)
    )
    assert wealth.mean() <= 1 + 3 * wealth.std() / np.sqrt(len(wealth))
    assert wealth.mean() > 0.9
