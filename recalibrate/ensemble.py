"""Tree ensembles whose sums are exact: one meaning in Python and in an ONNX graph.

A prediction is a sum of leaf values. Where these are multiples of one power of two that leaves
room in float64 for the largest possible sum, every partial sum is exact, so that neither the
order of trees nor the number of threads or rows of a runtime can change a single bit of it.

Splits are ``x <= threshold`` or ``x in a set``, with a side for NaN. A column that is split by
sets must hold whole numbers from 1 or NaN: onnxruntime cuts fractions off before it looks into a
set, and onnx's reference evaluator stops reading a set at 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.threads import cut, share_out, threads_for

if TYPE_CHECKING:
    import onnx

__all__ = [
    "Ensemble",
    "Tree",
    "join_trees",
    "snap_step",
]


# --- The trees themselves: their arrays, checked, and their meaning -----------------------------


Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

LEAF = -1
"""In place of a feature."""

NOT_ONE_PARENT = "not a tree ensemble: a node does not have exactly one parent"


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trees over the columns of a matrix; the prediction is ``bias`` plus one leaf of each.

    Parameters
    ----------
    n_columns : int
        Columns of the matrix.
    roots : int32 array of shape (T,)
        Root node of every tree.
    feature : int32 array of shape (n,)
        Column that a node looks at; -1 for a leaf.
    threshold : float64 array of shape (n,)
        A row goes left if its value is <= the threshold.
    missing_left : bool array of shape (n,)
        Whether NaN goes left.
    subset : int32 array of shape (n,)
        -1, or which of ``subsets`` decides instead of the threshold: its members go left.
    subsets : tuple of float64 arrays
        Whole numbers from 1; a set may be empty. Columns split by sets must hold whole numbers
        from 1 or NaN.
    left, right : int32 arrays of shape (n,)
        Children; not looked at in leaves.
    value : float64 array of shape (n,)
        Values of the leaves, multiples of a power of two (see `snap_step`).
    bias : float
        A multiple of the same power of two.

    Raises
    ------
    ValueError
        If the arrays are not trees.

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate.ensemble import Tree, join_trees
    >>> stump = Tree(feature=[0, -1, -1], threshold=[0.5, 0, 0], missing_left=[True, False, False],
    ...              left=[1, 0, 0], right=[2, 0, 0], value=[0.0, -0.25, 0.5])
    >>> ensemble = join_trees(1, [stump, stump], bias=1.0)
    >>> ensemble.evaluate(np.array([[0.5], [0.6], [np.nan]], dtype=np.float32))
    array([0.5, 2. , 0.5])
    """

    n_columns: int
    roots: Ints
    feature: Ints
    threshold: Floats
    missing_left: NDArray[np.bool_]
    subset: Ints
    subsets: tuple[Floats, ...]
    left: Ints
    right: Ints
    value: Floats
    bias: float = 0.0

    def __post_init__(self) -> None:
        _check_trees(self)

    def evaluate(self, X: NDArray[np.floating[Any]], *, threads: int | None = None) -> Floats:
        """Predictions for a float32 or float64 matrix; the number of threads changes no bit.

        Parameters
        ----------
        X : float32 or float64 array of shape (n, n_columns)
        threads : int, optional
            By default as many as there are cores, for large matrices.

        Returns
        -------
        float64 array of shape (n,)
        """
        from recalibrate.kernels.routing import add_leaves

        if X.ndim != 2 or X.shape[1] != self.n_columns or X.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"expected a float32 or float64 matrix with {self.n_columns} columns, got "
                f"{X.dtype} of shape {X.shape}"
            )
        matrix = np.ascontiguousarray(X)
        out = np.full(len(matrix), self.bias)
        nodes: Any = self._packed

        def walk(rows: slice) -> None:
            add_leaves(*(matrix[rows], *nodes, out[rows]))

        parts = cut(len(matrix), threads, threads_for(len(matrix)))
        share_out(walk, parts, len(parts))
        return out

    def node(self, input_name: str, output_name: str, name: str = "") -> onnx.NodeProto:
        """The same as a ``TreeEnsemble`` operator of ai.onnx.ml 5, in float64.

        Parameters
        ----------
        input_name : str
            A double tensor of shape [N, n_columns].
        output_name : str
            Gets a double tensor of shape [N, 1].
        name : str
            Name of the node.

        Returns
        -------
        onnx.NodeProto
        """
        return _make_operator(self, input_name, output_name, name)

    @cached_property
    def _packed(self) -> tuple[NDArray[Any], ...]:
        """Arrays for the kernel: everything but the rows."""
        from recalibrate.kernels.routing import IS_SUBSET, LEFT_IF_MISSING

        flags = LEFT_IF_MISSING * self.missing_left + IS_SUBSET * (self.subset >= 0)
        children = np.stack([self.right, self.left], axis=1).ravel()
        sizes = [int(members.max(initial=-1)) // 64 + 1 for members in self.subsets]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        words = np.zeros(int(offsets[-1]), dtype=np.uint64)
        for start, members in zip(offsets, self.subsets, strict=False):
            codes = members.astype(np.uint64)
            bits = np.uint64(1) << (codes & np.uint64(63))
            np.bitwise_or.at(words, start + (codes >> np.uint64(6)).astype(np.int64), bits)
        return (
            self.roots,
            self.feature,
            self.threshold,
            flags.astype(np.uint8),
            children,
            self.subset,
            offsets,
            words,
            self.value,
        )


def _check_trees(ensemble: Ensemble) -> None:
    """Refuse arrays that a kernel could not walk safely: damaged files end here."""
    e = ensemble
    n = len(e.feature)
    fields = (e.threshold, e.missing_left, e.subset, e.left, e.right, e.value)
    if any(len(field) != n for field in fields):
        raise ValueError("not a tree ensemble: its arrays have different lengths")
    _check_links(e.n_columns, e.feature, e.left, e.right)
    if n and not (e.subset.min() >= -1 and e.subset.max() < len(e.subsets)):
        raise ValueError("not a tree ensemble: a split uses a set that does not exist")
    for members in e.subsets:
        if len(members) and not (members.min() >= 1 and np.all(members == np.floor(members))):
            raise ValueError("not a tree ensemble: sets must hold whole numbers from 1")
    if not (np.isfinite(e.bias) and np.isfinite(e.value[e.feature == LEAF]).all()):
        raise ValueError("not a tree ensemble: leaf values must be finite")
    if np.isnan(e.threshold[e.feature != LEAF]).any():
        raise ValueError("not a tree ensemble: a threshold is not a number")
    inner = e.feature != LEAF
    parents = np.bincount(np.concatenate([e.roots, e.left[inner], e.right[inner]]), minlength=n)
    if len(parents) > n or not (parents == 1).all():
        raise ValueError(NOT_ONE_PARENT)
    if (e.feature[e.roots] == LEAF).any():
        raise ValueError("not a tree ensemble: a tree without a split belongs into the bias")


def _check_links(n_columns: int, feature: Ints, left: Ints, right: Ints) -> None:
    """Refuse splits on columns, or children, that do not exist."""
    if len(feature) and not (feature.min() >= LEAF and feature.max() < n_columns):
        raise ValueError(f"not a tree ensemble of {n_columns} columns: a split uses another one")
    children = np.concatenate([left[feature != LEAF], right[feature != LEAF]])
    if len(children) and not (children.min() >= 0 and children.max() < len(feature)):
        raise ValueError("not a tree ensemble: a child is not among the nodes")


# --- Single trees become an ensemble, their leaf values rounded so that all sums are exact ------


_MANTISSA_BITS = 52  # of 53: one bit stays free for what is added to the sum
_FINEST_BITS = 36


class Tree(NamedTuple):
    """One tree, its root first: what `join_trees` puts together.

    Nodes that the root does not reach are dropped. ``subsets`` maps nodes to the sets that
    replace their thresholds.
    """

    feature: Any
    threshold: Any
    missing_left: Any
    left: Any
    right: Any
    value: Any
    subsets: Mapping[int, Any] = {}


def snap_step(largest: float) -> float:
    """Power of two to whose multiples leaf values are rounded.

    Parameters
    ----------
    largest : float
        Bound of the magnitude of any partial sum.

    Returns
    -------
    float
        2^-36 for sums of ordinary size; coarser where these would not be exact in float64, and
        finer where all values are small.

    Examples
    --------
    >>> snap_step(100.0) == 2.0**-36
    True
    >>> snap_step(1e9) == 2.0**-22
    True
    """
    exponent = math.frexp(largest)[1]  # largest < 2^exponent
    return 2.0 ** max(min(exponent, 0) - _FINEST_BITS, exponent - _MANTISSA_BITS)


def join_trees(n_columns: int, trees: Sequence[Tree], *, bias: float = 0.0) -> Ensemble:
    """Put trees together, with leaf values rounded so that all sums are exact.

    Parameters
    ----------
    n_columns : int
    trees : sequence of Tree
    bias : float

    Returns
    -------
    Ensemble
        Nodes are in depth-first order, left before right; trees that are a single leaf are part
        of the bias.

    Examples
    --------
    >>> join_trees(1, [], bias=1.1).bias == round(1.1 * 2**36) / 2**36
    True
    """
    kept = [_reached(tree, n_columns) for tree in trees]
    peaks = [float(np.abs(tree.value[tree.feature == LEAF]).max()) for tree in kept]
    step = snap_step(abs(bias) + sum(peaks))
    total = _snap(bias, step)
    grown = []
    for tree in kept:
        if len(tree.feature) == 1:
            total += _snap(float(tree.value[0]), step)
        else:
            grown.append(tree)
    starts = np.cumsum([0] + [len(tree.feature) for tree in grown])
    subset = np.full(starts[-1], -1, dtype=np.int32)
    sets: list[Floats] = []
    for start, tree in zip(starts, grown, strict=False):
        for k, members in tree.subsets.items():
            subset[start + k] = len(sets)
            sets.append(np.unique(np.asarray(members, dtype=np.float64)))
    shifts = [tree.left.dtype.type(start) for start, tree in zip(starts, grown, strict=False)]
    return Ensemble(
        n_columns=n_columns,
        roots=starts[:-1].astype(np.int32),
        feature=_chain([tree.feature for tree in grown], np.int32),
        threshold=_chain([tree.threshold for tree in grown], np.float64),
        missing_left=_chain([tree.missing_left for tree in grown], np.bool_),
        subset=subset,
        subsets=tuple(sets),
        left=_chain([tree.left + s for tree, s in zip(grown, shifts, strict=True)], np.int32),
        right=_chain([tree.right + s for tree, s in zip(grown, shifts, strict=True)], np.int32),
        value=_snap(_chain([tree.value for tree in grown], np.float64), step),
        bias=float(total),
    )


def _reached(tree: Tree, n_columns: int) -> Tree:
    """The nodes that the root reaches, depth first, with children renumbered."""
    from recalibrate.kernels.routing import depth_first

    feature, left, right = (
        np.ascontiguousarray(a, dtype=np.int32) for a in (tree.feature, tree.left, tree.right)
    )
    _check_links(n_columns, feature, left, right)
    order = np.empty(len(feature), dtype=np.int32)
    count = depth_first(np.zeros(1, dtype=np.int32), feature, left, right, order)
    if count < 0:
        raise ValueError(NOT_ONE_PARENT)
    order = order[:count]
    place = np.zeros(len(feature), dtype=np.int32)
    place[order] = np.arange(count, dtype=np.int32)
    leaf = feature[order] == LEAF
    return Tree(
        feature=feature[order],
        threshold=np.where(leaf, 0.0, np.asarray(tree.threshold, dtype=np.float64)[order]),
        missing_left=np.asarray(tree.missing_left, dtype=np.bool_)[order],
        left=np.where(leaf, 0, place[np.where(leaf, 0, left[order])]).astype(np.int32),
        right=np.where(leaf, 0, place[np.where(leaf, 0, right[order])]).astype(np.int32),
        value=np.where(leaf, np.asarray(tree.value, dtype=np.float64)[order], 0.0),
        subsets={int(place[k]): v for k, v in tree.subsets.items() if k == 0 or place[k] > 0},
    )


def _snap(values: Any, step: float) -> Any:
    return np.rint(np.asarray(values) / step) * step


def _chain(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype=dtype), *parts]).astype(dtype)


# --- The trees as one operator of an ONNX graph, in a form that every runtime reads alike -------
#
# Tried with onnxruntime 1.21 to 1.31 and onnx's reference evaluator. What they trip over, and
# what is done about it, is said where it is done. Two limits remain: up to 1.20 onnxruntime has no
# float64 operator, and up to 1.22 it takes minutes to load sets nested in sets.


_LEQ, _MEMBER = 0, 6  # split modes of the operator
_TENSORS: dict[str, Any] = {
    "nodes_splits": np.float64,
    "nodes_modes": np.uint8,
    "leaf_weights": np.float64,
    "membership_values": np.float64,
}


def _make_operator(
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
    from recalibrate.kernels.routing import depth_first

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
