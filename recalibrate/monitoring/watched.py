"""What a monitor looks at, fixed before the first label counts: groups, and bands of the score."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
from recalibrate.data.columns import quantile_edges
from recalibrate.data.labels import Float64
from recalibrate.data.table import Column, Schema, Table, find_columns, split_columns
from recalibrate.data.values import families_of, family_of, plain_value
from recalibrate.groups import expressions as ex
from recalibrate.groups.cells import BANDS, BandCells, Cells, PredicateCells, ValueCells
from recalibrate.groups.groupset import GroupSet
from recalibrate.support.notices import listed, warn_user

# --- Shift of the scores by group, without labels: a hint that something may have changed -------
#
# Shares of scores below fixed cuts are compared between the reference and the newest batch, with
# Fisher's exact test. p-values are adjusted for all cuts, groups and classes (Bonferroni), and for
# looking again and again: the k-th look gets the share 1 / (k (k + 1)), so that the chance to
# ever see a hint is at most alpha while rows of reference and batches come from the same people.


CUTS = 9
"""Deciles of the reference."""


@dataclass(frozen=True, eq=False)
class Shift:
    """Scores of the newest batch compared with the reference.

    Attributes
    ----------
    look : int
        How many batches were compared so far.
    p : ndarray of shape (classes, groups)
        Adjusted p-value of the newest batch.
    cut, before, now : ndarray of shape (classes, groups)
        The cut with the smallest p-value, and the shares of scores below it.
    first : ndarray of shape (classes, groups)
        When p first was at most alpha; NaN if never.
    """

    look: int
    p: Float64
    cut: Float64
    before: Float64
    now: Float64
    first: Float64

    @classmethod
    def none(cls, n_classes: int, n_groups: int) -> Shift:
        """Before the first batch."""
        unknown = np.full((n_classes, n_groups), np.nan)
        return cls(0, np.ones((n_classes, n_groups)), unknown, unknown, unknown, unknown)

    def look_again(
        self,
        counts: Float64,
        reference: Float64,
        cuts: Sequence[Float64],
        *,
        alpha: float,
        time: float,
    ) -> Shift:
        """After another batch with these counts, shape (classes, bins, groups)."""
        look = self.look + 1
        below, other = counts.cumsum(axis=1), reference.cumsum(axis=1)
        p = exact_p(below[:, :-1], below[:, -1:], other[:, :-1], other[:, -1:])
        worst = p.argmin(axis=1)[:, None] if p.shape[1] else None
        if worst is None:  # all scores are equal
            return Shift(look, self.p, self.cut, self.before, self.now, self.first)
        tests = sum(len(own) for own in cuts) * p.shape[2]
        least = np.take_along_axis(p, worst, axis=1)[:, 0]
        adjusted = np.minimum(least * tests * look * (look + 1.0), 1.0)
        known = np.array([[*own, *[np.nan] * (p.shape[1] - len(own))] for own in cuts])
        with np.errstate(invalid="ignore", divide="ignore"):
            before, now = (
                np.take_along_axis(b[:, :-1] / b[:, -1:], worst, axis=1)[:, 0]
                for b in (other, below)
            )
        first = np.where(np.isnan(self.first) & (adjusted <= alpha), time, self.first)
        cut = np.take_along_axis(known, worst[:, 0], axis=1)
        return Shift(look, adjusted, cut, before, now, first)


def exact_p(below: Float64, size: Float64, other_below: Float64, other_size: Float64) -> Float64:
    """p-values of Fisher's exact test for two shares, two-sided.

    Examples
    --------
    >>> exact_p(*(np.array([float(v)]) for v in (3, 3, 0, 3))).round(3)
    array([0.1])
    """
    from recalibrate.kernels.audit import two_sided

    arrays = np.broadcast_arrays(below, size, other_below, other_size)
    a, b, c, d = (np.array(own, dtype=np.float64).ravel() for own in arrays)
    out = np.empty(arrays[0].shape)
    two_sided(a, b, c, d, out.ravel())
    return out


def count_scores(
    codes: NDArray[np.int32],
    offsets: NDArray[np.int64],
    n_groups: int,
    scores: Float64,
    cuts: Sequence[Float64],
) -> Float64:
    """Rows between the cuts, shape (classes, bins, groups); scores have a column per class."""
    from recalibrate.kernels.audit import add_sums

    n_bins = max(len(own) for own in cuts) + 1
    out = np.zeros((len(cuts), n_bins, n_groups, 1))
    ones = np.ones((len(scores), 1))
    for k, own in enumerate(cuts):
        cell = np.searchsorted(own, scores[:, k], side="right")
        add_sums(codes, offsets, cell, ones, out[k])
    return out[..., 0]


# --- Values of a batch that the groups of a monitor do not know: new categories, recoded columns


LEAST_ROWS = 10
"""Rows with unknown values from which on a batch is refused: a few may well be all new."""

LOG_CHANCE = math.log(1e-9)
"""Chance, of rows like those of the reference, below which an empty group is not taken for one."""

REMEDY = (
    "Nothing was added. Write the values as in the reference, start a new monitor, or pass "
    "allow_unknown=True to add the rows all the same."
)


@dataclass(frozen=True)
class _Unknown:
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


def _read_known(schema: Schema, table: Any, *, allow_unknown: bool) -> Table:
    """A table as the groups read it; what is not of a column's kind is refused, or missing."""
    names, columns = split_columns(table)
    if len(columns) != len(schema.columns) and names is None:
        return schema.read(table)  # which says what is wrong
    places = range(len(schema.columns)) if names is None else find_columns(schema.names, names)
    strange = {
        column.name: _of_its_kind(column, columns[place], allow_unknown)
        for column, place in zip(schema.columns, places, strict=True)
        if _is_of_another_kind(column, columns[place])
    }
    if not strange:
        return schema.read(table)
    import pandas as pd

    found = {c.name: columns[place] for c, place in zip(schema.columns, places, strict=True)}
    return schema.read(pd.DataFrame({**found, **strange}))


