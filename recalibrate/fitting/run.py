"""One call of ``fit``, after everything was read: which runs of the loop make the model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.bases.protocol import Base
from recalibrate.core.boost import Boosted, History, Settings, boost_in_turns
from recalibrate.core.certificate import Certificate
from recalibrate.core.fixedpoint import Weights
from recalibrate.core.learning import FunctionClass, StatsSource
from recalibrate.core.levels import to_margin
from recalibrate.core.rounds import Rounds
from recalibrate.data.columns import Weighted, cut_at_quantiles, distribution, integer_weights
from recalibrate.data.folds import count_folds, is_splitter
from recalibrate.data.table import Table
from recalibrate.explain.notes import UNCHANGED, NamedLoss
from recalibrate.fitting.arguments import (
    Plan,
    gives_rows,
    is_share,
    loop_settings,
    paper_settings,
)
from recalibrate.fitting.base_review import lost_by_cutting, review_base, uncut
from recalibrate.fitting.default.multiclass import follow_classes
from recalibrate.fitting.default.recipe import follow_recipe
from recalibrate.fitting.default.stages import Sample
from recalibrate.fitting.paper import certify
from recalibrate.fitting.training import Training, prepare
from recalibrate.fitting.validation import Fitted, Verdict, judge, run_folds
from recalibrate.model import Recalibrated
from recalibrate.rows.memory import fingerprints
from recalibrate.rows.store import (
    Encoded,
    Fold,
    Store,
    deal,
    restrict,
    set_aside,
    split,
    weights_of,
)
from recalibrate.support.notices import counted, listed, warn_user
from recalibrate.support.provenance import Provenance, library_version, today

# --- Identifier columns, which number the rows instead of describing them -----------------------


NEARLY_ALL, FEWEST_ROWS = 0.9, 100
"""Share of the rows that have a value of their own; in fewer rows than this that is no wonder."""


def id_like(table: Table, names: Sequence[str], n_rows: int) -> list[str]:
    """Columns whose values, categories or whole numbers, differ in nearly every row.

    ``n_rows`` counts all rows where the table holds only some of them. Numbers with fractions
    always differ, and are measurements.

    Examples
    --------
    >>> import pandas as pd
    >>> from recalibrate.data.table import read_table
    >>> X = pd.DataFrame({"customer": [f"c{k}" for k in range(200)], "age": [20, 50] * 100})
    >>> id_like(read_table(X), ["customer", "age"], 200)
    ['customer']
    """
    if n_rows < FEWEST_ROWS:
        return []
    return [name for name in names if _distinct(table, name) >= NEARLY_ALL * n_rows]


def _distinct(table: Table, name: str) -> int:
    column = table.schema.columns[table.schema.index(name)]
    if column.kind == "categorical":
        return len(column.categories)
    values = table.source(name)
    if values.dtype.kind not in "iu" or not len(values):
        return 0
    room = int(values.max()) - int(values.min()) + 1
    if room < NEARLY_ALL * len(values):  # as of ages; sorting is only for what may differ
        return 0
    return len(np.unique(values))


UNKNOWN_BOUNDS = (
    "bounds: labels are scaled by the smallest and largest seen; what is proven holds for the "
    "fitted rows. For new rows the paper needs bounds that all labels keep: give bounds=(low, high)"
)
FEW_EFFECTIVE = 0.05
"""Share of the rows that those of equal weight have to make up; survey weights leave a third."""
HELD_OUT_SCALE = 100_000
"""Of n rows the default fit holds out m, so that 1 / m - 1 / n is at most 1 / HELD_OUT_SCALE.

