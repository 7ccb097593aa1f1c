"""Walking the trees of an ensemble on feature values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import helper, kernel

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
                        left = is_member(x, subset[k], offsets, bits)
                    else:
                        left = x <= threshold[k]
                    left |= (x != x) & ((flag & LEFT_IF_MISSING) != 0)
                    k = np.uint64(children[np.uint64(2) * k + np.uint64(left)])
                out[i] += value[k]


@helper
def is_member(x: float, s: int, offsets: NDArray[np.int64], bits: NDArray[np.uint64]) -> bool:
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
