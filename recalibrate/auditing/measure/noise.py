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
    skewness : ndarray
        Of the sum, if residuals are shaped as those of all rows in the same bins.
    design, bin_design : ndarray
        How many times larger clusters make a variance, of the group and of one of its bins; at
        least 1.
    """

    count: Float64
    own: Float64
    moderated: Float64
    skewness: Float64
    design: Float64
    bin_design: Float64


def find_noise(sums: Sums, sample: Sample, clusters: ClusterSums | None, side: int) -> Noise:
    """Noise of one set of predictions, number ``side`` of those in ``clusters``."""
    total = sums.total
    squares, products, weights = total[:, W2R2], total[:, W2R], total[:, W2]
    count = effective_rows(total)
    if clusters is not None:
        squares, products = clusters.squares[:, side, side], clusters.squares[:, side, -1]
        weights, count = clusters.squares[:, -1, -1], clusters.count.astype(np.float64)
    gap = total[:, R] / total[:, WEIGHT]
    spread = squares - 2.0 * gap * products + gap**2 * weights
    # Equal residuals leave only rounding errors of the subtraction.
    spread = np.where(spread > 1e-12 * total[:, W2R2], spread, 0.0)
    own = ratio(spread * count, np.maximum(count - 1.0, 0.0))
    share = count / (count + sums.law.prior)
    design = np.maximum(ratio(squares, total[:, W2R2]), 1.0)
    design = share * design + (1.0 - share) * design[0]
    pooled = sums.by_quantile[..., W2] @ sums.law.variance * design
    third = sums.by_quantile[..., W3] @ sums.law.third * design**2
    return Noise(
        count,
        own,
        sums.law.moderate(own, pooled, count),
        ratio(third, pooled**1.5),
        design,
        1.0 + (design - 1.0) * together(sample, sums),
    )


def effective_rows(sums: Float64) -> Float64:
    """Number of equally weighted rows that tell as much."""
    return ratio(sums[..., WEIGHT] ** 2, sums[..., W2])


def sum_variance(bins: Float64) -> Float64:
    """Variance of every bin's residual sum, from its residuals."""
    mass = bins[..., WEIGHT]
    mean = ratio(bins[..., R], mass)
    centred = bins[..., W2R2] - 2.0 * mean * bins[..., W2R] + mean**2 * bins[..., W2]
    return mean_noise(np.maximum(centred, 0.0), mass, bins[..., W2], bins[..., W2R2])