What is learned on held-out rows (steps, weights, level sets) has an excess loss in proportion to
1 / m. Simulated tables of 75,000 to 500,000 rows with 1, 2, 3 and 5 of five folds: the expected
loss is above that of five folds by the share 22 (1 / m - 1 / n), so by 0.02 % at this limit. A fold
costs a whole fit, so that no more of them are fitted.
"""
FEWEST_FOLDS = 2
"""The number of steps that a single fold finds best varies too much, however many rows it has
(500,000 rows: 0.03 % above the loss of five folds on average, 0.06 % at most; with two 0.01 %)."""


@dataclass(frozen=True, eq=False)
class Run:
    """A fit whose rows were read.

    Attributes
    ----------
    base
        The base model.
    store
        The rows.
    H
        The class.
    threads, seed, progress
        As in ``fit``.
    """

    base: Base
    store: Store
    H: FunctionClass
    threads: int
    seed: int
    progress: bool | None

    def follow(self, plan: Plan) -> Recalibrated:
        """The model, and where it comes from."""
        _warn_of_weights(weights_of(self.store), self.store.size.n_rows)
        data, base = fingerprints(self.store)  # before rows are let go
        said = review_base(self.base, self.store, cross_fitted=plan.cross_fitted)
        ids = self._say_ids()
        model = self._follow(plan)
        origin = Provenance(library_version(), today(), data, base, self.seed)
        return replace(model, provenance=origin, notes=(*said, *model.notes, *ids))

    def _say_ids(self) -> tuple[str, ...]:
        """A note on columns of H that look like identifiers."""
        table = self.store.problem.table
        found = id_like(table, self.H.reads(table.schema), self.store.size.n_rows)
        if not found:
            return ()
        said = "a different value in nearly every row, so nothing carries over to new rows"
        return (f"id-like columns: {listed(found, 10)} ({said}); leave them out of X, or of H",)

    def _follow(self, plan: Plan) -> Recalibrated:
        if plan.paper:
            settings = paper_settings(plan.alpha, plan.B, plan.loop, self.seed)
            B = 1.0 if plan.B is None else plan.B
            return self.paper(settings, float(plan.alpha or 0.0), B, plan.validation)
        if plan.default:
            return self.recipe(plan.cv, plan.validation)
        settings = loop_settings(
            self.store.problem, plan.loop, self.seed, self.borders, self.from_constant
        )
        return self.loop(settings, plan.cv, plan.validation)

    def borders(self, levels: int) -> NDArray[np.float64]:
        """Borders of cells with equally many labels, for a grid by quantile."""
        size = self.store.size
        weights = weights_of(self.store)
        heaviest = None if weights is None else weights.largest
        reader = partial(_ranked_values, levels, size.n_rows, heaviest)

        def targets(total: int) -> NDArray[np.int64]:
            inner = [-(-total * j // levels) for j in range(1, levels)]
            return np.array([1, *inner, total], dtype=np.int64)

        found = distribution(self.store.map, reader, targets)
        inner = cut_at_quantiles(found.values, found.mass, levels)
        return np.concatenate([found.values[:1], inner, found.values[-1:]])

    def from_constant(self) -> bool:
        """Whether the base says the same of all rows."""
        ends = [end for piece in self.store.map(_range_of_base) for end in piece]
        return min(ends) == max(ends)

    def paper(self, settings: Settings, alpha: float, B: float, validation: Any) -> Recalibrated:
        """Algorithm 1 on all rows but those that validate, which only estimate."""
        training, held_out, lost = self._paper_rows(settings, validation)
        self.store.drop()  # from now on encoded rows are enough
        boosted = training.run(settings, held_out=held_out, progress=self.progress)
        certificate = certify(training, settings, boosted, alpha, B, held_out)
        boosted = replace(boosted, history=uncut(boosted.history, *lost))
        labels = self.store.problem.labels
        notes = (UNKNOWN_BOUNDS,) if labels.kind == "regression" and labels.observed else ()
        return self._model(boosted, settings, certificate, notes)

    def recipe(self, cv: Any, validation: Any) -> Recalibrated:
        """The default: stages that held-out rows have to approve of."""
        sample = Sample(self.store, self.seed, self.threads)
        if sample.numbers is not None and is_splitter(cv):
            folds = restrict(split(self.store.problem, cv), sample.numbers, self.store.size.n_rows)
        else:
            folds = self._folds(cv, validation, sample.store)
            if cv is None and validation is None:
                folds = folds[: enough_folds(sample.store.size.n_rows, len(folds))]
        if not folds:
            return self._unchanged()
        if sample.problem.family.positive and not sample.problem.labels.values.any():
            return self._unchanged("all labels are 0, which does not say how small a rate is")
        several = self.store.problem.labels.outputs > 1
        follow = follow_classes if several else follow_recipe
        boosted, settings, notes = follow(
            sample,
            self.H,
            folds,
            threads=self.threads,
            seed=self.seed,
            progress=self.progress,
        )
        return self._model(boosted, settings, notes=notes)

    def loop(self, settings: Settings, cv: Any, validation: Any) -> Recalibrated:
        """The loop as its settings say, its steps chosen on held-out rows if there are any."""
        training = prepare(self.store, self.H, settings)
        lost = lost_by_cutting(self.store)
        if validation is False:
            self.store.drop()
            plain = replace(settings, patience=None)
            boosted = training.run(plain, progress=self.progress)
            return self._model(self._told(boosted, training, lost, 0.0), settings)
        if gives_rows(validation):
            clip = settings.grid is not None
            held_out, aside = training.read_held_out(self.base, validation, clip=clip)
            self.store.drop()
            boosted = training.run(settings, held_out=held_out, progress=self.progress)
            boosted = self._told(boosted, training, lost, aside)
            return self._model(boosted, settings, notes=self._bounded(boosted, training, held_out))
        verdict, aside = self._cross_validate(training, settings, cv, validation)
        loss = NamedLoss.of(self.store.problem.family, self.store.problem.labels)
        self.store.drop()
        if verdict is None:
            return self._unchanged()
        final = replace(settings, patience=None, max_rounds=verdict.rounds, tolerance=None)
        if verdict.rounds == 0:
            settings = final = replace(final, grid=None)  # not even rounded
        boosted = training.run(final, progress=self.progress)
        boosted = replace(boosted, history=replace(boosted.history, held_out=verdict.curve))
        boosted = self._told(boosted, training, lost, aside)
        return self._model(boosted, settings, notes=verdict.notes(loss, aside))

    def _told(
        self, boosted: Boosted, training: Training, fitted: float, held_out: float
    ) -> Boosted:
        """With losses of base scores as given (see `uncut`) and of predictions as returned."""
        history = uncut(boosted.history, fitted, held_out)
        if training.problem.bounded:
            final = training.returned_loss(boosted.model, training.encoded)
            history = replace(history, final=final)
        return replace(boosted, history=history)

    def _bounded(self, boosted: Boosted, training: Training, held_out: Encoded) -> tuple[str, ...]:
        """A note on the held-out loss where bounds make it another than the last of its curve."""
        problem = training.problem
        if not problem.bounded:
            return ()
        after = training.returned_loss(boosted.model, held_out)
        loss = NamedLoss.of(problem.family, problem.labels)
        return (loss.held_out(boosted.history.held_out[0], after),)

    def _unchanged(self, why: str = "") -> Recalibrated:
        """The base as it is: by default because there are too few rows to hold any out."""
        why = why or f"{counted(self.store.size.n_rows, 'row')} cannot be split into folds"
        note = f"result: {why}; {UNCHANGED}"
        empty = Rounds(self.store.problem.link, outputs=self.store.problem.labels.outputs)
        return self._model(
            Boosted(empty, History(), None, empty), Settings(link=empty.link), notes=(note,)
        )

    def _paper_rows(
        self, settings: Settings, validation: Any
    ) -> tuple[Training, Encoded | None, tuple[float, float]]:
        """Rows to fit, those to hold out, and what cutting base scores took off their losses."""
        folds = self._folds(None, validation, self.store) if is_share(validation) else []
        if folds:
            fitted, aside = (self.store.take(own) for own in (folds[0].train, folds[0].held_out))
            training = prepare(fitted, self.H, settings)
            lost = lost_by_cutting(fitted), lost_by_cutting(aside)
            return training, training.hold_out(aside), lost
        training = prepare(self.store, self.H, settings)
        all_rows = lost_by_cutting(self.store)
        if gives_rows(validation):
            held_out, own = training.read_held_out(self.base, validation, clip=True)
            return training, held_out, (all_rows, own)
        return training, None, (all_rows, 0.0)

    def _cross_validate(
        self, training: Training, settings: Settings, cv: Any, validation: float | None
    ) -> tuple[Verdict | None, float]:
        """How many rounds to take, and what cutting scores took off the loss of held-out rows.

        None when there are too few rows to split.
        """
        folds = self._folds(cv, validation, self.store)
        if not folds:
            return None, 0.0
        # Held-out rows of all folds together are those of the store, unless one share is held out.
        aside = self.store if len(folds) > 1 else self.store.take(folds[0].held_out)
        lost = lost_by_cutting(aside)
        start = training.start(settings)
        # Keeping the last update un-rounded ends a model, not a fold.
        how = replace(settings, keep_unrounded=False)

        def fit(source: StatsSource, held_out: StatsSource) -> Generator[None, None, Fitted]:
            boosted = yield from boost_in_turns(source, training.learner, how, start, held_out)
            return Fitted(boosted.path, boosted.history.held_out, (0,))

        runs = run_folds(training.encoded, training.scale, folds, fit, threads=self.threads)
        return judge(runs, start, training.scale, self.store.problem), lost

    def _folds(self, cv: Any, validation: float | None, store: Store) -> list[Fold]:
        """Folds by content, or as the user splits; none when there are too few rows."""
        if is_splitter(cv):
            return split(store.problem, cv)
        count = min(count_folds(cv), store.size.n_rows)
        _check_share(validation)
        if validation is not None:
            return set_aside(store, float(validation), self.seed)
        return deal(store, count, self.seed) if count > 1 else []

    def _model(
        self,
        boosted: Boosted,
        settings: Settings,
        certificate: Certificate | None = None,
        notes: tuple[str, ...] = (),
    ) -> Recalibrated:
        problem = self.store.problem
        return Recalibrated(
            base=self.base,
            rounds=boosted.model,
            H=self.H,
            schema=problem.table.schema,
            labels=replace(problem.labels, values=np.empty(0), weight=None),
            settings=settings,
            history_=boosted.history,
            certificate_=certificate,
            clip=settings.grid is not None,
            notes=notes,
            own_table=problem.own_table,
            n_rows=self.store.size.n_rows,
        )


def enough_folds(n_rows: int, count: int) -> int:
    """How many of ``count`` equal folds hold out enough rows together, see `HELD_OUT_SCALE`.

    Examples
    --------
    >>> [enough_folds(n_rows, 5) for n_rows in (1000, 50_000, 100_000, 300_000, 500_000)]
    [5, 4, 3, 2, 2]
    """
    return max(-(-count * HELD_OUT_SCALE // (n_rows + HELD_OUT_SCALE)), FEWEST_FOLDS)


def _ranked_values(levels: int, n_rows: int, heaviest: float | None, piece: Problem) -> Weighted:
    """Work: labels on the link's scale, by their own weights.

    Labels 0 and 1 have no quantiles, so there base scores take over.
    """
    labels = piece.labels
    binary = labels.kind == "binary"
    values = np.asarray(piece.base if binary else to_margin(labels.values, piece.link))
    if labels.weight is None or heaviest is None:
        return values, np.empty(0, dtype=np.int64)
    return values, integer_weights(labels.weight, levels, n_rows, heaviest)


def _range_of_base(piece: Problem) -> tuple[float, float]:
    """Work: smallest and largest base score."""
    return float(np.min(piece.base)), float(np.max(piece.base))


def _warn_of_weights(weights: Weights | None, n_rows: int) -> None:
    """Say so where most rows hardly count beside a few heavy ones."""
    if weights is not None and weights.effective < FEW_EFFECTIVE * n_rows:
        warn_user(
            f"sample_weight ranges from {weights.smallest:g} to {weights.largest:g}: the "
            f"effective sample size is {weights.effective} of {n_rows} rows. Rows of small weight "
            "hardly contribute to the weighted loss that is fitted and validated: audit their "
            "groups, or fit them separately"
        )


def _check_share(validation: float | None) -> None:
    """Refuse a share of the rows that is none."""
    if validation is not None and (isinstance(validation, bool) or not 0 < validation < 1):
        raise ValueError(
            f"validation as a share must lie between 0 and 1, got {validation!r}; "
            "False turns validation off"
        )
