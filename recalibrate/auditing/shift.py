r"""Limits and p-values of gaps of 0/1 labels, by shifting all predictions of a group.

Small groups and rare outcomes make a mean residual far from normal. So a group's outcomes are
modelled as they come: independent, each with the predicted probability after a common shift of
the log-odds, :math:`p_i(t) = f_i e^t / (1 - f_i + f_i e^t)`. The likelihood of the shift,

.. math:: l(t) = t \sum y_i - K(t), \quad K(t) = \sum \log(1 - f_i + f_i e^t)

gives the signed root r of the likelihood ratio, and r* = r + log(u / r) / r with u the Wald
statistic is standard normal to high accuracy even for a handful of rows [1]_. Limits are the
shifts with r* equal to plus and minus the critical value, translated into gaps.

Weights and clusters enter as a factor ("information") on the likelihood.

References
----------
.. [1] O. E. Barndorff-Nielsen, "Modified signed log likelihood ratio", Biometrika 1991.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from recalibrate.metrics.levelsets import ratio
from recalibrate.vectors import Float64

_FARTHEST = 60.0  # shifts of the log-odds
_HALVINGS = 44  # the limits are then known to eleven digits
_SURE = 1e-9  # a prediction of exactly 0 or 1 could never be shifted
_CENTRE = 0.02  # below this r, the limit of the formula instead of the formula


@dataclass(frozen=True, eq=False)
class Shifts:
    """Groups of 0/1 labels whose predictions are to be shifted.

    Attributes
    ----------
    mass : ndarray of shape (groups, cells)
        Weight of rows with about the same prediction.
    prediction : ndarray of shape (groups, cells)
        Their mean predictions.
    outcomes : ndarray of shape (groups,)
        Weight of rows with label 1.
    information : ndarray of shape (groups,)
        Factor on the likelihood.
    """

    mass: Float64
    prediction: Float64
    outcomes: Float64
    information: Float64

    @cached_property
    def _f(self) -> Float64:
        return np.clip(self.prediction, _SURE, 1.0 - _SURE)

    @cached_property
    def _total(self) -> Float64:
        return np.asarray(self.mass.sum(axis=1))

    def _cumulant(self, shift: Float64) -> Float64:
        return np.asarray((self.mass * np.log1p(self._f * np.expm1(shift)[:, None])).sum(axis=1))

    def _shifted(self, shift: Float64) -> Float64:
        odds = self._f * np.exp(shift)[:, None]
        return odds / (1.0 - self._f + odds)

    @cached_property
    def _best(self) -> Float64:
        """Shift that fits the outcomes; at the ends where all labels are equal."""
        low, high = (np.full(len(self.mass), side) for side in (-_FARTHEST, _FARTHEST))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            short = (self.mass * self._shifted(middle)).sum(axis=1) < self.outcomes
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.asarray(0.5 * (low + high))

    @cached_property
    def _at_best(self) -> tuple[Float64, Float64, Float64]:
        """Cumulants of the fitted shift: K, K'' and the skewness."""
        p = self._shifted(self._best)
        spread = self.mass * p * (1.0 - p)
        second = self.information * spread.sum(axis=1)
        third = self.information * (spread * (1.0 - 2.0 * p)).sum(axis=1)
        return self._cumulant(self._best), second, ratio(third, second**1.5)

    @cached_property
    def _one_sided(self) -> Float64:
        """-1 where no label is 1, +1 where all are; with slack for rounding of weights."""
        slack = 1e-9 * self._total
        few, many = self.outcomes <= slack, self.outcomes >= self._total - slack
        return np.where(few, -1.0, np.where(many, 1.0, 0.0))

    def score(self, shift: Float64) -> Float64:
        """Normal score of the outcomes under a shift: positive when there are more than then."""
        cumulant, second, skewness = self._at_best
        here = self._cumulant(shift)
        gain = (self._best - shift) * self.outcomes - (cumulant - here)
        away = self._best - shift
        r = np.sign(away) * np.sqrt(2.0 * self.information * np.maximum(gain, 0.0))
        wald = away * np.sqrt(second)
        with np.errstate(divide="ignore", invalid="ignore"):
            modified = r + np.log(wald / r) / r
        usable = (np.abs(r) > _CENTRE) & np.isfinite(modified)
        found = np.where(usable, modified, r + skewness / 6.0)
        if not self._one_sided.any():
            return found
        return np.where(self._one_sided == 0.0, found, self._edge(shift, here))

    @cached_property
    def _edge_chances(self) -> tuple[Float64, Float64]:
        """Log-probability, up to K, that no label is 1, and that all are."""
        none = (self.mass * np.log1p(-self._f)).sum(axis=1)
        return none, (self.mass * np.log(self._f)).sum(axis=1)

    def _edge(self, shift: Float64, cumulant: Float64) -> Float64:
        """The same where all labels are equal: half the probability of just that."""
        from scipy.special import ndtri_exp

        none, every = self._edge_chances
        chance = np.where(self._one_sided < 0, none, every + shift * self._total) - cumulant
        chance = np.minimum(self.information * chance, 0.0) - np.log(2.0)
        return np.asarray(-self._one_sided * ndtri_exp(chance))

    def limits(self, critical: Float64) -> tuple[Float64, Float64]:
        """Gaps (mean outcome minus mean prediction) with scores within the critical value."""
        return self._gap_where(critical), self._gap_where(-critical)

    def _gap_where(self, wanted: Float64) -> Float64:
        low, high = (np.full(len(self.mass), side) for side in (-_FARTHEST, _FARTHEST))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            below = self.score(middle) > wanted  # scores fall as predictions are shifted up
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        moved = self._shifted(0.5 * (low + high)) - self._f
        return ratio((self.mass * moved).sum(axis=1), self._total)
