"""The trees as one operator of an ONNX graph, in a form that every runtime reads alike.

Tried with onnxruntime 1.21 to 1.31 and onnx's reference evaluator. What they trip over, and
what is done about it, is said where it is done. Two limits remain: up to 1.20 onnxruntime has no
float64 operator, and up to 1.22 it takes minutes to load sets nested in sets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.ensemble.trees import LEAF, Ensemble, Ints

if TYPE_CHECKING:
    import onnx

_LEQ, _MEMBER = 0, 6  # split modes of the operator
_TENSORS: dict[str, Any] = {
    "nodes_splits": np.float64,
    "nodes_modes": np.uint8,
    "leaf_weights": np.float64,
    "membership_values": np.float64,
}


def make_operator(
    ensemble: Ensemble, input_name: str, output_name: str, name: str
) -> onnx.NodeProto:
    """The operator; see `Ensemble.node`."""
    from onnx import AttributeProto, helper, numpy_helper

    parts = _operator_parts(_without_folds(ensemble))
    node = helper.make_node(
        "TreeEnsemble",
        [input_name],
        [output_name],
        name=name,
        domain="ai.onnx.ml",
        aggregate_function=1,  # sum
        post_transform=0,
        n_targets=1,
    )
    # Attributes are filled by hand: onnx's helper looks at every number, which takes seconds.
    for key, values in parts.items():
        attribute = node.attribute.add(name=key)
        if key in _TENSORS:
            attribute.type = AttributeProto.TENSOR
            attribute.t.CopyFrom(numpy_helper.from_array(values.astype(_TENSORS[key]), key))
        else:
            attribute.type = AttributeProto.INTS
            attribute.ints.extend(values.astype(np.int64).tolist())
    return node


def _without_folds(e: Ensemble) -> Ensemble:
    """The ensemble without pairs of splits that onnxruntime would fold wrongly.

    It folds two set splits on one column into one where the second follows on the right of the
    first and both have equal left parts; NaN then goes where the first sends it. A split that
    all rows pass keeps such pairs apart where they differ in NaN.
    """
    below = np.where(e.feature == LEAF, 0, e.right)
    apart = np.flatnonzero(
        (e.feature != LEAF)
        & (e.subset >= 0)
        & ~e.missing_left
        & (e.subset[below] >= 0)
        & (e.feature[below] == e.feature)
        & e.missing_left[below]
    )
    if not len(apart):
        return e
    count, n = len(apart), len(e.feature)
    first = np.arange(n, n + 2 * count, 2, dtype=np.int32)  # a pass, then its unused leaf
    right = e.right.copy()
    right[apart] = first
    passes = _interleave(e.feature[apart], LEAF)
    return replace(
        e,
        feature=np.append(e.feature, passes),
        threshold=np.append(e.threshold, np.full(2 * count, np.inf)),
        missing_left=np.append(e.missing_left, np.ones(2 * count, dtype=bool)),
        subset=np.append(e.subset, np.full(2 * count, -1, dtype=np.int32)),
        left=np.append(e.left, _interleave(e.right[apart], 0)),
        right=np.append(right, _interleave(first + 1, 0)),
        value=np.append(e.value, np.zeros(2 * count)),
    )


def _operator_parts(e: Ensemble) -> dict[str, NDArray[Any]]:
    """Attributes of the ONNX operator: inner nodes and leaves are numbered apart.

    Nodes are written depth first, because the reference evaluator reads the sets in that order
    and onnxruntime in the order of the nodes. The bias is a tree of its own with two equal
    leaves: runtimes confuse the numbers of nodes and leaves in a tree without a split. It is
    there for every ensemble with sets, even if it is zero: onnxruntime up to 1.22 misreads some
    of them in an operator that has no other splits.
    """
    inner, leaves = _numbering(e)
    place = np.zeros(len(e.feature), dtype=np.int64)
    place[inner], place[leaves] = np.arange(len(inner)), np.arange(len(leaves))
    is_leaf = e.feature == LEAF
    subset = e.subset[inner]
    sizes = np.array([len(members) for members in e.subsets] + [0])  # the last is that of none
    # No set may be empty; codes start at 1, so that nothing but NaN is <= 0.
    by_set = sizes[subset] > 0
    stop = np.array([np.nan])
    members = [part for s in subset[by_set] for part in (e.subsets[s], stop)]
    constant = e.bias != 0 or not len(e.roots) or bool(by_set.any())
    extra = np.zeros(int(constant), dtype=np.int64)
    true, false = e.left[inner], e.right[inner]
    parts = {
        "nodes_splits": np.append(np.where(subset >= 0, 0.0, e.threshold[inner]), extra),
        "nodes_modes": np.append(np.where(by_set, _MEMBER, _LEQ), extra),
        "nodes_featureids": np.append(e.feature[inner], extra),
        "nodes_truenodeids": np.append(place[true], extra + len(leaves)),
        "nodes_falsenodeids": np.append(place[false], extra + len(leaves) + 1),
        "nodes_trueleafs": np.append(is_leaf[true], extra + 1),
        "nodes_falseleafs": np.append(is_leaf[false], extra + 1),
        "nodes_missing_value_tracks_true": np.append(e.missing_left[inner], extra),
        "tree_roots": np.append(place[e.roots], extra + len(inner)),
        "leaf_targetids": np.zeros(len(leaves) + 2 * len(extra), dtype=np.int64),
        "leaf_weights": np.append(e.value[leaves], np.full(2 * len(extra), e.bias)),
    }
    if members:
        parts["membership_values"] = np.concatenate(members)
    return parts


def _numbering(e: Ensemble) -> tuple[Ints, Ints]:
    """Inner nodes and leaves, each in the order of their numbers in the operator.

    Up to 1.23, onnxruntime takes a root for a leaf if its children have the same number, though
    one is a leaf and one is not. Leaves that are such children come last: as a tree has one leaf
    more than inner nodes, their numbers are those of no inner node.
    """
    from recalibrate.kernels.ensemble import depth_first

    order = np.empty(len(e.feature), dtype=np.int32)
    depth_first(e.roots, e.feature, e.left, e.right, order)
    is_leaf = e.feature == LEAF
    inner, leaves = order[~is_leaf[order]], order[is_leaf[order]]
    left, right = e.left[e.roots], e.right[e.roots]
    ends = np.concatenate([left, right])
    mixed = np.tile(is_leaf[left] != is_leaf[right], 2)
    last = np.zeros(len(e.feature), dtype=bool)
    last[ends[mixed]] = True
    return inner, np.concatenate([leaves[~last[leaves]], leaves[last[leaves]]])


def _interleave(values: Any, constant: int) -> Ints:
    pairs = np.full((len(values), 2), constant, dtype=np.int32)
    pairs[:, 0] = values
    return pairs.ravel()
