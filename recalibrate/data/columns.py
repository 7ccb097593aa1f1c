"""What can be known of columns wherever their rows are: distinct values, quantiles, categories.

Rows come in pieces; what is found in them is added up. A column of many values is not sorted but
counted by the leading bits of their patterns, then by the next bits in the cells that wanted
quantiles fall into, down to single values: a few passes over the rows and a small table, whatever
the number of rows, and the same numbers that sorting all rows would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, reduce
from math import inf
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Column, Schema, Table
from recalibrate.support.threads import share_out

MOST_DISTINCT = 1 << 17
"""More distinct values of several pieces than this (and than any number of bins) are not listed."""
NEIGHBOURS = 2
"""Values kept on each side of a wanted quantile; rules for cuts look that far."""
RADIX_BITS = {32: (16, 8, 8), 64: (16, 12, 12, 12, 12)}
"""Bits that each pass looks at, for float32 and float64."""
WIDEST_INTEGERS = 1 << 16
LARGEST_INTEGER = 1 << 31
"""Whole numbers beyond are no codes, ages or counts, and may not fit into 64 bits."""
SCORE_BITS, SCORE_RANGE = 16, 64.0
"""Scores are summed in steps of 2**-16, cut at +-64: sums of integers have no order."""

ZERO = np.float32(0.0)
"""Added to values, it leaves one zero of two: which of them stands for both is up to the order."""

P = TypeVar("P")
T = TypeVar("T")
R = TypeVar("R")
Numbers = NDArray[Any]
Targets = Callable[[int], NDArray[Any]]
"""From the summed weight to the weights whose places are wanted."""
Weighted = tuple[Numbers, NDArray[np.int64]]
"""Values of rows (NaN: missing) and their integer weights (empty: each one)."""


class Piece(NamedTuple):
    """Rows of a table, and their integer weights (empty: each one)."""

    table: Table
    weight: NDArray[np.int64]


class Columns:
    """Statistics of the columns of rows in pieces.

    Parameters
    ----------
    schema
        The columns.
    pieces
        Works on every piece, in their order; work is sent to where the rows are.
    whole
        Whether there is one piece only: then all distinct values can be listed.
    threads
        Columns that are looked at side by side; does not change a result.
    """

    def __init__(
        self,
        schema: Schema,
        pieces: Callable[[Callable[[Piece], Any]], Iterable[Any]],
        *,
        whole: bool = False,
        threads: int = 1,
    ) -> None:
        self.schema = schema
        self.map = pieces
        self._most = inf if whole else MOST_DISTINCT
        self._threads = threads

    @classmethod
    def of(
        cls, table: Table, weight: NDArray[np.int64] | None = None, *, threads: int = 1
    ) -> Columns:
        """Columns of a table in memory."""
        piece = Piece(table, np.empty(0, dtype=np.int64) if weight is None else weight)
        return cls(table.schema, lambda work: [work(piece)], whole=True, threads=threads)

    def column(self, name: str) -> Column:
        """A column by its name."""
        return self.schema.columns[self.schema.index(name)]

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """``work`` on items, one for every column."""
        return share_out(work, items, self._threads)

    def distribution(self, name: str, targets: Targets) -> Distribution:
        """Distinct values of a numeric column, see :func:`distribution`."""
        return distribution(self.map, partial(values_of, name), targets, most=self._most)

    def span(self, name: str) -> Span:
        """Smallest and largest value of a numeric column."""
        low, high, missing = np.nan, np.nan, False
        for own in self.map(partial(span_of, name)):
            low, high = float(np.fmin(low, own.low)), float(np.fmax(high, own.high))
            missing = missing or own.missing
        return Span(low, high, missing)

    def category_weights(self, name: str) -> NDArray[np.int64]:
        """Summed weight of every code of a categorical column; first the missing, in rows."""
        kinds = len(self.column(name).categories)
        return reduce(np.add, self.map(partial(category_weights, name, kinds)))

    def category_scores(self, name: str, score: str) -> NDArray[np.int64]:
        """Summed weight of every code of a categorical column, and summed weighted score."""
        kinds = len(self.column(name).categories)
        return reduce(np.add, self.map(partial(category_scores, name, score, kinds)))


class Span(NamedTuple):
    """Smallest and largest present value (NaN: none), and whether values are missing.

    Rows of weight zero count, too.
    """

    low: float
    high: float
    missing: bool


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
    """

    values: Numbers
    mass: NDArray[np.int64]
    complete: bool

    @property
    def known_anywhere(self) -> bool:
        """Whether these are all wherever the rows are: of many, rows in pieces know a few."""
        return self.complete and len(self.values) <= MOST_DISTINCT


# ---- what is sent to where the rows are


def values_of(name: str, piece: Piece) -> Weighted:
    """Values and weights of a column."""
    return piece.table.column(name, copy=False), piece.weight


def span_of(name: str, piece: Piece) -> Span:
    """Range of a column."""
    values = piece.table.column(name, copy=False)
    missing = np.isnan(values)
    present = values[~missing]
    if not len(present):
        return Span(np.nan, np.nan, bool(missing.any()))
    low, high = float(present.min()) + 0.0, float(present.max()) + 0.0
    return Span(low, high, bool(missing.any()))


def category_weights(name: str, kinds: int, piece: Piece) -> NDArray[np.int64]:
    """Summed weight of every code of a column with so many categories."""
    from recalibrate.kernels import binning

    values = piece.table.column(name, copy=False)
    mass = np.zeros(kinds + 1, dtype=np.int64)
    binning.count_integers(values, piece.weight, 0, mass)
    mass[0] = int(np.isnan(values).sum())  # rows, be their weight zero
    return mass


