"""What ``fit`` does when it is left to itself.

1. A line through the base score (on the log-odds for 0/1 labels): repairs over-confidence.
2. What is certain: single groups that are off by four standard errors are moved, in full.
3. Columns of many categories (``large_categories``): each category by what its rows support.
4. Boosting from there with H: small penalised steps, as many as held-out rows support.
5. Weights of the line and of what was added to it, from held-out scores: boosting leaves them
   over-confident.
6. Level sets have the last word (``level_sets``): on held-out predictions, every column and
   pair of columns is tested on every level set, and what is more than noise is moved.

A stage has to pay on held-out rows, otherwise it is left out; the base itself is the first
candidate. Boosting that points the right way but does not pay in full is taken in part
(``shrinkage``). Folds choose the number of steps, then everything is refitted on all rows. Choosing
needs no more than a sample of them (``sample``), and refitting does not care where they are.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from recalibrate.classes.groups.spec import GroupLearner, Groups
from recalibrate.classes.linear.spec import LinearLearner
from recalibrate.core.boost import Boosted, History, Settings
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.learning import FunctionClass, Learner, is_score
from recalibrate.core.rounds import Encoder, Rounds
from recalibrate.core.source import StatsSource
from recalibrate.fitting.default.large_categories import LargeCategories, large_columns
from recalibrate.fitting.default.level_sets import HeldOutScores, add_level_sets, weight_spread
from recalibrate.fitting.default.line import LINE_CLASS, Line
from recalibrate.fitting.default.sample import Sample
from recalibrate.fitting.default.settings import (
    CERTAIN,
    CERTAIN_CLASS,
    CERTAIN_ENCODER,
    FEW_ROWS,
    LARGE,
    LARGE_ENCODER,
    LINE,
    LINE_ENCODER,
    MAIN,
    MAIN_ENCODER,
    MORE_STEPS,
    MOST_CERTAIN,
    MOST_WEIGHT,
    PART_ERRORS,
    REFIT_RUNS,
    STAGE_NAMES,
    certain_settings,
    main_settings,
    standard_errors,
)
from recalibrate.fitting.default.shrinkage import best_weights, correction_weight
from recalibrate.fitting.default.stages import Stage
from recalibrate.fitting.validation import (
    Fitted,
    FoldRun,
    mean_curve,
    paired_gain,
    run_folds,
    say_gain,
)
from recalibrate.rows.store import Fold
from recalibrate.support.sums import average

UNCHANGED = "the data supports no correction: the base's predictions are returned unchanged"


@dataclass(frozen=True, eq=False)
class Choice:
    """How far to go, and held-out scores there.

    Attributes
    ----------
    stages
        Number of stages to take.
    whole
        How many of them to take as they are; ``share`` of what the others add.
    steps
        Steps of the last stage.
    weights
        Intercept, weight of the line and of what was added to it, if held-out rows gave any.
    curve
        Mean held-out loss of the base, then by step of the last stage.
    """

    stages: int
    whole: int
    share: float
    steps: int
    weights: tuple[float, float, float] | None
    held_out: HeldOutScores
    curve: tuple[float, ...]
    notes: tuple[str, ...]


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

    ``folds`` number the rows of the sample.
    """
    stages = _Stages(sample, H, threads, seed)
    runs = stages.run_folds(folds)
    choice = stages.choose(runs)
    log, history = stages.refit(choice, progress)
    log, note = add_level_sets(log, sample.problem, H, choice.held_out, sample.scale, threads)
    notes = (*choice.notes, note)
    if not log.steps:
        notes = (*notes, UNCHANGED)
    history = replace(history, held_out=choice.curve)
    return Boosted(log.pruned(), history, None, log), stages.main.settings, notes


