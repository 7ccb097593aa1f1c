"""How the residuals of all rows vary: what a group of a few rows cannot tell by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.vectors import Float64
from recalibrate.metrics.levelsets import ratio

PRIOR_ROWS = 20.0
"""Rows that the noise of all rows counts as, against that of a group, where residuals are normal.
With heavier tails a group's own residuals say less about their variance, and these are more."""

FEWEST_IN_BIN = 5
"""With fewer rows in a bin, the noise of all rows is the same for all bins."""


@dataclass(frozen=True, eq=False)
class Law:
    """Noise by bin of the predictions: variance and third moment; and how much it is believed.

    ``prior`` is the number of rows that it counts as, against a group's own.
    """

    variance: Float64
    third: Float64
    prior: float

    @classmethod
    def of(cls, residual: Float64, place: NDArray[np.integer], n_bins: int) -> Law:
        """The law of residuals of rows in these bins."""

        def sums(values: Float64) -> Float64:
            return np.asarray(np.bincount(place, weights=values, minlength=n_bins))

        rows = sums(np.ones(len(place)))
        if n_bins > 1 and rows[rows > 0].min() < FEWEST_IN_BIN:
            same = cls.of(residual, np.zeros_like(place), 1)
            return cls(same.variance.repeat(n_bins), same.third.repeat(n_bins), same.prior)
        apart = residual - ratio(sums(residual), rows)[place]
        square = apart**2
        second, third = sums(square), ratio(sums(square * apart), rows)
        # Equal residuals leave only rounding errors of the subtraction.
        told = second > 1e-12 * sums(residual**2)
        variance = np.where(told, second / np.maximum(rows - 1.0, 1.0), 0.0)
        kurtosis = float(np.mean(ratio(square, variance[place]) ** 2))
        prior = PRIOR_ROWS * max(1.0, (kurtosis - 1.0) / 2.0)
        return cls(variance, np.where(told, third, 0.0), prior)

    def moderate(self, own: Float64, pooled: Float64, count: Float64) -> Float64:
        """Variance of a sum by its own residuals, together with that by this law."""
        share = count / (count + self.prior)
        return share * own + (1.0 - share) * pooled
