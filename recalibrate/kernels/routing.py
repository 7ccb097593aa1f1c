"""Walking trees: rows from node to node.

A split is packed into one word: the codes that stay left, the feature, and the left child. A
leaf leads to itself, so that all rows take the same number of steps and no branch of the loop
depends on the data but that between numeric and categorical splits: four times faster than
looking the parts of a node up in arrays of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import jitable, kernel
from recalibrate.kernels.nodes import Nodes

ONE = np.uint64(1)
THRESHOLD = np.uint64((1 << 17) - 1)
MISSING_RIGHT = np.uint64(17)
SUBSET = np.uint64(18)
FEATURE = np.uint64(19)
FEATURES = np.uint64((1 << 19) - 1)
CHILD = np.uint64(38)
FEW_MOVING = 0.7
"""Below this share of rows that are not in leaves yet, a list of them pays."""


class Splits(NamedTuple):
    """Splits of trees, a node each; children come after their parents.

    ``child`` is the left one (the right one follows it), -1 at a leaf. A numeric split sends
    ``1 <= code <= last_bin`` to the left and missing (0) as it says; a categorical one
    (``subset >= 0``) sends the codes marked in its row of the subsets.
    """

    feature: NDArray[np.int32]
    last_bin: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    subset: NDArray[np.int32]
    subsets: NDArray[np.bool_]
    child: NDArray[np.int32]


class PackedTrees(NamedTuple):
    """Splits packed into words, and what categorical ones need besides."""

    nodes: NDArray[np.uint64]
    subset: NDArray[np.int32]
    subsets: NDArray[np.bool_]


class Placement(NamedTuple):
    """Where rows are: the node of each, and which ``rows`` are still ``active``, not in a leaf.

    No ``rows`` are listed while most of them are: then all are looked at.
    """

    node: NDArray[np.int32]
    rows: NDArray[np.int32]
    active: int


@kernel
def pack_nodes(
    splits: Splits | Nodes,
    columns: NDArray[np.int32],
    start: int,
    last: int,
    packed: NDArray[np.uint64],
) -> None:
    """Pack nodes start..last: last bin (17 bits), missing right, subset, feature (19), child.

    ``columns`` are the columns of the codes that features stand for; empty: their numbers.
    """
    for k in range(start, last):
        child = splits.child[k]
        if child < 0:
            packed[k] = (np.uint64(k) << CHILD) | THRESHOLD
            continue
        feature = splits.feature[k] if columns.shape[0] == 0 else columns[splits.feature[k]]
        word = (np.uint64(child) << CHILD) | (np.uint64(feature) << FEATURE)
        if splits.subset[k] >= 0:
            word |= ONE << SUBSET
        elif splits.missing_left[k]:
            word |= np.uint64(splits.last_bin[k])
        else:
            word |= (ONE << MISSING_RIGHT) | np.uint64(splits.last_bin[k] - 1)
        packed[k] = word


def pack_trees(splits: Splits) -> PackedTrees:
    """All nodes, ready to be walked."""
    packed = np.empty(splits.child.shape[0], np.uint64)
    pack_nodes(splits, np.empty(0, np.int32), 0, packed.shape[0], packed)
    return PackedTrees(packed, splits.subset, splits.subsets)


@kernel
def next_node(
    codes: NDArray[np.unsignedinteger],
    i: Any,
    at: Any,
    word: Any,
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
) -> Any:
    """Child that row ``i`` goes to from node ``at``, whose packed word is ``word``.

    A missing code 0 that goes right wraps around to a huge number when 1 is taken off, so one
    comparison settles both cases.
    """
    code = np.uint64(codes[i, (word >> FEATURE) & FEATURES])
    if (word >> SUBSET) & ONE:
        right = not subsets[np.uint64(subset[at]), code]
    else:
        right = code - ((word >> MISSING_RIGHT) & ONE) > (word & THRESHOLD)
    return (word >> CHILD) + np.uint64(right)


@kernel
def tree_depth(child: NDArray[np.int32]) -> int:
    """Depth of the deepest tree; children come after their parents."""
    depth = np.zeros(child.shape[0], np.int32)
    most = 0
    for k in range(child.shape[0]):
        if child[k] >= 0:
            below = depth[k] + 1
            depth[child[k]] = below
            depth[child[k] + 1] = below
            most = max(most, below)
    return most


@kernel
def find_leaves(
    codes: NDArray[np.unsignedinteger],
    level: NDArray[np.int32],
    roots: NDArray[np.int32],
    depth: int,
    trees: PackedTrees,
    out: NDArray[np.int32],
) -> None:
    """Leaf of every row, -1 on level sets without a tree."""
    packed, subset, subsets = trees
    for i in range(level.shape[0]):
        root = roots[np.uint64(level[i])]
        if root < 0:
            out[i] = -1
            continue
        k: Any = np.uint64(root)
        for _ in range(depth):
            k = next_node(codes, i, k, packed[k], subset, subsets)
        out[i] = k


@jitable
def descend(
    codes: NDArray[np.unsignedinteger], placement: Placement, trees: PackedTrees, moving: float
) -> Placement:
    """Send the rows one depth down, where a share of them is ``moving``.

    As soon as these are few, the rows that are not in a leaf are listed; those that do not move
    are taken off the list. While most move, going through all is quicker.
    """
    packed, _, _ = trees
    node, rows, active = placement
    if rows.shape[0] == 0 and moving < FEW_MOVING:
        rows = active_rows(node, packed)
        active = rows.shape[0]
    return Placement(node, rows, move_rows(codes, node, rows, active, trees))


@kernel
def move_rows(
    codes: NDArray[np.unsignedinteger],
    node: NDArray[np.int32],
    rows: NDArray[np.int32],
    active: int,
    trees: PackedTrees,
) -> int:
    """Send the listed rows (or all, if none is) one depth down; how many of these moved."""
    packed, subset, subsets = trees
    if rows.shape[0] == 0:
        for i in range(node.shape[0]):
            k = np.uint64(node[i])
            node[i] = next_node(codes, i, k, packed[k], subset, subsets)
        return active
    kept = np.uint64(0)
    for at in range(active):
        row = np.uint64(rows[at])
        k = np.uint64(node[row])
        below = next_node(codes, row, k, packed[k], subset, subsets)
        node[row] = below
        rows[kept] = row
        kept += np.uint64(below != k)
    return int(np.int64(kept))


@kernel
def active_rows(node: NDArray[np.int32], packed: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Numbers of the rows that are not in a leaf, which leads to itself."""
    rows = np.empty(node.shape[0] + 1, np.int32)
    count = np.uint64(0)
    for i in range(node.shape[0]):
        k = np.uint64(node[i])
        rows[count] = i
        count += np.uint64(packed[k] >> CHILD != k)
    return rows[:count]


