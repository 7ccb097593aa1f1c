"""The area under the ROC curve of every group, with limits.

The variance is that of DeLong, DeLong and Clarke-Pearson [1]_, with weights, and over sums of
clusters where there are any. Limits are where a score test would reject: the variance there is
the one of Hanley and McNeil [2]_, times what DeLong's was larger at the estimate. So they stay
inside of [0, 1] and exist where all pairs are ranked rightly.

References
----------
.. [1] E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, "Comparing the areas under two or more
   correlated receiver operating characteristic curves", Biometrics 1988.
.. [2] R. G. Newcombe, "Confidence intervals for an effect size measure based on the Mann-Whitney
   statistic, part 2", Statistics in Medicine 2006 (method 5).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.proportions import Limits
from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.segments import Segments
from recalibrate.auditing.measure.sweep import WEIGHT, F, R, Sums, blocks, cluster_numbers
from recalibrate.data.vectors import Float64
from recalibrate.metrics import ratio

_HALVINGS = 50
FEW = 100.0
"""Rows of either label up to which DeLong's variance only counts where it is the larger."""


def auc_of(ranks: Float64) -> tuple[Float64, Float64, Float64, Float64]:
    """AUC, its variance, and the effective numbers of rows of labels 1 and 0.

    From shape (groups, RANKS), see `recalibrate.kernels.ranks`; NaN where a label is missing.
    """
    from recalibrate.kernels import ranks as at

    own = ranks.T
    positive, negative = own[at.POSITIVE], own[at.NEGATIVE]
    both = (positive > 0.0) & (negative > 0.0)
    value = np.where(both, ratio(own[at.PAIRS], positive * negative), np.nan)
    n_positive = ratio(positive**2, own[at.POSITIVE2])
    n_negative = ratio(negative**2, own[at.NEGATIVE2])
    # Rows of label 1: share of label 0 below them. Rows of label 0: share of label 1 below them.
    placed = [
        (own[at.POSITIVE2], own[at.POSITIVE_BELOW], own[at.POSITIVE_BELOW2], negative, positive),
        (own[at.NEGATIVE2], own[at.NEGATIVE_BELOW], own[at.NEGATIVE_BELOW2], positive, negative),
    ]
    variance = np.zeros(len(value))
    for (w2, below, below2, others, mass), mean, n in zip(
        placed, (value, 1.0 - value), (n_positive, n_negative), strict=True
    ):
        spread = ratio(below2, others**2) - 2.0 * mean * ratio(below, others) + mean**2 * w2
        variance += ratio(np.maximum(spread, 0.0), mass**2) * ratio(n, np.maximum(n - 1.0, 0.5))
    return value, variance, n_positive, n_negative


def auc_limits(
    value: Float64,
    variance: Float64,
    positive: Float64,
    negative: Float64,
    critical: float | Float64,
) -> Limits:
    """Limits from the estimate, its variance and the numbers of rows of either label."""
    expected = _hanley(value, positive, negative)
    factor = ratio(variance, expected)
    few = np.minimum(positive, negative) < FEW
    factor = np.where((factor > 0.0) & ~few, factor, np.maximum(factor, 1.0))

    def reach(at: Float64) -> Float64:
        return critical * np.sqrt(np.maximum(factor * _hanley(at, positive, negative), 0.0))

    ends = []
    for edge in (0.0, 1.0):
        inner, outer = value, np.full(len(value), edge)
        for _ in range(_HALVINGS):
            middle = 0.5 * (inner + outer)
            within = np.abs(value - middle) <= reach(middle)
            inner, outer = np.where(within, middle, inner), np.where(within, outer, middle)
        ends.append(np.where(np.isnan(value), np.nan, outer))
    return ends[0], ends[1]


def _hanley(auc: Float64, positive: Float64, negative: Float64) -> Float64:
    """Variance of an AUC whose labels have exponential scores."""
    more = 0.5 * (positive + negative) - 1.0
    spread = 1.0 + more * (1.0 - auc) / (2.0 - auc) + more * auc / (1.0 + auc)
    return ratio(auc * (1.0 - auc) * spread, positive * negative)


def clustered_variance(
    segments: Segments, sample: Sample, sums: Sums, auc: Float64
) -> tuple[Float64, NDArray[np.int64]]:
    """Variance of every group's AUC over sums of clusters, and their number.

    One more pass over the rows, where a row's share of the other label below it is looked up in
    the cells of the predictions.
    """
    from recalibrate.kernels import ranks as kernels

    positive = sums.cells[..., F] + sums.cells[..., R]
    negative = sums.cells[..., WEIGHT] - positive
    mass = positive.sum(axis=0), negative.sum(axis=0)
    below = [np.cumsum(each, axis=0) - 0.5 * each for each in (positive, negative)]
    of_positive = ratio(ratio(below[1], mass[1]) - auc, mass[0])
    of_negative = ratio(1.0 - ratio(below[0], mass[0]) - auc, mass[1])
    influence = np.nan_to_num(np.concatenate([of_negative, of_positive]))
    n_cells = len(sums.cells)
    place = np.empty(sample.n_rows, dtype=np.int64)
    place[sums.bins.order] = sums.bins.cell
    place += n_cells * (sample.y > 0.5)
    n_groups = len(segments.names)
    last = np.full(n_groups, -1, dtype=np.int64)
    count = np.zeros(n_groups, dtype=np.int64)
    pending, squares = np.zeros(n_groups), np.zeros(n_groups)
    cluster = cluster_numbers(sample)
    for _, rows, codes in blocks(segments, np.argsort(cluster, kind="stable")):
        kernels.add_cluster_influence(
            codes,
            segments.offsets,
            cluster[rows],
            place[rows],
            sample.weight[rows],
            influence,
            last,
            pending,
            count,
            squares,
        )
    clusters = count.astype(np.float64)
    more = ratio(clusters, np.maximum(clusters - 1.0, 0.5))
    return (squares + pending**2) * more, count
