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

from recalibrate.kernels.compiler import helper, kernel

ONE = np.uint64(1)
THRESHOLD = np.uint64((1 << 17) - 1)
LEAF = THRESHOLD
"""What the word of a leaf has besides its own number in the place of the child's."""
MISSING_RIGHT = np.uint64(17)
SUBSET = np.uint64(18)
FEATURE = np.uint64(19)
FEATURES = np.uint64((1 << 19) - 1)
CHILD = np.uint64(38)
MOST_DEPTH = 64
"""Trees have at most depth 6; a chain of a million nodes would be walked for every row."""


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


@helper
def pack_node(child: Any, feature: Any, last_bin: Any, missing_left: Any, by_set: Any) -> Any:
    """Word of a split, or of several: last bin (17 bits), missing right, subset, feature, child."""
    ordered = ONE - np.uint64(by_set)
    right = ordered * (ONE - np.uint64(missing_left))
    word = (np.uint64(child) << CHILD) | (np.uint64(feature) << FEATURE)
    word |= (np.uint64(by_set) << SUBSET) | (right << MISSING_RIGHT)
    return word | (ordered * np.uint64(last_bin) - right)


def pack_trees(splits: Splits) -> PackedTrees:
    """All nodes, ready to be walked."""
    own = np.arange(len(splits.child), dtype=np.uint64)
    by_set = splits.subset >= 0
    words = pack_node(splits.child, splits.feature, splits.last_bin, splits.missing_left, by_set)
    packed = np.where(splits.child < 0, (own << CHILD) | LEAF, words)
    return PackedTrees(packed, splits.subset, splits.subsets)


def tree_depth(child: NDArray[np.int32]) -> int:
    """Depth of the deepest tree, or any above `MOST_DEPTH`; children come after their parents."""
    depth, split = 0, child[child >= 0]
    while len(split) and depth <= MOST_DEPTH:
        depth += 1
        below = child[np.concatenate([split, split + 1])]
        split = below[below >= 0]
    return depth


@helper
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
def find_leaves(
    codes: NDArray[np.unsignedinteger],
    level: NDArray[np.int32],
    roots: NDArray[np.int32],
    depth: int,
    packed: NDArray[np.uint64],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
    out: NDArray[np.int32],
) -> None:
    """Leaf of every row, -1 on level sets without a tree."""
    for i in range(level.shape[0]):
        root = roots[np.uint64(level[i])]
        if root < 0:
            out[i] = -1
            continue
        k: Any = np.uint64(root)
        for _ in range(depth):
            k = next_node(codes, i, k, packed[k], subset, subsets)
        out[i] = k


@kernel
def finish(
    codes: NDArray[np.unsignedinteger],
    order: NDArray[np.int32],
    bounds: NDArray[np.int64],
    levels: int,
    last: int,
    packed: NDArray[np.uint64],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
    value: NDArray[np.float64],
    f: NDArray[np.float64],
    replaces: bool,
    out: NDArray[np.float64],
) -> None:
    """New scores of rows that were sorted by node but for the last split (see ``histogram``).

    ``value`` is NaN at nodes of level sets without a tree: their scores stay.
    """
    for k in range(last):
        listed, word, leaf = levels > 1 or k > 0, packed[k], value[k]
        split = word >> CHILD != np.uint64(k)
        for at in range(np.uint64(bounds[k, 0]), np.uint64(bounds[k, 1])):
            i = np.uint64(order[at]) if listed else at
            change = value[next_node(codes, i, k, word, subset, subsets)] if split else leaf
            if change != change:
                out[i] = f[i]
            else:
                out[i] = change if replaces else f[i] + change


@kernel
def finish_on_grid(
    codes: NDArray[np.unsignedinteger],
    order: NDArray[np.int32],
    bounds: NDArray[np.int64],
    levels: int,
    last: int,
    packed: NDArray[np.uint64],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
    node_level: NDArray[np.int32],
    out: NDArray[np.int32],
) -> None:
    """The same where scores are replaced and rounded: every node knows its level on the grid."""
    for k in range(last):
        listed, word = levels > 1 or k > 0, packed[k]
        for at in range(np.uint64(bounds[k, 0]), np.uint64(bounds[k, 1])):
            i = np.uint64(order[at]) if listed else at
            out[i] = node_level[next_node(codes, i, k, word, subset, subsets)]


