"""Algorithm 1 to the letter, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.boost import Boosted, Settings
from recalibrate.core.certificate import NORMAL_95, Certificate, HeldOut
from recalibrate.core.family import family
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.learning import Learner, NamesGroups, Quantises, StepContext
from recalibrate.core.part import Part, PendingStep, Rows, Sums
from recalibrate.core.rounds import Rounds, Scores, Step
from recalibrate.data.folds import salt_duplicates
from recalibrate.fitting.training import Training
from recalibrate.fitting.validation import paired_gain
from recalibrate.rows.memory import rows_in_memory
from recalibrate.rows.store import Encoded
from recalibrate.support.hashing import average, combine, mix
from recalibrate.support.notices import warn_user

SQUARED_ERROR = family("identity")
FOLDS = 5
"""Of held-out rows: H is fitted on all but one and measured on that one."""
FEW_ROWS = 30
"""Standard errors of fewer held-out rows limit nothing."""


def certify(
    training: Training,
    settings: Settings,
    boosted: Boosted,
    alpha: float,
    B: float,
    held_out: Encoded | None,
) -> Certificate:
    """What the run proves; warns when it changed nothing but the rounding."""
    history = boosted.history
    accepted = len(history.errors) - (2 if history.stopped == "tolerance" else 1)
    if accepted == 0:
        warn_user(
            f"no round lowered the squared error by alpha / (2B) = {alpha / (2 * B):g}: the "
            "output is just the rounded base. Choose a smaller alpha: a correction typically "
            "lowers the squared error by a few thousandths."
        )
    shares, lost, unresolved = _facts_of_rows(training, B)
    final = history.errors[accepted]
    gain = final - history.unrounded
    bound = B * (gain + history.skipped)
    if lost > 0:
        bound = ((sqrt(B) + lost) * sqrt(max(gain, 0.0)) + lost * sqrt(final)) ** 2
        bound += B * history.skipped
    reason = training.learner.inexact or unresolved
    if not reason and not isfinite(bound):
        reason = f"the run ended early: {history.stopped}"
    if not reason and boosted.witness is not None and boosted.model is boosted.witness:
        reason = "the last update is not rounded; the bound is about the model before it"
    labels = training.problem.labels
    return Certificate(
        alpha=alpha,
        B=B,
        m=ceil(2 * B / alpha),
        rounds=accepted,
        errors=history.errors,
        exact=not reason,
        reason=reason,
        bound=float(bound),
        skipped=history.skipped,
        group_shares=shares,
        held_out=_held_out(training, settings, boosted, B, held_out),
        unit=labels.high - labels.low,
        lost=lost if isfinite(lost) else 0.0,
    )


def _facts_of_rows(training: Training, B: float) -> tuple[dict[str, float], float, str]:
    """Shares of groups, and what rounding of columns loses of H with h^2 <= B."""
    learner = training.learner
    shares: dict[str, float] = {}
    lost, unresolved = 0.0, ""
    if isinstance(learner, NamesGroups | Quantises):
        with training.encoded.open(training.scale) as source:
            if isinstance(learner, NamesGroups):
                shares = learner.group_shares(source)
            if isinstance(learner, Quantises):
                lost, unresolved = learner.lost(source, B)
    return shares, lost, unresolved


def _held_out(
    training: Training, settings: Settings, boosted: Boosted, B: float, rows: Encoded | None
) -> HeldOut | None:
    if rows is None or boosted.witness is None:
        return None
    # The certificate speaks of the rounded model, whether or not its last step stays un-rounded.
    model = boosted.witness.first(len(boosted.witness.steps) - 1)
    learner = training.learner
    with training.open_alone(rows) as source:
        if isinstance(learner, Quantises):
            learner = learner.for_rows(source)
        gathered = gather(list(source.each(_WholeRows())))
        return estimate(_Question(gathered, source.scale, learner, settings, model), B)


@dataclass(frozen=True, eq=False)
class _WholeRows:
    """Statistic: the rows themselves (not a sum)."""

    def of(self, part: Part) -> Sums:
        return (part.blocks[0], part.labels(), part.base, part.weight)  # type: ignore[return-value]


def gather(parts: list[Sums]) -> Rows:
    """The rows of all parts."""
    block, y, base, weight = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Rows((block,), y, base, weight)


@dataclass(frozen=True, eq=False)
class _Question:
    """Rows that were not fitted, and a class to be fitted on them."""

    rows: Rows
    scale: Scale
    learner: Learner
    settings: Settings
    model: Rounds

    def scores(self, model: Rounds, at: slice | NDArray[np.intp] = slice(None)) -> Scores:
        """Scores of some of the rows."""
        with rows_in_memory(self.rows.take(at), self.scale) as source:
            return source.scores(model)

    def best(self, at: slice | NDArray[np.intp] = slice(None)) -> Rounds:
        """The model with the update that H finds on some of the rows, not rounded."""
        settings, grid = self.settings, self.settings.grid
        if grid is None:
            raise ValueError("a certificate needs a grid")
        draft = PendingStep(self.model, grid, settings.replaces)
        with rows_in_memory(self.rows.take(at), self.scale) as source:
            task = StepContext(source, draft, grid.count, 1.0, settings.penalty, settings.seed)
            lesson = self.learner.learn(task)
        return self.model.append(Step(grid, lesson.table, 0, settings.replaces, None))

    def folds(self) -> NDArray[np.intp]:
        """Fold of every row, by what it says and not by its place."""
        block, y = np.ascontiguousarray(self.rows.blocks[0]), self.rows.y
        key = mix(np.zeros(len(y), np.uint64), self.settings.seed)
        for column in block.T:
            key = combine(key, column.astype(np.float64).view(np.uint64))
        numbers = (y, self.rows.base, *([self.rows.weight] if len(self.rows.weight) else []))
        for values in numbers:
            key = combine(key, np.asarray(values, np.float64).view(np.uint64))
        return (salt_duplicates(key) % np.uint64(FOLDS)).astype(np.intp)


def estimate(question: _Question, B: float) -> HeldOut:
    """Limits of what H still gains, from rows that were not fitted (see `HeldOut`)."""
    y, quantised = question.rows.y, question.rows.weight
    weight = quantised.astype(np.float64) if len(quantised) else None
    now = question.scores(question.model)
    before = SQUARED_ERROR.losses(y, now)
    ceiling, above = paired_gain(
        before, SQUARED_ERROR.losses(y, question.scores(question.best())), weight
    )
    crossed, fold = now.copy(), question.folds()
    for k in range(FOLDS):
        train, aside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if len(train) and len(aside):
            crossed[aside] = question.scores(question.best(train), aside)
    gain, below = paired_gain(before, SQUARED_ERROR.losses(y, crossed), weight)
    witness = average((y - now) * (crossed - now), weight)
    few = len(y) < FEW_ROWS
    return HeldOut(
        rows=len(y),
        estimate=B * witness,
        low=0.0 if few else B * max(0.0, gain - NORMAL_95 * below),
        high=B if few else B * min(1.0, ceiling + NORMAL_95 * above),
        ceiling=B * ceiling,
    )
