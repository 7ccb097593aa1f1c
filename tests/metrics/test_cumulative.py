"""ECCE and its p-value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from recalibrate.metrics import ecce, ecce_p, ecce_sigma, k1, range_survival

rows = st.lists(
    st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]), st.floats(0, 1), st.integers(1, 3)),
    min_size=1,
    max_size=25,
)


def walk_range(f, y, w):
    """Range of the cumulated residuals, level set by level set, from the definition."""
    reached, seen = 0.0, [0.0]
    for v in sorted(set(f)):
        reached += sum(wi * (yi - fi) for fi, yi, wi in zip(f, y, w, strict=True) if fi == v)
        seen.append(reached)
    return (max(seen) - min(seen)) / sum(w)


@given(rows)
def test_ecce_is_the_range_of_cumulated_residuals(sample):
    f, y, w = (list(column) for column in zip(*sample, strict=True))
    # Sums in another order round differently.
    assert ecce(f, y, sample_weight=w) == pytest.approx(walk_range(f, y, w), abs=1e-12)


@given(rows)
def test_ecce_lies_between_the_mean_residual_and_k1(sample):
    f, y, w = (np.array(column, float) for column in zip(*sample, strict=True))
    found = ecce(f, y, sample_weight=w)
    # Sums in another order round differently, here and below.
    assert abs(np.average(y - f, weights=w)) <= found + 1e-12
    assert found <= k1(f, y, sample_weight=w) + 1e-12


@given(rows, st.randoms())
def test_ties_make_the_order_of_rows_irrelevant(sample, random):
    shuffled = list(sample)
    random.shuffle(shuffled)
    first, second = ([np.array(c, float) for c in zip(*s, strict=True)] for s in (sample, shuffled))
    a, b = (ecce_sigma(f, y, sample_weight=w) for f, y, w in (first, second))
    assert a == pytest.approx(b, rel=1e-9, abs=1e-9)


def test_range_survival_is_that_of_brownian_motion():
    # Means of the range, sqrt(8 / pi), and of its square, 4 log 2 (Feller 1951).
    x = np.linspace(0, 15, 150_001)
    survival = range_survival(x)
    assert trapezoid(survival, x) == pytest.approx(np.sqrt(8 / np.pi), rel=1e-6)
    assert trapezoid(2 * x * survival, x) == pytest.approx(4 * np.log(2), rel=1e-6)
    assert (np.diff(survival) <= 1e-12).all()
    # The two series meet.
    assert range_survival(2.0) == pytest.approx(float(range_survival(2.0 + 1e-9)), abs=1e-8)
    # The tail does not drown in rounding: 8 (1 - Phi(10)).
    assert range_survival(10.0) == pytest.approx(8 * 7.619853e-24, rel=1e-6)


@pytest.mark.parametrize("rate", [0.02, 0.3])
@pytest.mark.parametrize("n", [20, 300])
def test_p_values_of_calibrated_predictions_are_not_too_small(rate, n):
    rng = np.random.default_rng(n)
    p = []
    for _ in range(400):
        f = rate * rng.uniform(0.5, 1.5, n)
        p.append(ecce_p(f, rng.random(n) < f))
    # 20 and 4 expected at most; four standard deviations of room.
    assert np.sum(np.array(p) < 0.05) <= 37
    assert np.sum(np.array(p) < 0.01) <= 12


@pytest.mark.slow
def test_p_values_of_many_rows_are_uniform():
    rng = np.random.default_rng(1)
    p = np.array([ecce_p(f := rng.random(3000), rng.random(3000) < f) for _ in range(1000)])
    # Nearly uniform: the discrete walk's range is a little smaller than Brownian motion's.
    assert p.mean() == pytest.approx(0.5, abs=0.05)
    assert (p < 0.1).sum() == pytest.approx(97, abs=40)


def test_a_gap_is_found():
    rng = np.random.default_rng(0)
    f = rng.uniform(0.2, 0.6, 2000)
    # A gap of .1 is ten standard errors of 2,000 rows.
    assert ecce_p(f, rng.random(2000) < f + 0.1) < 1e-6
    # Right on average and wrong at both ends.
    f = rng.uniform(0.2, 0.6, 20_000)
    assert ecce_p(f, rng.random(20_000) < 0.4 + 1.5 * (f - 0.4)) < 1e-4


def test_sure_predictions():
    assert ecce_sigma([0.0, 1.0], [0, 1]) == 0.0
    assert ecce_p([0.0, 1.0], [0, 1]) == 1.0
    assert np.isfinite(ecce_sigma([0.0, 1.0], [1, 1]))
    # Predictions that rule out what happened; only a floor under their variance keeps p above 0.
    assert ecce_p([0.0] * 3, [1] * 3) < 1e-6


def test_regression_residuals_tell_their_own_variance():
    rng = np.random.default_rng(0)
    f = rng.normal(50, 10, 2000)
    y = f + rng.normal(0, 5, 2000)
    assert 0.5 < ecce_sigma(f, y) < 3.5
    # A drift of 17 standard deviations, and noise of about one: 2.5 of them are allowed.
    assert ecce_sigma(f, y + 2) == pytest.approx(np.sqrt(2000) * 2 / np.sqrt(5**2 + 2**2), rel=0.15)