def _is_of_another_kind(column: Column, values: Any) -> bool:
    """Whether a column of numbers holds text, or one of categories nothing of their type."""
    families = families_of(column.name, _plain(values))
    if column.kind == "categorical":
        known = {family_of(type(value)) for value in column.categories}
        return bool(families and known) and not families & known
    return "text" in families


def _of_its_kind(column: Column, values: Any, allow_unknown: bool) -> NDArray[Any]:
    """The values of the column's kind, others as missing."""
    given = np.array(_plain(values), dtype=object)
    text = np.array([isinstance(value, str) for value in given])
    if not allow_unknown:
        first = next(v for v, is_text in zip(given, text, strict=True) if is_text or not text.any())
        before = "text" if column.kind == "categorical" else "numbers"
        raise ValueError(
            f"Column {column.name!r} holds {plain_value(first)!r}, but had {before} in the "
            f"reference: it was probably recoded, and its groups would not be watched. {REMEDY}"
        )
    given[text if column.kind == "numeric" else slice(None)] = None
    return given


def _plain(values: Any) -> Any:
    return values.to_numpy(dtype=object) if values.dtype.name == "category" else values


def _find_unknown(
    groups: GroupSet, table: Any, read: Table, inside: NDArray[np.bool_]
) -> list[_Unknown]:
    """Columns with values that were not among those of the reference.

    ``inside`` says which rows are in a group of which term.
    """
    found = []
    names, columns = split_columns(table)
    for j, column in enumerate(read.schema.columns):
        values = read.column(j)
        known = ~np.isnan(values)
        for factor in _factors(groups, column.name):
            if isinstance(factor, ValueCells):
                known &= np.isin(values, np.array(factor.values, dtype=np.float32))
        if known.all():
            continue
        place = j if names is None else find_columns([column.name], names)[0]
        reads = [column.name in _columns_read(*term.factors) for term in groups.terms]
        found.append(_look_at(groups, column.name, columns[place], known, inside[:, reads]))
    return found


def _look_at(
    groups: GroupSet, name: str, values: Any, known: NDArray[np.bool_], inside: NDArray[np.bool_]
) -> _Unknown:
    """What the rows hold in which a column has no known value."""
    import pandas as pd

    missing = ~known & np.asarray(pd.isna(values))
    new = pd.unique(pd.Series(values)[~known & ~missing])
    if all(isinstance(factor, PredicateCells) for factor in _factors(groups, name)):
        # How many rows the conditions found missing in the reference is not known.
        lost = int(missing.sum()) if missing.all() and not inside.any() else 0
    else:
        lost = 0 if _has_missing(groups, name) else int(missing.sum())
    return _Unknown(name, [plain_value(v) for v in new], int((~known & ~missing).sum()), lost)


def _columns_read(*factors: Cells) -> set[str]:
    """Columns that factors read."""
    return {
        name
        for factor in factors
        for name in (
            ex.columns_of(factor.condition)
            if isinstance(factor, PredicateCells)
            else (factor.column,)
        )
    }


