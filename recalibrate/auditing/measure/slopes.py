r"""Calibration slopes of groups: whether predictions are too extreme, or not extreme enough.

A gap compares means. Predictions of the right mean can still be too high where they are high and
too low where they are low: over-confident. The slope b of the outcomes on the predictions within a
group says so: below 1 the predictions are too extreme, above 1 too moderate. 0/1 labels have the
slope of a logistic regression on the log-odds of the predictions (Cox 1958), others that of a
linear regression,

.. math:: \mathrm{logit} P(y = 1) = a + b \, \mathrm{logit} f, \qquad E[y] = a + b f .

Both are fitted to the cells of an audit, whose rows have about the same prediction. Limits hold for
all groups at once (Sidak): normal ones for 0/1 labels, else those of weighted sums of residuals.
"""

from __future__ import annotations

import numpy as np

from recalibrate.auditing.measure.limits import judge_sums
from recalibrate.auditing.measure.noise import Noise
from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.shift import log_odds, mean_prediction, probability
from recalibrate.auditing.measure.simultaneous import LargestScore, wider
from recalibrate.auditing.measure.sweep import (
    BY_THIRD,
    BY_VARIANCE,
    W2,
    W2R,
    W2R2,
    WEIGHT,
    F,
    R,
    Sums,
)
from recalibrate.data.vectors import Float64
from recalibrate.metrics import ratio

FEWEST_OF_EITHER = 20.0
"""Labels 0 and 1 below which the limits of a slope would not hold (Wald limits are for many)."""

FEWEST_ROWS = 50.0
"""The same for other labels."""

_NEWTON_STEPS, _LONGEST_STEP = 25, 1.0
_LEAST_SPREAD = 1e-9  # of predictions; equal ones have no slope


def calibration_slopes(
    sums: Sums, sample: Sample, noise: Noise, alpha: float
) -> dict[str, Float64]:
    """Slopes of all groups with simultaneous limits; NaN where there are too few rows.

    Returns
    -------
    dict
        ``slope``, ``slope_low`` and ``slope_high``.
    """
    rows = noise.count
    if sample.binary:
        share = (sums.total[:, F] + sums.total[:, R]) / sums.total[:, WEIGHT]
        told = rows * np.minimum(share, 1.0 - share) >= FEWEST_OF_EITHER
    else:
        told = rows >= FEWEST_ROWS
    critical = LargestScore.independent(max(int(told.sum()), 1)).critical(alpha)
    find = _logistic if sample.binary else _linear
    slope, low, high = find(sums, noise, critical)
    told &= np.isfinite(slope) & (low < high)
    sides = {"slope": slope, "slope_low": low, "slope_high": high}
    return {name: np.where(told, values, np.nan) for name, values in sides.items()}


def _logistic(sums: Sums, noise: Noise, critical: float) -> tuple[Float64, Float64, Float64]:
    """Slopes and their limits, by Newton's method for all groups at once."""
    cells = sums.cells.swapaxes(0, 1)
    mass, squares, x = cells[..., WEIGHT], cells[..., W2], log_odds(mean_prediction(cells))
    centre = ratio((mass * x).sum(axis=1), mass.sum(axis=1))
    x = x - centre[:, None]
    outcomes = cells[..., F] + cells[..., R]
    share = ratio(outcomes.sum(axis=1), mass.sum(axis=1))
    a, b = log_odds(share), np.ones(len(cells))
    for _ in range(_NEWTON_STEPS):
        p = probability(a[:, None] + b[:, None] * x)
        error = outcomes - mass * p
        first, second = error.sum(axis=1), (error * x).sum(axis=1)
        aa, ab, bb, determinant = _information(mass * p * (1.0 - p), x)
        steps = (
            ratio(bb * first - ab * second, determinant),
            ratio(aa * second - ab * first, determinant),
        )
        step_a, step_b = (np.clip(step, -_LONGEST_STEP, _LONGEST_STEP) for step in steps)
        a, b = a + step_a, b + step_b
    p = probability(a[:, None] + b[:, None] * x)
    aa, ab, bb, determinant = _information(mass * p * (1.0 - p), x)
    # Weights: the noise of a weighted sum is that of squared weights (sandwich).
    meat = _information(squares * p * (1.0 - p), x)[:3]
    variance = ratio(ab**2 * meat[0] - 2 * aa * ab * meat[1] + aa**2 * meat[2], determinant**2)
    known = determinant > _LEAST_SPREAD * mass.sum(axis=1) ** 2 * share * (1.0 - share)
    slope = np.where(known, b, np.nan)
    error = np.sqrt(np.maximum(variance, 0.0) * noise.design)
    reach = error * wider(critical, np.maximum(noise.count - 2.0, 1.0))
    return slope, slope - reach, slope + reach


def _information(weight: Float64, x: Float64) -> tuple[Float64, Float64, Float64, Float64]:
    aa, ab, bb = weight.sum(axis=1), (weight * x).sum(axis=1), (weight * x**2).sum(axis=1)
    return aa, ab, bb, aa * bb - ab**2


def _linear(sums: Sums, noise: Noise, critical: float) -> tuple[Float64, Float64, Float64]:
    """Slopes and their limits, which are those of a gap.

    The slope less 1 is a sum of residuals, weighted with how far predictions are from the group's
    mean. So its limits are found as those of plain sums are: they are to hold for skewed noise, and
    for noise that is larger where predictions are (see `limits`).
    """
    cells, law, bins = sums.cells.swapaxes(0, 1), sums.law, sums.bins.quantile
    mass, f = cells[..., WEIGHT], ratio(cells[..., F], cells[..., WEIGHT])
    total = mass.sum(axis=1)
    x = f - ratio(cells[..., F].sum(axis=1), total)[:, None]
    squares = (mass * x**2).sum(axis=1)
    pull = (cells[..., R] * x).sum(axis=1)
    # Residuals of the predictions: their slope is that of the outcomes less 1.
    fitted = ratio(cells[..., R].sum(axis=1), total)[:, None] + ratio(pull, squares)[:, None] * x
    left = cells[..., W2R2] - 2.0 * fitted * cells[..., W2R] + fitted**2 * cells[..., W2]
    # Predictions far from the mean decide: rows count by the kurtosis of predictions.
    count = noise.count * ratio(squares**2, total * (mass * x**4).sum(axis=1))
    own = (np.maximum(left, 0.0) * x**2).sum(axis=1) * noise.design
    own *= ratio(count, np.maximum(count - 2.0, 1.0))
    pooled = (cells[..., BY_VARIANCE] * x**2) @ law.variance[bins] * noise.design
    third = (cells[..., BY_THIRD] * x**3) @ law.third[bins] * noise.design**2
    none = np.zeros_like(own)
    noises = own, pooled * noise.relative, none, ratio(third, pooled**1.5), count - 1.0
    _, low, high = judge_sums(pull, *noises, critical)
    known = (squares > _LEAST_SPREAD * total) & (own > 0.0)
    slope, low, high = (np.where(known, 1.0 + ratio(t, squares), np.nan) for t in (pull, low, high))
    return slope, low, high
