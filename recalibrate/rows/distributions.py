"""Distribution of a column over pieces: all distinct values if few, exact quantiles if many.

Many values are not sorted but counted by the leading bits of their patterns, then by the next
bits in the cells that wanted quantiles fall into, down to single values: a few passes over the
rows and a small table, whatever the number of rows, and the same numbers that sorting all rows
would give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.fixedpoint import Scale
from recalibrate.data.bins import distinct_values
from recalibrate.kernels.radix import count_prefixes
from recalibrate.rows.pieces import Pieces

MOST_DISTINCT = 1 << 17
"""More distinct values than this (and than any number of bins) are not listed."""
NEIGHBOURS = 2
"""Values kept on each side of a wanted quantile; rules for cuts look that far."""
LEVELS = {32: (16, 8, 8), 64: (16, 12, 12, 12, 12)}
"""Bits that each pass looks at, for float32 and float64."""

Numbers = NDArray[Any]
Targets = Callable[[int], NDArray[Any]]
"""From the summed weight to the weights whose places are wanted."""


class Reader(Protocol):
    """What to take from a piece; sent to where the rows are."""

    def __call__(self, piece: Problem) -> tuple[Numbers, NDArray[np.int64]]:
        """Values of the rows (NaN: missing) and their integer weights (empty: each one)."""


@dataclass(frozen=True)
class ColumnOf:
    """A feature, by quantised weights."""

    name: str
    scale: Scale

    def __call__(self, piece: Problem) -> tuple[Numbers, NDArray[np.int64]]:
        weight = self.scale.quantise_weight(piece.labels.weight)
        return piece.table.column(self.name), weight


@dataclass(frozen=True, eq=False)
class Distribution:
    """Distinct values of positive weight, ascending.

    Attributes
    ----------
    values
        All of them, or (not ``complete``) those that were wanted and their neighbours.
    mass
        Weight of each; of several left out, added to the next one kept.
    complete
        Whether these are all.
    low, high
        Smallest and largest present value, be their weight zero; NaN if there is none.
    missing
        Whether values are missing.
    """

    values: Numbers
    mass: NDArray[np.int64]
    complete: bool
    low: float
    high: float
    missing: bool


@dataclass(frozen=True)
class Summarise:
    """Work: range of a piece's values, and the distinct ones unless there are too many."""

    reader: Reader

    def __call__(self, piece: Problem) -> Distribution:
        values, weight = self.reader(piece)
        missing = np.isnan(values)
        present = values[~missing]
        low, high = (present.min(), present.max()) if len(present) else (np.nan, np.nan)
        distinct, mass = _distinct(values, weight)
        many = len(distinct) > MOST_DISTINCT
        return Distribution(
            distinct[:0] if many else distinct,
            mass[:0] if many else mass,
            not many,
            float(low),
            float(high),
            bool(missing.any()),
        )


@dataclass(frozen=True, eq=False)
class CountPrefixes:
    """Work: weight of values by the next bits of their keys, see ``kernels.radix``."""

    reader: Reader
    parents: NDArray[np.uint64]
    above: int
    shift: int
    bits: int

    def __call__(self, piece: Problem) -> NDArray[np.int64]:
        values, weight = self.reader(piece)
        width = values.dtype.itemsize
        patterns = np.ascontiguousarray(values).view(f"u{width}")
        cells = max(1, len(self.parents)) << self.bits
        out = np.zeros(cells, dtype=np.int64)
        count_prefixes(
            values,
            patterns,
            8 * width - 1,
            weight,
            self.parents,
            self.above,
            self.shift,
            1 << self.bits,
            out,
        )
        return out


