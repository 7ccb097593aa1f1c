"""Values of a batch that the groups of a monitor do not know: new categories, recoded columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.splitting import find_columns, split_columns
from recalibrate.data.table import Column, Schema, Table
from recalibrate.data.values import families_of, family_of, plain_value
from recalibrate.groups import expressions as ex
from recalibrate.groups.cells import BandCells, Cells, PredicateCells, ValueCells
from recalibrate.groups.groupset import GroupSet
from recalibrate.support.notices import listed, warn_user

LEAST_ROWS = 10
"""Rows with unknown values from which on a batch is refused: a few may well be all new."""

LOG_CHANCE = math.log(1e-9)
"""Chance, of rows like those of the reference, below which an empty group is not taken for one."""

REMEDY = (
    "Nothing was added. Write the values as in the reference, start a new monitor, or pass "
    "allow_unknown=True to add the rows all the same."
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


def read_known(schema: Schema, table: Any, *, allow_unknown: bool) -> Table:
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


def find_unknown(
    groups: GroupSet, table: Any, read: Table, inside: NDArray[np.bool_]
) -> list[Unknown]:
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
        reads = [column.name in columns_read(*term.factors) for term in groups.terms]
        found.append(_look_at(groups, column.name, columns[place], known, inside[:, reads]))
    return found


def _look_at(
    groups: GroupSet, name: str, values: Any, known: NDArray[np.bool_], inside: NDArray[np.bool_]
) -> Unknown:
    """What the rows hold in which a column has no known value."""
    import pandas as pd

    missing = ~known & np.asarray(pd.isna(values))
    new = pd.unique(pd.Series(values)[~known & ~missing])
    if all(isinstance(factor, PredicateCells) for factor in _factors(groups, name)):
        # How many rows the conditions found missing in the reference is not known.
        lost = int(missing.sum()) if missing.all() and not inside.any() else 0
    else:
        lost = 0 if _has_missing(groups, name) else int(missing.sum())
    return Unknown(name, [plain_value(v) for v in new], int((~known & ~missing).sum()), lost)


def columns_read(*factors: Cells) -> set[str]:
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
    return [f for term in groups.terms for f in term.factors if name in columns_read(f)]


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
class Vanished:
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


def find_vanished(
    groups: GroupSet,
    read: Table,
    codes: NDArray[np.int32],
    reference: NDArray[np.floating],
    unknown: Sequence[Unknown],
) -> list[Vanished]:
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
    found: dict[str, Vanished] = {}
    for factor, cell, before in _absent(groups, codes, reference[1:]):
        if (
            _log_chance(before, total, n_rows) < LOG_CHANCE
            and _explains(factor, read, hidden, before / total * n_rows / 2)
            # Rows may be in the cell and in no group, as those of rare combinations are.
            and not (factor.assign(read) == cell).any()
        ):
            name = factor.names(groups.schema)[cell - 1]
            found[name] = Vanished(name, tuple(columns_read(factor)), before / total)
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
        count = each.rows + each.missing
        if count >= LEAST_ROWS and 2 * count > n_rows:
            what = f"values that no group is for ({listed(each.values, 5)})" if each.rows else ""
            lost = "missing values, which no group is for" if each.missing else ""
            raise ValueError(
                f"Column {each.column!r} has {' or '.join(filter(None, [what, lost]))} in "
                f"{count:,} of {n_rows:,} rows: it was probably recoded, and its groups would not "
                f"be watched. {REMEDY}"
            )


def refuse_vanished(vanished: Sequence[Vanished], n_rows: int) -> None:
    """Refuse a batch that nobody of a frequent group is in."""
    for each in vanished:
        columns = " or ".join(map(repr, each.columns))
        raise ValueError(
            f"None of the {n_rows:,} rows is in the group {each.name!r}, which had "
            f"{100 * each.share:.3g}% of the reference: values of column {columns} were probably "
            f"recoded, or are in another unit. {REMEDY}"
        )
