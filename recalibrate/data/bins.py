"""Features to small integer codes, once, before the first round.

Code 0 is missing (or an unseen category); numeric codes 1..B are intervals between float32
edges with ``x <= edges[b]`` exactly when ``code <= b + 1``; categorical codes are categories,
the rare ones pooled when there are more than bins, or places of the categories in an order. Trees
speak of codes only, and this table translates: to rows at prediction, to thresholds and category
sets in a serving graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.columns import (
    LARGEST_INTEGER,
    SCORE_BITS,
    WIDEST_INTEGERS,
    Columns,
    sum_equal,
)
from recalibrate.data.table import Column, Table
from recalibrate.data.values import FEW_ROWS
from recalibrate.kernels import binning
from recalibrate.support.threads import share_out

DEFAULT_BINS = 255
MOST_BINS = 65_535
FINE_CELLS = 1 << 12
"""Cells of equal weight that frequent values are looked for in."""


@dataclass(frozen=True, eq=False)
class FeatureBins:
    """Bins of one column.

    Attributes
    ----------
    name
        The column.
    edges
        Numeric: ascending float32 edges. Empty for categories.
    lookup
        Categorical: bin of every category code (``lookup[0]`` is the missing bin, 0).
    exact
        Whether every distinct value has a bin of its own.
    ordered
        Categorical: whether the bins are in an order that is worth splitting by.
    """

    name: str
    edges: NDArray[np.float32]
    lookup: NDArray[np.int32] | None
    exact: bool
    ordered: bool = False

    @property
    def categorical(self) -> bool:
        return self.lookup is not None

    @property
    def by_sets(self) -> bool:
        """Whether splits are by sets of codes; otherwise by their order."""
        return self.categorical and not self.ordered

    @property
    def count(self) -> int:
        """Number of codes, the missing one included."""
        return len(self.edges) + 2 if self.lookup is None else int(self.lookup.max()) + 1

    def write_codes(self, column: NDArray[np.float32], out: NDArray[np.integer]) -> None:
        """Codes of a column's values into ``out``."""
        if self.lookup is not None:
            binning.code_by_lookup(column, 0, self.lookup, out)
            return
        # Looking at the edges takes longer than the search of a few rows.
        whole = False
        if len(column) > FEW_ROWS:
            low, high = self.edges[[0, -1]].astype(np.float64) if len(self.edges) else (0.0, 0.0)
            whole = high - low < min(WIDEST_INTEGERS, 4 * len(column))
            whole = whole and abs(low) <= LARGEST_INTEGER
        if not (whole and binning.code_by_lookup(column, *self._whole, out)):
            binning.code_by_search(column, self.edges, out)

    @cached_property
    def _whole(self) -> tuple[int, NDArray[np.int32]]:
        """The whole number below the first edge, and codes from there to above the last edge.

        Numbers beyond have the codes of the outermost.
        """
        low, high = (self.edges[0], self.edges[-1]) if len(self.edges) else (0.0, 0.0)
        first = int(np.floor(low))
        values = np.arange(first, int(np.ceil(high)) + 2).astype(np.float32)
        return first, np.searchsorted(self.edges, values, side="left").astype(np.int32) + 1


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of all features of a class of trees; a column may be two of them."""

    kind = "trees"
    features: tuple[FeatureBins, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, each once."""
        return tuple(dict.fromkeys(feature.name for feature in self.features))

    def of(self, names: Sequence[str]) -> Bins:
        """Bins of some columns, without orders."""
        own = {feature.name: feature for feature in self.features if not feature.ordered}
        return Bins(tuple(own[name] for name in names))

    @property
    def exact(self) -> bool:
        """Whether no feature lost information by binning."""
        return all(feature.exact for feature in self.features)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where every feature's codes start in a histogram over all features."""
        counts = [feature.count for feature in self.features]
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def code_type(self) -> type[np.unsignedinteger]:
        """The narrowest integers that hold every code."""
        widest = max(feature.count for feature in self.features)
        return np.uint8 if widest <= 256 else np.uint16

    def encode(self, table: Table, threads: int = 1) -> NDArray[np.integer]:
        """Codes of all rows, [row, feature], uint8 where every feature has at most 256."""
        return self.encode_some(table, range(len(self.features)), threads)

    def encode_some(
        self, table: Table, columns: Sequence[int], threads: int = 1
    ) -> NDArray[np.integer]:
        """The same for readers that look at some of the columns only; the others are zero."""
        codes = np.zeros((table.n_rows, len(self.features)), dtype=self.code_type)

        def write(j: int) -> None:
            column = table.column(self.features[j].name, copy=False)
            self.features[j].write_codes(column, codes[:, j])

        share_out(write, columns, threads)
        return codes


