"""One call of ``fit``, after everything was read: which runs of the loop make the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.bases.protocol import Base
from recalibrate.core.boost import Boosted, History, Settings
from recalibrate.core.certificate import Certificate
from recalibrate.core.rounds import Rounds
from recalibrate.data.folds import (
    Fold,
    count_folds,
    deal_folds,
    dealing_order,
    hold_out,
    is_splitter,
    restrict_folds,
    split_folds,
)
from recalibrate.fitting.arguments import (
    Knobs,
    gives_rows,
    is_share,
    label_borders,
    loop_settings,
    paper_settings,
)
from recalibrate.fitting.default.recipe import follow_recipe
from recalibrate.fitting.default.sample import Pantry, PantryInMemory
from recalibrate.fitting.paper import certify
from recalibrate.fitting.validation import Verdict, judge, run_folds
from recalibrate.fitting.workbench import Bench, Workbench, make_workbench
from recalibrate.model import Recalibrated
from recalibrate.rows.memory import Rows


@dataclass(frozen=True)
class Plan:
    """What the arguments of ``fit`` ask for, checked."""

    knobs: Knobs
    alpha: float | None = None
    B: float | None = None
    cv: Any = None
    validation: Any = None

    @property
    def paper(self) -> bool:
        """Whether to run Algorithm 1 to the letter."""
        return self.alpha is not None or self.B is not None

    @property
    def default(self) -> bool:
        """Whether the recipe decides everything."""
        free = self.validation is None or is_share(self.validation)
        return not self.paper and not self.knobs.turned and free


class Run:
    """A fit whose rows are in memory.

    Parameters
    ----------
    base
        The base model.
    problem
        Everything that was read.
    H
        The class.
    threads, blocks, seed, progress
        As in ``fit``.
    """

    def __init__(
        self,
        base: Base,
        problem: Problem,
        H: Any,
        threads: int,
        blocks: int | None,
        seed: int,
        progress: bool | None,
    ) -> None:
        self.base = base
        self.problem = problem
        self.H = H
        self.threads = threads
        self.blocks = blocks
        self.seed = seed
        self.progress = progress

    @property
    def n_rows(self) -> int:
        """Rows that can be fitted."""
        return self.problem.n_rows

    def follow(self, plan: Plan) -> Recalibrated:
        """The model."""
        if plan.paper:
            settings = paper_settings(plan.alpha, plan.B, plan.knobs, self.seed)
            B = 1.0 if plan.B is None else plan.B
            return self.paper(settings, float(plan.alpha or 0.0), B, plan.validation)
        if plan.default:
            return self.recipe(plan.cv, plan.validation)
        settings = loop_settings(self.problem, plan.knobs, self.seed, self.borders)
        return self.loop(settings, plan.cv, plan.validation)

    def borders(self, levels: int) -> NDArray[np.float64]:
        """Borders of cells with equally many labels, for a grid by quantile."""
        return label_borders(self.problem, levels)

    def paper(self, settings: Settings, alpha: float, B: float, validation: Any) -> Recalibrated:
        """Algorithm 1 on all rows but those that validate, which only estimate."""
        bench, held_out = self._paper_bench(settings, validation)
        boosted = bench.run(settings, held_out=held_out, progress=self.progress)
        certificate = certify(bench, settings, boosted, alpha, B, held_out)
        return self._model(boosted, settings, certificate)

    def recipe(self, cv: Any, validation: Any) -> Recalibrated:
        """The default: stages that held-out rows have to approve of."""
        pantry = self._pantry()
        folds = self._sample_folds(pantry, cv, validation)
        if not folds:
            return self._unchanged()
        boosted, settings, notes = follow_recipe(
            pantry,
            self.H,
            folds,
            threads=self.threads,
            seed=self.seed,
            progress=self.progress,
        )
        return self._model(boosted, settings, notes=notes)

    def loop(self, settings: Settings, cv: Any, validation: Any) -> Recalibrated:
        """The loop as the knobs say, its steps chosen on held-out rows if there are any."""
        bench = self._bench(settings)
        if validation is False:
            plain = replace(settings, patience=None)
            return self._model(bench.run(plain, progress=self.progress), settings)
        if gives_rows(validation):
            held_out = bench.read_held_out(self.base, validation, clip=settings.grid is not None)
            boosted = bench.run(settings, held_out=held_out, progress=self.progress)
            return self._model(boosted, settings)
        verdict = self._cross_validate(bench, settings, cv, validation)
        if verdict is None:
            return self._unchanged()
        final = replace(settings, patience=None, max_rounds=verdict.rounds, tolerance=None)
        if verdict.rounds == 0:
            settings = final = replace(final, grid=None)  # not even rounded
        boosted = bench.run(final, progress=self.progress)
        boosted = replace(boosted, history=replace(boosted.history, held_out=verdict.curve))
        return self._model(boosted, settings, notes=(verdict.note,))

    def _unchanged(self) -> Recalibrated:
        """The base as it is: there are too few rows to hold any out."""
        note = f"{self.n_rows} row(s) cannot be split: the base is returned unchanged"
        empty = Rounds(self.problem.link)
        return self._model(
            Boosted(empty, History(), None, empty), Settings(link=empty.link), notes=(note,)
        )

    def _paper_bench(self, settings: Settings, validation: Any) -> tuple[Bench[Any], Any]:
        """Rows to fit, and those to hold out (or None)."""
        folds = self._folds(None, validation, self.problem) if is_share(validation) else []
        if folds:
            train, aside = folds[0]
            split = self._make_bench(settings, self.problem.take(train))
            return split, split.take_held_out(self.problem.take(aside))
        bench = self._bench(settings)
        held_out = None
        if gives_rows(validation):
            held_out = bench.read_held_out(self.base, validation, clip=True)
        return bench, held_out

    def _bench(self, settings: Settings) -> Bench[Any]:
        return self._make_bench(settings, self.problem)

    def _make_bench(self, settings: Settings, problem: Problem) -> Workbench:
        return make_workbench(problem, self.H, settings, threads=self.threads, blocks=self.blocks)

    def _cross_validate(
        self, bench: Any, settings: Settings, cv: Any, validation: float | None
    ) -> Verdict | None:
        """How many rounds to take; None when there are too few rows to split."""
        folds = self._folds(cv, validation, self.problem)
        if not folds:
            return None
        start = bench.start(settings)
        rows: Rows = bench.rows
        runs = run_folds(
            rows, bench.scale, bench.learner, settings, start, folds, threads=self.threads
        )
        return judge(runs, rows, self.problem.labels.weight, start)

    def _pantry(self) -> Pantry:
        """The rows of the default."""
        return PantryInMemory(self.problem, self.seed, self.threads, self.blocks)

    def _sample_folds(self, pantry: Pantry, cv: Any, validation: float | None) -> list[Fold]:
        """Folds of the rows that the default's choices are made on."""
        if pantry.numbers is None or not is_splitter(cv):
            return self._folds(cv, validation, pantry.sample)
        folds = self._folds(cv, validation, self.problem)
        return restrict_folds(folds, pantry.numbers, self.n_rows)

    def _folds(self, cv: Any, validation: float | None, problem: Problem) -> list[Fold]:
        """Folds by content, or as the user splits; none when there are too few rows."""
        if is_splitter(cv):
            return split_folds(cv, problem.given.labels, problem.given.rows)
        count = min(count_folds(cv), problem.n_rows)
        check_share(validation)
        labels = problem.labels
        order = dealing_order(problem.table, labels.values, problem.base, labels.weight, self.seed)
        if validation is not None:
            fold = hold_out(order, float(validation))
            return [fold] if min(map(len, fold)) > 0 else []
        return deal_folds(order, count) if count > 1 else []

    def _model(
        self,
        boosted: Boosted,
        settings: Settings,
        certificate: Certificate | None = None,
        notes: tuple[str, ...] = (),
    ) -> Recalibrated:
        return Recalibrated(
            base=self.base,
            rounds=boosted.log,
            H=self.H,
            schema=self.problem.table.schema,
            labels=replace(self.problem.labels, values=np.empty(0), weight=None),
            settings=settings,
            history_=boosted.history,
            certificate_=certificate,
            clip=settings.grid is not None,
            notes=notes,
            own_table=self.problem.own_table,
            n_rows=self.n_rows,
        )


def check_share(validation: float | None) -> None:
    """Refuse a share of the rows that is none."""
    if validation is not None and (isinstance(validation, bool) or not 0 < validation < 1):
        raise ValueError(
            f"validation as a share must lie between 0 and 1, got {validation!r}; "
            "False turns validation off"
        )
