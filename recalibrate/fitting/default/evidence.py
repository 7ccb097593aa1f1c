r"""Evidence: how much a few numbers are to be believed, by their likelihood.

A stage of a handful of parameters needs no held-out rows. Its marginal likelihood (the likelihood,
averaged over what the parameters might be) pays for every parameter by itself, and knows far more
than the held-out loss of a few hundred rows. Two kinds are used here:

``laplace``: parameters with normal priors around no change, their most likely values, and the
logarithm of their evidence by Laplace's approximation [1]_.

``Effects``: many shifts of one kind, such as those of the categories of a column. Each is believed
to be normal with a variance :math:`\tau^2` that all of them share. How large :math:`\tau` is, the
shifts say themselves; nothing is one of the answers. What is believed of a shift is its mean over
all answers (empirical Bayes with a prior, so that a column of two categories is no special case).

References
----------
.. [1] R. Kass, A. Raftery, "Bayes Factors", JASA 1995.
.. [2] B. Efron, C. Morris, "Limiting the Risk of Bayes and Empirical Bayes Estimators", JASA 1972.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.family import family

Floats = NDArray[np.float64]
NEWTON_STEPS, HALVINGS, ROUNDING = 40, 20, 1e-12
SPREADS = np.array([0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6])
"""Possible standard deviations of shifts, in log-odds."""
SPREAD_CHANCES = SPREADS / (1.0 + (SPREADS / 0.1) ** 2)
"""Their prior, a half-Cauchy distribution: .1 is ordinary, and more is no surprise."""
MOST_AT_ONCE = 1 << 16
"""Shifts that all spreads are tried on together."""
NO_SPREAD = 0.25
"""Prior chance that shifts of one kind do not vary at all."""
VARYING, STEADY = 1.0, 4.0
"""So many kinds of shifts of columns that nobody named, seen before any of these, would have varied
and not varied (a beta distribution): most columns are right."""
CHANCE_TURNS = 50
LIMIT, SURELY_OFF = 1.0, 2.5
"""Standard errors that a group may be left off by, if it was off by more than so many (a limited
translation, [2]_).

