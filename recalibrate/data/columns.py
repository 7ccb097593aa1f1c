"""What can be known of columns wherever their rows are: distinct values, quantiles, categories.

Rows come in pieces; what is found in them is added up. A column of many values is not sorted but
counted by the leading bits of their patterns, then by the next bits in the cells that wanted
quantiles fall into, down to single values: a few passes over the rows and a small table, whatever
the number of rows, and the same numbers that sorting all rows would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import inf
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Column, Kind, Schema, Table, read_categorical
from recalibrate.data.values import (
    Value,
    category_key,
    factorize,
    families_of,
    plain_value,
    read_numbers,
    sort_categories,
)
from recalibrate.support.threads import share_out

# --- Weighted quantiles that do not depend on the order of rows ---------------------------------


def quantile_edges(
    values: NDArray[np.floating], bins: int, weight: NDArray[np.float64] | None = None
) -> NDArray[np.floating]:
    """Edges, all of them values of the data, that cut it into bins of nearly equal weight.

    The bin of x is the number of edges at or below x, so equal values stay together. Of all
    places between two distinct values the j-th edge takes the one whose weight below is nearest
    to the fraction j / bins (the lower one of two), so that no bin is empty. The result does not
    depend on the order of rows, and a row of weight 2 counts as the row twice.

    Parameters
    ----------
    values : ndarray of float, shape (n,)
        Without NaN.
    bins : int
        Number of bins wanted; ties may leave fewer.
    weight : ndarray of float64, shape (n,), optional
        Finite, not negative, not all zero.

    Returns
    -------
    ndarray, shape (at most bins - 1,)
        Ascending, of the dtype of `values`.

    Examples
    --------
    >>> import numpy as np
    >>> quantile_edges(np.array([1.0, 2.0, 3.0, 4.0]), 2)
    array([3.])
    >>> quantile_edges(np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0]), 3)
    array([1.])
    """
    units = np.empty(0, np.int64) if weight is None else integer_weights(weight, bins)
    return cut_at_quantiles(*distinct_values(values, units), bins)


def integer_weights(
    weight: NDArray[np.float64],
    bins: int,
    n_rows: int | None = None,
    heaviest: float | None = None,
) -> NDArray[np.int64]:
    """Weights of some of ``n_rows`` rows as integers, whose sums do not depend on the order.

    A row that counts has at least one unit.

    ``heaviest`` is the largest weight of all rows; None: these are all. With these bits neither
    the sums nor their products with ``bins`` leave the int64 range.
    """
    _, exponent = np.frexp(float(weight.max()) if heaviest is None else heaviest)
    bits = 60 - int(exponent) - (n_rows or len(weight)).bit_length() - int(bins).bit_length()
    return np.maximum(np.rint(np.ldexp(weight, bits)), weight > 0).astype(np.int64)


def cut_at_quantiles(
    distinct: NDArray[np.floating], mass: NDArray[np.int64], bins: int
) -> NDArray[np.floating]:
    """The same from distinct values, ascending, and their weights.

    Not all have to be given: those where the weight reaches a fraction j / bins and their
    neighbours are enough, with the weight since the one before.
    """
    below = np.cumsum(mass)[:-1] * bins  # times bins instead of fractions: exact
    if not len(below):
        return np.asarray(distinct[:0])
    targets = int(mass.sum()) * np.arange(1, bins, dtype=np.int64)
    upper = np.searchsorted(below, targets).clip(0, len(below) - 1)
    lower = np.maximum(upper - 1, 0)
    cut = np.where(np.abs(targets - below[lower]) <= np.abs(below[upper] - targets), lower, upper)
    return np.asarray(distinct[np.unique(cut) + 1])


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

    def distribution(self, name: str, targets: Targets) -> _Distribution:
        """Distinct values of a numeric column, see :func:`distribution`."""
        return distribution(self.map, partial(_values_of, name), targets, most=self._most)

    def span(self, name: str) -> Span:
        """Smallest and largest value of a numeric column."""
        low, high, missing = np.nan, np.nan, False
        for own in self.map(partial(_span_of, name)):
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
class _Distribution:
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


def _values_of(name: str, piece: Piece) -> Weighted:
    """Values and weights of a column."""
    return piece.table.column(name, copy=False), piece.weight


def _span_of(name: str, piece: Piece) -> Span:
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


def _distinct_in(reader: Callable[[P], Weighted], most: float, piece: P) -> _Distribution:
    """Distinct values in a piece, unless there are more than ``most``."""
    values, mass = distinct_values(*reader(piece))
    if len(values) <= most:
        return _Distribution(values, mass, True)
    return _Distribution(values[:0], mass[:0], False)


def _count_by_prefix(
    reader: Callable[[P], Weighted],
    parents: NDArray[np.uint64],
    above: int,
    shift: int,
    bits: int,
    piece: P,
) -> NDArray[np.int64]:
    """Weight of values by the next bits of their keys, see ``kernels.radix``."""
    from recalibrate.kernels.binning import count_prefixes

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
) -> _Distribution:
    """Distribution of what the reader takes from all pieces.

    Where there are more than ``most`` distinct values (None: `MOST_DISTINCT`), those at which the
    summed weight reaches each of the targets are found, and their neighbours.
    """
    most = MOST_DISTINCT if most is None else most
    found = pieces(partial(_distinct_in, reader, most))
    merged: _Distribution = reduce(partial(_merge, most), found)
    if merged.complete:
        return merged
    values, mass = _select(pieces, reader, targets, merged.values.dtype)
    return _Distribution(values, mass, False)


def _merge(most: float, a: _Distribution, b: _Distribution) -> _Distribution:
    values = np.concatenate([a.values, b.values])
    complete = a.complete and b.complete
    mass = np.concatenate([a.mass, b.mass])
    if complete:
        values, mass = sum_equal(values, mass)
        complete = len(values) <= most
    if not complete:
        values, mass = values[:0], mass[:0]
    return _Distribution(values, mass, complete)


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
        count = partial(_count_by_prefix, reader, prefixes, min(above, 63), shift, bits)
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


# --- Columns whose rows come in pieces: their kind and categories are known at the end ----------


MOST_CATEGORIES = 1 << 24
"""Codes are float32, which holds integers up to this."""


class GrowingColumn:
    """One column, seen piece by piece.

    Categories are numbered as they come. `recode` translates these numbers to the codes of
    `column`, which are those that all rows at once would have given.

    Parameters
    ----------
    name
        Name of the column.
    forced
        Whether numbers are categories too.
    """

    def __init__(self, name: str, *, forced: bool = False) -> None:
        self.name = name
        self.forced = forced
        self._kinds: set[str] = set()
        self._numbers: dict[object, int] = {}
        self._values: list[Value] = []

    def __repr__(self) -> str:
        return f"GrowingColumn({self.name!r}, {sorted(self._kinds)}, {self._values})"

    def encode(self, values: Any) -> NDArray[np.float32]:
        """Values of some rows as float32: numbers, or provisional codes; NaN where missing."""
        families = families_of(self.name, values)
        kind = "categories" if self.forced or not families else _kind(families)
        if families:
            self._add_kinds({kind})
        if kind != "categories":
            with np.errstate(over="ignore"):  # beyond float32: infinite, as documented
                return np.asarray(read_numbers(self.name, values), dtype=np.float32)
        codes, uniques = factorize(self.name, values)
        occurring = np.unique(codes[codes >= 0])
        mapped = np.full(len(uniques) + 1, np.nan, dtype=np.float32)  # the last is for -1, missing
        spelled = np.asarray(uniques, dtype=object)
        mapped[occurring] = [self._number(plain_value(spelled[k])) for k in occurring]
        return np.take(mapped, codes)

    def merge(self, other: GrowingColumn) -> None:
        """Take in what another process saw of the column."""
        self._add_kinds(other._kinds)
        for value in other._values:
            self._number(value)

    def column(self) -> Column:
        """The column, once all rows were seen."""
        return Column(self.name, self._kind(), sort_categories(self._values))

    def recode(self, values: NDArray[np.float32], column: Column) -> NDArray[np.float32]:
        """Codes of the finished column in the place of provisional ones.

        The very same array for numbers, or if nothing changes.
        """
        order = {category_key(value): k for k, value in enumerate(column.categories, start=1)}
        codes = [order[category_key(value)] for value in self._values]
        if codes == list(range(1, len(codes) + 1)):
            return values
        lookup = np.array([np.nan, *codes], dtype=np.float32)
        return np.take(lookup, np.nan_to_num(values, nan=0.0).astype(np.intp))

    def _kind(self) -> Kind:
        if self._kinds and self._kinds != {"categories"}:
            return "numeric"
        return "categorical"

    def _add_kinds(self, kinds: set[str]) -> None:
        self._kinds |= kinds
        if len(self._kinds) > 1:
            raise ValueError(
                f"Column {self.name!r} holds {' in some pieces and '.join(sorted(self._kinds))} "
                "in others. Convert it to one type, or read it as categories with categorical=."
            )

    def _number(self, value: Value) -> int:
        key = category_key(value)
        if key not in self._numbers:
            if len(self._values) + 1 >= MOST_CATEGORIES:
                raise ValueError(
                    f"Column {self.name!r} has {MOST_CATEGORIES} categories: too many for float32."
                )
            self._values.append(value)
            self._numbers[key] = len(self._values)
        return self._numbers[key]


def _kind(families: set[str]) -> str:
    if families == {"bool"}:
        return "bool"
    return "numbers" if families == {"number"} else "categories"


def growing(names: Sequence[str], categorical: Sequence[str] | None) -> list[GrowingColumn]:
    """Columns that nothing is known of yet."""
    forced = read_categorical(categorical, names)
    return [GrowingColumn(name, forced=name in forced) for name in names]
