"""Walking fitted tables: trees, linear and group coefficients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel


@kernel
def leaf_of(
    row: NDArray[np.unsignedinteger],
    root: int,
    feature: NDArray[np.int32],
    last_bin: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
    child: NDArray[np.int32],
) -> int:
    """Leaf that a row of codes reaches from a root; -1 stays -1."""
    k = root
    while k >= 0 and child[np.uint64(k)] >= 0:
        at = np.uint64(k)
        code = row[np.uint64(feature[at])]
        if subset[at] >= 0:
            left = subsets[np.uint64(subset[at]), code]
        elif code == 0:
            left = missing_left[at]
        else:
            left = code <= last_bin[at]
        k = child[at] if left else child[at] + 1
    return k


@kernel
def walk_trees(
    codes: NDArray[np.unsignedinteger],
    level: NDArray[np.int32],
    roots: NDArray[np.int32],
    feature: NDArray[np.int32],
    last_bin: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
    child: NDArray[np.int32],
    value: NDArray[np.float64],
    f: NDArray[np.float64],
    replaces: bool,
    out: NDArray[np.float64],
) -> None:
    """New score: the leaf's value, or the score plus it; unchanged on level sets without a tree."""
    for i in range(level.shape[0]):
        k = leaf_of(
            codes[i],
            roots[np.uint64(level[i])],
            feature,
            last_bin,
            missing_left,
            subset,
            subsets,
            child,
        )
        if k < 0:
            out[i] = f[i]
        elif replaces:
            out[i] = value[np.uint64(k)]
        else:
            out[i] = f[i] + value[np.uint64(k)]


@kernel
def walk_to_grid(
    codes: NDArray[np.unsignedinteger],
    level: NDArray[np.int32],
    roots: NDArray[np.int32],
    feature: NDArray[np.int32],
    last_bin: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
    child: NDArray[np.int32],
    value: NDArray[np.float64],
    node_level: NDArray[np.int32],
    f: NDArray[np.float64],
    out: NDArray[np.float64],
    out_level: NDArray[np.int32],
) -> None:
    """Scores that are replaced and rounded: every leaf knows its value and level on the grid.

    Rows without a tree keep their score and get the level -1, to be looked up.
    """
    for i in range(level.shape[0]):
        k = leaf_of(
            codes[i],
            roots[np.uint64(level[i])],
            feature,
            last_bin,
            missing_left,
            subset,
            subsets,
            child,
        )
        if k < 0:
            out[i] = f[i]
            out_level[i] = -1
        else:
            out[i] = value[np.uint64(k)]
            out_level[i] = node_level[np.uint64(k)]
