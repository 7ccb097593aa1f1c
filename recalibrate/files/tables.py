"""Learned tables in a file, and the rules that keep the kernels inside of them.

Kernels follow indices without a check, so everything they could follow out of an array, or round
in a circle, is refused here.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.estimator.spec import EstimatorTable, Matrix
from recalibrate.classes.groups.spec import GroupEncoder, GroupTable
from recalibrate.classes.linear.spec import LinearTable, Quantiser
from recalibrate.classes.trees.spec import TreeTable
from recalibrate.core.rounds import Encoder, Learned
from recalibrate.data.bins import Bins
from recalibrate.files.container import Arrays
from recalibrate.files.fields import Fields, number
from recalibrate.files.regressors import decode_regressors, encode_regressors
from recalibrate.kernels.routing import tree_depth

LARGEST_VALUE = 2.0**60
"""Far above any score; sums of such numbers stay finite, and finite scores have a level."""
MOST_NODES = 1 << 26
"""A packed tree node has 26 bits for the child."""
MOST_DEPTH = 64
"""Trees have at most depth 6; a chain of a million nodes would be walked for every row."""


def encode_table(table: Learned, encoder: Encoder, arrays: Arrays) -> dict[str, Any]:
    """What a step learned, for the header; its arrays go to ``arrays``."""
    if isinstance(table, TreeTable):
        names = TREE_ARRAYS
        return {"kind": "trees", **{n: arrays.add(getattr(table, n)) for n in names}}
    if isinstance(table, LinearTable):
        return {
            "kind": "linear",
            "present": arrays.add(table.present),
            "coefficient": arrays.add(table.coefficient),
            "limit": number(table.limit),
        }
    if isinstance(table, GroupTable):
        return {
            "kind": "groups",
            "present": arrays.add(table.present),
            "coefficient": arrays.add(table.coefficient),
            "columns": arrays.add(table.columns.astype(np.int64)),
            "offsets": arrays.add(table.offsets.astype(np.int64)),
            "limit": number(table.limit),
        }
    if isinstance(table, EstimatorTable):
        models = encode_regressors(table.models, len(encoder.names), arrays)
        return {"kind": "estimator", "models": models, "limit": number(table.limit)}
    raise TypeError(f"what was learned is of type {type(table).__name__}, which cannot be saved")


def decode_table(fields: Fields, encoder: Encoder, levels: int) -> Learned:
    """What a step learned, checked against its encoder and its number of level sets."""
    with fields:
        kind = fields.choice("kind", ("trees", "linear", "groups", "estimator"))
        if kind == "trees" and isinstance(encoder, Bins):
            return _decode_trees(fields, encoder, levels)
        if kind == "linear" and isinstance(encoder, Quantiser):
            present, coefficient = _decode_coefficients(fields, levels)
            if coefficient.shape[1] != len(encoder.terms):
                raise fields.fault("a linear function needs one coefficient per term")
            return LinearTable(present, coefficient, _limit(fields))
        if kind == "groups" and isinstance(encoder, GroupEncoder):
            return _decode_groups(fields, encoder, levels)
        if kind == "estimator" and isinstance(encoder, Matrix):
            models = decode_regressors(fields, levels)
            return EstimatorTable(models, _limit(fields))
        raise fields.fault(f"{kind} cannot work on what a {type(encoder).__name__} makes")


TREE_ARRAYS = {
    "roots": np.int32,
    "feature": np.int32,
    "last_bin": np.int32,
    "missing_left": np.bool_,
    "subset": np.int32,
    "subsets": np.bool_,
    "child": np.int32,
    "value": np.float64,
    "rows": np.int64,
    "gain": np.float64,
}


def _decode_trees(fields: Fields, bins: Bins, levels: int) -> TreeTable:
    table = TreeTable(
        **{
            name: fields.array(name, dtype, 2 if name == "subsets" else 1)
            for name, dtype in TREE_ARRAYS.items()
        }
    )
    problem = find_fault(table, bins, levels)
    if problem:
        raise fields.fault(problem)
    return table


def find_fault(table: TreeTable, bins: Bins, levels: int) -> str:
    """What is wrong with trees; empty if a walk through them ends in a leaf, whatever the row."""
    count = len(table.child)
    per_node = (table.feature, table.last_bin, table.missing_left, table.subset)
    per_node = (*per_node, table.value, table.rows, table.gain)  # type: ignore[assignment]
    if len(table.roots) != levels:
        return f"there are {len(table.roots)} roots for {levels} level sets"
    if count >= MOST_NODES or any(len(part) != count for part in per_node):
        return f"the {count} nodes are not described alike"
    if not _are_numbers(table.value) or np.isnan(table.gain).any():
        return "values must be finite numbers"
    return _find_shape_fault(table, count) or _find_split_fault(table, bins)


def _find_shape_fault(table: TreeTable, count: int) -> str:
    roots = table.roots[table.roots >= 0]
    inner = np.flatnonzero(table.child >= 0)
    left = table.child[inner].astype(np.int64)
    if (table.roots < -1).any() or (roots >= count).any():
        return "a root is not a node"
    if (table.child < -1).any() or (left <= inner).any() or (left + 1 >= count).any():
        return "children must come after their parents"
    owned = np.concatenate([roots, left, left + 1])
    if len(np.unique(owned)) < len(owned):
        return "a node belongs to two parents"
    if tree_depth(table.child) > MOST_DEPTH:
        return f"a tree is deeper than {MOST_DEPTH}"
    return ""


def _find_split_fault(table: TreeTable, bins: Bins) -> str:
    inner = table.child >= 0
    feature = table.feature[inner]
    if ((feature < 0) | (feature >= len(bins.features))).any():
        return "a split is on a column that does not exist"
    by_sets = np.array([f.by_sets for f in bins.features])[feature]
    codes = np.array([f.count for f in bins.features], dtype=np.int64)[feature]
    subset, last_bin = table.subset[inner], table.last_bin[inner]
    if ((subset >= 0) != by_sets).any() or (subset >= len(table.subsets)).any():
        return "categorical splits, and only they, have a set of categories"
    if (codes[by_sets] > table.subsets.shape[1]).any():
        return "a set of categories is too small for its column"
    least = np.where(table.missing_left[inner], 0, 1)
    outside = (last_bin < least) | (last_bin > codes)
    if outside[~by_sets].any():
        return "a split is beyond the bins of its column"
    return ""


def _decode_groups(fields: Fields, encoder: GroupEncoder, levels: int) -> GroupTable:
    present, coefficient = _decode_coefficients(fields, levels)
    columns = fields.array("columns", np.int64)
    offsets = fields.array("offsets", np.int64)
    sizes = np.diff(np.asarray(encoder.groups.offsets, dtype=np.int64))
    if ((columns < 0) | (columns >= len(sizes))).any() or len(offsets) != len(columns) + 1:
        raise fields.fault("a term does not exist")
    # A row's number within its term is at most the term's number of groups.
    last = offsets[:-1] + sizes[columns]
    if (
        (offsets < 0).any()
        or (offsets >= LARGEST_VALUE).any()
        or (last >= coefficient.shape[1]).any()
    ):
        raise fields.fault("a group has no coefficient")
    return GroupTable(present, coefficient, columns, offsets, _limit(fields))


def _decode_coefficients(
    fields: Fields, levels: int
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    present = fields.array("present", np.bool_)
    coefficient = fields.array("coefficient", np.float64, 2)
    if len(present) != levels or len(coefficient) != levels or not coefficient.shape[1]:
        raise fields.fault(f"coefficients are not for {levels} level sets")
    if not _are_numbers(coefficient):
        raise fields.fault("coefficients must be finite numbers")
    return present, coefficient


def _limit(fields: Fields) -> float:
    return fields.number("limit", least=0.0, most=inf)


def _are_numbers(values: NDArray[np.float64]) -> bool:
    """Whether all are finite and of a size that scores can have; False for NaN."""
    return bool((np.abs(values) <= LARGEST_VALUE).all())
