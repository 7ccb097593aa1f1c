"""Groups of rows by lookup: cells of all factors in one small matrix, a table per term.

Binding terms to rows and finding the groups of a block are the audit's two passes over rows
times terms, so both are compiled loops over one matrix of cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Column, Table
from recalibrate.groups.cells import Cells, cut_column
from recalibrate.groups.combinations import (
    LOOKUP_LIMIT,
    Assigned,
    Counted,
    count_combinations,
    sizes_of,
)
from recalibrate.groups.groupset import GroupSet, bind_by
from recalibrate.groups.terms import BoundTerm

Factors = tuple[Cells, ...]


class CellMatrix:
    """Cells of some factors for all rows of a table: ``cells[factor, row]``."""

    def __init__(self, table: Table, factors: Sequence[Cells]) -> None:
        self.assigned = Assigned(table)
        distinct = list(dict.fromkeys(factors))
        self._position = {factor: k for k, factor in enumerate(distinct)}
        self.cells = np.stack([self.assigned.cells(factor) for factor in distinct])

    def positions(self, factors: Factors) -> NDArray[np.int64]:
        """Where the factors are."""
        return np.array([self._position[factor] for factor in factors], dtype=np.int64)


class Lookup:
    """Groups of rows of a table, found row by row.

    Parameters
    ----------
    groups : GroupSet
        Groups, bound to this table.
    matrix : CellMatrix
        Cells of their factors.
    """

    def __init__(self, groups: GroupSet, matrix: CellMatrix) -> None:
        # Row by row, because blocks take rows from everywhere.
        self._cells, self._n_terms = np.ascontiguousarray(matrix.cells.T), len(groups.terms)
        direct = [term for term in groups.terms if _is_direct(term)]
        self._plan = _Plan(direct, matrix)
        self._columns = [1 + t for t, term in enumerate(groups.terms) if _is_direct(term)]
        # Terms with too many combinations for a table are looked up at once, for all rows.
        self._others = {
            1 + t: term.codes(matrix.assigned)
            for t, term in enumerate(groups.terms)
            if not _is_direct(term)
        }

    def codes(self, rows: NDArray[np.intp]) -> NDArray[np.int32]:
        """Group within the term, 1-based, 0 = none; the first column is 1, for everybody."""
        out = np.empty((len(rows), self._n_terms + 1), dtype=np.int32)
        out[:, 0] = 1
        cells = np.ascontiguousarray(np.take(self._cells, rows, axis=0).T)
        if not self._others:
            self._plan.run(cells, out[:, 1:])
            return out
        found = np.empty((len(rows), len(self._columns)), dtype=np.int32)
        self._plan.run(cells, found)
        out[:, self._columns] = found
        for column, codes in self._others.items():
            out[:, column] = codes[rows]
        return out


class _Plan:
    """Tables of terms one after the other, and which factors lead to them."""

    def __init__(self, terms: Sequence[BoundTerm], matrix: CellMatrix) -> None:
        tables = [_table(term) for term in terms]
        sizes = [sizes_of(term.factors) for term in terms]
        none = np.empty(0, dtype=np.int64)
        self._starts = np.cumsum([0, *map(len, sizes)], dtype=np.int64)
        self._sizes = np.array([size for own in sizes for size in own], dtype=np.int64)
        self._positions = np.concatenate([none, *(matrix.positions(t.factors) for t in terms)])
        self._begins = np.cumsum([0, *map(len, tables)], dtype=np.int64)
        self._tables = np.concatenate([np.empty(0, dtype=np.int32), *tables])

    def run(self, cells: NDArray[Any], out: NDArray[np.int32]) -> None:
        from recalibrate.kernels.audit import look_up

        look_up(cells, self._starts, self._positions, self._sizes, self._begins, self._tables, out)


def _is_direct(term: BoundTerm) -> bool:
    return math.prod(sizes_of(term.factors)) <= LOOKUP_LIMIT


def _table(term: BoundTerm) -> NDArray[np.int32]:
    """Group number by the cells of all factors together."""
    table = np.zeros(sizes_of(term.factors), dtype=np.int32)
    table[tuple(np.array(term.cells).T)] = np.arange(1, len(term.cells) + 1)
    return table.ravel()


def bind_for_lookup(
    terms: Sequence[str],
    table: Table,
    *,
    weight: NDArray[np.float64] | None,
    min_rows: int,
    bands: int,
) -> tuple[GroupSet, Lookup]:
    """Bind terms to a table as `groups.groupset.bind` does, and keep the cells of all rows."""
    counted = None if weight is None else np.flatnonzero(weight > 0)
    rows_that_count = table if counted is None else table.take(counted)
    mass = None if weight is None or counted is None else weight[counted]
    made: list[CellMatrix] = []

    def cut(column: Column) -> Cells:
        return cut_column(column, rows_that_count, mass, bands)

    def count(factors: Sequence[Factors]) -> list[Counted]:
        made.append(CellMatrix(table, [factor for own in factors for factor in own]))
        return [_count(own, made[0], rows_that_count, counted) for own in factors]

    groups = bind_by(terms, table.schema, cut, count, min_rows=min_rows)
    return groups, Lookup(groups, made[0])


def _count(
    factors: Factors, matrix: CellMatrix, table: Table, counted: NDArray[np.intp] | None
) -> Counted:
    """Combinations of cells that occur, and how often."""
    from recalibrate.kernels.audit import count_crossings

    sizes = sizes_of(factors)
    if math.prod(sizes) > LOOKUP_LIMIT:
        return count_combinations(factors, Assigned(table))
    cells = matrix.cells if counted is None else matrix.cells[:, counted]
    counts = np.zeros(math.prod(sizes), dtype=np.int64)
    count_crossings(cells, matrix.positions(factors), np.array(sizes, dtype=np.int64), counts)
    found = np.argwhere(counts.reshape(sizes) > 0)
    found = found[(found > 0).all(axis=1)].astype(np.int64)
    return found, counts.reshape(sizes)[tuple(found.T)]
