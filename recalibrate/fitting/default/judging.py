"""Held-out scores, and what they say about a correction: whether to take it, and how much of it.

Whether a correction lowers the held-out loss is a blunt question: one that points the right way
but goes too far may not lower it at all. Where it points is asked here too, and how far to go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import fsum, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.family import LEAST_NOISE, family
from recalibrate.core.levels import softmax
from recalibrate.core.part import Rows
from recalibrate.core.rounds import Scores
from recalibrate.fitting.validation import FoldRun
from recalibrate.rows.store import Fold, Numbered
from recalibrate.support import hashing

# --- Evidence: how far a few estimates are shrunk, by their marginal likelihood -----------------
#
# A stage of a handful of parameters needs no held-out rows. Its marginal likelihood (the
# likelihood, averaged over what the parameters might be) pays for every parameter by itself, and
# knows far more than the held-out loss of a few hundred rows. Two kinds are used here:
#
# ``laplace``: parameters with normal priors around no change, their most likely values, and the
# logarithm of their evidence by Laplace's approximation [1]_.
#
# ``Effects``: many shifts of one kind, such as those of the categories of a column. Each is
# believed to be normal with a variance :math:`\tau^2` that all of them share. How large
# :math:`\tau` is, the shifts say themselves; nothing is one of the answers. What is believed of
# a shift is its mean over all answers (empirical Bayes with a prior, so that a column of two
# categories is no special case).
#
# References
# ----------
# .. [1] R. Kass, A. Raftery, "Bayes Factors", JASA 1995.
# .. [2] B. Efron, C. Morris, "Limiting the Risk of Bayes and Empirical Bayes Estimators",
#    JASA 1972.


Floats = NDArray[np.float64]
MOST_NEWTON_STEPS, HALVINGS, ROUNDING = 40, 20, 1e-12
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
    for _ in range(MOST_NEWTON_STEPS):
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
        """Posterior means of all shifts, and the evidence that they vary at all.

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


LOSS_ERRORS, GAIN_ERRORS, FEW_GAIN_ERRORS = 1.0, 2.0, 3.0
"""See `is_taken`; the last where few rows make the standard error itself uncertain."""
NORMAL_KURTOSIS = 3.0
FEWEST_FOLDS = 3
"""Folds that have a spread worth the name."""
NEWTON_STEPS = 20
LEAST, MOST = 0.5, 2.0
"""Weights of classes outside of these say that something else is wrong."""
WEIGHT_DEVIATIONS = 0.5, 0.25, 0.25
"""Standard deviations of the priors of intercept and weights around 0 and 1.

Log-odds; of other scores the intercept in standard deviations of the label.
"""


def is_taken(gain: float, error: float, *, evidence: bool, least: float = GAIN_ERRORS) -> bool:
    """The one rule of all stages: evidence speaks for it, and held-out rows do not contradict.

    A stage that has passed a test or a likelihood of its own is contradicted by a held-out loss
    that rises by more than a standard error. One whose evidence is the held-out loss itself has to
    lower it by ``least`` standard errors.

    Examples
    --------
    >>> [is_taken(gain, 0.002, evidence=True) for gain in (-0.003, -0.001)]
    [False, True]
    >>> [is_taken(gain, 0.002, evidence=False) for gain in (0.003, 0.005)]
    [False, True]
    """
    if evidence:
        return gain >= -LOSS_ERRORS * error
    return error > 0 and gain > least * error


def is_informed(problem: Problem) -> bool:
    """Whether the base tells rows apart; one that does not has nothing that could be spoiled."""
    return bool((problem.base != problem.base[:1]).any())


def effective_rows(problem: Problem) -> float:
    """Rows of equal normal noise whose variance would be known as well as that of these rows.

    A thousand rows with 50 events, or with a few large incomes, say no more about standard errors
    than two hundred ordinary ones.
    """
    y, weight = problem.labels.values, problem.labels.weight
    response = problem.family.slopes(y, problem.base)[0]
    squares = (response if weight is None else weight * response) ** 2
    fourth = hashing.total(squares**2)
    rows = float(len(y))
    return min(NORMAL_KURTOSIS * hashing.total(squares) ** 2 / fourth, rows) if fourth > 0 else rows


