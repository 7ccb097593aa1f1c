"""Boosting with H, and what comes before and after it.

1. A function of the base score (``score``): repairs over-confidence.
2. Only without H: single groups that are off by four standard errors are moved, in full.
3. Only without H: columns of many categories, and all columns of few rows, each category or band by
   what its rows support (``shifts``).
4. Boosting from there with H: small penalised steps, as many as held-out rows support, on as many
   level sets.
5. Weights of the score and of what was added to it, from held-out scores: boosting leaves them
   over-confident.
6. Correction on level sets (``level_sets``) on held-out predictions: the curve of all rows
   and, without H, every column and pair of columns on every level set. Fewer than 1,000 rows have
   none: a cell that is off there is mostly one that chance has chosen.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.groups import GroupLearner, Groups
from recalibrate.classes.linear import LinearLearner
from recalibrate.classes.trees import TreeLearner
from recalibrate.core.boost import EVERYTHING, History, Settings
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.learning import FunctionClass, Learner, StatsSource, is_score
from recalibrate.core.part import Part, PendingStep
from recalibrate.core.rounds import Encoder, Rounds
from recalibrate.data.bins import Bins
from recalibrate.data.table import Table
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
from recalibrate.fitting.default.score import LINE_CLASS, ScoreStage
from recalibrate.fitting.default.settings import (
    BOOSTED_ROWS,
    CERTAIN_CLASS,
    CERTAIN_ENCODER,
    CHANCE_ERRORS,
    COLUMN_SHIFTS,
    FEW_PART_ERRORS,
    FEW_ROWS,
    LARGE_GAPS,
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
from recalibrate.fitting.default.stages import Sample, Stage
from recalibrate.fitting.validation import Fitted, FoldRun, mean_curve, run_folds
from recalibrate.groups.expressions import name_text
from recalibrate.kernels.histogram import count_rows
from recalibrate.rows.store import Fold
from recalibrate.support.hashing import average

# --- Tables of many columns: boosting looks at those that promise most --------------------------
#
# The cost of a tree grows with the columns it may split on, and of thousands most say nothing. So
# every column is looked at once, by the best single split of what the score leaves unexplained, and
# trees are grown on the best. A fold's columns are chosen by the rows that it is fitted on: columns
# that all rows chose would know the held-out labels.


MOST_COLUMNS = 200
"""Columns that trees may split on, beside the score.

A tree of 15 leaves splits on 14 at most, and the next one mostly on the same. What the best single
split of a column gains is what makes a tree begin with it; a column without any such gain is found
by chance alone, however many trees look at it.
"""
COLUMNS_AT_ONCE = 256
"""Columns that are binned and summed together: all of a wide table would fill the memory."""


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Bins of the columns that are looked at, and which of them where.

    Attributes
    ----------
    learner
        Trees on the columns that all rows choose; its bins have those of the folds too.
    folds
        The same for every fold, by the rows that it is fitted on.
    names
        The columns that all rows choose.
    note
        What was done, in words.
    """

    learner: TreeLearner
    folds: tuple[TreeLearner, ...]
    names: tuple[str, ...]
    note: str


def _is_wide(bins: Bins) -> bool:
    """Whether there are more columns than trees look at."""
    return sum(not is_score(name) for name in bins.names) > MOST_COLUMNS


def choose_columns(
    learner: TreeLearner,
    table: Table,
    part: Part,
    model: Rounds,
    train: Sequence[NDArray[np.intp]],
    l2: float,
    threads: int,
) -> _Chosen:
    """The columns of a wide table to boost on, by all rows and by those of every fold.

    ``part`` has all rows, whose scores are those of ``model``.
    """
    words = part.words(PendingStep(model, EVERYTHING))
    rows = [np.arange(part.n_rows), *train]
    gains = np.concatenate(
        [
            [
                _gains(codes, own, words, at, learner.spec.min_leaf_rows, l2, part.scale)
                for at in rows
            ]
            for own, codes in _blocks(learner.encoder, table, threads)
        ],
        axis=1,
    )
    best = [_best(learner.encoder, each) for each in gains]
    union = sorted(set().union(*best))
    kept = Bins(tuple(learner.encoder.features[k] for k in union))
    everyone, *folds = (
        replace(learner, encoder=kept, among=np.searchsorted(union, some).astype(np.int32))
        for some in best
    )
    names = tuple(name for name in everyone.looks_at if not is_score(name))
    count = sum(not is_score(name) for name in learner.encoder.names)
    note = f"columns: {len(names)} of {count:,} are used, those that gain most by a single split"
    return _Chosen(everyone, tuple(folds), names, note)


def _blocks(bins: Bins, table: Table, threads: int) -> Iterator[tuple[Bins, NDArray[np.integer]]]:
    """Bins and codes of some columns at a time."""
    for start in range(0, len(bins.features), COLUMNS_AT_ONCE):
        own = Bins(bins.features[start : start + COLUMNS_AT_ONCE])
        yield own, own.encode(table, threads)


