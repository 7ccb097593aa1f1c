"""Boosting with H, and what comes before and after it.

1. A function of the base score (``score``): repairs over-confidence.
2. Only without H: single groups that are off by four standard errors are moved, in full.
3. Only without H: columns of many categories, and all columns of few rows, each category or band by
   what its rows support (``shifts``).
4. Boosting from there with H: small penalised steps, as many as held-out rows support, on as many
   level sets.
5. Weights of the score and of what was added to it, from held-out scores: boosting leaves them
   over-confident.
6. Level sets have the last word (``level_sets``) on held-out predictions: the curve of all rows
   and, without H, every column and pair of columns on every level set. Fewer than 1,000 rows have
   none: a cell that is off there is mostly one that chance has chosen.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from recalibrate.classes.groups.spec import GroupLearner, Groups
from recalibrate.classes.linear.spec import LinearLearner
from recalibrate.core.boost import History, Settings
from recalibrate.core.learning import FunctionClass, Learner, is_score
from recalibrate.core.rounds import Encoder, Rounds
from recalibrate.core.source import StatsSource
from recalibrate.fitting.default.judging import (
    HeldOutScores,
    best_weights,
    correction_weight,
    held_out_gain,
    held_out_scores,
    take_share,
    weight_spread,
)
from recalibrate.fitting.default.level_sets import add_level_sets
from recalibrate.fitting.default.sample import Sample
from recalibrate.fitting.default.score import LINE_CLASS, ScoreStage
from recalibrate.fitting.default.settings import (
    BOOSTED_ROWS,
    CERTAIN,
    CERTAIN_CLASS,
    CERTAIN_ENCODER,
    CHANCE_ERRORS,
    FEW_PART_ERRORS,
    FEW_ROWS,
    HARM_ERRORS,
    LARGE,
    LEAST_ROWS,
    MAIN,
    MAIN_ENCODER,
    MORE_STEPS,
    MOST_CERTAIN,
    MOST_WEIGHT,
    PART_ERRORS,
    REFIT_RUNS,
    SCORE,
    SCORE_ENCODER,
    STAGE_NAMES,
    certain_settings,
    main_settings,
    standard_errors,
)
from recalibrate.fitting.default.shifts import COLUMN_ROWS, Shifts, shifted_columns
from recalibrate.fitting.default.stages import Stage
from recalibrate.fitting.validation import Fitted, FoldRun, mean_curve, run_folds, say_gain
from recalibrate.groups.expressions.tree import name_text
from recalibrate.rows.store import Fold
from recalibrate.support.sums import average


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
        Intercept, weight of the score and of what was added to it, if held-out rows gave any.
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


class BoostedStages:
    """Bound classes of one default fit, and the encoded rows that choices are made on.

    ``free``: the user named no H, and stages may look at all columns.
    """

    def __init__(
        self,
        sample: Sample,
        H: FunctionClass,
        folds: Sequence[Fold],
        threads: int,
        seed: int,
        *,
        free: bool,
    ) -> None:
        problem = sample.problem
        self.problem, self.sample, self.H = problem, sample, H
        self.folds, self.threads, self.free = folds, threads, free
        self.spread = weight_spread(problem.labels.weight)
        line, main = sample.bind(LINE_CLASS, SCORE_ENCODER), sample.bind(H, MAIN_ENCODER)
        seen = tuple(name for name in main.encoder.names if not is_score(name))
        self.score = ScoreStage(cast(LinearLearner, line), problem, self.spread)
        self.settings: Settings = main_settings(problem, H, seed)
        self.main = Stage(main, self.settings, MAIN_ENCODER)
        # Of few rows the worst gap is mostly the luckiest: there all columns are moved, shrunken.
        many = problem.n_rows >= COLUMN_ROWS
        self.certain = self._bind_certain(main, seen) if free and many else None
        self.large = self._bind_large(seen) if free else None
        draws = self.settings.row_share < 1
        self.refit_runs = REFIT_RUNS if draws else 1
        encoders: tuple[Encoder, ...] = (line.encoder, main.encoder)
        for more in (self.certain, self.large):
            if more is not None:
                own = more.encoder if isinstance(more, Shifts) else more.learner.encoder
                encoders = (*encoders, own)
        self.encoded = sample.encode(encoders, draws=draws)
        self.start = Rounds(problem.link, None, encoders)
        if self.certain is not None and not self._isolated_gaps(self.certain):
            self.certain = None
        if self.large is not None and not self._columns_differ(self.large):
            self.large = None

    def follow(self, progress: bool | None) -> tuple[Rounds, History, tuple[str, ...]]:
        """The model, what happened, and what was decided."""
        choice = self.choose(self.run_folds())
        log, history = self.refit(choice, progress)
        history, notes = replace(history, held_out=choice.curve), choice.notes
        if len(choice.held_out.rows) < FEW_ROWS:
            return log, history, notes
        log, note = add_level_sets(
            log,
            self.problem,
            self.H if self.free else None,
            choice.held_out,
            self.sample.scale,
            self.threads,
        )
        return log, history, (*notes, note)

    def _bind_certain(self, main: Learner, seen: tuple[str, ...]) -> Stage:
        """Single groups of all columns."""
        # Without a column to look at, the score stands in, and is never certainly off.
        single = replace(CERTAIN_CLASS, features=seen, base_score=not seen)
        shared = single.on_bins_of(main, CERTAIN_ENCODER)
        learner = self.sample.bind(single, CERTAIN_ENCODER) if shared is None else shared
        return Stage(learner, certain_settings(self.problem), CERTAIN_ENCODER)

    def _bind_large(self, seen: tuple[str, ...]) -> Shifts | None:
        """The columns whose groups are moved at once, if there are any."""
        schema, n_rows = self.problem.table.schema, self.problem.n_rows
        found = shifted_columns(schema, seen, n_rows)
        if not found:
            return None
        terms = Groups(*map(name_text, found))
        index = CERTAIN_ENCODER + (self.certain is not None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a column without a group is no news
            try:
                bound = cast(GroupLearner, self.sample.bind(terms, index))
            except ValueError:
                return None
        return Shifts(bound.encoder, index, named=False)

    def _isolated_gaps(self, certain: Stage) -> bool:
        """Whether a few groups, and only a few, are certainly off."""
        with self.encoded.open(self.sample.scale) as source:
            begun, _ = self.score.fit(source, self.start)
            found = len(certain.run(source, begun).log.steps) - len(begun.steps)
        return 0 < found <= MOST_CERTAIN

    def _columns_differ(self, large: Shifts) -> bool:
        """Whether columns are off beyond noise, on all rows that choices are made on.

        Folds then only say whether moving them pays: each would decide otherwise.
        """
        with self.encoded.open(self.sample.scale) as source:
            begun, _ = self.score.fit(source, self.start)
            return large.on_everyone(source, begun, self.score) is not begun

    def run_folds(self) -> list[FoldRun]:
        """All stages without each fold's rows; of several numbers of level sets the best."""
        best: tuple[float, list[FoldRun]] | None = None
        for levels in self.H.pace(self.problem.link).levels_for(self.problem.n_rows):
            main = replace(self.main, settings=replace(self.settings, levels=levels))
            runs = self._run_folds(main)
            lowest = float(np.mean([min(run.fitted.curve) for run in runs]))
            if best is None or lowest < best[0]:
                best = lowest, runs
                self.main, self.settings = main, main.settings
        if best is None:
            raise ValueError("a class needs a number of level sets to try")
        return best[1]

    def _run_folds(self, main: Stage) -> list[FoldRun]:
        def fit(source: StatsSource, held_out: StatsSource) -> Generator[None, None, Fitted]:
            ends, log = [0], self.start
            for stage in (SCORE, CERTAIN, LARGE):
                log = self._advance(stage, source, log, whole=False)
                ends.append(len(log.steps))
            boosted = yield from main.run_in_turns(source, log, held_out)
            return Fitted(boosted.path, boosted.history.held_out, tuple(ends))

        scale = self.sample.scale
        return run_folds(self.encoded, scale, self.folds, fit, threads=self.threads)

    def _advance(self, stage: int, source: StatsSource, log: Rounds, *, whole: bool) -> Rounds:
        """``log`` with a stage before boosting, if there is anything for it to do."""
        if stage == SCORE:
            return self.score.fit(source, log)[0]
        if stage == CERTAIN and self.certain is not None:
            run = self.certain.run(source, log)
            return run.log if whole else run.path
        if stage == LARGE and self.large is not None:
            return self.large.on_everyone(source, log, self.score, decided=True)
        return log

    def choose(self, runs: Sequence[FoldRun]) -> Choice:
        """Compare the base and the model after every stage on held-out rows."""
        problem = self.problem
        steps = round(float(np.mean([run.fitted.best for run in runs])))
        ends = [(stage, 0) for stage in (SCORE, CERTAIN, LARGE, MAIN)] + [(MAIN, steps)]
        rows = self.encoded.rows
        at = [held_out_scores(runs, rows, self.folds, stage, k) for stage, k in ends]
        taken, notes = self._take_score(at)
        count = len(at[0].rows)
        for stage, name in list(enumerate(STAGE_NAMES))[CERTAIN:]:
            if not self._has(stage):
                continue
            gain, error = held_out_gain(at[taken], at[stage + 1], problem)
            enough = count >= (BOOSTED_ROWS if stage == MAIN else LEAST_ROWS)
            pays = enough and error > 0 and gain > standard_errors(stage, count) * error
            verdict = "pays" if pays else "does not pay by itself"
            notes.append(f"{name} {verdict}: {say_gain(gain, error)}")
            taken = stage + 1 if pays else taken
        stages, whole, share, weights = taken, taken, 1.0, None
        held_out = at[taken]
        if taken > MAIN:
            weights, held_out = self._last_weights(at[CERTAIN], held_out, notes)
        elif self.settings.levels == 1:
            share, held_out = self._share(held_out, at[-1], notes)
            stages = taken if share == 0 else MAIN + 1
        mean = average(at[0].losses(problem), at[0].weight(problem))
        curve = (mean, *mean_curve(runs))
        more = round(steps * MORE_STEPS)
        return Choice(stages, whole, share, more, weights, held_out, curve, tuple(notes))

    def _take_score(self, at: Sequence[HeldOutScores]) -> tuple[int, list[str]]:
        """Whether the function of the score is taken: by its evidence, unless it does harm."""
        with self.encoded.open(self.sample.scale) as source:
            log, found = self.score.fit(source, self.start)
        gain, error = held_out_gain(at[SCORE], at[CERTAIN], self.problem)
        if log.steps and gain < -HARM_ERRORS * error:
            return 0, [f"{STAGE_NAMES[SCORE]} does harm: {say_gain(gain, error)}"]
        return int(bool(log.steps)), [found.note]

    def _has(self, stage: int) -> bool:
        """Whether there is anything for a stage to do."""
        if stage == CERTAIN:
            return self.certain is not None
        return stage != LARGE or self.large is not None

    def _last_weights(
        self, begun: HeldOutScores, held_out: HeldOutScores, notes: list[str]
    ) -> tuple[tuple[float, float, float], HeldOutScores]:
        """Weights of the score and of all that was added to it, and the scores with them."""
        start, added = begun.scores, held_out.scores - begun.scores
        found: tuple[float, ...] = ()
        if self.settings.levels == 1:
            found = best_weights(self.problem, held_out, [start, added], self.spread)
        if not found or found[-1] > MOST_WEIGHT:  # one weight for both
            found = best_weights(self.problem, held_out, [start + added], self.spread)
        a, b, c = found[0], found[1], found[-1]
        notes.append(
            f"held-out rows want {a:.3g} + {b:.3g} of the score + {c:.3g} of what was added to it"
        )
        return (a, b, c), replace(held_out, scores=a + b * start + c * added)

    def _share(
        self, before: HeldOutScores, after: HeldOutScores, notes: list[str]
    ) -> tuple[float, HeldOutScores]:
        """The share of boosting to take where the whole does not pay, and the scores there."""
        share, errors = correction_weight(before, after, self.problem)
        least = PART_ERRORS if len(before.rows) >= FEW_ROWS else FEW_PART_ERRORS
        if errors <= least or len(before.rows) < BOOSTED_ROWS:
            return 0.0, before
        # What chance makes of a share of nothing is taken off.
        share = min(share, 1.0) * (1.0 - (CHANCE_ERRORS / errors) ** 2)
        notes.append(f"boosting is taken in part: {share:.0%}, {errors:.1f} standard errors from 0")
        return share, take_share(before, after, share)

    def refit(self, choice: Choice, progress: bool | None) -> tuple[Rounds, History]:
        """The chosen stages on all rows."""
        log, history = self.start, History()
        if choice.stages == 0:
            return log, history
        ends = [0]
        with self.sample.open(self._used_encoders(choice)) as source:
            for stage in (SCORE, CERTAIN, LARGE):
                if stage < choice.stages:
                    log = self._advance(stage, source, log, whole=True)
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
            log = self.score.reweighted(log, *choice.weights)
        return log, history

    def _used_encoders(self, choice: Choice) -> list[Encoder | None]:
        """The encoders of the stages that are refitted."""
        encoders = {
            SCORE: SCORE_ENCODER,
            CERTAIN: CERTAIN_ENCODER,
            LARGE: -1 if self.large is None else self.large.index,
            MAIN: MAIN_ENCODER,
        }
        used = {encoders[stage] for stage in encoders if stage < choice.stages and self._has(stage)}
        return [own if k in used else None for k, own in enumerate(self.start.encoders)]
