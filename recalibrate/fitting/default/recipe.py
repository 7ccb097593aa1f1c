"""What ``fit`` does by default.

A function of the base score alone comes first (``score``), judged by its evidence. Then

- without H: what can be found in all columns (``boosting``);
- with named groups: shifts of all groups at once, on everyone and on level sets (``named_groups``);
- with any other H: steps of H on level sets, as many as held-out rows support (``boosting``).

With H given no stage looks at a column that H does not name: every correction is a function in H
on level sets of the score, or a function of the score alone.

A stage of few numbers is judged by its likelihood, a flexible one by held-out rows; what points
the right way but does not pay in full is taken in part. Folds decide, then everything is refitted
on all rows. Deciding needs no more than a sample of them (``sample``), and refitting does not
care where they are.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from math import nan
from typing import cast

import numpy as np

from recalibrate.classes.groups import GroupLearner
from recalibrate.classes.linear import LinearLearner
from recalibrate.core.boost import Boosted, History, Settings
from recalibrate.core.learning import FunctionClass, StatsSource
from recalibrate.core.levels import from_margin
from recalibrate.core.rounds import Rounds
from recalibrate.explain.notes import NO_CORRECTION, NamedLoss, farthest, show_groups
from recalibrate.fitting.default.boosting import BoostedStages
from recalibrate.fitting.default.judging import (
    held_out_gain,
    held_out_scores,
    is_taken,
    weight_spread,
)
from recalibrate.fitting.default.score import LINE_CLASS, ScoreStage
from recalibrate.fitting.default.settings import DEFAULT_CLASS
from recalibrate.fitting.default.shifts import LEVELS, Shifts
from recalibrate.fitting.default.stages import Sample
from recalibrate.fitting.validation import Fitted, run_folds
from recalibrate.rows.store import Fold
from recalibrate.support.hashing import average

# --- H = named groups: a function of the score, shifts of groups, and shifts on level sets ------
#
# All three have few numbers, or numbers whose variance the data say, and are judged by their
# evidence (``score``, ``shifts``). Folds only see to it that nothing gets worse on rows that
# were not fitted.


NAMES = "group shifts", "group shifts by level"


class _GroupStages:
    """The stages for named groups, bound to the rows."""

    def __init__(
        self, sample: Sample, H: FunctionClass, folds: Sequence[Fold], threads: int
    ) -> None:
        problem = sample.problem
        self.problem, self.sample, self.folds, self.threads = problem, sample, folds, threads
        spread = weight_spread(problem.labels.weight)
        line = cast(LinearLearner, sample.bind(LINE_CLASS, 0))
        groups = cast(GroupLearner, sample.bind(H, 1))
        self.score = ScoreStage(line, problem, spread)
        self.shifts = Shifts(groups.encoder, 1, least=self.score.least)
        self.start = Rounds(problem.link, None, (line.encoder, groups.encoder))
        self.encoded = sample.encode(self.start.encoders, draws=False)
        self.settings = Settings(link=problem.link, levels=LEVELS)

    def follow(self, progress: bool | None) -> tuple[Rounds, History, tuple[str, ...]]:
        """The model, held-out losses by stage, and what was decided."""
        runs = run_folds(
            self.encoded, self.sample.scale, self.folds, self._fit_fold, threads=self.threads
        )
        loss = NamedLoss.of(self.problem.family, self.problem.labels)
        held_out = [held_out_scores(runs, self.encoded.rows, self.folds, k) for k in range(4)]
        with self.sample.open(self.start.encoders) as source:
            model, found = self.score.fit(source, self.start)
            notes, at = [found.note], [bool(model.steps)]
            for k, more in enumerate((self._everyone, self._level_sets)):
                gain, error = held_out_gain(held_out[k + 1], held_out[k + 2], self.problem)
                new = more(source, model) if is_taken(gain, error, evidence=True) else model
                verdict = "applied" if new is not model else "not applied"
                notes.append(f"{NAMES[k]}: {verdict}, {loss.change(gain, error)}")
                at.append(new is not model)
                model = new
        last = int(max(np.flatnonzero([True, *at])))
        notes.append(self._table(model))
        weight = held_out[0].weight(self.problem)
        curve = [average(each.losses(self.problem), weight) for each in held_out]
        cut = self.problem.cut_loss(held_out[0].rows)
        after = held_out[last].returned_loss(self.problem)
        notes.insert(0, loss.held_out(curve[0], after, cut))
        return model, History(held_out=(curve[0] + cut, *curve[1:])), tuple(notes)

    def _fit_fold(
        self, source: StatsSource, held_out: StatsSource
    ) -> Generator[None, None, Fitted]:
        """All stages without a fold's rows."""
        model, _ = self.score.fit(source, self.start)
        ends = [0, len(model.steps)]
        for more in (self._everyone, self._level_sets):
            yield
            model = more(source, model)
            ends.append(len(model.steps))
        return Fitted(model, (), tuple(ends))

    def _everyone(self, source: StatsSource, model: Rounds) -> Rounds:
        return self.shifts.on_everyone(source, model, self.score)

    def _level_sets(self, source: StatsSource, model: Rounds) -> Rounds:
        return self.shifts.on_level_sets(source, self.shifts.on_curve(source, model))

    def _table(self, model: Rounds) -> str:
        """For every group how far the base is off, how far it is moved, and the standard error.

        Mean residuals of held-out folds are not shown: over all folds the mean of a group's
        held-out residuals less those of the other folds is zero by algebra, so that a group whose
        gap was corrected in full shows none, whatever the error of the correction. What is left in
        new rows is before - shift up to the standard error of the mean residual.
        """
        problem, labels, rows = self.problem, self.problem.labels, self.encoded.rows
        y = labels.values
        w = np.ones(len(y)) if labels.weight is None else labels.weight
        old = from_margin(rows.base, problem.link)
        new = from_margin(model.apply(rows.blocks, rows.base), problem.link)
        # Squared residuals of a few rows without an event would call a rare event impossible.
        variance = new * (1.0 - new) if labels.kind == "binary" else (y - new) ** 2
        size, block, names = labels.span, rows.blocks[1], self.shifts.encoder.groups.labels
        offsets = self.shifts.encoder.offsets
        table: list[tuple[str, int, float, float, float]] = []
        for t in range(block.shape[1]):
            length = int(offsets[t + 1] - offsets[t]) + 1
            mass, off, moved, spread = (
                np.bincount(block[:, t], weights=each, minlength=length)[1:]
                for each in (w, w * (y - old), w * (new - old), w**2 * variance)
            )
            count = np.bincount(block[:, t], minlength=length)[1:]
            unit = size / np.where(mass > 0, mass, 1.0)
            numbers = (off * unit, moved * unit, np.sqrt(spread) * unit)
            shown = farthest(numbers[0], numbers[2])  # of a million groups it takes a few
            columns = (count[shown].tolist(), *(each[shown].tolist() for each in numbers))
            own = [names[offsets[t] + k] for k in shown.tolist()]
            table += zip(own, *columns, strict=True)
        return show_groups(table, int(offsets[-1]) - len(table))


def follow_recipe(
    sample: Sample,
    H: FunctionClass,
    folds: Sequence[Fold],
    *,
    threads: int,
    seed: int,
    progress: bool | None = False,
) -> tuple[Boosted, Settings, tuple[str, ...]]:
    """All stages on all rows, settings of the main one, and in words what was decided.

    ``folds`` number the rows of the sample; H is `DEFAULT_CLASS` where the user named none.
    """
    stages: _GroupStages | BoostedStages
    if H.terms:
        stages = _GroupStages(sample, H, folds, threads)
    else:
        stages = BoostedStages(sample, H, folds, threads, seed, free=H is DEFAULT_CLASS)
    model, history, notes = stages.follow(progress)
    if not model.steps:
        notes = (*notes, NO_CORRECTION)
    return finish(model, history), stages.settings, notes


def finish(model: Rounds, history: History) -> Boosted:
    """A model without the encoders that no step looks at.

    Its history is that of boosting, one stage of several: where that ended is not the model's loss.
    """
    return Boosted(model.pruned(), replace(history, final=nan), None, replace(model))
