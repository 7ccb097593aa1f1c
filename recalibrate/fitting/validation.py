"""How many steps to take, and whether to take any: decided on rows that were not fitted."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from recalibrate.bases.problem import Problem
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.learning import StatsSource
from recalibrate.core.rounds import Rounds, Scores
from recalibrate.explain.notes import NO_CORRECTION, NamedLoss
from recalibrate.rows.store import Encoded, Fold, Selection
from recalibrate.support.hashing import average, total
from recalibrate.support.threads import take_turns


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was fitted without a fold's rows.

    Attributes
    ----------
    log
        All steps.
    curve
        Loss on the held-out rows by step of the last stage; first, before its first step.
    ends
        Number of steps before every stage.
    """

    model: Rounds
    curve: tuple[float, ...]
    ends: tuple[int, ...]

    @property
    def best(self) -> int:
        """Steps of the last stage with the lowest held-out loss."""
        return int(np.argmin(self.curve))


@dataclass(frozen=True, eq=False)
class FoldRun:
    """What was fitted without a fold's rows, and those rows."""

    fitted: Fitted
    held_out: Encoded
    rows: Selection


FitFold = Callable[[StatsSource, StatsSource], Generator[None, None, Fitted]]
"""Fits the rows of the first source; those of the second say when to stop."""


def run_folds(
    encoded: Encoded,
    scale: Scale,
    folds: Sequence[Fold],
    fit: FitFold | Sequence[FitFold],
    *,
    threads: int,
) -> list[FoldRun]:
    """Cross-validation: fit without each fold's rows, side by side where that is possible.

    ``fit`` is for all folds, or there is one for each.
    """
    beside = encoded.side_by_side
    fits = fit if isinstance(fit, Sequence) else [fit] * len(folds)

    def run(fold: Fold, fit: FitFold) -> Generator[None, None, FoldRun]:
        train, held_out = encoded.take(fold.train), encoded.take(fold.held_out)
        own = 1 if beside else None
        with train.open(scale, threads=own) as source, held_out.open(scale, threads=own) as aside:
            fitted = yield from fit(source, aside)
        train.drop()
        return FoldRun(fitted, held_out, fold.held_out)

    return take_turns(
        [run(*both) for both in zip(folds, fits, strict=True)], threads if beside else 1
    )


def mean_curve(runs: Sequence[FoldRun]) -> tuple[float, ...]:
    """Mean held-out loss by step, as far as all folds went."""
    curves = [run.fitted.curve for run in runs]
    length = min(map(len, curves))
    return tuple(np.mean([curve[:length] for curve in curves], axis=0).tolist())


@dataclass(frozen=True, eq=False)
class Verdict:
    """What cross-validation says.

    Attributes
    ----------
    rounds
        Rounds to take when refitting on all rows; 0 keeps the base as it is.
    gain, error
        Mean fall of the loss on held-out rows, and its standard error.
    before, after
        Mean loss of the base on held-out rows, and of predictions with these rounds as returned.
    curve
        Mean held-out loss by step, as far as all folds went.
    """

    rounds: int
    gain: float
    error: float
    before: float
    after: float
    curve: tuple[float, ...]

    def notes(self, loss: NamedLoss, cut: float) -> tuple[str, ...]:
        """In words; ``cut`` as for `NamedLoss.held_out`."""
        if self.rounds:
            said = f"cross-validation: {loss.change(self.gain, self.error)}"
            return loss.held_out(self.before, self.after, cut), said
        said = loss.stage("cross-validation", "", self.gain, self.error)
        return loss.held_out(self.before, self.after, cut), said, NO_CORRECTION


def paired_gain(before: Scores, after: Scores, weight: Scores | None) -> tuple[float, float]:
    """Weighted mean of before - after and its standard error."""
    gain = before - after
    mean = average(gain, weight)
    gain -= mean
    if weight is None:
        return mean, sqrt(total(np.square(gain, out=gain))) / len(gain)
    gain *= weight
    return mean, sqrt(total(np.square(gain, out=gain))) / total(weight)


def judge(runs: Sequence[FoldRun], start: Rounds, scale: Scale, problem: Problem) -> Verdict:
    """Number of rounds by the folds' mean, and whether their gain is more than noise.

    More than noise: more than one standard error of the paired difference.
    """
    best = [run.fitted.model.first(len(start.steps) + run.fitted.best).n_rounds for run in runs]
    rounds = round(float(np.mean(best)))
    labels, before, after, weight = [], [], [], []
    for run in runs:
        labels.append(run.held_out.labels())
        end = run.fitted.model.first_rounds(start.n_rounds + rounds)
        with run.held_out.open(scale) as source:
            before.append(source.scores(start))
            after.append(source.scores(end))
        weight.append(run.held_out.weights())
        run.held_out.drop()
    y, mass = np.concatenate(labels), np.concatenate(weight).astype(np.float64)
    weights = mass if len(mass) else None
    scores = [np.concatenate(each) for each in (before, after)]
    losses = [start.family.losses(y, each) for each in scores]
    gain, error = paired_gain(losses[0], losses[1], weights)
    rounds = rounds if gain > error else 0
    returned = average(problem.returned_losses(y, scores[1 if rounds else 0]), weights)
    return Verdict(rounds, gain, error, average(losses[0], weights), returned, mean_curve(runs))