Variances are those of all groups of a kind: one that is far off among many that are not would be
pulled back with them.
"""
LEAST_EVENTS = 5.0
"""A group with less summed variance has no usable normal approximation, and no limit."""
FALSE_ALARM = 0.05
"""Chance that noise makes one of several groups look certainly off."""
MEAN_ODDS = 1.5
"""Evidence for one of several kinds of shifts, on average over them, that is worth a change."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Rows that are alike, together: their score, weight, and weighted labels.

    ``noise`` is the variance of a response per unit of information: 1 under the logit link, where
    scores say it themselves; ``spread`` is the variance that unequal weights add.
    """

    score: Floats
    weight: Floats
    label: Floats
    link: str
    noise: float = 1.0
    spread: float = 1.0

    def loss(self, f: Floats) -> float:
        """Negative log likelihood of scores, up to a constant."""
        each = family(self.link).fit_of(self.weight, self.label, f)
        return float(np.sum(each)) / (self.noise * self.spread)

    def slopes(self, f: Floats) -> tuple[Floats, Floats]:
        """Derivative of the log likelihood by f, and the information."""
        mean = np.divide(self.label, self.weight)
        pull, curvature = family(self.link).slopes(mean, f)
        unit = self.noise * self.spread
        return self.weight * pull / unit, self.weight * curvature / unit


def laplace(counts: Counts, design: Floats, deviations: Floats) -> tuple[Floats, float]:
    """Most likely parameters under normal priors around 0, and the logarithm of the evidence.

    Parameters
    ----------
    design
        What each parameter adds to the score of every cell of ``counts``, [cell, parameter].
    deviations
        Standard deviations of the priors.

    Examples
    --------
    >>> import numpy as np
    >>> some = Counts(np.zeros(1), np.array([100.0]), np.array([90.0]), "logit")
    >>> found, log_evidence = laplace(some, np.ones((1, 1)), np.array([2.0]))
    >>> found.round(2), bool(log_evidence > -some.loss(np.zeros(1)))
    (array([2.14]), True)
    """
    precision = deviations**-2
    found = np.zeros(len(deviations))

    def cost(values: Floats) -> float:
        moved = counts.score + np.sum(design * values, axis=1)
        return counts.loss(moved) + 0.5 * float(np.sum(precision * values**2))

    lowest = cost(found)
    for _ in range(NEWTON_STEPS):
        pull, hessian = _newton(counts, design, found, precision)
        step = np.linalg.solve(hessian, pull)
        for _ in range(HALVINGS):
            new = cost(found + step)
            if new <= lowest + ROUNDING * abs(lowest):
                break
            step = step / 2.0
        else:
            break
        found, lowest = found + step, new
        # To the last digits: what comes out must not depend on the way there.
        if float(np.max(np.abs(step) / deviations)) < ROUNDING:
            break
    _, hessian = _newton(counts, design, found, precision)
    volume = np.linalg.slogdet(hessian)[1] - np.sum(np.log(precision))
    return found, -lowest - 0.5 * float(volume)


def _newton(
    counts: Counts, design: Floats, values: Floats, precision: Floats
) -> tuple[Floats, Floats]:
    """Gradient and hessian of the posterior; sums in an order of their own, not of a BLAS."""
    pull, information = counts.slopes(counts.score + np.sum(design * values, axis=1))
    gradient = np.sum(design * pull[:, None], axis=0) - precision * values
    weighted = design * information[:, None]
    hessian = np.array([np.sum(weighted * column[:, None], axis=0) for column in design.T])
    return gradient, hessian + np.diag(precision)


@dataclass(frozen=True, eq=False)
class Effects:
    """What is known of shifts of one kind, each by itself.

    Attributes
    ----------
    pull, information
        Derivative of the log likelihood by every shift at 0, and minus its second derivative: of a
        group of 0/1 labels the sum of its residuals, and of p (1 - p); both over the variance
        that a unit of information has.
    unit
        What one log-odds is in the unit of the scores.
    """

    pull: Floats
    information: Floats
    unit: float = 1.0

    def believed(
        self, limit: float | None = None, no_spread: float = NO_SPREAD
    ) -> tuple[Floats, float]:
        """Every shift as far as it is believed, and the evidence that they vary at all.

        The evidence is a Bayes factor. ``limit`` is how many standard errors of its own a shift
        that is surely not 0 may stay behind what its own rows say; ``no_spread`` is the prior
        chance that they do not vary.

        Examples
        --------
        >>> import numpy as np
        >>> alike = Effects(np.array([3.0, -3.0]), np.array([100.0, 100.0]))
        >>> off = Effects(np.array([60.0, -60.0]), np.array([100.0, 100.0]))
        >>> [shifts.round(2) for shifts, _ in (alike.believed(), off.believed())]
        [array([ 0.01, -0.01]), array([ 0.57, -0.57])]
        >>> [bool(odds > 1) for _, odds in (alike.believed(), off.believed())]
        [False, True]
        """
        some = self.information > 0
        pull, information = self.pull[some], self.information[some]
        shifts = np.zeros(self.pull.shape)
        if not len(pull):
            return shifts, 0.0
        precision = (SPREADS * self.unit)[:, None] ** -2.0
        # Of a million groups one spread at a time: all of them would fill the memory.
        at_once = 1 if len(pull) > MOST_AT_ONCE else len(precision)
        parts = [slice(k, k + at_once) for k in range(0, len(precision), at_once)]

        def shrunk(part: slice) -> Floats:
            return np.asarray(pull / (information + precision[part]))

        def gain(part: slice) -> Floats:
            found = pull * shrunk(part) - np.log1p(information / precision[part])
            return np.asarray(0.5 * np.sum(found, axis=1))

        gains = np.concatenate([gain(part) for part in parts])
        highest = max(float(gains.max()), 0.0)
        odds = np.exp(gains - highest) * SPREAD_CHANCES / np.sum(SPREAD_CHANCES)
        mean = float(np.sum(odds))
        share = (1.0 - no_spread) * odds
        share = share / (np.sum(share) + no_spread * np.exp(-highest))
        shares = (np.sum(share[part, None] * shrunk(part), axis=0) for part in parts)
        found = reduce(np.add, shares)
        if limit is not None:
            own, error = pull / information, 1.0 / np.sqrt(information)
            off = self._large[some] & (np.abs(own) > SURELY_OFF * error)
            room = limit * error
            found = np.where(off, np.clip(found, own - room, own + room), found)
        shifts[some] = found
        return shifts, mean * float(np.exp(min(highest, 500.0)))

    @property
    def distances(self) -> Floats:
        """How far every shift that can be tested is from 0, in standard errors."""
        large = self._large
        return np.asarray(np.abs(self.pull[large]) / np.sqrt(self.information[large]))

    @property
    def _large(self) -> NDArray[np.bool_]:
        """Shifts that have a usable normal approximation."""
        return np.asarray(self.information * self.unit**2 > LEAST_EVENTS)


def no_spread_among(odds: Floats) -> float:
    """Chance that a kind of shifts does not vary, from the evidence of many kinds.

    The most likely share of kinds that vary, where each has its odds to be one of them.

    Examples
    --------
    >>> import numpy as np
    >>> few, most = np.array([0.8] * 19 + [1e6]), np.array([1e6] * 19 + [0.8])
    >>> round(no_spread_among(few), 2), round(no_spread_among(most), 2)
    (0.78, 0.17)
    """
    share = VARYING / (VARYING + STEADY)
    for _ in range(CHANCE_TURNS):
        varying = share * odds / (share * odds + 1.0 - share)
        share = (VARYING + float(np.sum(varying))) / (VARYING + STEADY + len(odds))
    return 1.0 - share


def certainly_off(distances: Floats) -> bool:
    """Whether one of several distances in standard errors is more than chance makes of so many.

    Examples
    --------
    >>> import numpy as np
    >>> certainly_off(np.array([2.5])), certainly_off(np.array([2.5] + [0.0] * 20))
    (True, False)
    """
    if not len(distances):
        return False
    chance = FALSE_ALARM / (2 * len(distances))
    return float(distances.max()) > NormalDist().inv_cdf(1.0 - chance)
