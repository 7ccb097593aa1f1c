"""Cells of one factor of a group expression: categories, values, bands, or a condition.

Every kind numbers its cells from 1; the number after the last cell of a column is "missing", and
0 is "in no cell". Which cells, or combinations of them, are groups is decided by
`recalibrate.groups.terms.BoundTerm`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.columns import Columns, cut_at_quantiles
from recalibrate.data.table import Schema
from recalibrate.groups import expressions as ex

MOST_VALUES = 12  # numeric columns with more distinct values are cut into bands
BANDS = 4
"""Quantile bands of a numeric column, unless the user says otherwise."""

NEAR = 0.02
"""Share of the weight by which a cut may move to a round number."""


@dataclass(frozen=True)
class CategoryCells:
    """One cell per category of a categorical column: the cell is the category's code."""

    column: str
    count: int

    def assign(self, table: ex.Columns) -> NDArray[np.int32]:
        codes = table.column(self.column)
        return np.where(np.isnan(codes), self.count + 1, codes).astype(np.int32)

    def names(self, schema: Schema) -> list[str]:
        categories = schema.columns[schema.index(self.column)].categories
        # "1" and 1 in one column would look the same without quotes.
        show = str if len({type(c) for c in categories}) <= 1 else repr
        return [f"{self.column} = {show(c)}" for c in categories] + [f"{self.column} is missing"]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "categories", "column": self.column}


@dataclass(frozen=True)
class ValueCells:
    """One cell per distinct value of a numeric column with few of them."""

    column: str
    values: tuple[float, ...]  # ascending, each a float32

    @property
    def count(self) -> int:
        return len(self.values)

    def assign(self, table: ex.Columns) -> NDArray[np.int32]:
        column = table.column(self.column)
        found = np.where(np.isnan(column), np.int32(self.count + 1), np.int32(0))
        # Few values: comparing with each of them is several times faster than searching.
        for cell, value in enumerate(self.values, start=1):
            found += (column == np.float32(value)) * np.int32(cell)
        return found

    def names(self, schema: Schema) -> list[str]:
        known = [f"{self.column} = {_number(v)}" for v in self.values]
        return [*known, f"{self.column} is missing"]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "values", "column": self.column, "values": _pack(self.values)}


@dataclass(frozen=True)
class BandCells:
    """Bands of a numeric column: the cell is 1 + the number of edges at or below the value."""

    column: str
    edges: tuple[float, ...]  # ascending, each a float32

    @property
    def count(self) -> int:
        return len(self.edges) + 1

    def assign(self, table: ex.Columns) -> NDArray[np.int32]:
        column = table.column(self.column)
        edges = np.array(self.edges, dtype=np.float32)
        found = np.searchsorted(edges, column, side="right").astype(np.int32) + np.int32(1)
        found[np.isnan(column)] = self.count + 1
        return found

    def names(self, schema: Schema) -> list[str]:
        cuts = [_number(e) for e in self.edges]
        inner = [f"{self.column} in [{a}, {b})" for a, b in pairwise(cuts)]
        outer = f"{self.column} < {cuts[0]}", f"{self.column} >= {cuts[-1]}"
        return [outer[0], *inner, outer[1], f"{self.column} is missing"]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "bands", "column": self.column, "edges": _pack(self.edges)}


@dataclass(frozen=True)
class PredicateCells:
    """One cell: the rows where a condition is True."""

    condition: ex.Condition
    count: int = 1

    def assign(self, table: ex.Columns) -> NDArray[np.int32]:
        return ex.evaluate(self.condition, table).astype(np.int32)

    def names(self, schema: Schema) -> list[str]:
        return [ex.to_text(self.condition)]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "predicate"}


Cells = CategoryCells | ValueCells | BandCells | PredicateCells


def cut_column(
    columns: Columns, name: str, bands: int, *, round_cuts: bool = False
) -> CategoryCells | ValueCells | BandCells:
    """Cells of a column: its categories, its few values, or bands of about equal weight.

    With ``round_cuts`` bands are cut at round numbers near the quantiles, for readers.
    """
    column = columns.column(name)
    if column.kind == "categorical":
        return CategoryCells(name, len(column.categories))

    def targets(total: int) -> NDArray[np.int64]:
        shares = [(j / bands, -(-total * j // bands)) for j in range(1, bands)]
        if not round_cuts:
            return np.array([exact for _, exact in shares])
        near = [int(total * (share + move)) for share, _ in shares for move in (-NEAR, NEAR)]
        return np.unique(np.clip([*near, *(exact for _, exact in shares)], 1, max(total, 1)))

    found = columns.distribution(name, targets)
    values = found.values + np.float32(0)  # -0 and 0 are one value, and it is called 0
    edges = cut_at_quantiles(values, found.mass, bands)
    # All weight may be on a single one of many values.
    if found.complete and (len(values) <= MOST_VALUES or not len(edges)):
        return ValueCells(name, tuple(values.tolist()))
    if round_cuts:
        edges = _round_cuts(edges, values, found.mass)
    return BandCells(name, tuple(edges.tolist()))


def _round_cuts(
    edges: NDArray[np.floating], values: NDArray[np.floating], mass: NDArray[np.int64]
) -> NDArray[np.floating]:
    """Cuts with as few digits as there are close by; as they were where that merges bands."""
    reached = np.cumsum(mass) / mass.sum()
    rounded = []
    for edge in edges.tolist():
        at = reached[np.searchsorted(values, edge)]
        inside = values[np.abs(reached - at) <= NEAR]
        low, high = (float(inside.min()), float(inside.max())) if len(inside) else (edge, edge)
        rounded.append(next(x for x in _shorter(edge) if low <= x <= high or x == edge))
    found = np.array(rounded, dtype=np.float32)
    return found if (np.diff(found) > 0).all() else edges


def _shorter(number: float) -> Iterator[float]:
    """Zero, then the number with one digit, two digits, and so on, and at last as it is."""
    yield 0.0
    for digits in range(1, 8):
        yield float(np.float32(f"{number:.{digits}g}"))
    yield number


def load_cells(saved: dict[str, Any], factor: ex.Column | ex.Predicate, schema: Schema) -> Cells:
    """Cells of a factor from their `to_dict`; a ValueError if they do not fit the factor."""
    if isinstance(factor, ex.Predicate):
        if saved["kind"] == "predicate":
            return PredicateCells(factor.condition)
    elif saved["column"] == factor.name:
        column = schema.columns[schema.index(factor.name)]
        if saved["kind"] == "categories" and column.kind == "categorical":
            return CategoryCells(column.name, len(column.categories))
        if saved["kind"] == "values" and column.kind == "numeric":
            return ValueCells(column.name, _unpack(saved["values"]))
        if saved["kind"] == "bands" and column.kind == "numeric" and saved["edges"]:
            return BandCells(column.name, _unpack(saved["edges"]))
    raise ValueError(f"factor {saved!r} does not fit {ex.to_text(factor)!r}")


def _number(value: float) -> str:
    """Shortest text that gives the float32 back."""
    return str(np.float32(value)).removesuffix(".0")


def _pack(values: tuple[float, ...]) -> list[float | str]:
    """Numbers for JSON, which has no infinities."""
    return [v if np.isfinite(v) else str(v) for v in values]


def _unpack(values: list[float | str]) -> tuple[float, ...]:
    numbers = np.array([float(v) for v in values])
    with np.errstate(over="ignore"):
        exact = np.array_equal(numbers, numbers.astype(np.float32))
    if not exact or (np.diff(numbers) <= 0).any():
        raise ValueError(f"{values!r} are not ascending float32 numbers")
    return tuple(numbers.tolist())
