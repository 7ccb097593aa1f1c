"""The loop: LSBoost, as in Algorithm 1 of Globus-Harris et al. (2023), and its variants.

Each round draws level sets from the current scores, asks the class H for a regressor on each of
them, updates the scores, and stops by a rule. All variants (rounded or not, replaced or mixed,
one table a round or several, validated or not) are settings of this one loop, which sees its
rows only through a ``StatsSource``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Literal, Self, TextIO

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.family import family
from recalibrate.core.learning import Learner, Penalty, StatsSource, StepContext
from recalibrate.core.levels import QUANTILE_CELLS, Levels
from recalibrate.core.part import Draw, Part, PendingStep, Sums
from recalibrate.core.rounds import Rounds, Step
from recalibrate.kernels.rows import count_cells
from recalibrate.support.notices import warn_user
from recalibrate.support.threads import Flag

# --- A one-line progress display for the boosting loop; silent unless someone is looking --------


_SECONDS_BETWEEN_UPDATES = 0.1  # faster than the eye can read only costs time


class Progress:
    """Show the state of a loop on one line of standard error.

    Parameters
    ----------
    total : int
        The largest number of rounds.
    enabled : bool or None
        True always writes, False never does, None (default) writes only to a terminal, so that
        logs and notebooks stay clean.

    Notes
    -----
    Updates are throttled to about ten a second. When the block ends, also by an exception, the
    last state given stays on a line of its own. If no update was given nothing is written.

    Examples
    --------
    >>> from recalibrate.core.boost import Progress
    >>> with Progress(2, enabled=False) as bar:
    ...     bar.update(round=1, error=0.25)
    ...     bar.update(round=2, error=0.20, validation=0.21)
    """

    def __init__(self, total: int, enabled: bool | None = None) -> None:
        self.total = total
        self.enabled = enabled
        self._out: TextIO | None = None  # None = silent
        self._state = ""
        self._started = 0.0
        self._written_at = float("-inf")
        self._width = 0

    def __enter__(self) -> Self:
        self._out = sys.stderr if self._wanted(sys.stderr) else None
        self._started = monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        if self._out is not None and self._state:
            self._write(self._out, end="\n")
        self._out = None

    def update(
        self, *, round: int, error: float | None = None, validation: float | None = None
    ) -> None:
        """Record the state of the loop and show it if the last display is old enough.

        Parameters
        ----------
        round : int
            Rounds finished.
        error, validation : float or None
            Loss on the fitted rows and on the held-out rows.
        """
        if self._out is None:
            return
        self._state = f"round {round}/{self.total}"
        if error is not None:
            self._state += f"  error {error:.6g}"
        if validation is not None:
            self._state += f"  validation {validation:.6g}"
        if monotonic() - self._written_at >= _SECONDS_BETWEEN_UPDATES:
            self._write(self._out, end="")

    def _wanted(self, stream: TextIO | None) -> bool:
        if stream is None:  # under pythonw and some services
            return False
        if self.enabled is not None:
            return self.enabled
        return not stream.closed and stream.isatty()

    def _write(self, out: TextIO, end: str) -> None:
        self._written_at = monotonic()
        text = f"{self._state}  {self._written_at - self._started:.1f} s"
        # A line as wide as the terminal would wrap, and "\r" only returns to its last part.
        text = text[: max(shutil.get_terminal_size().columns - 1, 20)]
        # Blanks erase what a longer line left behind; unlike escape codes they work everywhere.
        out.write("\r" + text.ljust(self._width) + end)
        out.flush()
        self._width = len(text)


# --- What the loop asks its rows beside the statistics that H learns from: losses and level
# cells


@dataclass(frozen=True, eq=False)
class _Losses:
    """Statistic: summed loss under a model."""

    model: Rounds

    def of(self, part: Part) -> Sums:
        return (part.loss(self.model), _weight_of(part))


@dataclass(frozen=True, eq=False)
class _LevelLosses:
    """Statistic: losses by level set before and after a step that is not taken yet."""

    draft: PendingStep
    step: Step
    levels: int

    def of(self, part: Part) -> Sums:
        family = self.draft.model.family
        level, output = part.levels(self.draft), self.draft.output
        before = part.margin(self.draft.model, output)
        after = part.after(self.draft, self.step)
        return (
            part.losses(before, family, level, self.levels, output),
            part.losses(after, family, level, self.levels, output),
        )


@dataclass(frozen=True, eq=False)
class _ScoreCells:
    """Statistic: weight in equal cells of the score's range, for quantile levels."""

    model: Rounds
    low: float
    high: float
    output: int = 0

    def of(self, part: Part) -> Sums:
        out = np.zeros(QUANTILE_CELLS, dtype=np.int64)
        scale = QUANTILE_CELLS / (self.high - self.low)
        count_cells(part.margin(self.model, self.output), part.weight, self.low, scale, out)
        return (out,)


