"""How uncertain the sums of groups are: from their own residuals, and from those of all rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recalibrate.auditing.measure.law import LEAST_SPREAD, Law
from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.sweep import (
    BY_THIRD,
    BY_VARIANCE,
    W2,
    W2R,
    W2R2,
    WEIGHT,
    ClusterSums,
    Ints,
    Nesting,
    R,
    Sums,
    together,
)
from recalibrate.data.vectors import Float64
from recalibrate.metrics.binned import mean_noise
from recalibrate.metrics.levelsets import ratio

MORE_NOISE = 1.5
"""Standard deviations, of how much noise differs between groups, that an unknown one has more."""

SURELY_APART = 3.0
"""Standard errors that the noise of a group must differ by from that of all rows."""


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
    share : ndarray
        How much of that the group's own residuals count.
    skewness : ndarray
        Of the sum, if residuals are shaped as those of all rows in the same bins.
    design, bin_design : ndarray
        How many times larger clusters make a variance, of the group and of one of its bins; at
        least 1.
    nesting : Nesting
        Which groups are around others: their noise counts where a group's own rows are few.
    """

    count: Float64
    own: Float64
    moderated: Float64
    relative: Float64
    share: Float64
    skewness: Float64
    design: Float64
    bin_design: Float64
    nesting: Nesting


def find_noise(
    sums: Sums, sample: Sample, clusters: ClusterSums | None, side: int, nesting: Nesting
) -> Noise:
    """Noise of one set of predictions, number ``side`` of those in ``clusters``.

    What a group's rows cannot tell, those of the groups around it do.
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
    design = np.maximum(ratio(squares, total[:, W2R2]), 1.0)
    share = count / (count + sums.law.prior())
    design = share * design + (1.0 - share) * design[0]
    pooled = sums.by_quantile[..., BY_VARIANCE] @ sums.law.variance * design
    relative = ratio(own, pooled)
    relative, share = moderate(relative, nesting, sums.law, count)
    third = sums.by_quantile[..., BY_THIRD] @ sums.law.third * design**2
    return Noise(
        count,
        own,
        pooled * relative,
        relative,
        share,
        ratio(third, pooled**1.5),
        design,
        1.0 + (design - 1.0) * together(sample, sums),
        nesting,
    )


def moderate(own: Float64, nesting: Nesting, law: Law, count: Float64) -> tuple[Float64, Float64]:
    """Variances of groups relative to a law: by their own rows, and for the rest by others.

    The rest is what the groups around a group show, see `_around`. Where the noise of a term's
    groups differs, that is taken as larger; and that a group has less
    noise than others is only believed where it surely has: tails may not have shown yet.

    Returns
    -------
    relative, share : ndarray
        Variances, and how much of them is the group's own.
    """
    found, shares = own.copy(), count / (count + law.prior())
    found[0] = shares[0] * own[0] + (1.0 - shares[0])
    sure = np.sqrt((law.kurtosis - 1.0) / np.maximum(count, 1.0))
    for groups in nesting.terms:
        rest = np.array([_around(nesting.around[g], found, sure) for g in groups])
        spread = law.spread(ratio(own[groups], rest), count[groups], count[0])
        part = count[groups] / (count[groups] + law.prior(spread))
        less = rest - own[groups] < SURELY_APART * rest * sure[groups]
        part = np.where((own[groups] < rest) & less, shares[groups], part)
        above = 1.0 + MORE_NOISE * (np.sqrt(spread) - np.sqrt(LEAST_SPREAD))
        found[groups] = part * own[groups] + (1.0 - part) * above * rest
        shares[groups] = part
    # The rows of others are partly the group's own.
    return found, shares + (1.0 - shares) * count / count[0]


def _around(groups: Ints, values: Float64, error: Float64) -> float:
    """The value that surely differs most from that of all rows, else the largest one."""
    if len(groups) == 0:
        return float(values[0])
    apart = np.abs(values[groups] - values[0]) / error[groups]
    most = int(apart.argmax())
    if apart[most] > SURELY_APART:
        return float(values[groups[most]])
    return float(max(values[groups].max(), values[0]))


def shrink(own: Float64, share: Float64, first: float, nesting: Nesting) -> Float64:
    """Every group's own value by its share, the rest by the value of the smallest group around.

    Examples
    --------
    >>> own, alone = np.array([4.0, 8.0]), Nesting([np.arange(1, 2)], [np.arange(0)] * 2)
    >>> shrink(own, np.array([0.5, 0.25]), 1.0, alone)
    array([2.5  , 3.875])
    """
    found = own.copy()
    found[0] = share[0] * own[0] + (1.0 - share[0]) * first
    for g in np.concatenate(nesting.terms) if nesting.terms else ():
        around = nesting.around[g]
        rest = found[around[0]] if len(around) else found[0]
        found[g] = share[g] * own[g] + (1.0 - share[g]) * rest
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
