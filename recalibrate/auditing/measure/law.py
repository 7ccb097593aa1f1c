"""How the residuals of all rows vary: what a group of a few rows cannot tell by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.vectors import Float64
from recalibrate.metrics import ratio

LEAST_SPREAD = 0.1
"""How much the noise of groups is taken to differ at least: variance of its ratio to that of all
rows. Where residuals are normal the noise of all rows then counts as 20 rows of a group. With
heavier tails a group's own residuals say less about their variance, and these are more."""

SURELY = 2.0
"""Standard deviations of chance that groups must differ by."""

_TINY = 1e-300

FEWEST_IN_BIN = 5
"""With fewer rows in a bin, the noise of all rows is the same for all bins."""


@dataclass(frozen=True, eq=False)
class Law:
    """Noise by bin of the predictions: variance, third moment, and kurtosis of all bins.

    ``centre`` is the mean residual of a bin, which they are moments around.
    """

    variance: Float64
    third: Float64
    kurtosis: float
    centre: Float64

    @classmethod
    def of(
        cls,
        residual: Float64,
        place: NDArray[np.integer],
        n_bins: int,
        exposure: Float64 | None = None,
    ) -> Law:
        """The law of residuals of rows in these bins.

        Rates over an exposure e vary less the longer it is: the variance of their residuals is
        proportional to 1 / e and the third moment to 1 / e^2, as those of counts and of sums of
        claims are. The law is then that of rows with an exposure of 1.
        """

        def sums(values: Float64) -> Float64:
            return np.asarray(np.bincount(place, weights=values, minlength=n_bins))

        e = np.ones(len(place)) if exposure is None else exposure
        mass = sums(e)
        rows = ratio(mass**2, sums(e**2))
        if n_bins > 1 and rows[rows > 0].min() < FEWEST_IN_BIN:
            same = cls.of(residual, np.zeros_like(place), 1, exposure)
            values = (same.variance, same.third, same.centre)
            variance, third, centre = (each.repeat(n_bins) for each in values)
            return cls(variance, third, same.kurtosis, centre)
        centre = ratio(sums(e * residual), mass)
        apart = e * (residual - centre[place])
        square = apart**2
        second, third = sums(square), ratio(sums(square * apart), mass)
        # Equal residuals leave only rounding errors of the subtraction.
        told = second > 1e-12 * sums((e * residual) ** 2)
        variance = np.where(told, ratio(second, mass) * rows / np.maximum(rows - 1.0, 1.0), 0.0)
        fourth = ratio(square, variance[place]) ** 2
        kurtosis = max(3.0, float(fourth.sum() / np.sum(e**2)))
        share = rows / (rows + (kurtosis - 1.0) / LEAST_SPREAD)
        smooth = [
            _smoothed(values, rows, share) for values in (variance, np.where(told, third, 0.0))
        ]
        return cls(smooth[0], smooth[1], kurtosis, centre)

    def prior(self) -> float:
        """Rows that this law counts as, against a group's own."""
        return float(prior_rows(self.kurtosis))

    def moderate(self, own: Float64, pooled: Float64, count: Float64) -> tuple[Float64, Float64]:
        """Variance of a sum by its own residuals and by this law, and the share of the former."""
        share = count / (count + self.prior())
        return share * own + (1.0 - share) * pooled, share


def prior_rows(kurtosis: Float64 | float, spread: float = LEAST_SPREAD) -> Float64:
    """Rows that the noise of others counts as, against a group's own, if noise differs so much."""
    return np.asarray((kurtosis - 1.0) / spread)


def noise_spread(relative: Float64, count: Float64, rows: float, kurtosis: float) -> float:
    """How much noise differs between groups of a term, of so many rows of all each.

    That is the variance of their own variances, relative to what is expected, by moments
    (DerSimonian and Laird): by chance alone a group of n of all N rows has a variance of
    (kurtosis - 1) (1 / n - 1 / N). Only what is more than chance counts.
    """
    # With very unequal weights a group can tell as much as more rows than all rows do.
    others = np.maximum(1.0 - count / rows, 0.0)
    chance = others.sum() + SURELY * np.sqrt(2.0 * others.sum())
    excess = count @ (relative - 1.0) ** 2 - (kurtosis - 1.0) * chance
    return max(float(ratio(excess, count @ others)), LEAST_SPREAD)


def noise_score(relative: Float64, count: Float64, kurtosis: Float64) -> Float64:
    """Normal score of variances of so many rows, as multiples of what is expected.

    A variance of n rows has a gamma law of mean 1 and variance (kurtosis - 1) / n. But heavy tails
    show in few rows: if residuals are 0 but for one row in ``kurtosis``, a small variance says
    that few of n rows are such ones, and is as likely as that (binomial law).

    Examples
    --------
    >>> few, many = np.full(2, 0.1), np.array([20.0, 200.0])
    >>> noise_score(few, many, np.array([3.0, 3.0])).round(1)  # of normal residuals
    array([ -2.9, -10.5])
    >>> noise_score(few, many, np.array([30.0, 30.0])).round(1)
    array([ 0. , -2.6])
    """
    from scipy.special import betainc, gammainc, gammaincc, ndtri

    shape = count / (kurtosis - 1.0)
    large = np.minimum(relative, 1.0) * count / kurtosis
    few = betainc(count - large, large + 1.0, 1.0 - 1.0 / kurtosis)
    less = np.maximum(gammainc(shape, shape * relative), few)
    more = gammaincc(shape, shape * relative)
    # Whatever is larger than any chance is all the same.
    low, high = (ndtri(np.maximum(tail, _TINY)) for tail in (less, more))
    return np.asarray(np.where(relative < 1.0, np.minimum(low, 0.0), np.maximum(-high, 0.0)))


def law_factors(weight: Float64, exposure: Float64 | None) -> tuple[Float64, Float64]:
    """What a row adds to variance and third moment of a weighted sum, as multiples of the law.

    That is w^2 and w^3; with an exposure e, w^2 / e and w^3 / e^2.

    Examples
    --------
    >>> law_factors(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    (array([1., 2.]), array([1., 2.]))
    """
    if exposure is None:
        return weight**2, weight**3
    rest = weight / exposure
    return weight * rest, weight * rest**2


def _smoothed(values: Float64, rows: Float64, share: Float64) -> Float64:
    """Means by bin: a share of them their own, the rest that of three bins around them."""
    mass, total = (np.convolve(each, np.ones(3))[1:-1] for each in (rows, rows * values))
    return share * values + (1.0 - share) * ratio(total, mass)