def _weight_of(part: Part) -> NDArray[np.int64]:
    weight = int(part.weight.sum()) if len(part.weight) else part.n_rows
    return np.array([weight], dtype=np.int64)


def _mean_loss(source: StatsSource, model: Rounds) -> float:
    """Mean loss of a model on the rows: see ``core.family``."""
    return _mean_of(source, *source.sums(_Losses(model)))


def _mean_of(source: StatsSource, loss: NDArray[np.int64], weight: NDArray[np.int64]) -> float:
    """Mean of summed losses, which are in fixed point."""
    return float(int(loss[0]) * 2.0**-source.scale.loss_bits / int(weight[0]))


EVERYTHING = Levels.single()
"""One object for all rounds: drawing it again costs nothing, and on disk nothing is written."""
TURN = 16
"""Rounds after which a run in turns lets others have the thread."""
StopReason = Literal["tolerance", "patience", "max_rounds", "nothing learned", "interrupted"]


@dataclass(frozen=True)
class Settings:
    """Everything that distinguishes the variants of the loop.

    Attributes
    ----------
    link
        Scale that scores are updated on, and the loss: the name of a family.
    grid
        Grid that scores are rounded to after every table; None leaves them as they are.
    levels, level_kind
        Without a grid: how many level sets each round draws, and of equal width or weight.
    step
        Share of the fitted correction that is taken; 1 with a grid replaces the score.
    step_doubles
        Tables after which the step has doubled, growing evenly; None keeps it as it is.
    tables_per_round
        Tables learned one after another on the same level sets.
    penalty
        What keeps learners small.
    tolerance
        A round that lowers the training error by less is rejected and ends the run.
    least_rounds
        Rounds that are taken whatever they bring. With any, the round that ends the run is kept,
        and it ends the run, too, if it lowers the error by just the tolerance.
    patience
        With held-out rows: steps without a lower held-out error that end the run; the model
        then goes back to its best step. None ignores them.
    accept
        With held-out rows: keep a level set's update only if it lowers the held-out error there
        by more than this share; None keeps all.
    max_rounds
        Most rounds.
    keep_unrounded
        Whether a run with a grid ends with one more update that is not rounded: the rejected
        round's, or one learned after the last. A run that changed nothing stays as it is, unless
        it rejected a round.
    row_share
        Share of the rows that every table is learned on, drawn anew for each; rows without keys
        (see ``core.part.Part``) are always in.
    least_gradient
        Of rows with smaller residuals and hessians, draws take some, which stand for the others.
    seed
        For whatever is drawn at random.
    """

    link: str = "identity"
    grid: Levels | None = None
    levels: int = 10
    level_kind: Literal["uniform", "quantile"] = "quantile"
    step: float = 1.0
    step_doubles: int | None = None
    tables_per_round: int = 1
    penalty: Penalty = field(default_factory=Penalty)
    tolerance: float | None = None
    least_rounds: int = 0
    patience: int | None = None
    accept: float | None = None
    max_rounds: int = 1000
    keep_unrounded: bool = False
    row_share: float = 1.0
    least_gradient: float = 0.0
    seed: int = 0

    @property
    def replaces(self) -> bool:
        """Whether a table's value takes the score's place: Algorithm 1's own update."""
        plain = (self.step, self.link, self.penalty.l2) == (1, "identity", 0)
        return self.grid is not None and plain


@dataclass(frozen=True)
class History:
    """What happened, round by round (errors are means; index 0 is before the first round).

    Attributes
    ----------
    errors
        Training error after every round, the rejected one included.
    held_out
        Held-out error after every step (table).
    unrounded
        Training error of the un-rounded update that ``Boosted.witness`` ends with, or of the
        model where H found none; NaN where H was not asked.
    final
        Training error of the model's predictions; NaN for folds and the stages of a default fit.
    skipped
        Share of the weight on level sets that the last round left alone as too small.
    stopped
        What ended the run.
    """

    errors: tuple[float, ...] = ()
    held_out: tuple[float, ...] = ()
    unrounded: float = float("nan")
    final: float = float("nan")
    skipped: float = 0.0
    stopped: StopReason = "max_rounds"


@dataclass(frozen=True, eq=False)
class Boosted:
    """Result of a run.

    Attributes
    ----------
    log
        The model.
    history
        What happened.
    witness
        The rounded model with one more update, un-rounded: the best that H still found.
    path
        All steps that were taken, before the model went back to its best one.
    """

    model: Rounds
    history: History
    witness: Rounds | None
    path: Rounds


