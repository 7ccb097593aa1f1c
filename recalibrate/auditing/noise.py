"""How uncertain the sums of groups are: standard errors, degrees of freedom, models of labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recalibrate.auditing.sample import Sample
from recalibrate.auditing.shift import Shifts
from recalibrate.auditing.sweep import (
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
from recalibrate.metrics.binned import mean_noise
from recalibrate.metrics.cumulative import SMALLEST_VARIANCE
from recalibrate.metrics.levelsets import ratio
from recalibrate.vectors import Float64

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


def find_noise(sums: Sums, sample: Sample, clusters: ClusterSums | None, side: int) -> Noise:
    """Noise of one set of predictions, number ``side`` of those in ``clusters``.

    A handful of rows says little about its variance, and errs most when labels are skewed. So
    what is not known is moderated: the variance of labels in the same bins of all rows counts
    like PRIOR_DEGREES rows, added to the group's own.
    """
    total = sums.total
    mass = total[:, WEIGHT]
    spread, count, design = _own_noise(sums, clusters, side)
    degrees = np.maximum(count - 1.0, 0.0)
    several = degrees > 1e-9
    variance = ratio(spread * count, degrees)
    se = np.where(several, np.sqrt(variance) / mass, np.nan)
    prior = min(PRIOR_DEGREES, degrees[0])
    own = ratio(np.where(several, degrees, 0.0), prior + degrees)
    design = own * design + (1.0 - own) * design[0]
    model, third = _pooled(sums, sample)
    learned = 0.0 if sample.binary else own  # the variance of 0/1 labels is known
    variance = learned * variance + (1.0 - learned) * model * design
    # Satterthwaite: of a mixture of the group's own variance and that of all rows.
    uncertain = own**2 / np.maximum(degrees, 1.0) + (1.0 - own) ** 2 / max(degrees[0], 1.0)
    degrees = np.minimum(1.0 / uncertain, degrees[0])
    if sample.binary and clusters is None:
        degrees = np.full(len(total), np.inf)
    return Noise(
        se,
        np.where(degrees > 1e-9, np.sqrt(variance) / mass, 0.0),
        degrees,
        own,
        ratio(third * design**2, variance**1.5),
        design,
        1.0 + (design - 1.0) * together(sample, sums),
    )


def _own_noise(
    sums: Sums, clusters: ClusterSums | None, side: int
) -> tuple[Float64, Float64, Float64]:
    """Spread of the sums around the gap, rows or clusters behind it, effect of the clusters."""
    total = sums.total
    gap = total[:, R] / total[:, WEIGHT]
    if clusters is None:
        spread = total[:, W2R2] - 2.0 * gap * total[:, W2R] + gap**2 * total[:, W2]
        count = _effective(total)
        design = np.ones(len(total))
    else:
        squares = clusters.squares
        spread = squares[:, side, side] - 2.0 * gap * squares[:, side, -1]
        spread += gap**2 * squares[:, -1, -1]
        count = clusters.count.astype(np.float64)
        design = np.maximum(ratio(squares[:, side, side], total[:, W2R2]), 1.0)
    # Equal residuals leave only rounding errors of the subtraction.
    return np.where(spread > 1e-12 * total[:, W2R2], spread, 0.0), count, design


def _pooled(sums: Sums, sample: Sample) -> tuple[Float64, Float64]:
    """Second and third cumulants of the groups' sums if labels vary as in all rows, by bin."""
    if sample.binary:
        return sums.total[:, W2V], np.zeros(len(sums.total))  # the model of labels is exact
    bins = sums.by_quantile
    filled = bins[0, :, WEIGHT] > 0
    if _effective(bins[0, filled]).min() < FEWEST_IN_BIN:
        bins = sums.total[:, None]
    count = _effective(bins[0])
    mean, second, third = (ratio(bins[0, :, k], bins[0, :, WEIGHT]) for k in (R, R2, R3))
    variance = second - mean**2
    variance = np.where(variance > 1e-12 * second, variance, 0.0)  # or it is rounding only
    skew = np.where(variance > 0, third - 3.0 * mean * second + 2.0 * mean**3, 0.0)
    unbiased = ratio(variance * count, np.maximum(count - 1.0, 0.0))
    return bins[..., W2] @ unbiased, bins[..., W3] @ skew


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
