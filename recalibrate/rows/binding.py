"""A class H on columns whose rows come in pieces: the learner that all rows at once would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.classes import Groups, Linear, Trees
from recalibrate.classes.linear.spec import Term, column_terms
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.learning import SCORE_COLUMN, FunctionClass, Learner
from recalibrate.data.bins import (
    Bins,
    FeatureBins,
    bin_targets,
    category_bins,
    category_scores,
    category_weights,
    numeric_bins,
    ordered_bins,
)
from recalibrate.data.table import Column
from recalibrate.groups.cells import BANDS, CategoryCells, Cells, cut_distinct
from recalibrate.groups.combinations import Assigned, Counted, add_counts, count_combinations
from recalibrate.groups.groupset import GroupSet, bind_by
from recalibrate.rows.distributions import ColumnOf, Distribution, distribution
from recalibrate.rows.pieces import Pieces


def binds(H: FunctionClass) -> bool:
    """Whether the class can be bound without having all rows at once."""
    return isinstance(H, Trees | Linear | Groups)


@dataclass(frozen=True)
class CategoryWeights:
    """Work: summed weight of every code of a categorical column (first: missing)."""

    column: Column
    reader: ColumnOf

    def __call__(self, piece: Problem) -> NDArray[np.int64]:
        values, weight = self.reader(piece)
        mass = category_weights(self.column, values, weight)
        missing = np.isnan(values)
        mass[0] = int(missing.sum())  # rows, be their weight zero
        return mass


@dataclass(frozen=True)
class CategoryScores:
    """Work: what orders the categories of a column by their mean base score."""

    column: Column
    reader: ColumnOf

    def __call__(self, piece: Problem) -> NDArray[np.int64]:
        values, weight = self.reader(piece)
        return category_scores(self.column, values, piece.table.column(SCORE_COLUMN), weight)


@dataclass(frozen=True)
class CountCells:
    """Work: combinations of cells that occur in a piece, for the factors of every term."""

    terms: tuple[tuple[Cells, ...], ...]
    scale: Scale

    def __call__(self, piece: Problem) -> list[Counted]:
        table = piece.table
        weight = self.scale.quantise_weight(piece.labels.weight)
        if len(weight):
            table = table.take(weight > 0)
        rows = Assigned(table)
        return [count_combinations(factors, rows) for factors in self.terms]


class Binder:
    """Binds classes to the columns of all pieces; what one found out serves the next.

    Parameters
    ----------
    pieces
        The rows.
    scale
        Quantises their weights.
    """

    def __init__(self, pieces: Pieces, scale: Scale) -> None:
        self.pieces = pieces
        self.scale = scale
        self.schema = pieces.problem.table.schema
        self._known: dict[tuple[str, int, bool], FeatureBins] = {}

    def bind(self, H: FunctionClass, index: int = 0) -> Learner:
        """The class; its encoder will be number ``index``."""
        if isinstance(H, Trees):
            return H.bind_by(self.schema, self._bins, index=index)
        if isinstance(H, Linear):
            return H.bind_by(self.schema, self._terms, index=index)
        if isinstance(H, Groups):
            return H.bind_by(lambda: self._groups(H), index=index)
        raise TypeError(f"{type(H).__name__} needs all rows at once; use Trees, Linear or Groups")

    def _bins(self, names: Sequence[str], ordered: Sequence[str], most: int) -> Bins:
        """Bins of some columns, and of some of them in order of the base score."""
        keys = [(name, most, False) for name in names] + [(name, most, True) for name in ordered]
        for key in keys:
            if key not in self._known:
                self._known[key] = self._feature_bins(*key)
        return Bins(tuple(self._known[key] for key in keys))

    def _feature_bins(self, name: str, most: int, ordered: bool) -> FeatureBins:
        column = self.schema.columns[self.schema.index(name)]
        if ordered:
            work = CategoryScores(column, ColumnOf(name, self.scale))
            return ordered_bins(column, np.sum(list(self.pieces.map(work)), axis=0), most)
        if column.kind == "categorical":
            return category_bins(column, self._category_weights(column), most)
        found = self._distribution(name, lambda total: bin_targets(total, most))
        exact = None if found.complete else False
        return numeric_bins(name, found.values, found.mass, most, exact=exact)

    def _terms(self, column: Column) -> list[Term]:
        """Terms of a column in a linear function: from a short column of the same make."""
        if column.kind == "categorical":
            mass = self._category_weights(column)
            values = np.arange(len(mass), dtype=np.float32)
            if mass[0]:
                values[0] = np.nan
                return column_terms(column, values, mass)
            return column_terms(column, values[1:], mass[1:])
        found = self._distribution(column.name, lambda total: np.array([(total + 1) // 2]))
        ends = [] if np.isnan(found.low) else [found.low, found.high]
        ends += [np.nan] if found.missing else []
        values = np.concatenate([found.values, np.array(ends, dtype=np.float32)])
        mass = np.concatenate([found.mass, np.zeros(len(ends), dtype=np.int64)])
        return column_terms(column, values, mass)

    def _groups(self, H: Groups) -> GroupSet:
        """Groups of the terms."""

        def cut(column: Column) -> Cells:
            if column.kind == "categorical":
                return CategoryCells(column.name, len(column.categories))
            found = self._distribution(column.name, _band_targets)
            values = found.values + np.float32(0)  # -0 is called 0
            return cut_distinct(column.name, values, found.mass, BANDS, complete=found.complete)

        def count(terms: Sequence[tuple[Cells, ...]]) -> list[Counted]:
            found = list(self.pieces.map(CountCells(tuple(terms), self.scale)))
            return [add_counts([piece[t] for piece in found]) for t in range(len(terms))]

        return bind_by(H.terms, self.schema, cut, count, min_rows=H.min_rows)

    def _distribution(self, name: str, targets: Any) -> Distribution:
        return distribution(self.pieces, ColumnOf(name, self.scale), targets)

    def _category_weights(self, column: Column) -> NDArray[np.int64]:
        work = CategoryWeights(column, ColumnOf(column.name, self.scale))
        return np.asarray(np.sum(list(self.pieces.map(work)), axis=0))


def _band_targets(total: int) -> NDArray[np.int64]:
    return np.array([-(-total * j // BANDS) for j in range(1, BANDS)])
