"""Held-out scores, and what they say about a correction: whether to take it, and how much of it.

Whether a correction lowers the held-out loss is a blunt question: one that points the right way
but goes too far may not lower it at all. Where it points is asked here too, and how far to go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum, sqrt

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.family import LEAST_NOISE
from recalibrate.core.levels import softmax
from recalibrate.core.part import Rows
from recalibrate.core.rounds import Scores
from recalibrate.fitting.default.evidence import Counts, laplace
from recalibrate.fitting.validation import FoldRun
from recalibrate.rows.store import Fold, Numbered
from recalibrate.support import sums

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
    fourth = sums.total(squares**2)
    rows = float(len(y))
    return min(NORMAL_KURTOSIS * sums.total(squares) ** 2 / fourth, rows) if fourth > 0 else rows


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
        return sums.average(problem.returned_losses(y, self.scores), self.weight(problem))

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
        log = run.fitted.log.first(run.fitted.ends[stage] + steps)
        scores.append(log.apply(own.blocks, own.base))
    dealt = all(isinstance(fold.held_out, Numbered) for fold in folds)
    of = np.repeat(np.arange(len(runs)), [len(own) for own in numbers])
    own_folds = of if dealt and len(runs) >= FEWEST_FOLDS else None
    return HeldOutScores(np.concatenate(numbers), np.concatenate(scores), own_folds)


def error_of_sum(values: Scores, folds: NDArray[np.intp] | None) -> float:
    """Standard error of the sum of independent numbers, or of numbers in independent folds.

    A spread of few folds is itself uncertain: it is stretched so that two standard errors are as
    rare as for many rows (Student's t).
    """
    error = sqrt(sums.total(values**2))
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
    total = sums.total(w)
    mean = sums.total(w * gain) / total
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
    return sqrt(sums.total(w**2 * _curvature(problem, before, step)))


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
    size = sums.total(w * _curvature(problem, before, step))
    noise = max(error_of_sum(pull, before.folds), _least_error(before, after, problem))
    if size <= 0 or noise <= 0:
        return 0.0, 0.0
    return sums.total(pull) / size, sums.total(pull) / noise


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
        noise = max(sums.average((y - total) ** 2, weight), LEAST_NOISE)
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
        size = sums.total(w * _covariance(p, change, change))
        pull = sums.total(w * np.sum((y - p) * change, axis=1))
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
        hessian = np.array([[sums.total(w * _covariance(p, a, b)) for b in parts] for a in parts])
        slope = np.array([sums.total(w * np.sum((y - p) * part, axis=1)) for part in parts])
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
