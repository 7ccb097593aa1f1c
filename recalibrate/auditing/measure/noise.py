"""How uncertain the sums of groups are: from their own residuals, and from those of all rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.sweep import (
    W2,
    W2R,
    W2R2,
    W3,
    WEIGHT,
    ClusterSums,
    Ints,
    R,
    Sums,
    together,
)
from recalibrate.data.vectors import Float64
from recalibrate.metrics.binned import mean_noise
from recalibrate.metrics.levelsets import ratio


@dataclass(frozen=True, eq=False)
class Noise:
    """How uncertain the groups' weighted sums of residuals are.

    Attributes
    ----------
    count : ndarray
        Clusters, or the number of equally weighted rows that tell as much.
    own : ndarray
        Variance from the spread of the group's own residuals around the gap.
    moderated : ndarray
        The same together with the spread of all rows' residuals in the same bins.
    relative : ndarray
        That, as multiple of what all rows' residuals in the same bins alone say.
    skewness : ndarray
        Of the sum, if residuals are shaped as those of all rows in the same bins.
    design, bin_design : ndarray
        How many times larger clusters make a variance, of the group and of one of its bins; at
        least 1.
    parent : ndarray of int
        Number of the smallest group around every group, whose noise counts where its own rows
        are few.
    """

    count: Float64
    own: Float64
    moderated: Float64
    relative: Float64
    skewness: Float64
    design: Float64
    bin_design: Float64
    parent: Ints


def find_noise(
    sums: Sums, sample: Sample, clusters: ClusterSums | None, side: int, parent: Ints
) -> Noise:
    """Noise of one set of predictions, number ``side`` of those in ``clusters``.

    What a group's rows cannot tell, those of its ``parent`` do.
    """
    total = sums.total
    gap = total[:, R] / total[:, WEIGHT]
    if clusters is None:
        squares, count = total[:, W2R2], effective_rows(total)
        spread = squares - 2.0 * gap * total[:, W2R] + gap**2 * total[:, W2]
    else:
        squares, count = clusters.squares[:, side, side], clusters.count.astype(np.float64)
        spread = clusters.spread(side, gap)
    # Equal residuals leave only rounding errors of the subtraction.
    spread = np.where(spread > 1e-12 * total[:, W2R2], spread, 0.0)
    own = ratio(spread * count, np.maximum(count - 1.0, 0.0))
    share = count / (count + sums.law.prior)
    design = np.maximum(ratio(squares, total[:, W2R2]), 1.0)
    design = share * design + (1.0 - share) * design[0]
    pooled = sums.by_quantile[..., W2] @ sums.law.variance * design
    relative = moderate(ratio(own, pooled), share, 1.0, parent, count)
    third = sums.by_quantile[..., W3] @ sums.law.third * design**2
    return Noise(
        count,
        own,
        pooled * relative,
        relative,
        ratio(third, pooled**1.5),
        design,
        1.0 + (design - 1.0) * together(sample, sums),
        parent,
    )


def moderate(own: Float64, share: Float64, first: float, parent: Ints, size: Float64) -> Float64:
    """Every group's own value by its share, the rest by the moderated value of its parent.

    Examples
    --------
    >>> own, share = np.array([4.0, 8.0]), np.array([0.5, 0.25])
    >>> moderate(own, share, 1.0, np.zeros(2, np.int64), np.array([9.0, 3.0]))
    array([2.5  , 3.875])
    """
    found = own.copy()
    found[0] = share[0] * own[0] + (1.0 - share[0]) * first
    for g in np.argsort(-size, kind="stable"):
        if g:
            found[g] = share[g] * own[g] + (1.0 - share[g]) * found[parent[g]]
    return found


def effective_rows(sums: Float64) -> Float64:
    """Number of equally weighted rows that tell as much."""
    return ratio(sums[..., WEIGHT] ** 2, sums[..., W2])


def sum_variance(bins: Float64) -> Float64:
    """Variance of every bin's residual sum, from its residuals."""
    mass = bins[..., WEIGHT]
    mean = ratio(bins[..., R], mass)
    centred = bins[..., W2R2] - 2.0 * mean * bins[..., W2R] + mean**2 * bins[..., W2]
    return mean_noise(np.maximum(centred, 0.0), mass, bins[..., W2], bins[..., W2R2])