def _gains(
    codes: Any,
    bins: Bins,
    words: NDArray[np.int64],
    rows: NDArray[np.intp],
    least_rows: int,
    l2: float,
    scale: Scale,
) -> NDArray[np.float64]:
    """What the best single split of every feature gains on some rows.

    Missing values go with the lowest ones, which is as good as any way to rank columns.
    """
    features = np.arange(codes.shape[1], dtype=np.int32)
    listed = rows.astype(np.int32), np.array([[0, len(rows)]])
    cells = count_rows(codes, features, bins.offsets, words, *listed).reshape(-1, scale.words)
    starts, sizes = bins.offsets[:-1], np.diff(bins.offsets)
    alone = np.repeat([feature.by_sets for feature in bins.features], sizes)

    def sums(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """On the left of every split, and in all."""
        reached = np.cumsum(values)
        before = np.append(0, reached)[starts]
        whole = np.append(reached, 0)[bins.offsets[1:] - 1] - before
        left = np.where(alone, values, reached - np.repeat(before, sizes))
        return left, np.repeat(whole, sizes)

    def worth(s: NDArray[np.int64], g: NDArray[np.int64]) -> NDArray[np.float64]:
        mass = s * scale.weight_step + l2
        square = (g * scale.response_step) ** 2
        return np.asarray(np.divide(square, mass, out=np.zeros(len(s)), where=mass > 0))

    (count, n), (s_left, s), (g_left, g) = map(sums, scale.unpack(cells))
    gain = worth(s_left, g_left) + worth(s - s_left, g - g_left) - worth(s, g)
    gain[(count < least_rows) | (n - count < least_rows)] = 0.0
    return np.asarray(np.maximum.reduceat(gain, starts))


def _best(bins: Bins, gains: NDArray[np.float64]) -> list[int]:
    """Features of the best columns, and of the score."""
    by_column: dict[str, float] = {}
    for feature, gain in zip(bins.features, gains, strict=True):
        by_column[feature.name] = max(gain, by_column.get(feature.name, 0.0))
    names = [name for name in by_column if not is_score(name)]
    order = np.argsort([-by_column[name] for name in names], kind="stable")
    kept = {names[k] for k in order[:MOST_COLUMNS]}
    return [
        k
        for k, feature in enumerate(bins.features)
        if feature.name in kept or is_score(feature.name)
    ]


@dataclass(frozen=True, eq=False)
class _Choice:
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
        model, history = self.refit(choice, progress)
        history = replace(history, held_out=choice.curve)
        notes = choice.notes if self.wide is None else (self.wide.note, *choice.notes)
        if self._are_few(bool(model.steps)):
            return model, history, notes
        model, note = add_level_sets(
            model,
            self.problem,
            self.H if self.free else None,
            choice.held_out,
            self.sample.scale,
            self.threads,
        )
        return model, history, (*notes, note)

    def _are_few(self, moved: bool) -> bool:
        """Whether rows are too few to know standard errors well.

        A base that nothing has changed yet needs so many effective rows: it may be right. One that
        is known to be off has less to lose.
        """
        return (self.problem.n_rows if moved else self.rows) < FEW_ROWS

    def _choose_columns(self, main: TreeLearner, line: Learner) -> _Chosen | None:
        """The columns to look at, where there are very many."""
        if not _is_wide(main.encoder):
            return None
        sample, start = self.sample, Rounds(self.problem.link, None, (line.encoder,))
        encoded = sample.store.encode((line.encoder,), sample.scale.quantise_weight)
        with replace(encoded, blocks=1).open(sample.scale) as source:
            model, _ = self.score.fit(source, start)
            train = [fold.train.of(0) for fold in self.folds]
            part, l2 = cast(Part, source.only_part), self.settings.penalty.l2
            return choose_columns(main, sample.store.table, part, model, train, l2, self.threads)

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
            warnings.simplefilter(
                "ignore", UserWarning
            )  # a column without a group needs no warning
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
            return len(certain.run(source, begun).model.steps) - len(begun.steps)

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
            ends, model = [0], self.start
            for stage in (SCORE, LARGE_GAPS, COLUMN_SHIFTS):
                model = self._advance(stage, source, model, whole=False)
                ends.append(len(model.steps))
            boosted = yield from replace(main, learner=learner).run_in_turns(
                source, model, held_out
            )
            return Fitted(boosted.path, boosted.history.held_out, tuple(ends))

        fits = [partial(fit, learner) for learner in learners]
        return run_folds(self.encoded, self.sample.scale, self.folds, fits, threads=self.threads)

    def _advance(self, stage: int, source: StatsSource, model: Rounds, *, whole: bool) -> Rounds:
        """``model`` with a stage before boosting, if there is anything for it to do."""
        if stage == SCORE:
            return self.score.fit(source, model)[0]
        if stage == LARGE_GAPS and self.certain is not None:
            run = self.certain.run(source, model)
            return run.model if whole else run.path
        if stage == COLUMN_SHIFTS and self.large is not None:
            return self.large.on_everyone(source, model, self.score, decided=True)
        return model

    def choose(self, runs: Sequence[FoldRun]) -> _Choice:
        """Compare the base and the model after every stage on held-out rows."""
        problem = self.problem
        steps = round(float(np.mean([run.fitted.best for run in runs])))
        ends = [(stage, 0) for stage in (SCORE, LARGE_GAPS, COLUMN_SHIFTS, MAIN)] + [(MAIN, steps)]
        rows = self.encoded.rows
        at = [held_out_scores(runs, rows, self.folds, stage, k) for stage, k in ends]
        taken, notes = self._take_score(at)
        count = len(at[0].rows)
        for stage, name in list(enumerate(STAGE_NAMES))[LARGE_GAPS:]:
            if not self._has(stage):
                continue
            gain, error = held_out_gain(at[taken], at[stage + 1], problem)
            enough = count >= (BOOSTED_ROWS if stage == MAIN and self.informed else LEAST_ROWS)
            least = FEW_GAIN_ERRORS if self._are_few(taken > 0) else GAIN_ERRORS
            pays = enough and is_taken(gain, error, evidence=stage != MAIN, least=least)
            done = (
                f"{self.gaps} corrected (>= 4 standard errors)"
                if stage == LARGE_GAPS
                else "applied"
            )
            notes.append(self.loss.stage(name, done if pays else "", gain, error))
            taken = stage + 1 if pays else taken
        stages, whole, share, weights = taken, taken, 1.0, None
        held_out = at[taken]
        if taken > MAIN:
            weights, held_out = self._last_weights(at[LARGE_GAPS], held_out, notes)
        elif self.settings.levels == 1:
            few = self._are_few(taken > 0)
            share, held_out = self._share(held_out, at[-1], few, notes)
            stages = taken if share == 0 else MAIN + 1
        mean = average(at[0].losses(problem), at[0].weight(problem))
        cut = problem.cut_loss(at[0].rows)
        curve = (mean + cut, *mean_curve(runs))
        notes.insert(0, self.loss.held_out(mean, held_out.returned_loss(problem), cut))
        more = refit_steps(steps, self.settings)
        return _Choice(stages, whole, share, more, weights, held_out, curve, tuple(notes))

    def _take_score(self, at: Sequence[HeldOutScores]) -> tuple[int, list[str]]:
        """Whether the function of the score is taken: by its evidence, unless it does harm."""
        with self.encoded.open(self.sample.scale) as source:
            model, found = self.score.fit(source, self.start)
        gain, error = held_out_gain(at[SCORE], at[LARGE_GAPS], self.problem)
        if model.steps and not is_taken(gain, error, evidence=True):
            return 0, [f"{found.name}: not applied, {self.loss.change(gain, error)}"]
        return int(bool(model.steps)), [found.note]

    def _has(self, stage: int) -> bool:
        """Whether there is anything for a stage to do."""
        if stage == LARGE_GAPS:
            return self.certain is not None
        return stage != COLUMN_SHIFTS or self.large is not None

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

    def refit(self, choice: _Choice, progress: bool | None) -> tuple[Rounds, History]:
        """The chosen stages on all rows."""
        model, history = self.start, History()
        if choice.stages == 0:
            return model, history
        ends = [0]
        with self.sample.open(self._used_encoders(choice)) as source:
            for stage in (SCORE, LARGE_GAPS, COLUMN_SHIFTS):
                if stage < choice.stages:
                    model = self._advance(stage, source, model, whole=True)
                ends.append(len(model.steps))
            if choice.stages > MAIN:
                with self.sample.beside(source, self.refit_runs) as sources:
                    boosted = self.main.run_several(
                        sources,
                        model,
                        self.refit_runs,
                        progress=progress,
                        patience=None,
                        max_rounds=choice.steps,
                    )
                model, history = boosted.model, boosted.history
        if choice.whole < choice.stages:
            whole = ends[choice.whole]
            parts = tuple(step.along(choice.share) for step in model.steps[whole:])
            model = replace(model, steps=(*model.steps[:whole], *parts))
        if choice.weights is not None:
            model = self.score.reweighted(model, *choice.weights)
        return model, history

    def _used_encoders(self, choice: _Choice) -> list[Encoder | None]:
        """The encoders of the stages that are refitted."""
        encoders = {
            SCORE: SCORE_ENCODER,
            LARGE_GAPS: CERTAIN_ENCODER,
            COLUMN_SHIFTS: -1 if self.large is None else self.large.index,
            MAIN: MAIN_ENCODER,
        }
        used = {encoders[stage] for stage in encoders if stage < choice.stages and self._has(stage)}
        return [own if k in used else None for k, own in enumerate(self.start.encoders)]