def draw_levels(source: StatsSource, model: Rounds, settings: Settings, output: int = 0) -> Levels:
    """Level sets of the next round: the grid, or cells of equal width or weight."""
    if settings.grid is not None:
        return settings.grid
    if settings.levels == 1:
        return EVERYTHING
    if settings.level_kind == "uniform":
        grid = Levels.uniform(settings.levels, settings.link)
        return Levels(grid.thresholds, None, grid.steps)
    low, high = family(settings.link).range
    (cells,) = source.sums(_ScoreCells(model, low, high, output))
    return Levels.from_cells(cells, low, high, settings.levels)


def boost(
    source: StatsSource,
    learner: Learner,
    settings: Settings,
    model: Rounds,
    *,
    held_out: StatsSource | None = None,
    encoder: int = 0,
    progress: bool | None = None,
    keep_if_interrupted: bool = True,
    stop: Flag | None = None,
) -> Boosted:
    """Run the loop from ``model`` on; the model and what happened on the way.

    Rows of ``held_out`` only validate. Ctrl-C ends the run with the rounds so far and a warning,
    unless these are of no use to the caller (a fold's model, for instance). ``stop`` ends it so
    from another thread, silently.
    """
    run = _Run(source, learner, settings, model, encoder, held_out)
    with Progress(settings.max_rounds, enabled=progress) as bar:
        try:
            while run.stopped is None:
                if stop is not None and stop.is_set():
                    run.stopped = "interrupted"
                    break
                run.round()
                bar.update(round=run.rounds, **run.latest)
        except KeyboardInterrupt:
            if not keep_if_interrupted:
                raise
            run.stopped = "interrupted"
            count = run.model.n_rounds
            warn_user(
                f"interrupted: the model has the {count} round{'' if count == 1 else 's'} "
                "finished so far"
            )
    return run.finish()


def boost_in_turns(
    source: StatsSource,
    learner: Learner,
    settings: Settings,
    model: Rounds,
    held_out: StatsSource,
    *,
    encoder: int = 0,
) -> Generator[None, None, Boosted]:
    """The same run, a few rounds at a time (see ``threads.take_turns``): for folds.

    Nobody asks for a fold's final training error, which would take all its steps once more.
    """
    run = _Run(source, learner, settings, model, encoder, held_out)
    while run.stopped is None:
        run.round()
        if run.rounds % TURN == 0:
            yield
    return run.finish(measured=False)


