"""Which combinations of cells occur, and how often: counted block by block and added up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.columns import Piece
from recalibrate.groups import expressions as ex
from recalibrate.groups.cells import Cells

LOOKUP_LIMIT = 1 << 22
"""Entries of a direct lookup table; beyond that, binary search."""

Counted = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Cells [combination, factor] in ascending order, and rows of each."""


class Assigned:
    """Cells of a table's rows, each factor's found once however many terms use it."""

    def __init__(self, table: ex.Columns) -> None:
        self.n_rows = table.n_rows
        self.table = table
        self._known: dict[Cells, NDArray[np.unsignedinteger]] = {}
        self._counted: dict[tuple[Cells, ...], Counted] = {}
        self._missing: dict[str, NDArray[np.bool_] | None] = {}

    def cells(self, factor: Cells) -> NDArray[np.unsignedinteger]:
        """Cell of every row, 0 where it is in none."""
        if factor not in self._known:
            small = np.min_scalar_type(factor.count + 1)  # kept for all rows of a fit
            self._known[factor] = factor.assign(self.table).astype(small)
        return self._known[factor]

    def missing(self, columns: Sequence[str]) -> int:
        """Rows without a value in one or more of some columns."""
        found = [mask for name in columns if (mask := self._lost(name)) is not None]
        return int(np.logical_or.reduce(found).sum()) if found else 0

    def _lost(self, name: str) -> NDArray[np.bool_] | None:
        """Where a column has no value; None if it has all."""
        if name not in self._missing:
            lost = np.isnan(self.table.column(name))
            self._missing[name] = lost if lost.any() else None
        return self._missing[name]

    def count(self, factors: tuple[Cells, ...]) -> Counted:
        """Combinations of cells that occur, and how often."""
        if factors not in self._counted:
            self._counted[factors] = count_combinations(factors, self)
        return self._counted[factors]

    def stacked(self, factors: Sequence[Cells]) -> NDArray[np.unsignedinteger]:
        """Cells of several factors, [factor, row]: of one type, as far as it can be."""
        cells = [self.cells(factor) for factor in factors]
        return np.stack(cells, dtype=np.result_type(np.uint16, *cells))


def sizes_of(factors: tuple[Cells, ...]) -> tuple[int, ...]:
    """How many different cells the factors assign, 0 and "missing" included."""
    return tuple(factor.count + 2 for factor in factors)


def count_combinations(factors: tuple[Cells, ...], rows: Assigned) -> Counted:
    """Combinations of cells that occur in some rows, and how often."""
    sizes = sizes_of(factors)
    if math.prod(sizes) <= LOOKUP_LIMIT:
        key = rows.cells(factors[0])
        for factor, size in zip(factors[1:], sizes[1:], strict=True):
            key = np.multiply(key, size, dtype=np.int64) + rows.cells(factor)
        counts = np.bincount(key, minlength=math.prod(sizes)).reshape(sizes)
        found = np.argwhere(counts > 0)
        found = found[(found > 0).all(axis=1)]
        return found.astype(np.int64), counts[tuple(found.T)]
    assigned = [rows.cells(factor) for factor in factors]
    inside = np.logical_and.reduce([cells > 0 for cells in assigned])
    columns = [cells[inside] for cells in assigned]
    group = np.zeros(int(inside.sum()), dtype=np.int64)
    if not len(group):
        return np.empty((0, len(factors)), dtype=np.int64), np.empty(0, dtype=np.int64)
    for factor, cells in zip(factors, columns, strict=True):
        group = _dense(group * (factor.count + 2) + cells.astype(np.int64))
    # Any row of a group shows the group's cells.
    example = np.empty(int(group.max()) + 1, dtype=np.intp)
    example[group] = np.arange(len(group))
    found = np.column_stack([cells[example] for cells in columns]).astype(np.int64)
    return found, np.bincount(group).astype(np.int64)


@dataclass(frozen=True)
class CountCells:
    """Combinations of cells that occur in a piece, for the factors of every term."""

    terms: tuple[tuple[Cells, ...], ...]

    def __call__(self, piece: Piece) -> list[Counted]:
        table, weight = piece
        rows = Assigned(table.take(weight > 0) if len(weight) else table)
        return [rows.count(factors) for factors in self.terms]


def add_counts(parts: Sequence[Counted]) -> Counted:
    """Counts of several blocks of rows together."""
    if len(parts) == 1:
        return parts[0]
    cells = np.concatenate([cells for cells, _ in parts])
    counts = np.concatenate([counts for _, counts in parts])
    distinct, inverse = np.unique(cells, axis=0, return_inverse=True)
    summed = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(summed, inverse.ravel(), counts)
    return distinct, summed


def _dense(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rank of every key among the distinct ones, from 0."""
    if int(keys.max()) < LOOKUP_LIMIT:
        ranks = np.cumsum(np.bincount(keys) > 0) - 1
        return np.asarray(ranks[keys], dtype=np.int64)
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)
