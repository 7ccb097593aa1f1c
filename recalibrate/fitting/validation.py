"""How many steps to take, and whether to take any: decided on rows that were not fitted."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.boost import Settings, boost_in_turns
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.learning import Learner
from recalibrate.core.levels import Link
from recalibrate.core.rounds import Rounds, Scores
from recalibrate.data.folds import Fold
from recalibrate.rows.memory import Rows, rows_in_memory
from recalibrate.support.threads import take_turns


@dataclass(frozen=True, eq=False)
class FoldRun:
    """All steps fitted without a fold's held-out rows, and the losses on those by step."""

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
    rounds
        Rounds to take when refitting on all rows; 0 keeps the base as it is.
    gain, error
        Mean fall of the loss on held-out rows, and its standard error.
    curve
        Mean held-out loss by step, as far as all folds went.
    """

    rounds: int
    gain: float
    error: float
    curve: tuple[float, ...]

    @property
    def note(self) -> str:
        """In words."""
        said = say_gain(self.gain, self.error)
        if self.rounds == 0:
            said += ": no more than noise, so the base's predictions are returned unchanged"
        return said


def say_gain(gain: float, error: float) -> str:
    """A change of the held-out loss in words.

    Examples
    --------
    >>> say_gain(-0.02, 0.01)
    'held-out loss rises by 0.02 (standard error 0.01)'
    """
    way = "rises" if gain < 0 else "falls"
    return f"held-out loss {way} by {abs(gain):.3g} (standard error {error:.2g})"


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
    settings = replace(settings, keep_unrounded=False)  # the last word of a model, not of a fold

    def run(fold: Fold) -> Generator[None, None, FoldRun]:
        train, held_out = fold
        with rows_in_memory(rows.take(train), scale, held_out=rows.take(held_out)) as source:
            boosted = yield from boost_in_turns(source, learner, settings, start, encoder=encoder)
        return FoldRun(boosted.path, held_out, boosted.history.held_out)

    return take_turns([run(fold) for fold in folds], threads)


def judge(runs: Sequence[FoldRun], rows: Rows, weight: Scores | None, start: Rounds) -> Verdict:
    """Number of rounds by the folds' mean, and whether their gain is more than noise.

    More than noise: more than one standard error of the paired difference.
    """
    rounds = mean_rounds(runs, start)
    held_out = np.concatenate([run.held_out for run in runs])
    before, after = [], []
    for run in runs:
        own = rows.take(run.held_out)
        before.append(row_losses(own.y, start.apply(own.blocks, own.base), start.link))
        end = run.log.first_rounds(start.n_rounds + rounds)
        after.append(row_losses(own.y, end.apply(own.blocks, own.base), start.link))
    mass = None if weight is None else weight[held_out]
    return pass_verdict(runs, rounds, np.concatenate(before), np.concatenate(after), mass)


def mean_rounds(runs: Sequence[FoldRun], start: Rounds) -> int:
    """Mean of the folds' best numbers of rounds."""
    best = [run.log.first(len(start.steps) + run.best).n_rounds for run in runs]
    return round(float(np.mean(best)))


def pass_verdict(
    runs: Sequence[FoldRun], rounds: int, before: Scores, after: Scores, weight: Scores | None
) -> Verdict:
    """The verdict by held-out losses before the first and after so many rounds."""
    gain, error = paired_gain(before, after, weight)
    length = min(len(run.curve) for run in runs)
    curve = np.mean([run.curve[:length] for run in runs], axis=0)
    return Verdict(
        rounds if gain > error else 0, gain, error, tuple(float(value) for value in curve)
    )