@kernel
def finish(
    codes: NDArray[np.unsignedinteger],
    node: NDArray[np.int32],
    trees: PackedTrees,
    value: NDArray[np.float64],
    f: NDArray[np.float64],
    replaces: bool,
    out: NDArray[np.float64],
) -> None:
    """Last depth and new scores in one pass, for rows that followed their trees' growth.

    ``value`` is NaN at nodes of level sets without a tree: their scores stay.
    """
    packed, subset, subsets = trees
    for i in range(node.shape[0]):
        k = np.uint64(node[i])
        change = value[next_node(codes, i, k, packed[k], subset, subsets)]
        if change != change:
            out[i] = f[i]
        else:
            out[i] = change if replaces else f[i] + change


@kernel
def finish_on_grid(
    codes: NDArray[np.unsignedinteger],
    node: NDArray[np.int32],
    trees: PackedTrees,
    node_level: NDArray[np.int32],
    out: NDArray[np.int32],
) -> None:
    """The same where scores are replaced and rounded: every node knows its level on the grid."""
    packed, subset, subsets = trees
    for i in range(node.shape[0]):
        k = np.uint64(node[i])
        out[i] = node_level[next_node(codes, i, k, packed[k], subset, subsets)]


@kernel
def add_values(
    leaf: NDArray[np.int32],
    value: NDArray[np.float64],
    f: NDArray[np.float64],
    replaces: bool,
    out: NDArray[np.float64],
) -> None:
    """New score: the leaf's value, or the score plus it; unchanged at leaf -1."""
    for i in range(leaf.shape[0]):
        k = leaf[i]
        if k < 0:
            out[i] = f[i]
        else:
            change = value[np.uint64(k)]
            out[i] = change if replaces else f[i] + change


@kernel
def add_trees(
    codes: NDArray[np.unsignedinteger],
    roots: NDArray[np.int64],
    depth: int,
    trees: PackedTrees,
    value: NDArray[np.float64],
    f: NDArray[np.float64],
) -> None:
    """Add the values of many trees to the scores in ``f``, tree after tree in their order."""
    packed, subset, subsets = trees
    for i in range(f.shape[0]):
        total = f[i]
        for root in roots:
            k: Any = np.uint64(root)
            for _ in range(depth):
                k = next_node(codes, i, k, packed[k], subset, subsets)
            total += value[k]
        f[i] = total
