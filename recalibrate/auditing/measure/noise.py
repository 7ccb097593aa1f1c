"""How uncertain the sums of groups are: from their own residuals, and from those of all rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.sweep import (
    BY_THIRD,
    BY_VARIANCE,
    LEAST_SPREAD,
    W2,
    W2R,
    W2R2,
    W3C3,
    W4C4,
    WEIGHT,
    ClusterSums,
    Ints,
    Nesting,
    R,
    Sample,
    Sums,
    noise_score,
    noise_spread,
    prior_rows,
    together,
)
from recalibrate.data.labels import Float64
from recalibrate.metrics import mean_noise, ratio

MORE_NOISE = 1.5
"""Standard deviations, of how much noise differs between groups, that an unknown one has more."""

SURELY_APART = 3.0
"""Normal score of noise that surely differs."""


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
        Of the sum, if residuals are shaped as those of the groups of the same term.
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
    third = sums.by_quantile[..., BY_THIRD] @ sums.law.third * design**2
    skewness, kurtosis = ratio(third, pooled**1.5), np.full(len(own), sums.law.kurtosis)
    if not sample.binary:
        kurtosis = find_kurtosis(sums, nesting)
    relative, share = moderate(ratio(own, pooled), nesting, kurtosis, count)
    if not sample.binary:
        skewness *= _skewed(sums, nesting, relative)
    return Noise(
        count,
        own,
        pooled * relative,
        relative,
        share,
        skewness,
        design,
        1.0 + (design - 1.0) * together(sample, sums),
        nesting,
    )


def find_kurtosis(sums: Sums, nesting: Nesting) -> Float64:
    """Kurtosis of residuals in the groups of every group's term, at least 3.

    Residuals are divided by the law's standard deviation; what groups of a term have in noise more
    or less than others is no kurtosis of theirs. Squares of variances come from pairs of different
    rows, which has no bias however small the groups are.
    """
    law = sums.law
    second = ratio(_squares(sums), law.variance).sum(axis=1)
    fourth = ratio(sums.by_quantile[..., W4C4], law.variance**2).sum(axis=1)
    count = effective_rows(sums.total)
    several = count > 1.0 + 1e-9
    # Rows times squared variance of the group: what fourth powers of kurtosis 1 would add up to.
    pairs = np.where(several, ratio(second**2 - fourth, count - 1.0), 0.0)
    found = np.full(len(count), law.kurtosis)
    for groups in nesting.terms:
        told = groups[several[groups]]
        expected = pairs[told].sum()
        if expected > 0.0:
            most = max(law.kurtosis, count[0])
            found[groups] = np.clip(fourth[told].sum() / expected, 3.0, most)
    return found


def _squares(sums: Sums) -> Float64:
    """Summed squares of weighted residuals from the law's centre, by group and bin."""
    bins, centre = sums.by_quantile, sums.law.centre
    return np.asarray(bins[..., W2R2] - 2.0 * centre * bins[..., W2R] + centre**2 * bins[..., W2])


def _skewed(sums: Sums, nesting: Nesting, relative: Float64) -> Float64:
    """Skewness of residuals in the groups of every group's term, as share of the law's.

    Where the noise of groups differs, that of all rows is a mixture, which exaggerates skewness.
    """
    bins, total, law = sums.by_quantile, sums.total, sums.law
    gap = (total[:, R] - bins[..., WEIGHT] @ law.centre) / total[:, WEIGHT]
    # Third powers from the groups' own means; with weights, the middle term is all but right.
    longer = ratio(total[:, BY_THIRD], total[:, BY_VARIANCE])
    third = total[:, W3C3] - 3.0 * gap * longer * _squares(sums).sum(axis=1)
    third += 2.0 * gap**3 * total[:, BY_THIRD]
    expected = bins[..., BY_THIRD] @ law.third * relative**1.5
    found = np.ones(len(total))
    for groups in nesting.terms:
        whole = float(expected[groups].sum())
        if whole != 0.0:
            found[groups] = np.clip(third[groups].sum() / whole, 0.0, 1.0)
    return found


def moderate(
    own: Float64, nesting: Nesting, kurtosis: Float64, count: Float64
) -> tuple[Float64, Float64]:
    """Variances of groups relative to a law: by their own rows, and for the rest by others.

    The rest is what the groups around a group show, see `_rest`. Where the noise of a term's
    groups differs, that is taken as larger; and that a group has less noise than others is only
    believed where it surely has: tails may not have shown yet.

    Returns
    -------
    relative, share : ndarray
        Variances, and how much of them is the group's own.
    """
    found, shares = own.copy(), count / (count + prior_rows(kurtosis))
    found[0] = shares[0] * own[0] + (1.0 - shares[0])
    apart = np.zeros(len(own))
    for groups in nesting.terms:
        if len(groups) == 0:
            continue
        size, tails = count[groups], kurtosis[groups]
        rest = _rest(groups, own, nesting, found, apart, kurtosis, count)
        times = ratio(own[groups], rest)
        spread = noise_spread(times, size, count[0], float(tails[0]))
        part = size / (size + prior_rows(tails, spread))
        sure = _surely_less(own[groups], rest, size, tails)
        part = np.where((times < 1.0) & ~sure, shares[groups], part)
        above = 1.0 + MORE_NOISE * (np.sqrt(spread) - np.sqrt(LEAST_SPREAD))
        found[groups] = part * own[groups] + (1.0 - part) * above * rest
        shares[groups] = part
        apart[groups] = np.abs(noise_score(ratio(found[groups], found[0]), size, tails))
    # The rows of others are partly the group's own.
    return found, shares + (1.0 - shares) * count / count[0]


def _rest(
    groups: Ints,
    own: Float64,
    nesting: Nesting,
    values: Float64,
    apart: Float64,
    kurtosis: Float64,
    count: Float64,
) -> Float64:
    """What the groups around each group show, unless its own rows contradict that.

    That is the value that surely differs most from that of all rows, else the largest one. If a
    group surely has less noise, it is the largest one that it does not surely have less than.
    """
    rest = np.array([_around(nesting.around[g], values, apart) for g in groups])
    for k in np.flatnonzero(_surely_less(own[groups], rest, count[groups], kurtosis[groups])):
        g = groups[k]
        others = np.sort(np.append(values[nesting.around[g]], values[0]))
        less = _surely_less(np.full_like(others, own[g]), others, count[g], kurtosis[g])
        rest[k] = others[max(int(np.count_nonzero(~less)) - 1, 0)]
    return rest


def _surely_less(
    own: Float64, rest: Float64, count: Float64, kurtosis: Float64
) -> NDArray[np.bool_]:
    return np.asarray(noise_score(ratio(own, rest), count, kurtosis) < -SURELY_APART)


def _around(groups: Ints, values: Float64, apart: Float64) -> float:
    """The value that surely differs most from that of all rows, else the largest one."""
    if len(groups) == 0:
        return float(values[0])
    most = int(apart[groups].argmax())
    if apart[groups[most]] > SURELY_APART:
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