def category_scores(name: str, score: str, kinds: int, piece: Piece) -> NDArray[np.int64]:
    """Summed weight, and summed weighted score, of every code of a column."""
    from recalibrate.kernels import binning

    values, scores = (piece.table.column(each, copy=False) for each in (name, score))
    sums = np.zeros((2, kinds + 1), dtype=np.int64)
    binning.sum_scores(values, scores, piece.weight, SCORE_RANGE, 2.0**SCORE_BITS, sums)
    return sums


def distinct_in(reader: Callable[[P], Weighted], most: float, piece: P) -> Distribution:
    """Distinct values in a piece, unless there are more than ``most``."""
    values, mass = distinct_values(*reader(piece))
    if len(values) <= most:
        return Distribution(values, mass, True)
    return Distribution(values[:0], mass[:0], False)


def count_by_prefix(
    reader: Callable[[P], Weighted],
    parents: NDArray[np.uint64],
    above: int,
    shift: int,
    bits: int,
    piece: P,
) -> NDArray[np.int64]:
    """Weight of values by the next bits of their keys, see ``kernels.radix``."""
    from recalibrate.kernels.radix import count_prefixes

    values, weight = reader(piece)
    width = values.dtype.itemsize
    patterns = np.ascontiguousarray(values).view(f"u{width}")
    fan = 1 << bits
    out = np.zeros(max(1, len(parents)) * fan, dtype=np.int64)
    top = 8 * width - 1
    count_prefixes(values, patterns, top, weight, parents, above, shift, fan, out)
    return out


def distribution(
    pieces: Callable[[Callable[[P], Any]], Iterable[Any]],
    reader: Callable[[P], Weighted],
    targets: Targets,
    *,
    most: float | None = None,
) -> Distribution:
    """Distribution of what the reader takes from all pieces.

    Where there are more than ``most`` distinct values (None: `MOST_DISTINCT`), those at which the
    summed weight reaches each of the targets are found, and their neighbours.
    """
    most = MOST_DISTINCT if most is None else most
    found = pieces(partial(distinct_in, reader, most))
    merged: Distribution = reduce(partial(_merge, most), found)
    if merged.complete:
        return merged
    values, mass = _select(pieces, reader, targets, merged.values.dtype)
    return Distribution(values, mass, False)


def _merge(most: float, a: Distribution, b: Distribution) -> Distribution:
    values = np.concatenate([a.values, b.values])
    complete = a.complete and b.complete
    mass = np.concatenate([a.mass, b.mass])
    if complete:
        values, mass = sum_equal(values, mass)
        complete = len(values) <= most
    if not complete:
        values, mass = values[:0], mass[:0]
    return Distribution(values, mass, complete)


def _select(
    pieces: Callable[[Callable[[P], Any]], Iterable[Any]],
    reader: Callable[[P], Weighted],
    targets: Targets,
    dtype: np.dtype[Any],
) -> tuple[Numbers, NDArray[np.int64]]:
    """Values where the summed weight reaches the targets, their neighbours, and the last."""
    width = 8 * dtype.itemsize
    prefixes, before = np.empty(0, np.uint64), np.zeros(1, np.int64)
    wanted: NDArray[Any] = np.empty(0)
    above = width
    for level, bits in enumerate(RADIX_BITS[width]):
        shift = above - bits
        count = partial(count_by_prefix, reader, prefixes, min(above, 63), shift, bits)
        counts = reduce(np.add, pieces(count))
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


def _values(keys: NDArray[np.uint64], dtype: np.dtype[Any]) -> Numbers:
    """Values that ordered keys stand for."""
    width = 8 * dtype.itemsize
    top = np.uint64(1) << np.uint64(width - 1)
    mask = top | (top - np.uint64(1))
    patterns = np.where(keys & top, keys ^ top, ~keys & mask)
    return patterns.astype(f"u{dtype.itemsize}").view(dtype)


def distinct_values(values: Numbers, weight: NDArray[np.int64]) -> Weighted:
    """Distinct present values of positive weight, ascending, with their weights."""
    window = integer_window(values) if values.dtype == np.float32 else None
    if window is not None:
        from recalibrate.kernels import binning

        low, high = window
        mass = np.zeros(high - low + 1, dtype=np.int64)
        binning.count_integers(values, weight, low, mass)
        found = np.flatnonzero(mass)
        return (found + low).astype(np.float32), mass[found]
    present = ~np.isnan(values)
    if len(weight):
        present &= weight > 0
    kept = values if present.all() else values[present]
    if not len(weight):
        distinct, counts = np.unique(kept, return_counts=True)
        return distinct + ZERO, counts.astype(np.int64)
    return sum_equal(kept, weight[present])


def sum_equal(values: Numbers, mass: NDArray[np.int64]) -> Weighted:
    """Distinct values, ascending, and the summed weight of each."""
    distinct, place = np.unique(values, return_inverse=True)
    summed = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(summed, place, mass)
    return distinct + ZERO, summed


def integer_window(column: NDArray[np.float32]) -> tuple[int, int] | None:
    """Smallest and largest value, if all present ones are integers not too far apart.

    Codes, ages and counts are integers; counting them beats sorting them ten times over.
    """
    # The first rows settle it for most columns of real numbers.
    for some in (column[:1000], column):
        broken = int(np.count_nonzero(some != np.floor(some)))
        if broken and broken > int(np.count_nonzero(np.isnan(some))):
            return None
    low, high = (np.fmin.reduce, np.fmax.reduce) if broken else (np.min, np.max)
    lowest, highest = low(column), high(column)
    with np.errstate(invalid="ignore", over="ignore"):  # beyond float32, or infinity less infinity
        near = highest - lowest < WIDEST_INTEGERS  # False where nothing is present, or infinite
    if not (near and abs(lowest) <= LARGEST_INTEGER):
        return None
    return int(lowest), int(highest)
