"""Correction on level sets: the final stage of a default fit.

Works on held-out predictions, because a model's predictions for the rows it was fitted on are
over-confident. From coarse to fine: first the curve of all rows over many levels, then every term
(column, or pair of columns) on everyone, then every term on every level set; see
``classes.cells`` for the test and the update. The steps are then appended to the model that was
refitted on all rows.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations
from statistics import NormalDist
from typing import cast

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.classes.groups import CellLearner, GroupEncoder, GroupTable
from recalibrate.core.boost import Settings, boost, draw_levels
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.learning import FunctionClass, Penalty, StepContext, everyone, level_count
from recalibrate.core.part import PendingStep, Rows
from recalibrate.core.rounds import Rounds, Step
from recalibrate.fitting.default.judging import HeldOutScores
from recalibrate.groups.expressions import name_text
from recalibrate.groups.groupset import GroupSet, bind
from recalibrate.rows.memory import rows_in_memory
from recalibrate.support.notices import counted

FALSE_ALARM = 0.05
"""Chance that noise moves all rows, any single column, or any pair, of an unmoved base."""
PASSES = 3
"""Looks at the same rows, which share that chance."""
MOVED_LIMIT, MOVED_CURVE_LIMIT, SOME_ROWS = 1.0, 0.0, 5000
"""Limits of columns and pairs, and of the curve, for a model that was moved anyway.

Its predictions carry the noise of the rows it was fitted on, and cells are moved only by the
share of their gaps that is more than noise: being strict saves nothing (cross-validated). But in
fewer rows than the last number dozens of pairs find little but noise.
"""
MANY_COLUMNS = 100
"""With more columns than this a model that was moved is not treated generously either: dozens of
them look off by accident, and moving them all raised the loss (simulated tables of 600 columns of
which five matter)."""
CLASSES_LIMIT, CLASSES_CURVE_LIMIT = 2.5, 1.0
"""The same where there are several classes: K times as many cells offer themselves, and being as
generous to them raised the loss of small tables by up to 2 % (halves of calibration rows)."""
CURVE_LEVELS = 20
"""Levels of the curve of all rows, which has all of them to fill its cells."""
MOST_CURVE_ROUNDS = 5
"""Half of what is left each time: what the sixth would move is not worth a step of the model."""
STEP, MOST_ROUNDS = 0.5, 40
MOST_PAIRED_COLUMNS = 12
LEAST_TERM_ROWS = 100


def add_level_sets(
    model: Rounds,
    problem: Problem,
    H: FunctionClass | None,
    held_out: HeldOutScores,
    scale: Scale,
    threads: int,
) -> tuple[Rounds, str]:
    """The model with the level-set steps that held-out rows call for, and a note on them.

    Terms are H's groups, or the columns that it sees and their pairs; without H the curve of all
    rows alone.
    """
    stage = _Stage(problem, held_out, scale, threads, moved=bool(model.steps))
    learner = stage.candidates(H)
    if learner is None:
        return model, "level sets: not tested, no group has enough rows"
    terms = learner.encoder.groups.terms
    tested = _tested(len(terms) - 1, named=H is not None and bool(H.terms))
    steps = stage.run(learner)
    if not steps:
        return model, f"level sets: no significant errors ({tested} tested)"
    taken = sorted({int(table.columns[0]) for _, table in steps})
    said = ", ".join("all rows" if t == 0 else terms[t].text for t in taken)
    encoder = GroupEncoder(learner.encoder.groups.take(taken))
    moved = tuple(
        replace(
            step,
            table=replace(table, columns=np.searchsorted(taken, table.columns)),
            encoder=len(model.encoders),
        )
        for step, table in steps
    )
    model = replace(model, encoders=(*model.encoders, encoder), steps=(*model.steps, *moved))
    return model, f"level sets: {counted(len(steps), 'correction')} ({said}); {tested} tested"


def _tested(terms: int, *, named: bool) -> str:
    """What was looked at beside the curve of all rows: the user's groups, or columns."""
    if terms == 0:
        return "all rows"
    return counted(terms, "group expression") if named else f"{terms} columns or pairs"


