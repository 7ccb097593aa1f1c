"""What a monitor looks at, fixed before the first label counts: groups, and bands of the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.segments import (
    EVERYBODY,
    EverybodyOnly,
    ExpressionSegments,
    read_segments,
)
from recalibrate.data.quantiles import quantile_edges
from recalibrate.data.splitting import find_columns, split_columns
from recalibrate.data.table import Column, Table
from recalibrate.data.values import plain_value
from recalibrate.data.vectors import Float64
from recalibrate.groups.cells import BANDS, BandCells, CategoryCells, PredicateCells, ValueCells
from recalibrate.groups.groupset import GroupSet
from recalibrate.monitoring.shift import CUTS, count_scores
from recalibrate.support.notices import listed, warn_user

Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Watched:
    """Groups and score bands of the first rows, or of a reference.

    Attributes
    ----------
    groups : GroupSet or None
        None where only all rows are watched.
    edges : tuple of ndarray
        Of every class: where scores (on [0, 1]) are cut into bands, the level sets.
    cuts : tuple of ndarray
        Of every class: where shares of scores are compared with the reference.
    reference : ndarray of float64, shape (classes, bins, groups)
        Rows of the reference between the cuts.
    left_out : tuple of str
        Groups that were too small.
    """

    groups: GroupSet | None
    edges: tuple[Float64, ...]
    cuts: tuple[Float64, ...]
    reference: Float64
    left_out: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of all groups; everybody is the first."""
        return (EVERYBODY, *(() if self.groups is None else self.groups.labels))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Groups of term t are numbered from offsets[t] on."""
        own = () if self.groups is None else self.groups.offsets
        return np.append(0, 1 + np.asarray(own, dtype=np.int64)) if own else np.arange(2)

    @property
    def n_bands(self) -> int:
        """Bands of the class that has most."""
        return max(len(own) for own in self.edges) + 1

    def band(self, scores: Float64, k: int) -> NDArray[np.int64]:
        """Band of every score of class k."""
        return np.searchsorted(self.edges[k], scores, side="right")

    def codes(self, table: Any, n_rows: int) -> tuple[Codes, list[Unknown]]:
        """Group of every row within every term, and values that the groups do not know."""
        if self.groups is None:
            return np.ones((n_rows, 1), dtype=np.int32), []
        if table is None:
            raise ValueError(
                "The groups are expressions over columns: pass the table X (or Z), also where "
                "scores are given."
            )
        read = self.groups.schema.read(table)
        if read.n_rows != n_rows:
            raise ValueError(f"The table has {read.n_rows} rows, but there are {n_rows}.")
        own = self.groups.codes(read)
        found = np.empty((n_rows, own.shape[1] + 1), dtype=np.int32)
        found[:, 0] = 1
        found[:, 1:] = own
        return found, self._unknown(table, read, own > 0)

    def _unknown(self, table: Any, read: Table, inside: NDArray[np.bool_]) -> list[Unknown]:
        """Columns with values that were not among those of the reference."""
        found = []
        names, columns = split_columns(table)
        for j, column in enumerate(read.schema.columns):
            values = read.column(j)
            known = ~np.isnan(values)
            for cells in self._cells(column.name):
                if isinstance(cells, ValueCells):
                    known &= np.isin(values, np.array(cells.values, dtype=np.float32))
            if known.all():
                continue
            place = j if names is None else find_columns([column.name], names)[0]
            found.append(self._look_at(column, columns[place], known, inside))
        return found

    def _look_at(
        self, column: Column, values: Any, known: NDArray[np.bool_], inside: NDArray[np.bool_]
    ) -> Unknown:
        """What the rows hold in which a column has no known value."""
        import pandas as pd

        missing = ~known & np.asarray(pd.isna(values))
        new = pd.unique(pd.Series(values)[~known & ~missing])
        if self._cells(column.name):
            lost = 0 if self._has_missing(column.name) else int(missing.sum())
        else:  # conditions only; how many rows they found missing in the reference is not known
            lost = int(missing.sum()) if missing.all() and not inside.any() else 0
        shown = [plain_value(value) for value in new]
        return Unknown(column.name, shown, int((~known & ~missing).sum()), lost)

    def _cells(self, name: str) -> list[CategoryCells | ValueCells | BandCells]:
        """How terms cut a column into cells."""
        factors = [] if self.groups is None else [f for t in self.groups.terms for f in t.factors]
        return [f for f in factors if not isinstance(f, PredicateCells) and f.column == name]

    def _has_missing(self, name: str) -> bool:
        """Whether missing values of a column that is cut into cells are in a group."""
        terms = () if self.groups is None else self.groups.terms
        return any(
            not isinstance(factor, PredicateCells)
            and factor.column == name
            and any(own[k] == factor.count + 1 for own in term.cells)
            for term in terms
            for k, factor in enumerate(term.factors)
        )


@dataclass(frozen=True)
class Unknown:
    """Values of a column in one batch that no group is for.

    Attributes
    ----------
    column : str
    values : list
        Values that the reference did not have.
    rows : int
        Rows with one of them.
    missing : int
        Rows with a missing value, where that is in no group either.
    """

    column: str
    values: list[Any]
    rows: int
    missing: int


def watch(
    groups: Any, table: Any, scores: Float64, *, levels: int, depth: int, min_rows: int | None
) -> Watched:
    """Fix groups and bands by some rows, whose labels nobody has looked at."""
    n_rows = len(scores)
    segments, left_out, _ = read_segments(
        groups, table, n_rows=n_rows, weight=None, depth=depth, min_rows=min_rows, bands=BANDS
    )
    bound = None
    if isinstance(segments, ExpressionSegments):
        bound = segments.groups
    elif not isinstance(segments, EverybodyOnly):
        raise TypeError(
            "groups of a monitor must be expressions over columns such as ['sex', 'age < 25']: "
            "masks cannot be computed for the rows of the next batch. Add the mask to the table "
            "as a column and name it."
        )
    edges = tuple(np.asarray(quantile_edges(own, levels)) for own in scores.T)
    # Cuts by every other row and counts of the rest, so that Fisher's test is exact.
    cuts = tuple(np.asarray(quantile_edges(own[::2], CUTS + 1)) for own in scores.T)
    names = tuple(each.name for each in left_out)
    empty = Watched(bound, edges, cuts, np.empty((0, 0, 0)), names)
    codes, _ = empty.codes(table, n_rows)
    half = np.ascontiguousarray(codes[1::2])  # one kind of array for the compiled loop
    counts = count_scores(half, empty.offsets, len(empty.names), scores[1::2], cuts)
    return Watched(bound, edges, cuts, counts, names)


def warn_unknown(unknown: Sequence[Unknown]) -> None:
    """Say which values no group is for."""
    for each in unknown:
        if each.values:
            warn_user(
                f"Column {each.column!r} has values that no group is for: "
                f"{listed(each.values, 5)}, in {each.rows:,} rows. These count as missing there, "
                "and in the groups of other columns. Start a new monitor to watch them."
            )


def refuse_unknown(unknown: Sequence[Unknown], n_rows: int) -> None:
    """Refuse a batch most of which is in no group of a column: it was probably recoded."""
    for each in unknown:
        if 2 * (each.rows + each.missing) > n_rows:
            what = f"values that no group is for ({listed(each.values, 5)})" if each.rows else ""
            lost = "missing values, which no group is for" if each.missing else ""
            raise ValueError(
                f"Column {each.column!r} has {' or '.join(filter(None, [what, lost]))} in "
                f"{each.rows + each.missing:,} of {n_rows:,} rows: its groups would not be "
                "watched. Nothing was added. Write its values as in the reference, start a new "
                "monitor, or pass allow_unknown=True to add the rows all the same."
            )
