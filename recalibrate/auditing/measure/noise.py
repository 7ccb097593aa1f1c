"""How uncertain the sums of groups are: standard errors, degrees of freedom, models of labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.shift import Shifts
from recalibrate.auditing.measure.sweep import (
    R2,
    R3,
    W2,
    W2R,
    W2R2,
    W2V,
    W3,
    WEIGHT,
    ClusterSums,
    F,
    R,
    Sums,
    together,
)
from recalibrate.data.vectors import Float64
from recalibrate.metrics.binned import mean_noise
from recalibrate.metrics.cumulative import SMALLEST_VARIANCE
from recalibrate.metrics.levelsets import ratio

PRIOR_DEGREES = 20.0
"""Rows that the variance of all rows counts as, where a group's own is estimated."""

FEWEST_IN_BIN = 5.0
"""With fewer rows in a bin, the variance of all rows is one number for all bins."""


@dataclass(frozen=True, eq=False)
class Noise:
    """How uncertain the groups' sums are.

    Attributes
    ----------
    gap_se : ndarray
        Standard error of the mean residual, from the group's own residuals.
    error : ndarray
        The one that limits and p-values rely on; zero where nothing is known.
    degrees : ndarray
        Degrees of freedom of that; infinite where the variance is known (0/1 labels).
    own : ndarray
        Share of the group's own residuals in it.
    skewness : ndarray
        Of the sum of residuals.
    design, bin_design : ndarray
        How many times larger clusters make a variance, of the group and of one of its bins; at
        least 1.
    """

    gap_se: Float64
    error: Float64
    degrees: Float64
    own: Float64
    skewness: Float64
    design: Float64
    bin_design: Float64


@dataclass(frozen=True, eq=False)
class Sizes:
    """What is known about the groups before any residual is.

    Attributes
    ----------
    mass : ndarray of shape (groups,)
    cluster_squares : ndarray of shape (groups,)
        Squared weights of clusters (of rows, without clusters).
    free : ndarray of shape (groups,)
        Clusters, or effective rows, minus 1.
    own, degrees : ndarray of shape (groups,)
        As in `Noise`.
    known : ndarray of shape (groups,) or None
        Variance of the sums of 0/1 labels, which predictions tell.
    bin_mass, bin_count : ndarray of shape (bins,)
        Weight and effective rows of all rows' bins.
    squares, cubes : ndarray of shape (groups, bins)
        Sums of the squared and cubed weights.
    """

    mass: Float64
    cluster_squares: Float64
    free: Float64
    own: Float64
    degrees: Float64
    known: Float64 | None
    bin_mass: Float64
    bin_count: Float64
    squares: Float64
    cubes: Float64


@dataclass(frozen=True, eq=False)
class Residuals:
    """Sums of residuals of shape (..., groups), of one or of many data sets.

    Attributes
    ----------
    total : ndarray
        Of weight times residual.
    squares : ndarray
        Of their squares, by row.
    cluster_squares, cluster_products : ndarray
        Of the squares of the clusters' sums, and of their products with the clusters' weights.
    by_bin : ndarray of shape (..., bins, 3)
        Of weight times residual, its square and its cube, over all rows.
    """

    total: Float64
    squares: Float64
    cluster_squares: Float64
    cluster_products: Float64
    by_bin: Float64


def find_sizes(sums: Sums, sample: Sample, clusters: ClusterSums | None) -> Sizes:
    """The part of the noise that does not depend on residuals.

    A handful of rows says little about its variance, and errs most when labels are skewed. So
    what is not known is moderated: the variance of labels in the same bins of all rows counts
    like PRIOR_DEGREES rows, added to the group's own.
    """
    total = sums.total
    if clusters is None:
        squares, count = total[:, W2], _effective(total)
    else:
        squares, count = clusters.squares[:, -1, -1], clusters.count.astype(np.float64)
    free = np.maximum(count - 1.0, 0.0)
    own = ratio(np.where(free > 1e-9, free, 0.0), min(PRIOR_DEGREES, free[0]) + free)
    # Satterthwaite: of a mixture of the group's own variance and that of all rows.
    uncertain = own**2 / np.maximum(free, 1.0) + (1.0 - own) ** 2 / max(free[0], 1.0)
    degrees = np.minimum(1.0 / uncertain, free[0])
    if sample.binary and clusters is None:
        degrees = np.full(len(total), np.inf)
    bins = pooling_bins(sums)
    return Sizes(
        total[:, WEIGHT],
        squares,
        free,
        own,
        degrees,
        total[:, W2V] if sample.binary else None,
        bins[0, :, WEIGHT],
        _effective(bins[0]),
        bins[..., W2],
        bins[..., W3],
    )