def bin_columns(
    columns: Columns,
    names: Sequence[str],
    *,
    most: int = DEFAULT_BINS,
    ordered: Sequence[str] = (),
    score: str = "",
) -> Bins:
    """Bins from the weighted distribution of every feature.

    Columns with at most ``most`` distinct values get a bin each, others bins of about equal
    weight; of categories the heaviest keep a bin of their own and the rest share one. Nothing
    depends on the order of rows, and a row of weight 2 counts as the row twice.

    ``ordered`` names categorical columns that are a second feature each: their categories by the
    mean of the column ``score``.
    """

    def work(wanted: tuple[str, bool]) -> FeatureBins:
        name, by_score = wanted
        column = columns.column(name)
        if by_score:
            return _ordered_bins(column, columns.category_scores(name, score), most)
        if column.kind == "categorical":
            return _category_bins(column, columns.category_weights(name), most)
        found = columns.distribution(name, lambda total: _bin_targets(total, most))
        return numeric_bins(name, found.values, found.mass, most, complete=found.complete)

    wanted = [(name, False) for name in names] + [(name, True) for name in ordered]
    return Bins(tuple(columns.each(work, wanted)))


def _category_bins(column: Column, mass: NDArray[np.int64], most: int) -> FeatureBins:
    """Bins of a categorical column whose codes have the weights ``mass`` (first: missing)."""
    kinds = len(column.categories)
    lookup = np.arange(kinds + 1, dtype=np.int32)
    exact = kinds <= most
    if not exact:
        heaviest = np.argsort(-mass[1:], kind="stable")[: most - 1]
        lookup[1:] = most
        lookup[np.sort(heaviest) + 1] = np.arange(1, most, dtype=np.int32)
    return FeatureBins(column.name, np.empty(0, dtype=np.float32), lookup, exact)


def _ordered_bins(column: Column, sums: NDArray[np.int64], most: int) -> FeatureBins:
    """Bins of categories in the order of their mean score, by what `Columns.category_scores` says.

    Categories of about the same mean share a bin where there are more than bins; those without
    weight have no place in the order and count as missing.
    """
    mass, total = sums
    mean = np.full(len(mass), np.nan, dtype=np.float32)
    seen = np.flatnonzero(mass[1:]) + 1
    mean[seen] = total[seen] / mass[seen] * 2.0**-SCORE_BITS
    distinct, by_mean = sum_equal(mean[seen], mass[seen])
    edges = numeric_bins(column.name, distinct, by_mean, most).edges
    lookup = np.zeros(len(mass), dtype=np.int32)
    lookup[seen] = np.searchsorted(edges, mean[seen], side="left") + 1
    exact = len(np.unique(lookup[1:])) == len(column.categories)
    return FeatureBins(column.name, np.empty(0, dtype=np.float32), lookup, exact, ordered=True)


def numeric_bins(
    name: str,
    distinct: NDArray[np.float32],
    mass: NDArray[np.int64],
    most: int,
    *,
    complete: bool = True,
) -> FeatureBins:
    """Bins of a numeric column with these distinct values, ascending, and their weights.

    Of more than ``most`` values not all have to be given (then not ``complete``): those that
    `_bin_targets` asks for and their neighbours are enough, with the weight since the one before.
    """
    exact = complete and len(distinct) <= most
    last_of_bin = np.arange(len(distinct) - 1) if exact else _last_of_bins(mass, most)
    low, high = distinct[last_of_bin], distinct[last_of_bin + 1]
    with np.errstate(invalid="ignore", over="ignore"):
        middle = np.float32(0.5) * low + np.float32(0.5) * high
    # A midpoint may round to the upper value, or not exist next to an infinity.
    edges = np.where((middle >= low) & (middle < high), middle, low)
    return FeatureBins(name, edges.astype(np.float32), None, exact)


def _bin_targets(total: int, most: int) -> NDArray[np.float64]:
    """Summed weights at which values are looked at for the ends of ``most`` bins."""
    cells = most * max(1, FINE_CELLS // most)
    return np.asarray(total / cells * np.arange(1, cells))


def _last_of_bins(mass: NDArray[np.int64], most: int) -> NDArray[np.intp]:
    """Numbers of the values that end a bin, of values with these weights.

    Bins of equal weight would waste those that a frequent value fills several times over. So a
    value's weight counts as that of two bins at most, and whatever counts so much is a bin alone:
    it uses up two bins' ends, its own and that of the value before.
    """
    reached = np.cumsum(mass)
    at = np.searchsorted(reached, _bin_targets(reached[-1], most), side="left")
    looked_at = np.unique(np.concatenate([at - 1, at, [len(mass) - 1]]).clip(0))
    counted = np.diff(reached[looked_at], prepend=0)
    width = _bin_width(counted, most)
    counted = np.minimum(counted, 2.0 * width)
    ends = np.searchsorted(np.cumsum(counted), width * np.arange(1, most), side="left")
    alone = np.flatnonzero(counted == 2.0 * width)
    ends = np.unique(np.concatenate([ends, alone - 1, alone]))
    return np.asarray(looked_at[ends[(ends >= 0) & (ends < len(counted) - 1)]])


def _bin_width(mass: NDArray[np.int64], most: int) -> float:
    """The weight w of a bin for which all values' min(weight, 2 w) fill ``most`` bins.

    With the k heaviest values cut, w = (weight of the others) / (most - 2 k).
    """
    heaviest = np.sort(mass)[::-1]
    others = mass.sum() - np.concatenate([[0], np.cumsum(heaviest)])
    for cut in range((most - 1) // 2 + 1):
        width = float(others[cut] / (most - 2 * cut))
        if cut == len(heaviest) or heaviest[cut] < 2.0 * width:
            break
    return width