class _Stages:
    """Bound classes of one default fit, and the encoded rows that choices are made on."""

    def __init__(self, sample: Sample, H: FunctionClass, threads: int, seed: int) -> None:
        problem = sample.problem
        self.problem = problem
        self.sample = sample
        self.threads = threads
        self.scale: Scale = sample.scale
        line, main = sample.bind(LINE_CLASS, LINE_ENCODER), sample.bind(H, MAIN_ENCODER)
        seen = tuple(name for name in main.encoder.names if not is_score(name))
        certain = self._bind_certain(main, seen)
        self.line = Line(cast(LinearLearner, line), problem)
        self.certain = Stage(certain, certain_settings(problem), CERTAIN_ENCODER)
        self.main = Stage(main, main_settings(problem, H, seed), MAIN_ENCODER)
        self.large = self._bind_large(seen) if H.pace(problem.link).categories_first else None
        draws = self.main.settings.row_share < 1
        self.refit_runs = REFIT_RUNS if draws else 1
        encoders: tuple[Encoder, ...] = (line.encoder, certain.encoder, main.encoder)
        if self.large is not None:
            encoders = (*encoders, self.large.encoder)
        self.encoded = sample.encode(encoders, draws=draws)
        self.start = Rounds(problem.link, None, encoders)
        self.gaps_are_isolated = self._isolated_gaps()

    def _bind_certain(self, main: Learner, seen: tuple[str, ...]) -> Learner:
        """Single groups of the columns that H sees."""
        # Without a column to look at, the score stands in, and is never certainly off.
        single = replace(CERTAIN_CLASS, features=seen, base_score=not seen)
        shared = single.on_bins_of(main, CERTAIN_ENCODER)
        return self.sample.bind(single, CERTAIN_ENCODER) if shared is None else shared

    def _bind_large(self, seen: tuple[str, ...]) -> LargeCategories | None:
        """The columns of many categories, if there are any."""
        found = large_columns(self.problem.table.schema, seen)
        if not found:
            return None
        terms = Groups(*(f"`{name}`" for name in found))
        bound = cast(GroupLearner, self.sample.bind(terms, LARGE_ENCODER))
        spread = weight_spread(self.problem.labels.weight)
        return LargeCategories(bound.encoder, LARGE_ENCODER, spread)

    def _isolated_gaps(self) -> bool:
        """Whether a few groups, and only a few, are certainly off."""
        with self.encoded.open(self.scale) as source:
            begun = self.line.fit(source, self.start)
            found = len(self.certain.run(source, begun).log.steps) - len(begun.steps)
        return 0 < found <= MOST_CERTAIN

    def run_folds(self, folds: Sequence[Fold]) -> list[FoldRun]:
        """All stages without each fold's rows, which say when to stop."""

        def fit(source: StatsSource, held_out: StatsSource) -> Generator[None, None, Fitted]:
            line = self.line.fit(source, self.start)
            certain = self.certain.run(source, line).path if self.gaps_are_isolated else line
            large = certain if self.large is None else self.large.fit(source, certain)
            boosted = yield from self.main.run_in_turns(source, large, held_out)
            ends = (0, len(line.steps), len(certain.steps), len(large.steps))
            return Fitted(boosted.path, boosted.history.held_out, ends)

        return run_folds(self.encoded, self.scale, folds, fit, threads=self.threads)

    def choose(self, runs: Sequence[FoldRun]) -> Choice:
        """Compare the base and the model after every stage on held-out rows."""
        steps = round(float(np.mean([run.fitted.best for run in runs])))
        candidates = [self._held_out(runs, stage, 0) for stage in (LINE, CERTAIN, LARGE, MAIN)]
        candidates.append(self._held_out(runs, MAIN, steps))
        weight = candidates[0].weight(self.problem)
        losses = [each.losses(self.problem) for each in candidates]
        taken, notes = 0, []
        for stage, name in enumerate(STAGE_NAMES):
            if not self._has(stage):
                continue
            gain, error = paired_gain(losses[taken], losses[stage + 1], weight)
            least = standard_errors(stage, len(losses[0]))
            pays = error > 0 and gain / error > least
            verdict = "pays" if pays else "does not pay by itself"
            notes.append(f"{name} {verdict}: {say_gain(gain, error)}")
            taken = stage + 1 if pays else taken
        stages, whole, share, weights = taken, taken, 1.0, None
        held_out = candidates[taken]
        if taken > MAIN:
            weights, held_out = self._last_weights(candidates[CERTAIN], held_out, notes)
        elif self.main.settings.levels == 1:
            share, held_out = self._share(held_out, candidates[-1], notes)
            stages = taken if share == 0 else MAIN + 1
        refit_steps = round(steps * MORE_STEPS)
        curve = (average(losses[0], weight), *mean_curve(runs))
        return Choice(stages, whole, share, refit_steps, weights, held_out, curve, tuple(notes))

    def _has(self, stage: int) -> bool:
        """Whether there is anything for a stage to do."""
        if stage == CERTAIN:
            return self.gaps_are_isolated
        return stage != LARGE or self.large is not None

    def _last_weights(
        self, line: HeldOutScores, held_out: HeldOutScores, notes: list[str]
    ) -> tuple[tuple[float, float, float] | None, HeldOutScores]:
        """Weights of the line and of all that was added to it, and the scores with them."""
        problem = self.problem
        y, weight = problem.labels.values[held_out.rows], held_out.weight(problem)
        start, added = line.scores, held_out.scores - line.scores
        found = None
        if self.main.settings.levels == 1:
            found = best_weights(y, [start, added], problem.link, weight)
        if found is None or found[-1] > MOST_WEIGHT:  # one weight for both
            found = best_weights(y, [start + added], problem.link, weight)
        if found is None:
            return None, held_out
        a, b, c = found[0], found[1], found[-1]
        notes.append(
            f"held-out rows want {a:.3g} + {b:.3g} of the line + {c:.3g} of what was added to it"
        )
        return (a, b, c), replace(held_out, scores=a + b * start + c * added)

    def _share(
        self, before: HeldOutScores, after: HeldOutScores, notes: list[str]
    ) -> tuple[float, HeldOutScores]:
        """The share of boosting to take where the whole does not pay, and the scores there."""
        problem = self.problem
        y, weight = problem.labels.values[before.rows], before.weight(problem)
        share, errors = correction_weight(y, before.scores, after.scores, problem.link, weight)
        if errors <= PART_ERRORS or len(y) < FEW_ROWS:
            return 0.0, before
        share = min(share, 1.0)
        notes.append(f"boosting is taken in part: {share:.0%}, {errors:.1f} standard errors from 0")
        return share, replace(before, scores=before.scores + share * (after.scores - before.scores))

    def _held_out(self, runs: Sequence[FoldRun], stage: int, steps: int) -> HeldOutScores:
        """Held-out scores before a stage, or after so many steps of it."""
        numbers = [run.rows.of(0) for run in runs]
        scores = []
        for run, at in zip(runs, numbers, strict=True):
            own = self.encoded.rows.take(at)
            log = run.fitted.log.first(run.fitted.ends[stage] + steps)
            scores.append(log.apply(own.blocks, own.base))
        return HeldOutScores(np.concatenate(numbers), np.concatenate(scores))

    def refit(self, choice: Choice, progress: bool | None) -> tuple[Rounds, History]:
        """The chosen stages on all rows."""
        log, history = self.start, History()
        if choice.stages == 0:
            return log, history
        ends = [0]
        with self.sample.open(self._used_encoders(choice)) as source:
            if choice.stages > LINE:
                log = self.line.fit(source, log)
            ends.append(len(log.steps))
            if choice.stages > CERTAIN and self.gaps_are_isolated:
                log = self.certain.run(source, log).log
            ends.append(len(log.steps))
            if choice.stages > LARGE and self.large is not None:
                log = self.large.fit(source, log)
            ends.append(len(log.steps))
            if choice.stages > MAIN:
                with self.sample.beside(source, self.refit_runs) as sources:
                    boosted = self.main.run_several(
                        sources,
                        log,
                        self.refit_runs,
                        progress=progress,
                        patience=None,
                        max_rounds=choice.steps,
                    )
                log, history = boosted.log, boosted.history
        if choice.whole < choice.stages:
            whole = ends[choice.whole]
            parts = tuple(step.along(choice.share) for step in log.steps[whole:])
            log = replace(log, steps=(*log.steps[:whole], *parts))
        if choice.weights is not None:
            log = self.line.reweighted(log, *choice.weights)
        return log, history

    def _used_encoders(self, choice: Choice) -> list[Encoder | None]:
        """The encoders of the stages that are refitted."""
        encoders = [LINE_ENCODER, CERTAIN_ENCODER, LARGE_ENCODER, MAIN_ENCODER]
        used = {
            encoder
            for stage, encoder in enumerate(encoders)
            if stage < choice.stages and self._has(stage)
        }
        return [own if k in used else None for k, own in enumerate(self.start.encoders)]