def weight_spread(weight: Scores | None) -> float:
    """Sum of squared weights over sum of weights: the variance that weights add to a sum."""
    # Sums that do not depend on the order of the rows.
    return 1.0 if weight is None else fsum(weight**2) / fsum(weight)


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of rows by models that were fitted without them.

    ``folds`` are those of the rows where the user dealt them: rows of a fold may then belong
    together, and only folds are independent. None: all rows are.
    """

    rows: NDArray[np.intp]
    scores: Scores
    folds: NDArray[np.intp] | None = None

    def losses(self, problem: Problem) -> Scores:
        """Loss of every row."""
        return problem.family.losses(problem.labels.values[self.rows], self.scores)

    def returned_loss(self, problem: Problem) -> float:
        """Mean loss of the predictions as they are returned."""
        y = problem.labels.values[self.rows]
        return hashing.average(problem.returned_losses(y, self.scores), self.weight(problem))

    def weight(self, problem: Problem) -> Scores:
        """Weights of the rows."""
        weight = problem.labels.weight
        return np.ones(len(self.rows)) if weight is None else weight[self.rows]


def held_out_scores(
    runs: Sequence[FoldRun], rows: Rows, folds: Sequence[Fold], stage: int, steps: int = 0
) -> HeldOutScores:
    """Held-out scores before a stage, or after so many steps of it."""
    numbers = [run.rows.of(0) for run in runs]
    scores = []
    for run, at in zip(runs, numbers, strict=True):
        own = rows.take(at)
        model = run.fitted.model.first(run.fitted.ends[stage] + steps)
        scores.append(model.apply(own.blocks, own.base))
    dealt = all(isinstance(fold.held_out, Numbered) for fold in folds)
    of = np.repeat(np.arange(len(runs)), [len(own) for own in numbers])
    own_folds = of if dealt and len(runs) >= FEWEST_FOLDS else None
    return HeldOutScores(np.concatenate(numbers), np.concatenate(scores), own_folds)


def error_of_sum(values: Scores, folds: NDArray[np.intp] | None) -> float:
    """Standard error of the sum of independent numbers, or of numbers in independent folds.

    A spread of few folds is itself uncertain: it is stretched so that two standard errors are as
    rare as for many rows (Student's t).
    """
    error = sqrt(hashing.total(values**2))
    if folds is None:
        return error
    from scipy.special import ndtr, stdtrit

    of_folds = np.bincount(folds, values)
    count = len(of_folds)
    stretch = float(stdtrit(count - 1, ndtr(2.0))) / 2.0
    return max(error, stretch * float(np.sqrt(count * np.var(of_folds, ddof=1))))


def held_out_gain(
    before: HeldOutScores, after: HeldOutScores, problem: Problem
) -> tuple[float, float]:
    """Mean fall of the loss and its standard error.

    The standard error is at least that of labels drawn with the probabilities of ``before``: rows
    without a rare event by chance scatter little, and say nothing about the next one.
    """
    w = before.weight(problem)
    gain = before.losses(problem) - after.losses(problem)
    total = hashing.total(w)
    mean = hashing.total(w * gain) / total
    centred = w * gain if before.folds is not None else w * (gain - mean)
    error = max(error_of_sum(centred, before.folds), _least_error(before, after, problem))
    return mean, error / total


def _least_error(before: HeldOutScores, after: HeldOutScores, problem: Problem) -> float:
    """Standard deviation of the summed gain, and of its slope, for labels as ``before`` says.

    0 where predictions do not say the variance of labels: they do where these are 0 or 1. Nor does
    a base that says the same of all rows, which nobody takes for right.
    """
    y = problem.labels.values
    if not problem.family.known_noise or (y * (1.0 - y)).any() or not is_informed(problem):
        return 0.0
    w, step = before.weight(problem), after.scores - before.scores
    return sqrt(hashing.total(w**2 * _curvature(problem, before, step)))


def _curvature(problem: Problem, before: HeldOutScores, step: Scores) -> Scores:
    """Second derivative of every row's loss along a change of its scores."""
    if step.ndim == 2:
        return _covariance(softmax(before.scores), step, step)
    y = problem.labels.values[before.rows]
    return np.asarray(problem.family.slopes(y, before.scores)[1] * step**2)


def correction_weight(
    before: HeldOutScores, after: HeldOutScores, problem: Problem
) -> tuple[float, float]:
    r"""Best share of a correction, and how many standard errors it is from zero.

    With residuals r = y - mean(before) and the correction d = after - before, one Newton step
    from zero gives :math:`\sum w r d / \sum w v d^2` (r and v as ``core.family`` says).
    The standard error of the numerator is :math:`\sqrt{\sum (w r d)^2}`, whatever the noise, or as
    in `held_out_gain` that of labels drawn with the probabilities of ``before``.
    """
    w, y = before.weight(problem), problem.labels.values[before.rows]
    step = after.scores - before.scores
    if y.ndim == 2:
        pull = w * np.sum((y - softmax(before.scores)) * step, axis=1)
    else:
        pull = w * problem.family.slopes(y, before.scores)[0] * step
    size = hashing.total(w * _curvature(problem, before, step))
    noise = max(error_of_sum(pull, before.folds), _least_error(before, after, problem))
    if size <= 0 or noise <= 0:
        return 0.0, 0.0
    return hashing.total(pull) / size, hashing.total(pull) / noise


def take_share(before: HeldOutScores, after: HeldOutScores, share: float) -> HeldOutScores:
    """Scores with a share of a correction."""
    return replace(before, scores=before.scores + share * (after.scores - before.scores))


def best_weights(
    problem: Problem, at: HeldOutScores, parts: Sequence[Scores], spread: float
) -> tuple[float, ...]:
    """Intercept and a weight for every part of held-out scores, with priors around 0 and 1.

    Boosted scores are over-confident on new rows even at the best number of steps: the weights
    of what was learned are below 1.
    """
    y, weight = problem.labels.values[at.rows], at.weight(problem)
    total = np.sum(parts, axis=0)
    noise, family = 1.0, problem.family
    if family.positive:
        noise, spread = family.noise(y, total, weight), 1.0
    elif not family.known_noise:
        noise = max(hashing.average((y - total) ** 2, weight), LEAST_NOISE)
    counts = Counts(total, weight, weight * y, problem.link, noise, spread)
    deviations = np.array(WEIGHT_DEVIATIONS[: 1 + len(parts)])
    deviations[0] *= 1.0 if family.newton else float(np.sqrt(noise))
    found, _ = laplace(counts, np.column_stack([np.ones(len(y)), *parts]), deviations)
    no_change = np.concatenate([[0.0], np.ones(len(parts))])
    # Twelve digits: the last ones depend on how the machine adds up.
    return tuple(round(float(value), 12) for value in found + no_change)


def best_share(y: Scores, start: Scores, change: Scores, weight: Scores | None) -> float:
    """The share between 0 and 1 of a change to held-out scores of classes with the lowest loss.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.log(np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]))
    >>> best_share(np.exp(z), 0 * z, 2 * z, None)
    0.5
    """
    w = np.ones(len(y)) if weight is None else weight
    share = 0.0
    for _ in range(NEWTON_STEPS):
        p = softmax(start + share * change)
        size = hashing.total(w * _covariance(p, change, change))
        pull = hashing.total(w * np.sum((y - p) * change, axis=1))
        before = share
        share = float(np.clip(share + pull / size, 0.0, 1.0)) if size > 0 else 0.0
        if abs(share - before) < 1e-10:
            break
    return round(share, 12)


def class_weights(
    y: Scores, parts: Sequence[Scores], weight: Scores | None
) -> tuple[float, ...] | None:
    """A weight for every part of held-out scores of classes; None if some are out of range.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.log(np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]))
    >>> class_weights(np.exp(z), [2 * z], None)
    (0.5,)
    """
    w = np.ones(len(y)) if weight is None else weight
    found: NDArray[np.float64] = np.ones(len(parts))
    for _ in range(NEWTON_STEPS):
        z = sum((c * part for c, part in zip(found, parts, strict=True)), np.zeros(y.shape))
        p = softmax(z)
        hessian = np.array(
            [[hashing.total(w * _covariance(p, a, b)) for b in parts] for a in parts]
        )
        slope = np.array([hashing.total(w * np.sum((y - p) * part, axis=1)) for part in parts])
        try:
            step = np.linalg.solve(hessian, slope)
        except np.linalg.LinAlgError:  # a part that is constant
            return None
        found = found + step
        if not np.isfinite(found).all() or float(np.abs(step).max()) < 1e-10:
            break
    usable = np.isfinite(found).all() and (found >= LEAST).all() and (found <= MOST).all()
    return tuple(round(float(value), 12) for value in found) if usable else None


def _covariance(p: Scores, a: Scores, b: Scores) -> Scores:
    """Of two scores under the probabilities of classes, row by row."""
    return np.asarray(np.sum(p * a * b, axis=1) - np.sum(p * a, axis=1) * np.sum(p * b, axis=1))
