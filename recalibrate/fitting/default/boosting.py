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
from functools import partial
from typing import cast

import numpy as np

from recalibrate.classes.groups.spec import GroupLearner, Groups
from recalibrate.classes.linear.spec import LinearLearner
from recalibrate.classes.trees.spec import TreeLearner
from recalibrate.core.boost import History, Settings
from recalibrate.core.learning import FunctionClass, Learner, is_score
from recalibrate.core.part import Part
from recalibrate.core.rounds import Encoder, Rounds
from recalibrate.core.source import StatsSource
from recalibrate.explain.notes import NamedLoss, say_shrinkage
from recalibrate.fitting.default.judging import (
    FEW_GAIN_ERRORS,
    GAIN_ERRORS,
    HeldOutScores,
    best_weights,
    correction_weight,
    effective_rows,
    held_out_gain,
    held_out_scores,
    is_informed,
    is_taken,
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
    LARGE,
    LEAST_ROWS,
    MAIN,
    MAIN_ENCODER,
    MOST_CERTAIN,
    MOST_WEIGHT,
    PART_ERRORS,
    REFIT_RUNS,
    SCORE,
    SCORE_ENCODER,
    STAGE_NAMES,
    certain_settings,
    main_settings,
    refit_steps,
)
from recalibrate.fitting.default.shifts import COLUMN_ROWS, Shifts, shifted_columns
from recalibrate.fitting.default.stages import Stage
from recalibrate.fitting.default.wide import Chosen, choose_columns, is_wide
from recalibrate.fitting.validation import Fitted, FoldRun, mean_curve, run_folds
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
        self.loss = NamedLoss.of(problem.family, problem.labels)
        self.spread = weight_spread(problem.labels.weight)
        line, main = sample.bind(LINE_CLASS, SCORE_ENCODER), sample.bind(H, MAIN_ENCODER)
        self.score = ScoreStage(cast(LinearLearner, line), problem, self.spread)
        self.settings: Settings = main_settings(problem, H, seed)
        self.wide = self._choose_columns(cast(TreeLearner, main), line) if free else None
        if self.wide is not None:
            main = self.wide.learner
            self.H = replace(self.wide.learner.spec, features=self.wide.names)
        seen = tuple(name for name in main.encoder.names if not is_score(name))
        self.main = Stage(main, self.settings, MAIN_ENCODER)
        # Of few rows the worst gap is mostly the luckiest: there all columns are moved, shrunken.
        # A base that says the same of all rows leaves the columns to trees, and has nothing that
        # boosting could spoil: the limits of few rows are for bases that know something.
        self.informed = is_informed(problem)
        many = problem.n_rows >= COLUMN_ROWS or not self.informed
        self.rows = effective_rows(problem) if self.informed else float(problem.n_rows)
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
        self.gaps = 0 if self.certain is None else self._count_gaps(self.certain)
        if not 0 < self.gaps <= MOST_CERTAIN:
            self.certain = None
        if self.large is not None and not self._columns_differ(self.large):
            self.large = None

    def follow(self, progress: bool | None) -> tuple[Rounds, History, tuple[str, ...]]:
        """The model, what happened, and what was decided."""
        choice = self.choose(self.run_folds())
        log, history = self.refit(choice, progress)
        history = replace(history, held_out=choice.curve)
        notes = choice.notes if self.wide is None else (self.wide.note, *choice.notes)
        if self._are_few(bool(log.steps)):
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

    def _are_few(self, moved: bool) -> bool:
        """Whether rows are too few to know standard errors well.

        A base that nothing has changed yet needs so many effective rows: it may be right. One that
        is known to be off has less to lose.
        """
        return (self.problem.n_rows if moved else self.rows) < FEW_ROWS

    def _choose_columns(self, main: TreeLearner, line: Learner) -> Chosen | None:
        """The columns to look at, where there are very many."""
        if not is_wide(main.encoder):
            return None
        sample, start = self.sample, Rounds(self.problem.link, None, (line.encoder,))
        encoded = sample.store.encode((line.encoder,), sample.scale.quantise_weight)
        with replace(encoded, blocks=1).open(sample.scale) as source:
            log, _ = self.score.fit(source, start)
            train = [fold.train.of(0) for fold in self.folds]
            part, l2 = cast(Part, source.only_part), self.settings.penalty.l2
            return choose_columns(main, sample.store.table, part, log, train, l2, self.threads)

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
        found = shifted_columns(schema, seen, n_rows if self.informed else COLUMN_ROWS)
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
        return Shifts(
            bound.encoder, index, named=False, least=self.score.least, effective_rows=self.rows
        )

    def _count_gaps(self, certain: Stage) -> int:
        """How many groups are certainly off."""
        with self.encoded.open(self.sample.scale) as source:
            begun, _ = self.score.fit(source, self.start)
            return len(certain.run(source, begun).log.steps) - len(begun.steps)

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
        learners = [main.learner] * len(self.folds) if self.wide is None else self.wide.folds

        def fit(
            learner: Learner, source: StatsSource, held_out: StatsSource
        ) -> Generator[None, None, Fitted]:
            ends, log = [0], self.start
            for stage in (SCORE, CERTAIN, LARGE):
                log = self._advance(stage, source, log, whole=False)
                ends.append(len(log.steps))
            boosted = yield from replace(main, learner=learner).run_in_turns(source, log, held_out)
            return Fitted(boosted.path, boosted.history.held_out, tuple(ends))

        fits = [partial(fit, learner) for learner in learners]
        return run_folds(self.encoded, self.sample.scale, self.folds, fits, threads=self.threads)

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
            enough = count >= (BOOSTED_ROWS if stage == MAIN and self.informed else LEAST_ROWS)
            least = FEW_GAIN_ERRORS if self._are_few(taken > 0) else GAIN_ERRORS
            pays = enough and is_taken(gain, error, evidence=stage != MAIN, least=least)
            done = (
                f"{self.gaps} corrected (>= 4 standard errors)" if stage == CERTAIN else "applied"
            )
            notes.append(self.loss.stage(name, done if pays else "", gain, error))
            taken = stage + 1 if pays else taken
        stages, whole, share, weights = taken, taken, 1.0, None
        held_out = at[taken]
        if taken > MAIN:
            weights, held_out = self._last_weights(at[CERTAIN], held_out, notes)
        elif self.settings.levels == 1:
            few = self._are_few(taken > 0)
            share, held_out = self._share(held_out, at[-1], few, notes)
            stages = taken if share == 0 else MAIN + 1
        mean = average(at[0].losses(problem), at[0].weight(problem))
        cut = problem.cut_loss(at[0].rows)
        curve = (mean + cut, *mean_curve(runs))
        notes.insert(0, self.loss.held_out(mean, held_out.returned_loss(problem), cut))
        more = refit_steps(steps, self.settings)
        return Choice(stages, whole, share, more, weights, held_out, curve, tuple(notes))

    def _take_score(self, at: Sequence[HeldOutScores]) -> tuple[int, list[str]]:
        """Whether the function of the score is taken: by its evidence, unless it does harm."""
        with self.encoded.open(self.sample.scale) as source:
            log, found = self.score.fit(source, self.start)
        gain, error = held_out_gain(at[SCORE], at[CERTAIN], self.problem)
        if log.steps and not is_taken(gain, error, evidence=True):
            return 0, [f"{found.name}: not applied, {self.loss.change(gain, error)}"]
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
        notes.append(say_shrinkage(b, c))
        return (a, b, c), replace(held_out, scores=a + b * start + c * added)

    def _share(
        self, before: HeldOutScores, after: HeldOutScores, few: bool, notes: list[str]
    ) -> tuple[float, HeldOutScores]:
        """The share of boosting to take where the whole gains too little, and the scores there."""
        share, errors = correction_weight(before, after, self.problem)
        least = FEW_PART_ERRORS if few else PART_ERRORS
        if errors <= least or len(before.rows) < BOOSTED_ROWS:
            return 0.0, before
        # What chance makes of a share of nothing is taken off.
        share = min(share, 1.0) * (1.0 - (CHANCE_ERRORS / errors) ** 2)
        full = self.loss.change(*held_out_gain(before, after, self.problem))
        notes[-1] = f"{STAGE_NAMES[MAIN]}: applied at {share:.0%} (at 100%: {full})"
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