class _Run:
    """State of one run of the loop."""

    def __init__(
        self,
        source: StatsSource,
        learner: Learner,
        settings: Settings,
        model: Rounds,
        encoder: int,
        validation: StatsSource | None,
    ) -> None:
        self.source = source
        self.validation = validation
        self.learner = learner
        self.settings = settings
        self.model = model
        self.encoder = encoder
        self.start = len(model.steps)
        self.begun = model.n_rounds
        self.quiet = 0  # classes in a row that nothing was learned for
        self.rounds = 0
        self.errors: list[float] = []
        self.held_out: list[float] = []
        self.rejected: Rounds | None = None
        self.skipped = 0
        self.stopped: StopReason | None = None
        if settings.tolerance is not None or validation is None:
            self.errors.append(_mean_loss(source, model))
        if validation is not None:
            self.held_out.append(_mean_loss(validation, model))
        if settings.max_rounds < 1:
            self.stopped = "max_rounds"

    @property
    def latest(self) -> dict[str, float]:
        """For the progress bar."""
        known = {"error": self.errors, "validation": self.held_out}
        return {name: values[-1] for name, values in known.items() if values}

    @property
    def _turn(self) -> range:
        """The classes of this round: all of them, or where level sets are drawn one after another.

        All steps of a round are learned from the same scores. Level sets are those of one class.
        """
        count = self.model.outputs
        if count == 1 or self.settings.levels == 1:
            return range(count)
        number = (self.begun + self.rounds) % count
        return range(number, number + 1)

    def round(self) -> None:
        """Draw level sets, learn the round's tables, accept or stop."""
        settings, turn = self.settings, self._turn
        partition = draw_levels(self.source, self.model, settings, turn[0])
        candidate, known = self.model, len(self.held_out)
        for k in range(settings.tables_per_round):
            drawn = partition if k == 0 or len(turn) > 1 else None
            draw = self._draw(candidate)
            drafts = [PendingStep(candidate, drawn, settings.replaces, draw, each) for each in turn]
            steps = [self._learn(draft, partition.count, len(turn)) for draft in drafts]
            if all(step.table.n_learners == 0 for step in steps):
                self.quiet += 1
                if self.quiet * len(turn) >= self.model.outputs:
                    self.stopped = "nothing learned"
                break
            self.quiet = 0
            # What follows keeps the level sets of the first: all rows.
            first, rest = steps[0], steps[1:]
            candidate = candidate.append(first, *(replace(step, partition=None) for step in rest))
            if self.validation is not None:
                self.held_out.append(_mean_loss(self.validation, candidate))
                if self._impatient():
                    self.stopped = "patience"
                    break
        if self.errors:
            self.errors.append(_mean_loss(self.source, candidate))
            if self._rejects():
                self.stopped = "tolerance"
            if self.stopped == "tolerance" and not settings.least_rounds:
                self.rejected = candidate
                del self.held_out[known:]
                return
        self.model = candidate
        self.rounds += 1
        if self.rounds >= settings.max_rounds and self.stopped is None:
            self.stopped = "max_rounds"

    def finish(self, *, measured: bool = True) -> Boosted:
        """The accepted model, at its best step where held-out rows decide."""
        settings, model = self.settings, self.model
        if settings.patience is not None and self.held_out:
            model = model.first(self.start + int(np.argmin(self.held_out)) * len(self._turn))
        asked = self._ask_once_more(model)
        witness = None if asked is model else asked
        unrounded = float("nan") if asked is None else _mean_loss(self.source, asked)
        if settings.keep_unrounded and asked is not None:
            model = asked
        final, skipped = float("nan"), 0.0
        if measured:
            loss, weight = self.source.sums(_Losses(model))
            final = _mean_of(self.source, loss, weight)
            skipped = self.skipped * 2.0**-self.source.scale.hessian_bits / int(weight[0])
        history = History(
            tuple(self.errors),
            tuple(self.held_out),
            unrounded,
            final,
            skipped,
            self.stopped or "max_rounds",
        )
        return Boosted(model, history, witness, self.model)

    def _ask_once_more(self, model: Rounds) -> Rounds | None:
        """The model with H's next update, un-rounded; itself where H has none, None if unasked."""
        grid, candidate = self.settings.grid, self.rejected
        if grid is None or self.stopped == "interrupted":
            return None
        if candidate is None or len(model.steps) < len(self.model.steps):
            if not self.settings.keep_unrounded or len(model.steps) == self.start:
                return None
            step = self._learn(PendingStep(model, grid, self.settings.replaces), grid.count, 1)
            candidate = model.append(step) if step.table.n_learners else model
        if len(candidate.steps) == len(model.steps):
            return model
        last = len(candidate.steps) - 1
        return candidate.first(last).append(replace(candidate.steps[last], grid=None))

    def _draw(self, model: Rounds) -> Draw | None:
        """The rows that the next step is learned on; None: all."""
        settings = self.settings
        if settings.row_share == 1:
            return None
        return Draw(settings.row_share, settings.seed, len(model.steps), settings.least_gradient)

    def _learn(self, draft: PendingStep, levels: int, beside: int) -> Step:
        """The next step of a class, one of so many that are taken from the same scores."""
        settings, step = self.settings, self.settings.step
        if settings.step_doubles is not None:
            rounds = (len(draft.model.steps) - self.start) // beside
            step *= 1.0 + rounds / settings.step_doubles
        if beside > 1:
            # Each is right only alone: a class that gains takes from the others already.
            step *= (beside - 1) / beside
        seed = settings.seed * beside + (draft.output if beside > 1 else 0)
        task = StepContext(self.source, draft, levels, step, settings.penalty, seed)
        lesson = self.learner.learn(task)
        self.skipped = lesson.skipped
        taken = Step(
            draft.partition,
            lesson.table,
            self.encoder,
            settings.replaces,
            settings.grid,
            draft.output,
        )
        if settings.accept is None or self.validation is None:
            return taken
        before, after = self.validation.sums(_LevelLosses(draft, taken, levels))
        better = after < (1.0 - settings.accept) * before
        return replace(taken, table=taken.table.keep(better))

    def _impatient(self) -> bool:
        patience = self.settings.patience
        if patience is None:
            return False
        best = self.held_out.index(min(self.held_out))
        return len(self.held_out) - 1 - best >= patience

    def _rejects(self) -> bool:
        tolerance, least = self.settings.tolerance, self.settings.least_rounds
        if tolerance is None or self.rounds + 1 < least:
            return False
        fall = self.errors[-2] - self.errors[-1]
        return fall < tolerance or (least > 0 and fall == tolerance)
