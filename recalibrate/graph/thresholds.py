"""Values at which a model changes its mind: where a graph could disagree, if it did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from recalibrate.classes.groups.spec import GroupEncoder
from recalibrate.classes.linear.spec import Quantiser
from recalibrate.classes.trees.spec import TreeTable
from recalibrate.core.rounds import Rounds
from recalibrate.data.bins import Bins
from recalibrate.groups.cells import BandCells, PredicateCells, ValueCells
from recalibrate.groups.expressions import And, Compare, Condition, In, Not, Or
from recalibrate.support.onnxgraph import ML_DOMAIN

Found = dict[str, set[float]]


def learner_thresholds(rounds: Rounds) -> Found:
    """Numbers that H's learners compare a column with, by column."""
    found: Found = defaultdict(set)
    for step in rounds.steps:
        encoder: Any = rounds.encoders[step.encoder]
        if isinstance(encoder, Bins) and isinstance(step.table, TreeTable):
            _add_tree_splits(step.table, encoder, found)
    for encoder in rounds.encoders:
        if isinstance(encoder, GroupEncoder):
            _add_cells(encoder, found)
        elif isinstance(encoder, Quantiser):
            for term in encoder.terms:
                if term.kind == "value":
                    found[term.name] |= {term.centre, term.centre + 1.0 / term.factor}
    return found


def _add_tree_splits(table: TreeTable, bins: Bins, found: Found) -> None:
    numeric = (table.child >= 0) & (table.subset < 0)
    pairs = np.unique(np.stack([table.feature[numeric], table.last_bin[numeric]]), axis=1)
    for feature, last_bin in pairs.T.tolist():
        own = bins.features[feature]
        if 1 <= last_bin <= len(own.edges):
            found[own.name].add(float(own.edges[last_bin - 1]))


def _add_cells(encoder: GroupEncoder, found: Found) -> None:
    for term in encoder.groups.terms:
        for factor in term.factors:
            if isinstance(factor, BandCells):
                found[factor.column] |= set(factor.edges)
            elif isinstance(factor, ValueCells):
                found[factor.column] |= set(factor.values)
            elif isinstance(factor, PredicateCells):
                for column, value in _constants(factor.condition):
                    found[column].add(value)


def _constants(node: Condition) -> Iterator[tuple[str, float]]:
    if isinstance(node, And | Or):
        for operand in node.operands:
            yield from _constants(operand)
    elif isinstance(node, Not):
        yield from _constants(node.operand)
    elif isinstance(node, Compare | In):
        values = node.values if isinstance(node, In) else (node.value,)
        yield from ((node.column, float(v)) for v in values if not isinstance(v, str))


def graph_thresholds(model: onnx.ModelProto, columns: tuple[str, ...]) -> Found:
    """Numbers that the trees of a graph compare its columns with.

    Right for graphs whose trees look at the columns as they come in; for others the numbers are
    just numbers, and do no harm.
    """
    found: Found = defaultdict(set)
    for node in model.graph.node:
        if node.domain == ML_DOMAIN and node.op_type.startswith("TreeEnsemble"):
            given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            splits = _splits(given)
            for column, value in zip(given.get("nodes_featureids", []), splits, strict=False):
                if column < len(columns) and np.isfinite(value):
                    found[columns[column]].add(float(value))
    return found


def _splits(given: dict[str, Any]) -> NDArray[Any]:
    for name in ("nodes_splits", "nodes_values_as_tensor"):
        if name in given:
            return numpy_helper.to_array(given[name])
    return np.asarray(given.get("nodes_values", []))


def around(values: set[float], most: int) -> NDArray[np.float32]:
    """The numbers and their float32 neighbours; an even choice where there are too many."""
    with np.errstate(over="ignore"):
        at = np.unique(np.array(sorted(values), dtype=np.float64).astype(np.float32))
    if len(at) > most:
        at = at[np.linspace(0, len(at) - 1, most).astype(int)]
    low, high = np.float32(-np.inf), np.float32(np.inf)
    with np.errstate(over="ignore"):
        return np.unique(np.concatenate([np.nextafter(at, low), at, np.nextafter(at, high)]))
