"""One term of a group set: the combinations of its factors' cells that are groups, numbered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.columns import Piece
from recalibrate.data.table import Schema
from recalibrate.groups import expressions as ex
from recalibrate.groups.cells import Cells, PredicateCells
from recalibrate.support.threads import cut, share_out

# --- Which combinations of cells occur, and how often: counted block by block and added up ------


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
            self._counted[factors] = _count_combinations(factors, self)
        return self._counted[factors]

    def stacked(self, factors: Sequence[Cells]) -> NDArray[np.unsignedinteger]:
        """Cells of several factors, [factor, row]: of one type, as far as it can be."""
        cells = [self.cells(factor) for factor in factors]
        return np.stack(cells, dtype=np.result_type(np.uint16, *cells))


def _sizes_of(factors: tuple[Cells, ...]) -> tuple[int, ...]:
    """How many different cells the factors assign, 0 and "missing" included."""
    return tuple(factor.count + 2 for factor in factors)


def _count_combinations(factors: tuple[Cells, ...], rows: Assigned) -> Counted:
    """Combinations of cells that occur in some rows, and how often."""
    sizes = _sizes_of(factors)
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


@dataclass(frozen=True)
class BoundTerm:
    """One term: its factors, and the combinations of their cells that are groups.

    Attributes
    ----------
    text : str
        The term as it was written.
    factors : tuple of CategoryCells, ValueCells, BandCells or PredicateCells
        How a row's cell is found, per factor.
    cells : tuple of tuple of int
        One entry per group in ascending order: the cell numbers, one per factor.
    """

    text: str
    factors: tuple[Cells, ...]
    cells: tuple[tuple[int, ...], ...]

    @cached_property
    def _steps(self) -> list[NDArray[np.int64]]:
        """Per factor the sorted keys (prefix, cell) that lead to a group; see `search`."""
        cells = np.array(self.cells, dtype=np.int64)
        prefix = np.ones(len(cells), dtype=np.int64)
        steps = []
        for factor, column in zip(self.factors, cells.T, strict=True):
            keys, inverse = np.unique(prefix * (factor.count + 2) + column, return_inverse=True)
            steps.append(keys)
            prefix = inverse + 1
        return steps

    @cached_property
    def table(self) -> NDArray[np.int32] | None:
        """Group number by the cells of all factors together; None where there are too many."""
        sizes = _sizes_of(self.factors)
        if math.prod(sizes) > LOOKUP_LIMIT:
            return None
        table = np.zeros(sizes, dtype=np.int32)
        table[tuple(np.array(self.cells).T)] = np.arange(1, len(self.cells) + 1)
        return table.ravel()

    def search(self, rows: Assigned) -> NDArray[np.int32]:
        """Group number of every row, 1-based; 0 = in no group; for terms without a table."""
        # Factor by factor, so that the key stays below groups * cells and cannot overflow
        # however many columns are crossed. Prefix 0 is lost: its keys are below every known one.
        prefix = np.ones(rows.n_rows, dtype=np.int64)
        for factor, keys in zip(self.factors, self._steps, strict=True):
            prefix = _rank(prefix * (factor.count + 2) + rows.cells(factor), keys)
        return prefix.astype(np.int32)

    def labels(self, schema: Schema) -> list[str]:
        """Name of every group."""
        if len(self.factors) == 1:
            names = self.factors[0].names(schema)
            return [names[cell - 1] for (cell,) in self.cells]
        return [" * ".join(parts) for parts in self.parts(schema)]

    def parts(self, schema: Schema) -> list[tuple[str, ...]]:
        """Names of the cells that every group is the crossing of."""
        names = [factor.names(schema) for factor in self.factors]
        if len(names) > 1:  # "a or b * c" would read wrongly
            for factor, own in zip(self.factors, names, strict=True):
                if isinstance(factor, PredicateCells) and isinstance(
                    factor.condition, ex.And | ex.Or
                ):
                    own[0] = f"({own[0]})"
        return [
            tuple(own[cell - 1] for own, cell in zip(names, cells, strict=True))
            for cells in self.cells
        ]


def _rank(keys: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
    """1-based place of every key among the known ones (sorted), 0 if it is not there."""
    if known[-1] < LOOKUP_LIMIT:
        lookup = np.zeros(int(known[-1]) + 2, dtype=np.int64)
        lookup[known] = np.arange(1, len(known) + 1)
        return lookup[np.minimum(keys, len(lookup) - 1)]
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[place] == keys, place + 1, 0)


# --- Groups of rows by lookup: a table per term, from the cells of its factors to its groups ----
#
# The class ``Groups`` finds the groups of all rows at once, the audit those of one block of rows
# after the other: rows times terms would be too large there.


class TermTables:
    """Tables of terms one after the other, and which factors lead to them.

    Terms with too many combinations for a table are searched instead.
    """

    def __init__(self, terms: Sequence[BoundTerm]) -> None:
        self._n_terms = len(terms)
        self.factors = tuple(dict.fromkeys(factor for term in terms for factor in term.factors))
        self.searched = {t: term for t, term in enumerate(terms) if term.table is None}
        position = {factor: k for k, factor in enumerate(self.factors)}
        tables = [(t, term.table) for t, term in enumerate(terms) if term.table is not None]
        factors = [terms[t].factors for t, _ in tables]
        sizes = [size for own in factors for size in _sizes_of(own)]
        lengths = [len(table) for _, table in tables]
        self._arrays = (
            np.cumsum([0, *map(len, factors)], dtype=np.int64),
            np.array([position[factor] for own in factors for factor in own], dtype=np.int64),
            np.array(sizes, dtype=np.int64),
            np.cumsum([0, *lengths], dtype=np.int64),
            np.concatenate([np.empty(0, dtype=np.int32), *(table for _, table in tables)]),
            np.array([t for t, _ in tables], dtype=np.int64),
        )

    def fill(
        self, cells: NDArray[np.unsignedinteger], out: NDArray[np.int32], first: int = 0
    ) -> None:
        """Groups of the terms that have tables, from the cells of all ``factors``.

        The column of the first term is number ``first`` of ``out``.
        """
        from recalibrate.kernels.groups import look_up

        look_up(cells, *self._arrays, first, out)

    def codes(self, rows: Assigned, threads: int = 1) -> NDArray[np.int32]:
        """Group of every row within every term, 1-based, 0 = none."""
        share_out(rows.cells, self.factors, threads)
        cells = rows.stacked(self.factors)
        out = np.empty((rows.n_rows, self._n_terms), dtype=np.int32)

        def fill(block: slice) -> None:
            self.fill(cells[:, block], out[block])

        share_out(fill, cut(rows.n_rows, None, threads), threads)
        for t, term in self.searched.items():
            out[:, t] = term.search(rows)
        return out


class RowGroups:
    """Groups of the rows of one table, for blocks of rows from everywhere."""

    def __init__(self, tables: TermTables, rows: Assigned) -> None:
        self._tables = tables
        self._cells = np.ascontiguousarray(rows.stacked(tables.factors).T)
        self._searched = {t: term.search(rows) for t, term in tables.searched.items()}

    def fill(self, rows: NDArray[np.intp], out: NDArray[np.int32], first: int) -> None:
        """Group of some rows within every term, 1-based, 0 = none, from column ``first`` on."""
        cells = np.ascontiguousarray(np.take(self._cells, rows, axis=0).T)
        self._tables.fill(cells, out, first)
        for t, codes in self._searched.items():
            out[:, first + t] = codes[rows]