def distribution(pieces: Pieces, reader: Reader, targets: Targets) -> Distribution:
    """Distribution of what the reader takes from all pieces.

    Where there are too many distinct values, those at which the summed weight reaches each of
    the targets are found, and their neighbours.
    """
    merged: Distribution | None = None
    for found in pieces.map(Summarise(reader)):
        merged = found if merged is None else _merge(merged, found)
    if merged is None:
        raise ValueError("there are no rows")
    if merged.complete:
        return merged
    values, mass = _select(pieces, reader, targets, merged.values.dtype)
    return Distribution(values, mass, False, merged.low, merged.high, merged.missing)


def _merge(a: Distribution, b: Distribution) -> Distribution:
    values = np.concatenate([a.values, b.values])
    complete = a.complete and b.complete
    mass = np.concatenate([a.mass, b.mass])
    if complete:
        values, inverse = np.unique(values, return_inverse=True)
        summed = np.zeros(len(values), dtype=np.int64)
        np.add.at(summed, inverse, mass)
        mass, complete = summed, len(values) <= MOST_DISTINCT
    if not complete:
        values, mass = values[:0], mass[:0]
    low, high = float(np.fmin(a.low, b.low)), float(np.fmax(a.high, b.high))
    return Distribution(values, mass, complete, low, high, a.missing or b.missing)


def _distinct(values: Numbers, weight: NDArray[np.int64]) -> tuple[Numbers, NDArray[np.int64]]:
    if values.dtype == np.float32:
        return distinct_values(values, weight)
    present = ~np.isnan(values)
    distinct, inverse = np.unique(values[present], return_inverse=True)
    mass = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(mass, inverse, weight[present] if len(weight) else 1)
    return distinct[mass > 0], mass[mass > 0]


def _select(
    pieces: Pieces, reader: Reader, targets: Targets, dtype: np.dtype[Any]
) -> tuple[Numbers, NDArray[np.int64]]:
    """Values where the summed weight reaches the targets, their neighbours, and the last."""
    width = 8 * dtype.itemsize
    prefixes, before = np.empty(0, np.uint64), np.zeros(1, np.int64)
    wanted: NDArray[Any] = np.empty(0)
    above = width
    for level, bits in enumerate(LEVELS[width]):
        shift = above - bits
        counts = _sum(pieces, CountPrefixes(reader, prefixes, min(above, 63), shift, bits))
        table = counts.reshape(-1, 1 << bits)
        reached = before[:, None] + np.cumsum(table, axis=1)
        parent, child = np.nonzero(table)
        if level == 0:
            total = int(reached[0, -1])
            wanted = np.append(np.asarray(targets(total)), total)
            prefixes = child.astype(np.uint64)
        else:
            prefixes = (prefixes[parent] << np.uint64(bits)) | child.astype(np.uint64)
        ends = reached[parent, child]
        kept = _near(ends, wanted)
        before = ends[kept] - table[parent, child][kept]
        prefixes, ends, above = prefixes[kept], ends[kept], shift
    return _values(prefixes, dtype), np.diff(ends, prepend=0)


def _near(ends: NDArray[np.int64], wanted: NDArray[Any]) -> NDArray[np.intp]:
    """Cells in which the summed weight reaches a wanted one, and their neighbours."""
    at = np.searchsorted(ends, wanted, side="left").clip(0, len(ends) - 1)
    around = at[:, None] + np.arange(-NEIGHBOURS, NEIGHBOURS + 1)
    return np.unique(around.clip(0, len(ends) - 1))


def _sum(pieces: Pieces, work: CountPrefixes) -> NDArray[np.int64]:
    together: NDArray[np.int64] | None = None
    for counts in pieces.map(work):
        together = counts if together is None else together + counts
    if together is None:
        raise ValueError("there are no rows")
    return together


def _values(keys: NDArray[np.uint64], dtype: np.dtype[Any]) -> Numbers:
    """Values that ordered keys stand for."""
    width = 8 * dtype.itemsize
    top = np.uint64(1) << np.uint64(width - 1)
    mask = top | (top - np.uint64(1))
    patterns = np.where(keys & top, keys ^ top, ~keys & mask)
    return patterns.astype(f"u{dtype.itemsize}").view(dtype)