def _factors(groups: GroupSet, name: str) -> list[Cells]:
    """Factors that read a column."""
    return [f for term in groups.terms for f in term.factors if name in _columns_read(f)]


def _has_missing(groups: GroupSet, name: str) -> bool:
    """Whether missing values of a column that is cut into cells are in a group."""
    return any(
        not isinstance(factor, PredicateCells)
        and factor.column == name
        and any(own[k] == factor.count + 1 for own in term.cells)
        for term in groups.terms
        for k, factor in enumerate(term.factors)
    )


@dataclass(frozen=True)
class _Vanished:
    """A cell of a column, or a condition, that no row of a batch is in.

    Attributes
    ----------
    name : str
        The group of the rows that are in it.
    columns : tuple of str
        Columns that decide on it.
    share : float
        Share of the reference's rows that were in it.
    """

    name: str
    columns: tuple[str, ...]
    share: float


def _find_vanished(
    groups: GroupSet,
    read: Table,
    codes: NDArray[np.int32],
    reference: NDArray[np.floating],
    unknown: Sequence[_Unknown],
) -> list[_Vanished]:
    """Bands and conditions that too many rows of the reference were in for none to be now.

    Categories and values of a column may be absent, because batches may be of one of them only;
    unless about as many rows have a value that is unknown.

    Parameters
    ----------
    groups, read, codes
        The groups, the batch as they read it, and the rows' groups within every term.
    reference : ndarray of shape (1 + groups,)
        Rows of the reference, of everybody and in every group.
    unknown
        What the columns hold that groups do not know.
    """
    hidden = {each.column: each.rows for each in unknown}
    n_rows, total = read.n_rows, float(reference[0])
    found: dict[str, _Vanished] = {}
    for factor, cell, before in _absent(groups, codes, reference[1:]):
        if (
            _log_chance(before, total, n_rows) < LOG_CHANCE
            and _explains(factor, read, hidden, before / total * n_rows / 2)
            # Rows may be in the cell and in no group, as those of rare combinations are.
            and not (factor.assign(read) == cell).any()
        ):
            name = factor.names(groups.schema)[cell - 1]
            found[name] = _Vanished(name, tuple(_columns_read(factor)), before / total)
    return list(found.values())


def _absent(
    groups: GroupSet, codes: NDArray[np.int32], reference: NDArray[np.floating]
) -> Iterator[tuple[Cells, int, float]]:
    """Cells in whose groups there are no rows now, with the reference's rows in these.

    Cells of missing values are left out: that there are none any more is not a fault.
    """
    for t, term in enumerate(groups.terms):
        sizes = reference[groups.offsets[t] : groups.offsets[t + 1]]
        rows = np.bincount(codes[:, t], minlength=len(sizes) + 1)[1:]
        for factor, cells in zip(term.factors, np.array(term.cells).T, strict=True):
            before, now = (np.bincount(cells, weights=own) for own in (sizes, rows))
            for cell in np.flatnonzero((before > 0) & (now == 0)):
                if cell <= factor.count:
                    yield factor, int(cell), float(before[cell])


def _log_chance(count: float, total: float, n_rows: int) -> float:
    """Logarithm of the chance that of so many rows in a group all are in the reference.

    That is Fisher's exact test: ``n_rows`` others come from where the ``total`` do.
    """
    lgamma = math.lgamma
    here = lgamma(total + 1) - lgamma(total - count + 1)
    anywhere = lgamma(total + n_rows + 1) - lgamma(total + n_rows - count + 1)
    return here - anywhere


def _explains(factor: Cells, read: Table, hidden: dict[str, int], least: float) -> bool:
    """Whether rows that were in a cell may be among those of the batch under another value."""
    if isinstance(factor, PredicateCells | BandCells):
        return True
    if np.isnan(read.column(factor.column)).all():
        return True
    return hidden.get(factor.column, 0) >= least


def warn_unknown(unknown: Sequence[_Unknown]) -> None:
    """Say which values no group is for."""
    for each in unknown:
        if each.values:
            warn_user(
                f"Column {each.column!r} has values that no group is for: "
                f"{listed(each.values, 5)}, in {each.rows:,} rows. These count as missing there, "
                "and in the groups of other columns. Start a new monitor to watch them."
            )


