"""Groups as trees: from the cells of a term's factors to a value per group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Schema
from recalibrate.graph.features import Code, FeatureList, Number, Truth
from recalibrate.graph.trees import Leaf, Node, search
from recalibrate.groups.cells import BandCells, CategoryCells, Cells, PredicateCells
from recalibrate.groups.expressions import columns_of
from recalibrate.groups.terms import BoundTerm


def term_tree(
    term: BoundTerm,
    schema: Schema,
    values: NDArray[np.float64],
    outside: float,
    features: FeatureList,
) -> Node:
    """The value of a row's group; ``outside`` where it is in none."""
    groups = list(zip(term.cells, values.tolist(), strict=True))
    return _below(term.factors, groups, schema, Leaf(outside), features)


def _below(
    factors: Sequence[Cells],
    groups: Sequence[tuple[tuple[int, ...], float]],
    schema: Schema,
    outside: Leaf,
    features: FeatureList,
) -> Node:
    """Tree of the remaining factors, for the groups that agree on those before."""
    if not factors:
        return Leaf(groups[0][1])
    by_cell: dict[int, list[tuple[tuple[int, ...], float]]] = {}
    for cells, value in groups:
        by_cell.setdefault(cells[0], []).append((cells[1:], value))
    children = {
        cell: _below(factors[1:], inside, schema, outside, features)
        for cell, inside in by_cell.items()
    }
    column, cuts, regions = _regions(factors[0], schema, features)
    return search(column, cuts, [children.get(cell, outside) for cell in regions])


def _regions(
    factor: Cells, schema: Schema, features: FeatureList
) -> tuple[int, list[float], list[int]]:
    """Column that a factor looks at, cuts of its values, and the cell between them (0: none).

    The last region is that of missing values, which only NaN reaches.
    """
    if isinstance(factor, PredicateCells):
        used = [schema.columns[schema.index(name)] for name in columns_of(factor.condition)]
        truth = Truth(factor.condition, tuple(used))
        return features.number(truth), [0.5], [0, 1]
    missing = factor.count + 1
    if isinstance(factor, CategoryCells):
        if factor.count == 0:  # only missing values were seen, so no value is known
            return 0, [], [missing]
        column = features.number(Code(schema.columns[schema.index(factor.column)]))
        between = [code + 0.5 for code in range(1, factor.count)]
        return column, [*between, np.inf], [*range(1, factor.count + 1), missing]
    column = features.number(Number(factor.column))
    if isinstance(factor, BandCells):
        edges = list(factor.edges)
        first = 1
        if edges and edges[0] == -np.inf:  # nothing is below
            edges, first = edges[1:], 2
        below = [_before(edge) for edge in edges]
        return column, [*below, np.inf], [*range(first, missing), missing]
    cuts: list[float] = []
    cells: list[int] = []
    for cell, value in enumerate(factor.values, start=1):
        if value != -np.inf:
            cuts.append(_before(value))
            cells.append(0)
        cuts.append(value)
        cells.append(cell)
    if cuts and cuts[-1] == np.inf:
        return column, cuts, [*cells, missing]
    return column, [*cuts, np.inf], [*cells, 0, missing]


def _before(value: float) -> float:
    """The float32 before a float32: x <= it is x < value."""
    return float(np.nextafter(np.float32(value), np.float32(-np.inf)))
