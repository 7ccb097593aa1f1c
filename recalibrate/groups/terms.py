"""One term of a group set: the combinations of its factors' cells that are groups, numbered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Schema
from recalibrate.groups import expressions as ex
from recalibrate.groups.cells import Cells, PredicateCells
from recalibrate.groups.combinations import LOOKUP_LIMIT, Assigned, sizes_of


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
        sizes = sizes_of(self.factors)
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
