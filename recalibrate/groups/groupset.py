"""Groups bound to a table: expressions become numbered, labelled groups of rows.

A term such as ``sex * age`` is bound once, on the rows it will be used for: categories, distinct
values or quantile bands of its columns become cells, and the combinations of cells that occur
become groups. After that a group set is a fixed rule from rows to group numbers, whatever table
it is applied to. Groups of one term are disjoint; groups of different terms overlap freely.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recalibrate.data.columns import Columns, integer_weights
from recalibrate.data.labels import read_weight_vector
from recalibrate.data.table import Schema, Table
from recalibrate.data.values import category_key
from recalibrate.groups import expressions as ex
from recalibrate.groups.cells import (
    BANDS,
    Cells,
    PredicateCells,
    cut_column,
    load_cells,
)
from recalibrate.groups.terms import (
    Assigned,
    BoundTerm,
    CountCells,
    Counted,
    TermTables,
    add_counts,
)
from recalibrate.support.checks import check_whole


class _Aligned:
    """A table seen through another schema: category codes are translated by value."""

    def __init__(self, schema: Schema, table: Table) -> None:
        self.schema = schema
        self.n_rows = table.n_rows
        self._table = table

    def column(self, name: str, /, *, copy: bool = True) -> NDArray[np.float32]:
        wanted = self.schema.columns[self.schema.index(name)]
        own = self._table.schema.columns[self._table.schema.index(name)]
        values = self._table.column(name, copy=copy)
        if own.kind != wanted.kind:
            raise ValueError(
                f"column {name!r} is {own.kind} in this table, but was {wanted.kind} when the "
                "groups were bound; read the data with the schema of the first table"
            )
        if own is wanted or own.categories == wanted.categories:
            return values
        codes = {category_key(c): k for k, c in enumerate(wanted.categories, start=1)}
        translated = np.array(
            [np.nan, *(codes.get(category_key(c), np.nan) for c in own.categories)],
            dtype=np.float32,
        )
        return translated[np.nan_to_num(values, nan=0.0).astype(np.intp)]


@dataclass(frozen=True)
class GroupSet:
    """Groups of rows, made by `bind`.

    Attributes
    ----------
    terms : tuple of BoundTerm
        One per term that has at least one group.
    schema : Schema
        The columns that the terms read, as they were when bound.

    Examples
    --------
    >>> import pandas as pd
    >>> from recalibrate.data.table import read_table
    >>> table = read_table(pd.DataFrame({"age": [20, 30, 70], "sex": ["F", "M", "F"]}))
    >>> groups = bind(["sex", "sex * (age < 50)"], table)
    >>> groups.labels
    ('sex = F', 'sex = M', 'sex = F * age < 50', 'sex = M * age < 50')
    >>> groups.offsets
    (0, 2, 4)
    >>> groups.codes(table)
    array([[1, 1],
           [2, 2],
           [1, 0]], dtype=int32)
    """

    terms: tuple[BoundTerm, ...]
    schema: Schema

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Name of every group, term after term."""
        return tuple(label for term in self.terms for label in term.labels(self.schema))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Groups of term t are ``labels[offsets[t]:offsets[t + 1]]``."""
        sizes = [len(term.cells) for term in self.terms]
        return tuple(int(total) for total in np.cumsum([0, *sizes]))

    def take(self, terms: Sequence[int]) -> GroupSet:
        """Some of the terms, in this order, with the columns that they read."""
        kept = tuple(self.terms[t] for t in terms)
        parsed = [ex.parse(term.text, self.schema) for term in kept]
        return GroupSet(kept, self.schema.select(_columns(parsed)))

    def codes(self, table: Table, threads: int = 1) -> NDArray[np.int32]:
        """Group of every row within every term.

        Parameters
        ----------
        table : Table
            Must have the columns of the terms. Categories are matched by value, so the table
            need not have been read with the same schema; unknown ones count as missing.

        Returns
        -------
        ndarray of int32, shape (n_rows, n_terms)
            1-based; 0 where the row is in none of the term's groups: the predicate is False, or
            the combination of cells did not occur when the groups were bound.
        """
        return self.tables.codes(Assigned(_Aligned(self.schema, table)), threads)

    @cached_property
    def tables(self) -> TermTables:
        """What finds the groups of rows."""
        return TermTables(self.terms)

    def masks(self, table: Table) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Label and rows of one group after the other, in the order of `labels`."""
        rows = Assigned(_Aligned(self.schema, table))
        for term in self.terms:
            codes = TermTables((term,)).codes(rows)[:, 0]
            for k, label in enumerate(term.labels(self.schema), start=1):
                yield label, codes == k

    def to_dict(self) -> dict[str, Any]:
        """Return lists, strings and finite numbers only, for JSON."""
        terms = [
            {
                "text": term.text,
                "factors": [factor.to_dict() for factor in term.factors],
                "cells": [list(cells) for cells in term.cells],
            }
            for term in self.terms
        ]
        return {"schema": self.schema.to_dict(), "terms": terms}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> GroupSet:
        """Group set from the result of `to_dict`; a ValueError if it is not one."""
        try:
            schema = Schema.from_dict(state["schema"])
            terms = tuple(_load_term(entry, schema) for entry in state["terms"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"Not a saved group set: {error}") from error
        if not terms:
            raise ValueError("Not a saved group set: it has no terms")
        return cls(terms, schema)


def _load_term(entry: dict[str, Any], schema: Schema) -> BoundTerm:
    term = ex.parse(entry["text"], schema)
    factors = tuple(
        load_cells(saved, factor, schema)
        for saved, factor in zip(entry["factors"], term.factors, strict=True)
    )
    cells = np.array(entry["cells"])
    if cells.ndim != 2 or cells.dtype.kind != "i" or cells.shape[1] != len(factors):
        raise ValueError(f"cells of {term.text!r} are not a list of {len(factors)} integers each")
    last = [f.count + (not isinstance(f, PredicateCells)) for f in factors]
    if (cells < 1).any() or (cells > last).any():
        raise ValueError(f"cells of {term.text!r} are out of range")
    groups = tuple(tuple(row) for row in cells.tolist())
    if any(a >= b for a, b in pairwise(groups)):
        raise ValueError(f"cells of {term.text!r} are not in ascending order")
    return BoundTerm(term.text, factors, groups)


def bind(
    terms: Sequence[str],
    table: Table,
    *,
    weight: ArrayLike | None = None,
    min_rows: int = 1,
    bands: int = BANDS,
) -> GroupSet:
    """Turn group expressions into groups of a table's rows.

    A column stands for one cell per category, per distinct value when it is numeric with at most
    12 of them, or otherwise per quantile band; missing values are a cell of their own. A condition
    is one cell. Crossed factors give the combinations that occur.

    Parameters
    ----------
    terms : sequence of str
        Expressions, see `recalibrate.groups.expressions`.
    table : Table
        Rows that decide which groups exist and where bands are cut.
    weight : array-like of shape (n_rows,), optional
        Weights for the quantiles: a row of weight 2 equals the row twice. Rows of weight 0 count
        as absent.
    min_rows : int, default 1
        Combinations with fewer rows (of positive weight) are no groups.
    bands : int, default 4
        Number of quantile bands of a numeric column; ties may leave fewer.

    Returns
    -------
    GroupSet

    Warns
    -----
    UserWarning
        For each term that no group is left of; it is dropped.

    Raises
    ------
    GroupSyntaxError
        If a term cannot be read or does not fit the table's columns.
    ValueError, TypeError
        If no term has a group, a term is given twice, or an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate.data.table import read_table
    >>> bind(["x0"], read_table(np.arange(100.0).reshape(-1, 1))).labels
    ('x0 < 25', 'x0 in [25, 50)', 'x0 in [50, 75)', 'x0 >= 75')
    """
    return bind_rows(terms, table, weight=weight, min_rows=min_rows, bands=bands)[0]


def bind_rows(
    terms: Sequence[str],
    table: Table,
    *,
    weight: ArrayLike | None = None,
    min_rows: int = 1,
    bands: int = BANDS,
    round_cuts: bool = False,
) -> tuple[GroupSet, Assigned]:
    """The same, with the cells of the rows (of positive weight) that were found on the way.

    With ``round_cuts`` bands end at round numbers near the quantiles.
    """
    check_whole("bands", bands, least=2)
    table = table.select(_columns(_parse_all(terms, table.schema)))  # before rows are copied
    if weight is not None:
        weight = read_weight_vector(weight, table.n_rows)
        table, weight = table.take(weight > 0), weight[weight > 0]
    units = None if weight is None else integer_weights(weight, int(bands))
    rows = Assigned(table)

    def count(terms: Sequence[tuple[Cells, ...]]) -> list[Counted]:
        return [rows.count(factors) for factors in terms]

    cut = partial(cut_column, bands=int(bands), round_cuts=round_cuts)
    return _bind(terms, Columns.of(table, units), count, min_rows, cut), rows


def bind_columns(terms: Sequence[str], columns: Columns, *, min_rows: int = 1) -> GroupSet:
    """Turn group expressions into groups of rows, wherever these are; see :func:`bind`."""

    def count(terms: Sequence[tuple[Cells, ...]]) -> list[Counted]:
        found = list(columns.map(CountCells(tuple(terms))))
        return [add_counts([piece[t] for piece in found]) for t in range(len(terms))]

    return _bind(terms, columns, count, min_rows, partial(cut_column, bands=BANDS))


def _bind(
    terms: Sequence[str],
    columns: Columns,
    count: Callable[[Sequence[tuple[Cells, ...]]], Sequence[Counted]],
    min_rows: int,
    cut: Callable[[Columns, str], Cells],
) -> GroupSet:
    """Groups of the terms; ``count`` finds the combinations of cells that occur."""
    schema = columns.schema
    check_whole("min_rows", min_rows, least=1)
    parsed = _parse_all(terms, schema)
    known: dict[str, Cells] = {}  # a column in several terms is cut once

    def bind_factor(factor: ex.Column | ex.Predicate) -> Cells:
        if isinstance(factor, ex.Predicate):
            return PredicateCells(factor.condition)
        if factor.name not in known:
            known[factor.name] = cut(columns, factor.name)
        return known[factor.name]

    factors = [tuple(bind_factor(factor) for factor in term.factors) for term in parsed]
    bound = []
    for term, own, (cells, counts) in zip(parsed, factors, count(factors), strict=True):
        large = tuple(zip(*cells[counts >= min_rows].T.tolist(), strict=True))
        if large:
            bound.append(BoundTerm(term.text, own, large))
        else:
            few = "no rows" if min_rows == 1 else f"no group of at least {min_rows} rows"
            warnings.warn(f"group term {term.text!r} has {few}; dropped", stacklevel=3)
    if not bound:
        raise ValueError(
            f"no group is left of the terms {[t.text for t in parsed]}: none has a combination "
            f"with at least {min_rows} rows"
        )
    return GroupSet(tuple(bound), schema.select(_columns(parsed)))


def _columns(terms: Sequence[ex.Term]) -> list[str]:
    """Columns that terms read, each once."""
    return list(dict.fromkeys(name for term in terms for name in ex.columns_of(term)))


def _parse_all(terms: Sequence[object], schema: Schema) -> list[ex.Term]:
    if isinstance(terms, str):
        raise TypeError(f"terms must be a list of expressions: write [{terms!r}]")
    parsed: dict[str, ex.Term] = {}  # by canonical text
    for term in terms:
        if not isinstance(term, str):
            raise TypeError(
                "a group here is an expression (a string) over the columns, got "
                f"{type(term).__name__}; masks are for audit only, because a mask cannot be "
                "computed for new rows. Add the mask to the table as a column and name it."
            )
        new = ex.parse(term, schema)
        if ex.to_text(new) in parsed:
            raise ValueError(f"the term {new.text!r} is given twice; remove one")
        parsed[ex.to_text(new)] = new
    if not parsed:
        raise ValueError("terms is empty; give at least one expression, for example ['sex']")
    return list(parsed.values())