def pooling_bins(sums: Sums) -> Float64:
    """Sums of shape (groups, bins, N_SUMS) by the bins in which all rows tell a variance."""
    bins = sums.by_quantile
    filled = bins[0, :, WEIGHT] > 0
    if _effective(bins[0, filled]).min() < FEWEST_IN_BIN:
        return sums.total[:, None]
    return bins


def find_noise(sums: Sums, sample: Sample, clusters: ClusterSums | None, side: int) -> Noise:
    """Noise of one set of predictions, number ``side`` of those in ``clusters``."""
    sizes = find_sizes(sums, sample, clusters)
    total = sums.total
    if clusters is None:
        squares, products = total[:, W2R2], total[:, W2R]
    else:
        squares, products = clusters.squares[:, side, side], clusters.squares[:, side, -1]
    by_bin = pooling_bins(sums)[0][:, [R, R2, R3]]
    residuals = Residuals(total[:, R], total[:, W2R2], squares, products, by_bin)
    error, skewness, design = moderate(sizes, residuals)
    variance = own_variance(sizes, residuals)
    return Noise(
        np.where(sizes.free > 1e-9, np.sqrt(variance) / sizes.mass, np.nan),
        error,
        sizes.degrees,
        sizes.own,
        skewness,
        design,
        1.0 + (design - 1.0) * together(sample, sums),
    )


def own_variance(sizes: Sizes, residuals: Residuals) -> Float64:
    """Variance of the groups' sums from the spread of their own residuals around the gap."""
    gap = residuals.total / sizes.mass
    spread = residuals.cluster_squares - 2.0 * gap * residuals.cluster_products
    spread += gap**2 * sizes.cluster_squares
    # Equal residuals leave only rounding errors of the subtraction.
    spread = np.where(spread > 1e-12 * residuals.squares, spread, 0.0)
    free = np.broadcast_to(sizes.free, spread.shape)
    return ratio(spread * (free + 1.0), free)


def moderate(sizes: Sizes, residuals: Residuals) -> tuple[Float64, Float64, Float64]:
    """Standard error of the gaps, skewness of the sums, and the effect of the clusters."""
    design = np.maximum(ratio(residuals.cluster_squares, residuals.squares), 1.0)
    design = sizes.own * design + (1.0 - sizes.own) * design[..., :1]
    if sizes.known is not None:  # the model of 0/1 labels is exact
        variance = sizes.known * design
        third = np.zeros_like(variance)
    else:
        model, third = _pooled(sizes, residuals.by_bin)
        variance = sizes.own * own_variance(sizes, residuals)
        variance += (1.0 - sizes.own) * model * design
    error = np.where(sizes.degrees > 1e-9, np.sqrt(variance) / sizes.mass, 0.0)
    return error, ratio(third * design**2, variance**1.5), design


def _pooled(sizes: Sizes, by_bin: Float64) -> tuple[Float64, Float64]:
    """Second and third cumulants of the groups' sums if labels vary as in all rows, by bin."""
    mass = np.broadcast_to(sizes.bin_mass, by_bin.shape[:-1])
    mean, second, third = (ratio(by_bin[..., k], mass) for k in range(3))
    variance = second - mean**2
    variance = np.where(variance > 1e-12 * second, variance, 0.0)  # or it is rounding only
    skew = np.where(variance > 0, third - 3.0 * mean * second + 2.0 * mean**3, 0.0)
    free = np.broadcast_to(np.maximum(sizes.bin_count - 1.0, 0.0), variance.shape)
    unbiased = ratio(variance * sizes.bin_count, free)
    return unbiased @ sizes.squares.T, skew @ sizes.cubes.T


def _effective(sums: Float64) -> Float64:
    """Number of equally weighted rows that tell as much."""
    return ratio(sums[..., WEIGHT] ** 2, sums[..., W2])


def label_model(cells: Float64, variance: Float64) -> Shifts:
    """The model of 0/1 labels, from sums of shape (groups, cells, N_SUMS).

    ``variance`` is that of the groups' weighted sums of labels.
    """
    mass = cells[..., WEIGHT]
    prediction = np.clip(ratio(cells[..., F], mass), 0.0, 1.0)
    # What the likelihood knows, which is its own variance, against how the sum really varies.
    own = (mass * np.maximum(prediction * (1.0 - prediction), SMALLEST_VARIANCE)).sum(axis=1)
    outcomes = (cells[..., F] + cells[..., R]).sum(axis=1)
    return Shifts(mass, prediction, outcomes, ratio(own, variance))


def sum_variance(bins: Float64) -> Float64:
    """Variance of every bin's residual sum, from its residuals."""
    mass = bins[..., WEIGHT]
    mean = ratio(bins[..., R], mass)
    centred = bins[..., W2R2] - 2.0 * mean * bins[..., W2R] + mean**2 * bins[..., W2]
    return mean_noise(np.maximum(centred, 0.0), mass, bins[..., W2], bins[..., W2R2])
