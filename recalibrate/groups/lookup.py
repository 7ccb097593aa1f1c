"""Groups of rows by lookup: a table per term, from the cells of its factors to its groups.

The class ``Groups`` finds the groups of all rows at once, the audit those of one block of rows
after the other: rows times terms would be too large there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recalibrate.groups.combinations import Assigned, sizes_of
from recalibrate.groups.terms import BoundTerm
from recalibrate.support.threads import cut, share_out


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
        sizes = [size for own in factors for size in sizes_of(own)]
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