def _refuse_unknown(unknown: Sequence[_Unknown], n_rows: int) -> None:
    """Refuse a batch most of which is in no group of a column: it was probably recoded."""
    for each in unknown:
        count = each.rows + each.missing
        if count >= LEAST_ROWS and 2 * count > n_rows:
            what = f"values that no group is for ({listed(each.values, 5)})" if each.rows else ""
            lost = "missing values, which no group is for" if each.missing else ""
            raise ValueError(
                f"Column {each.column!r} has {' or '.join(filter(None, [what, lost]))} in "
                f"{count:,} of {n_rows:,} rows: it was probably recoded, and its groups would not "
                f"be watched. {REMEDY}"
            )


def _refuse_vanished(vanished: Sequence[_Vanished], n_rows: int) -> None:
    """Refuse a batch that nobody of a frequent group is in."""
    for each in vanished:
        columns = " or ".join(map(repr, each.columns))
        raise ValueError(
            f"None of the {n_rows:,} rows is in the group {each.name!r}, which had "
            f"{100 * each.share:.3g}% of the reference: values of column {columns} were probably "
            f"recoded, or are in another unit. {REMEDY}"
        )


Codes = NDArray[np.int32]

SMALLEST_EDGE = 0.01
"""Bands next to 0 and 1 are at least that wide: the next scores may be a little larger."""


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

    @cached_property
    def bounds(self) -> Float64:
        """Largest possible loss of a bet on too low and on too high predictions, per unit weight.

        Residuals of a band are above minus its upper edge and below 1 minus its lower edge. Shape
        (directions, classes, cells); the first cell is for all scores.
        """
        bounds = np.ones((2, len(self.edges), 1 + (self.n_bands if self.n_bands > 1 else 0)))
        for k, own in enumerate(self.edges):
            bounds[0, k, 1 : len(own) + 1] = own
            bounds[1, k, 2 : len(own) + 2] = 1.0 - own
        return bounds

    def codes(
        self, table: Any, n_rows: int, *, allow_unknown: bool = False
    ) -> tuple[Codes, list[_Unknown]]:
        """Group of every row within every term, and values that the groups do not know.

        Unless these are allowed, a column that seems to have been recoded is refused.
        """
        if self.groups is None:
            return np.ones((n_rows, 1), dtype=np.int32), []
        if table is None:
            raise ValueError(
                "The groups are expressions over columns: pass the table X (or Z), also where "
                "scores are given."
            )
        read = _read_known(self.groups.schema, table, allow_unknown=allow_unknown)
        if read.n_rows != n_rows:
            raise ValueError(f"The table has {read.n_rows} rows, but there are {n_rows}.")
        own = self.groups.codes(read)
        unknown = _find_unknown(self.groups, table, read, own > 0)
        if not allow_unknown:
            _refuse_unknown(unknown, n_rows)
            if self.reference.size:
                counts = self.reference[0].sum(axis=0)
                _refuse_vanished(_find_vanished(self.groups, read, own, counts, unknown), n_rows)
        found = np.empty((n_rows, own.shape[1] + 1), dtype=np.int32)
        found[:, 0] = 1
        found[:, 1:] = own
        return found, unknown


def _band_edges(scores: Float64, levels: int) -> Float64:
    """Quantiles of the scores, and an edge at twice the largest one if that is below .5.

    Scores of rare events are all small, but only a band with an upper edge allows large stakes;
    likewise at the other end, for events that are nearly certain.

    Examples
    --------
    >>> import numpy as np
    >>> _band_edges(np.array([0.1, 0.3, 0.5, 0.9]), 2)
    array([0.5])
    >>> _band_edges(np.full(4, 0.02), 2)
    array([0.04])
    """
    edges = np.asarray(quantile_edges(scores, levels), dtype=np.float64)
    if levels == 1:
        return edges
    high = max(2.0 * float(scores.max()), SMALLEST_EDGE)
    low = 1.0 - max(2.0 * float(1.0 - scores.min()), SMALLEST_EDGE)
    guards = [*([low] if low >= 0.5 else []), *([high] if high <= 0.5 else [])]
    return np.union1d(edges, guards)


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
    edges = tuple(_band_edges(own, levels) for own in scores.T)
    # Cuts by every other row and counts of the rest, so that Fisher's test is exact.
    cuts = tuple(np.asarray(quantile_edges(own[::2], CUTS + 1)) for own in scores.T)
    names = tuple(each.name for each in left_out)
    empty = Watched(bound, edges, cuts, np.empty((0, 0, 0)), names)
    codes, _ = empty.codes(table, n_rows, allow_unknown=True)
    half = np.ascontiguousarray(codes[1::2])  # one kind of array for the compiled loop
    counts = count_scores(half, empty.offsets, len(empty.names), scores[1::2], cuts)
    return Watched(bound, edges, cuts, counts, names)