def add_values(
    leaf: NDArray[np.int32], value: NDArray[np.float64], f: NDArray[np.float64], replaces: bool
) -> NDArray[np.float64]:
    """New score: the leaf's value, or the score plus it; unchanged at leaf -1."""
    lost = leaf < 0
    if lost.all():
        return f.copy()
    change = value[leaf]
    out: NDArray[np.float64] = change if replaces else f + change
    out[lost] = f[lost]
    return out


@kernel
def add_trees(
    codes: NDArray[np.unsignedinteger],
    roots: NDArray[np.int64],
    depth: int,
    packed: NDArray[np.uint64],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
    value: NDArray[np.float64],
    f: NDArray[np.float64],
) -> None:
    """Add the values of many trees to the scores in ``f``, tree after tree in their order."""
    for i in range(f.shape[0]):
        total = f[i]
        for root in roots:
            k: Any = np.uint64(root)
            for _ in range(depth):
                k = next_node(codes, i, k, packed[k], subset, subsets)
            total += value[k]
        f[i] = total


# --- Walking the trees of an ensemble on feature values -----------------------------------------


BATCH = 512
"""Rows that go through one tree before the next: its nodes stay in the nearest cache."""

LEFT_IF_MISSING = 1
IS_SUBSET = 2


@kernel
def add_leaves(
    X: NDArray[np.floating[Any]],
    roots: NDArray[np.int32],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float64],
    flags: NDArray[np.uint8],
    children: NDArray[np.int32],
    subset: NDArray[np.int32],
    offsets: NDArray[np.int64],
    bits: NDArray[np.uint64],
    value: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Add the leaf values that every row of X reaches to ``out``.

    ``children`` holds the right and the left child of each node, so that the comparison itself
    is the index. The bits of a set are ``bits[offsets[s]:offsets[s + 1]]``.
    """
    for start in range(0, X.shape[0], BATCH):
        stop = min(start + BATCH, X.shape[0])
        for root in roots:
            for i in range(start, stop):
                k = np.uint64(root)
                while feature[k] >= 0:
                    x = X[i, np.uint64(feature[k])]
                    flag = flags[k]
                    if flag & IS_SUBSET:
                        left = _is_member(x, subset[k], offsets, bits)
                    else:
                        left = x <= threshold[k]
                    left |= (x != x) & ((flag & LEFT_IF_MISSING) != 0)
                    k = np.uint64(children[np.uint64(2) * k + np.uint64(left)])
                out[i] += value[k]


@helper
def _is_member(x: float, s: int, offsets: NDArray[np.int64], bits: NDArray[np.uint64]) -> bool:
    """Whether x is one of the whole numbers in set s; never for NaN."""
    start = offsets[s]
    if not (x >= 0.0 and x < 64.0 * (offsets[s + 1] - start)):
        return False
    code = np.uint64(x)
    if np.float64(code) != x:
        return False
    bit = (bits[start + np.int64(code >> np.uint64(6))] >> (code & np.uint64(63))) & np.uint64(1)
    return bool(bit != 0)


def depth_first(
    roots: NDArray[np.int32],
    feature: NDArray[np.int32],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    order: NDArray[np.int32],
) -> int:
    """Nodes tree by tree, each before its left and these before its right part; their number.

    -1 if there is no end: the nodes are not trees.
    """
    return _depth_first(roots, feature, left, right, np.empty(len(feature) + 1, np.int32), order)


@kernel
def _depth_first(
    roots: NDArray[np.int32],
    feature: NDArray[np.int32],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    stack: NDArray[np.int32],
    order: NDArray[np.int32],
) -> int:
    count = 0
    for root in roots:
        stack[0] = root
        height = 1
        while height > 0:
            height -= 1
            if count == feature.shape[0]:
                return -1
            k = stack[height]
            order[count] = k
            count += 1
            if feature[k] >= 0:
                stack[height] = right[k]
                stack[height + 1] = left[k]
                height += 2
    return count
