"""Groups in a graph, as trees: from the cells of a term's factors to a value per group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.groups import GroupEncoder, GroupTable
from recalibrate.data.table import Schema
from recalibrate.graph.features import Code, FeatureList, Number, Truth
from recalibrate.graph.forms import AddTrees, Form, Place, SetTrees, Update
from recalibrate.graph.trees import Leaf, Node, by_level, relabelled, search, value_range
from recalibrate.groups.cells import BandCells, CategoryCells, Cells, PredicateCells, ValueCells
from recalibrate.groups.expressions import And, Compare, Condition, In, Not, Or, columns_of


class _GroupForm(Form[GroupTable, GroupEncoder]):
    """A tree per term and level set."""

    def update(self, table: GroupTable, encoder: GroupEncoder, place: Place) -> Update:
        limit = inf if place.step.replace else table.limit
        present, intercept = table.present, table.coefficient[:, 0]
        if len(table.columns) == 1:
            trees = _term_trees(table, encoder, 0, intercept, place.features)
            cut = [relabelled(tree, lambda value: min(max(value, -limit), limit)) for tree in trees]
            return place.one_tree(
                [tree if here else None for tree, here in zip(cut, present, strict=True)]
            )
        alone = np.zeros(len(present)) if place.known is None else place.known
        intercept = np.where(present, intercept, alone if place.step.replace else 0.0)
        table = replace(table, coefficient=np.where(present[:, None], table.coefficient, 0.0))
        more = [intercept, *[np.zeros(len(present))] * (len(table.columns) - 1)]
        sums = tuple(
            by_level(place.levels, _term_trees(table, encoder, t, more[t], place.features))
            for t in range(len(table.columns))
        )
        if place.step.replace:
            return SetTrees(sums)
        ranges = [value_range(tree) for tree in sums]
        inside = -limit <= sum(low for low, _ in ranges) and sum(h for _, h in ranges) <= limit
        return AddTrees(sums, inf if inside else limit)

    def thresholds(
        self, encoder: GroupEncoder, tables: Sequence[GroupTable]
    ) -> Iterator[tuple[str, float]]:
        for term in encoder.groups.terms:
            for factor in term.factors:
                if isinstance(factor, PredicateCells):
                    yield from _constants(factor.condition)
                elif isinstance(factor, BandCells | ValueCells):
                    edges = factor.edges if isinstance(factor, BandCells) else factor.values
                    yield from ((factor.column, edge) for edge in edges)


FORM = _GroupForm()


def _constants(node: Condition) -> Iterator[tuple[str, float]]:
    """Numbers that a condition compares columns with."""
    if isinstance(node, And | Or):
        for operand in node.operands:
            yield from _constants(operand)
    elif isinstance(node, Not):
        yield from _constants(node.operand)
    elif isinstance(node, Compare | In):
        values = node.values if isinstance(node, In) else (node.value,)
        yield from ((node.column, float(v)) for v in values if not isinstance(v, str))


def _term_trees(
    table: GroupTable,
    encoder: GroupEncoder,
    t: int,
    more: NDArray[np.float64],
    features: FeatureList,
) -> list[Node]:
    """Trees of one term, one per level set, with a number added to all of its values."""
    groups = encoder.groups
    term = groups.terms[int(table.columns[t])]
    own = slice(int(table.offsets[t]) + 1, int(table.offsets[t + 1]) + 1)
    trees = []
    for row, extra in zip(table.coefficient, more.tolist(), strict=True):
        values = list(zip(term.cells, (row[own] + extra).tolist(), strict=True))
        # A row in none of the groups gets what is added to all.
        trees.append(_below(term.factors, values, groups.schema, Leaf(extra), features))
    return trees


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
