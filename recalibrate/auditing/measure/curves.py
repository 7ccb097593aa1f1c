"""Reliability curves with bands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.law import Law
from recalibrate.auditing.measure.limits import judge_sums
from recalibrate.auditing.measure.noise import Noise, effective_rows, sum_variance
from recalibrate.auditing.measure.sample import FEWEST, Sample
from recalibrate.auditing.measure.shift import label_model
from recalibrate.auditing.measure.simultaneous import critical_value
from recalibrate.auditing.measure.sweep import (
    BY_THIRD,
    BY_VARIANCE,
    ROWS,
    W2V,
    WEIGHT,
    F,
    R,
    Sums,
)
from recalibrate.auditing.records import Curve
from recalibrate.data.vectors import Float64
from recalibrate.metrics import ratio


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
    cut, design = by_count[count[group]], noise.bin_design[group]
    if sample.binary:
        low, high = label_model(filled[:, None, :], design * filled[:, W2V]).limits(cut)
    else:
        spread = design * noise.relative[group]
        low, high = _numbers(filled, design, spread, cut, sums.law, place)
    prediction = filled[:, F] / filled[:, WEIGHT]
    low, high = prediction + low, prediction + high
    if sample.unit:
        low, high = np.maximum(low, 0.0), np.minimum(high, 1.0)
    outcome = prediction + filled[:, R] / filled[:, WEIGHT]
    columns = [unscale(values) for values in (prediction, outcome, low, high)]
    rows, mass = filled[:, ROWS].astype(np.int64), filled[:, WEIGHT]
    share = mass / np.bincount(group, weights=mass)[group]
    curves = []
    for stop, size in zip(np.cumsum(count), count, strict=True):
        own = slice(stop - size, stop)
        lists = [tuple(column[own].tolist()) for column in (*columns, rows, share)]
        curves.append(Curve(*lists))
    return curves


def _numbers(
    filled: Float64,
    design: Float64,
    spread: Float64,
    cut: Float64,
    law: Law,
    place: NDArray[np.intp],
) -> tuple[Float64, Float64]:
    """Limits of the gaps of bins, from sums of shape (bins, N_SUMS).

    Clusters make a bin's own variance ``design`` times larger, and that of all rows in the bin
    counts ``spread`` times.
    """
    mass, count = filled[:, WEIGHT], effective_rows(filled)
    own = design * sum_variance(filled)
    pooled = spread * filled[:, BY_VARIANCE] * law.variance[place]
    g = ratio(spread**1.5 * design**0.5 * filled[:, BY_THIRD] * law.third[place], pooled**1.5)
    moderated, share = law.moderate(own, pooled, count)
    _, low, high = judge_sums(filled[:, R], own, moderated, share, g, count, cut)
    told = (count >= FEWEST) & (moderated > 0)
    return np.where(told, low / mass, np.nan), np.where(told, high / mass, np.nan)
