"""How many steps to take, and whether to take any: decided on rows that were not fitted."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recalibrate.boost import Settings, boost
from recalibrate.classes.base import Learner
from recalibrate.engines.memory import Rows, rows_in_memory
from recalibrate.fixedpoint import Scale
from recalibrate.folds import Fold
from recalibrate.levels import Link
from recalibrate.rounds import Rounds, Scores


@dataclass(frozen=True, eq=False)
class FoldRun:
    """A model fitted without a fold's held-out rows, and their losses by step."""

    log: Rounds
    held_out: NDArray[np.intp]
    curve: tuple[float, ...]

    @property
    def best(self) -> int:
        """Steps with the lowest held-out loss."""
        return int(np.argmin(self.curve))


@dataclass(frozen=True, eq=False)
class Verdict:
    """What cross-validation says.

    Attributes
    ----------
    steps
        Steps to take when refitting on all rows; 0 keeps the base as it is.
    gain, error
        Mean fall of the loss on held-out rows, and its standard error.
    curve
        Mean held-out loss by step, as far as all folds went.
    """

    steps: int
    gain: float
    error: float
    curve: tuple[float, ...]


def row_losses(y: Scores, f: Scores, link: Link) -> Scores:
    """Loss of every row: squared error, or log loss under the logit link."""
    if link == "identity":
        return (y - f) ** 2
    return np.asarray(np.logaddexp(0.0, f) - y * f)


def paired_gain(before: Scores, after: Scores, weight: Scores | None) -> tuple[float, float]:
    """Weighted mean of before - after and its standard error."""
    gain = before - after
    w = np.ones(len(gain)) if weight is None else weight
    mean = float(np.average(gain, weights=w))
    spread = float(np.sqrt(np.sum(w**2 * (gain - mean) ** 2)) / np.sum(w))
    return mean, spread


def run_folds(
    rows: Rows,
    scale: Scale,
    learner: Learner,
    settings: Settings,
    start: Rounds,
    folds: Sequence[Fold],
    *,
    encoder: int = 0,
    threads: int = 1,
) -> list[FoldRun]:
    """Fit every fold with early stopping; folds run side by side on the threads."""

    def run(fold: Fold) -> FoldRun:
        train, held_out = fold
        with rows_in_memory(rows.take(train), scale, held_out=rows.take(held_out)) as source:
            boosted = boost(source, learner, settings, start, encoder=encoder, progress=False)
        return FoldRun(boosted.log, held_out, boosted.history.held_out)

    if threads == 1 or len(folds) == 1:
        return [run(fold) for fold in folds]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, folds))


def judge(
    runs: Sequence[FoldRun], rows: Rows, weight: Scores | None, start: Rounds, se_rule: float
) -> Verdict:
    """Number of steps by the folds' mean, and whether their gain is more than noise."""
    steps = round(float(np.mean([run.best for run in runs])))
    held_out = np.concatenate([run.held_out for run in runs])
    before, after = [], []
    for run in runs:
        own = rows.take(run.held_out)
        begin = start.apply(own.blocks, own.base)
        end = run.log.first(len(start.steps) + min(steps, run.best)).apply(own.blocks, own.base)
        before.append(row_losses(own.y, begin, start.link))
        after.append(row_losses(own.y, end, start.link))
    mass = None if weight is None else weight[held_out]
    gain, error = paired_gain(np.concatenate(before), np.concatenate(after), mass)
    if gain <= se_rule * error:
        steps = 0
    length = min(len(run.curve) for run in runs)
    curve = np.mean([run.curve[:length] for run in runs], axis=0)
    return Verdict(steps, gain, error, tuple(float(value) for value in curve))
