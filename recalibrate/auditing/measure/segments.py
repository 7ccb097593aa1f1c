"""The groups of an audit: whatever the user gave, as numbered groups of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.records import Coverage, LeftOut
from recalibrate.data.fingerprints import hash_rows
from recalibrate.data.table import Schema, Table, read_table
from recalibrate.groups.expressions import Term, columns_of, parse, to_text
from recalibrate.groups.groupset import GroupSet, bind_rows
from recalibrate.groups.terms import Assigned, BoundTerm, RowGroups
from recalibrate.support.checks import check_whole
from recalibrate.support.hashing import UInts
from recalibrate.support.notices import listed, warn_user

EVERYBODY = "all"
MOST_TERMS = 20_000
"""Crossings of terms beyond this are refused: nobody reads such an audit."""

MOST_UNASKED, FEWEST_ROWS = 5_000, 5
"""Above so many groups those with fewer rows, which have no limits anyway, are left out unless
the user says otherwise (min_rows)."""

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
Offsets = NDArray[np.int64]


class Segments(Protocol):
    """Groups by number; a term is a set of groups that do not overlap.

    Rows are those of positive weight, numbered from 0.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """One per group."""

    @property
    def terms(self) -> tuple[str, ...]:
        """What every group is one of: a column, a crossing, a condition; empty for all rows."""

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """What every group is the intersection of."""

    @property
    def offsets(self) -> Offsets:
        """Groups of term t are numbered from offsets[t] to offsets[t + 1]."""

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        """Group within the term of some rows, 1-based, 0 = none; shape (rows, terms)."""

    def hashes(self, n_rows: int) -> UInts:
        """Hash of what the groups read of every row."""


