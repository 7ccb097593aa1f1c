"""How much of a correction held-out rows believe in."""

import numpy as np
import pytest

from recalibrate.core.levels import from_margin
from recalibrate.fitting.default.shrinkage import best_weights, correction_weight


def test_the_share_of_a_correction_that_goes_twice_too_far_is_a_half():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=5000)
    y = truth + rng.normal(size=5000)
    share, errors = correction_weight(y, np.zeros(5000), 2 * truth, "identity", None)
    # The standard error is 1 / (2 sqrt(5000)) = .007.
    assert share == pytest.approx(0.5, abs=0.02)
    assert errors > 30


def test_a_correction_of_noise_is_no_standard_errors_from_zero():
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(200):
        y, noise = rng.normal(size=(2, 300))
        errors.append(correction_weight(y, np.zeros(300), noise, "identity", None)[1])
    # Of 200 draws: a standard deviation is known to 1 / sqrt(400), a mean to 1 / sqrt(200).
    assert np.std(errors) == pytest.approx(1.0, abs=0.15)
    assert abs(np.mean(errors)) < 0.2


def test_on_the_log_odds_the_share_is_newtons():
    y = np.array([1.0, 0.0, 1.0])
    before, after = np.array([0.0, 1.0, -1.0]), np.array([0.5, 0.0, 0.0])
    p = 1 / (1 + np.exp(-before))
    d = after - before
    expected = np.sum((y - p) * d) / np.sum(p * (1 - p) * d**2)
    share, _ = correction_weight(y, before, after, "logit", None)
    # approx's own 1e-6: the same sums in another order, here and below.
    assert share == pytest.approx(expected)


def test_a_correction_of_nothing_has_no_share():
    assert correction_weight(np.ones(3), np.zeros(3), np.zeros(3), "identity", None) == (0.0, 0.0)


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_weights_count_like_repeated_rows(link):
    rng = np.random.default_rng(2)
    f = rng.normal(size=400)
    y = (rng.random(400) < from_margin(f, "logit")).astype(float)
    times = rng.integers(1, 4, 400)
    repeated = [np.repeat(values, times) for values in (y, f)]
    weighted = best_weights(y, [f], link, times.astype(float))
    if link == "logit":
        assert weighted == pytest.approx(best_weights(repeated[0], [repeated[1]], link, None))
    share, _ = correction_weight(y, f, 0.5 * f, link, times.astype(float))
    again, _ = correction_weight(*repeated, 0.5 * repeated[1], link, None)
    assert share == pytest.approx(again)


def test_the_line_through_over_confident_log_odds_takes_it_back():
    rng = np.random.default_rng(3)
    truth = rng.normal(size=40_000)
    y = (rng.random(40_000) < from_margin(truth, "logit")).astype(float)
    line = best_weights(y, [(truth - 0.3) / 0.8], "logit", None)
    # Standard errors of 40,000 rows are about .013.
    assert line == pytest.approx((0.3, 0.8), abs=0.05)


def test_the_line_through_means_is_least_squares():
    rng = np.random.default_rng(4)
    f = rng.random(1000)
    y = 0.1 + 0.9 * f + 0.01 * rng.normal(size=1000)
    slope, intercept = np.polyfit(f, y, 1)
    assert best_weights(y, [f], "identity", None) == pytest.approx((intercept, slope))


def test_parts_have_weights_of_their_own():
    rng = np.random.default_rng(5)
    parts = rng.normal(size=(2, 500))
    y = 0.2 + 0.9 * parts[0] + 0.6 * parts[1]
    assert best_weights(y, list(parts), "identity", None) == pytest.approx((0.2, 0.9, 0.6))


def test_scores_without_a_usable_slope_have_no_line():
    y = np.array([0.0, 1.0, 1.0, 0.0])
    assert best_weights(y, [np.full(4, 0.5)], "identity", None) is None
    upside_down = np.array([5.0, -5.0, -4.0, 4.0])
    assert best_weights(y, [upside_down], "identity", None) is None