class _Stage:
    """Held-out rows, and the loop on them."""

    def __init__(
        self, problem: Problem, held_out: HeldOutScores, scale: Scale, threads: int, *, moved: bool
    ) -> None:
        self.link = problem.link
        self.table = problem.table.take(held_out.rows)
        self.y = problem.labels.values[held_out.rows]
        self.scores = held_out.scores
        self.outputs = problem.labels.outputs
        self.everyone = everyone(problem.table.schema)
        self.scale = scale
        self.threads = threads
        self.moved = moved
        weight = held_out.weight(problem)
        self.weight = scale.quantise_weight(weight)
        own = problem.family
        self.least = own.least_noise(self.y, weight) if own.positive else 0.0
        self.settings = Settings(
            link=self.link,
            levels=level_count(len(self.y)),
            step=STEP,
            max_rounds=MOST_ROUNDS,
        )

    def candidates(self, H: FunctionClass | None) -> CellLearner | None:
        """Terms to test: everyone, and H's own groups, or all its columns and pairs of them."""
        if H is None:
            return self._learner(self._bind([self.everyone], 1), pairs=0)
        if H.terms:
            return self._learner(self._bind([self.everyone, *H.terms], H.min_rows), pairs=0)
        quoted = [name_text(name) for name in H.reads(self.table.schema)]
        if len(quoted) > MOST_PAIRED_COLUMNS:
            quoted, paired = self._worst(quoted)
        else:
            paired = quoted
        # A pair has groups only if both of its columns have.
        pairs = [f"{a} * {b}" for a, b in combinations(paired, 2)]
        bound = self._bind([self.everyone, *quoted, *pairs], LEAST_TERM_ROWS)
        if bound is None:
            return None
        return self._learner(bound, pairs=sum(len(term.factors) == 2 for term in bound.terms))

    def _worst(self, columns: list[str]) -> tuple[list[str], list[str]]:
        """Columns that have groups, and those among them that are off most."""
        single = self._learner(self._bind([self.everyone, *columns], LEAST_TERM_ROWS), pairs=0)
        if single is None:
            return [], []
        columns = [term.text for term in single.encoder.groups.terms[1:]]
        off = self._scores_of(single)[1:]
        worst = np.argsort(-off, kind="stable")[:MOST_PAIRED_COLUMNS]
        return columns, [columns[k] for k in sorted(worst)]

    def run(self, learner: CellLearner) -> list[tuple[Step, GroupTable]]:
        """Steps of the loop with these candidates, from coarse to fine."""
        model = Rounds(self.link, None, (learner.encoder,), outputs=self.outputs)
        only_everyone = np.full(len(learner.thresholds), np.inf)
        generous = MOVED_CURVE_LIMIT if self.outputs == 1 else CLASSES_CURVE_LIMIT
        only_everyone[0] = generous if self.moved else learner.thresholds[0]
        curve = replace(learner, thresholds=only_everyone)
        settings, classes = self.settings, self.outputs
        passes = (
            (curve, replace(settings, levels=CURVE_LEVELS, max_rounds=MOST_CURVE_ROUNDS * classes)),
            (learner, replace(settings, levels=1)),
            (learner, replace(settings, max_rounds=MOST_ROUNDS * classes)),
        )
        with rows_in_memory(self._rows(learner), self.scale, threads=self.threads) as source:
            for candidates, how in passes:
                model = boost(
                    source, candidates, how, model, progress=False, keep_if_interrupted=False
                ).model
        return [(step, cast(GroupTable, step.table)) for step in model.pruned().steps]

    def _scores_of(self, learner: CellLearner) -> NDArray[np.float64]:
        """How far every term is off before the first update."""
        start = Rounds(self.link, None, (learner.encoder,), outputs=self.outputs)
        found = []
        with rows_in_memory(self._rows(learner), self.scale, threads=self.threads) as source:
            for output in range(self.outputs):
                partition = draw_levels(source, start, self.settings, output)
                draft = PendingStep(start, partition, output=output)
                found.append(
                    learner.statistics(StepContext(source, draft, partition.count, 1.0, Penalty()))
                )
        return np.asarray(np.max(found, axis=0))

    def _rows(self, learner: CellLearner) -> Rows:
        return Rows((learner.encoder.encode(self.table),), self.y, self.scores, self.weight)

    def _learner(self, groups: GroupSet | None, pairs: int) -> CellLearner | None:
        if groups is None:
            return None
        singles = len(groups.terms) - pairs
        # The first term is everyone, a family of its own.
        one, columns, both = (_limit(n * self.outputs) for n in (1, max(singles - 1, 1), pairs))
        limits = [one, *[columns] * (singles - 1), *[both] * pairs]
        if self.moved and len(self.y) >= SOME_ROWS and singles <= MANY_COLUMNS:
            generous = MOVED_LIMIT if self.outputs == 1 else CLASSES_LIMIT
            limits[1:] = [generous] * (len(limits) - 1)
        return CellLearner(GroupEncoder(groups), np.array(limits), least=self.least)

    def _bind(self, terms: list[str], min_rows: int) -> GroupSet | None:
        """Groups of the terms that have any; terms without one need no warning here."""
        if not terms:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                return bind(terms, self.table, min_rows=min_rows)
            except ValueError:
                return None


def _limit(terms: int) -> float:
    """Bonferroni: z that noise exceeds on any of so many terms with chance FALSE_ALARM."""
    return NormalDist().inv_cdf(1.0 - FALSE_ALARM / (PASSES * max(terms, 1)))