@dataclass(frozen=True, eq=False)
class EverybodyOnly:
    """The one group of all rows."""

    names: tuple[str, ...] = (EVERYBODY,)
    terms: tuple[str, ...] = ("",)
    parts: tuple[tuple[str, ...], ...] = ((),)
    offsets: Offsets = field(default_factory=lambda: np.arange(2))

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        return np.ones((len(rows), 1), dtype=np.int32)

    def hashes(self, n_rows: int) -> UInts:
        return np.zeros(n_rows, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class ExpressionSegments:
    """All rows, then groups by expressions over a table."""

    groups: GroupSet
    found: RowGroups
    rows: Assigned

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (EVERYBODY, *self.groups.labels)

    @cached_property
    def terms(self) -> tuple[str, ...]:
        shown = ((_shown(term), len(term.cells)) for term in self.groups.terms)
        return ("", *(text for text, count in shown for _ in range(count)))

    @cached_property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        schema = self.groups.schema
        return ((), *(parts for term in self.groups.terms for parts in term.parts(schema)))

    @cached_property
    def offsets(self) -> Offsets:
        return np.append(0, 1 + np.asarray(self.groups.offsets))

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        out = np.empty((len(rows), len(self.groups.terms) + 1), dtype=np.int32)
        out[:, 0] = 1
        self.found.fill(rows, out, 1)
        return out

    def hashes(self, n_rows: int) -> UInts:
        return hash_rows(self.rows.table, self.groups.schema.names, (), n_rows)


@dataclass(frozen=True, eq=False)
class _MaskSegments:
    """All rows, then intersections of masks, each a term of its own.

    Attributes
    ----------
    masks : tuple of boolean arrays
        Of all rows; intersections are formed for the rows in question only.
    members : tuple of tuple of int
        Numbers of the masks that every group is the intersection of.
    given : tuple of str
        Names of the masks.
    """

    names: tuple[str, ...]
    masks: tuple[Mask, ...]
    members: tuple[tuple[int, ...], ...]
    given: tuple[str, ...]

    @cached_property
    def terms(self) -> tuple[str, ...]:
        crossed = {1: "", 2: "pairs of groups"}
        return ("", *(crossed.get(len(m), f"{len(m)} groups at once") for m in self.members))

    @cached_property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        return ((), *(tuple(self.given[k] for k in member) for member in self.members))

    @cached_property
    def offsets(self) -> Offsets:
        return np.arange(len(self.members) + 2)

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        chosen = [mask[rows] for mask in self.masks]
        out = np.ones((len(rows), len(self.members) + 1), dtype=np.int32)
        for column, member in enumerate(self.members, start=1):
            out[:, column] = np.logical_and.reduce([chosen[m] for m in member])
        return out

    def hashes(self, n_rows: int) -> UInts:
        return hash_rows(None, (), [mask.astype(np.float64) for mask in self.masks], n_rows)


def read_segments(
    groups: Any,
    table: Any,
    *,
    n_rows: int,
    weight: NDArray[np.float64] | None,
    depth: int,
    min_rows: int | None,
    bands: int,
) -> tuple[Segments, tuple[LeftOut, ...], tuple[Coverage, ...]]:
    """Read the groups as `audit` takes them; those with too few rows of weight are left out."""
    if groups is None or groups is False:
        return EverybodyOnly(), (), ()
    if isinstance(groups, Mapping) or hasattr(groups, "columns"):
        counted = slice(None) if weight is None else weight > 0
        return *_filled(_mask_segments(groups, n_rows, counted, depth), min_rows or 1), ()
    if table is None:
        raise ValueError("Expressions as groups need a table: pass X or Z, or give masks by name.")
    # Columns that no group is about may hold anything, dates for example.
    reads = None if groups is True else partial(_columns_read, groups)
    read = table if isinstance(table, Table) else read_table(table, reads=reads)
    if read.n_rows != n_rows:
        raise ValueError(f"The groups' table has {read.n_rows} rows, but there are {n_rows}.")
    terms = _crossed(_terms(groups, read.schema), read, depth)
    least = min_rows if min_rows is not None else getattr(groups, "min_rows", 1)
    check_whole("min_rows", least, least=1)
    bound, rows = bind_rows(terms, read, weight=weight, bands=bands, round_cuts=True)
    if min_rows is None and sum(len(term.cells) for term in bound.terms) > MOST_UNASKED:
        least = max(least, FEWEST_ROWS)
    bound, left_out, covered = _large_enough(bound, rows, least)
    return ExpressionSegments(bound, RowGroups(bound.tables, rows), rows), left_out, covered


def _shown(term: BoundTerm) -> str:
    """A term without quotes that it does not need."""
    return to_text(parse(term.text))


def _large_enough(
    groups: GroupSet, rows: Assigned, min_rows: int
) -> tuple[GroupSet, tuple[LeftOut, ...], tuple[Coverage, ...]]:
    """Groups with enough rows, the names of the others, and how many rows are in either."""
    kept, left_out, covered = [], [], []
    for term in groups.terms:
        _, counts = rows.count(term.factors)
        large = counts >= min_rows
        inside, small = int(counts[large].sum()), int(counts[~large].sum())
        missing = rows.missing(list(dict.fromkeys(columns_of(parse(term.text)))))
        outside = rows.n_rows - inside - small
        covered.append(Coverage(_shown(term), inside, missing, small, outside))
        if small:
            named = zip(term.labels(groups.schema), counts.tolist(), strict=True)
            left_out += [
                LeftOut(name, _too_few(count, min_rows), count)
                for name, count in named
                if count < min_rows
            ]
        if large.any():
            cells = tuple(own for own, kept in zip(term.cells, large, strict=True) if kept)
            kept.append(replace(term, cells=cells) if small else term)
    if not kept:
        raise ValueError(f"no group has at least {min_rows} rows; check the groups and min_rows")
    return replace(groups, terms=tuple(kept)), tuple(left_out), tuple(covered)


def _too_few(count: int, min_rows: int) -> str:
    return f"{count} rows, fewer than min_rows={min_rows}" if count else "no rows with weight"


def _columns_read(groups: Any, schema: Schema) -> list[str]:
    """Columns that the terms speak of."""
    terms = [term for term in _terms(groups, schema) if isinstance(term, str)]
    return [name for term in terms for name in columns_of(parse(term, schema))]


def _terms(groups: Any, schema: Schema) -> tuple[str, ...]:
    if groups is True:
        return tuple("`" + name.replace("`", "``") + "`" for name in schema.names)
    terms = getattr(groups, "terms", groups)
    if isinstance(terms, str):
        return (terms,)
    if not isinstance(terms, Iterable):
        raise TypeError(
            "groups must be a Groups object, expressions such as "
            f'["sex", "age < 25"], True for every column, or masks by name; got '
            f"{type(groups).__name__}."
        )
    terms = tuple(terms)
    if not terms:
        raise ValueError("groups is empty. Leave it out to audit all rows only.")
    return terms


def _crossed(terms: tuple[Any, ...], table: Table, depth: int) -> list[Any]:
    """The terms and their crossings, except those of terms that share a column."""
    if depth == 1 or not all(isinstance(term, str) for term in terms):
        return list(terms)  # what is not a string is refused where terms are bound
    parsed = [parse(term, table.schema) for term in terms]
    crossed = list(terms)
    known = {_factors(term) for term in parsed}
    for size in range(2, min(depth, len(terms)) + 1):
        for chosen in combinations(parsed, size):
            columns = [name for term in chosen for name in columns_of(term)]
            term = Term(tuple(factor for term in chosen for factor in term.factors), "")
            if len(set(columns)) == len(columns) and _factors(term) not in known:
                known.add(_factors(term))
                crossed.append(to_text(term))
                _refuse_too_many(len(crossed), depth)
    return crossed


def _factors(term: Term) -> frozenset[str]:
    """What makes two crossings the same, in whatever order they are written."""
    return frozenset(to_text(factor) for factor in term.factors)


def _refuse_too_many(count: int, depth: int) -> None:
    if count > MOST_TERMS:
        raise ValueError(
            f"depth={depth} gives more than {MOST_TERMS:,} crossings of the groups. Name fewer "
            "groups, or cross less deeply."
        )


def _mask_segments(groups: Any, n_rows: int, counted: Any, depth: int) -> _MaskSegments:
    given = list(groups) if isinstance(groups, Mapping) else list(groups.columns)
    names = [str(name) for name in given]
    if not names:
        raise ValueError("groups is empty. Leave it out to audit all rows only.")
    if EVERYBODY in names:
        raise ValueError(f"{EVERYBODY!r} is the name of all rows; give that group another one")
    if len(set(names)) < len(names):
        raise ValueError(f"groups has a name more than once: {listed(names)}.")
    masks = [_mask(str(name), groups[name], n_rows)[counted] for name in given]
    members: list[tuple[int, ...]] = []
    for size in range(1, min(depth, len(masks)) + 1):
        for chosen in combinations(range(len(masks)), size):
            members.append(chosen)
            _refuse_too_many(len(members) if size > 1 else 0, depth)
    labels = (" * ".join(names[m] for m in chosen) for chosen in members)
    return _MaskSegments((EVERYBODY, *labels), tuple(masks), tuple(members), tuple(names))


def _filled(segments: _MaskSegments, min_rows: int) -> tuple[_MaskSegments, tuple[LeftOut, ...]]:
    """Leave out, with a warning, groups about which nothing can be said."""
    kept, left_out = [], []
    for name, member in zip(segments.names[1:], segments.members, strict=True):
        count = int(np.logical_and.reduce([segments.masks[m] for m in member]).sum())
        if count >= min_rows:
            kept.append((name, member))
        elif count or len(member) == 1:  # masks that do not meet are no loss
            left_out.append(LeftOut(name, _too_few(count, min_rows), count))
    for group in left_out:
        warn_user(f"The group {group.name!r} has {group.why} and is left out.")
    if not kept:
        raise ValueError("No group has enough rows with weight. Check the groups and min_rows.")
    names, members = zip(*kept, strict=True)
    return _MaskSegments((EVERYBODY, *names), segments.masks, members, segments.given), tuple(
        left_out
    )


def _mask(name: str, values: Any, n_rows: int) -> Mask:
    mask = np.asarray(values)
    if mask.dtype != np.bool_:
        raise TypeError(
            f"The mask of group {name!r} has dtype {mask.dtype}, not bool. Use a comparison or "
            ".astype(bool), after filling missing values."
        )
    if mask.shape != (n_rows,):
        raise ValueError(
            f"The mask of group {name!r} has shape {mask.shape}, but there are {n_rows} rows. "
            "Masks are matched to rows by position."
        )
    return mask
