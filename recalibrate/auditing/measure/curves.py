"""Reliability curves with bands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from recalibrate.auditing.measure.noise import Noise, label_model, sum_variance
from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.simultaneous import critical_value, wider
from recalibrate.auditing.measure.sweep import ROWS, W2, W2V, WEIGHT, F, R, Sums
from recalibrate.auditing.records import Curve
from recalibrate.data.vectors import Float64
from recalibrate.metrics.levelsets import ratio


def draw_curves(
    sums: Sums,
    sample: Sample,
    noise: Noise,
    alpha: float,
    unscale: Callable[[Float64], Float64],
) -> list[Curve]:
    """One curve per group on its quantile bins, in the units that ``unscale`` leads to.

    Bands hold in all bins of a curve at once: bins do not overlap, so the critical value is that
    of independent scores.
    """
    bins = sums.by_quantile
    group, place = np.nonzero(bins[..., WEIGHT] > 0)
    filled = bins[group, place]
    count = np.bincount(group, minlength=len(bins))
    by_count = np.array([critical_value(None, max(k, 1), alpha) for k in range(sums.n_bins + 1)])
    degrees = noise.degrees[group]
    if not sample.binary:
        degrees = np.minimum(degrees, ratio(filled[:, WEIGHT] ** 2, filled[:, W2]) - 1.0)
    cut = np.where(degrees > 1e-9, wider(by_count[count[group]], degrees), np.nan)
    columns = [unscale(values) for values in _points(filled, sample, noise.bin_design[group], cut)]
    rows, mass = filled[:, ROWS].astype(np.int64), filled[:, WEIGHT]
    share = mass / np.bincount(group, weights=mass)[group]
    curves = []
    for stop, size in zip(np.cumsum(count), count, strict=True):
        own = slice(stop - size, stop)
        lists = [tuple(column[own].tolist()) for column in (*columns, rows, share)]
        curves.append(Curve(*lists))
    return curves


def _points(
    filled: Float64, sample: Sample, design: Float64, cut: Float64
) -> tuple[Float64, Float64, Float64, Float64]:
    """Prediction, outcome and limits of bins, from sums of shape (bins, N_SUMS)."""
    mass = filled[:, WEIGHT]
    prediction, gap = filled[:, F] / mass, filled[:, R] / mass
    variance = design * (filled[:, W2V] if sample.binary else sum_variance(filled))
    told = ~np.isnan(cut) & (variance > 0)
    if sample.binary:
        model = label_model(filled[:, None, :], np.where(told, variance, 1.0))
        low, high = model.limits(np.where(told, cut, 1.0))
    else:
        error = np.sqrt(variance) / mass
        low, high = gap - cut * error, gap + cut * error
    low, high = (np.where(told, prediction + side, np.nan) for side in (low, high))
    if sample.unit:
        low, high = np.maximum(low, 0.0), np.minimum(high, 1.0)
    return prediction, prediction + gap, low, high
