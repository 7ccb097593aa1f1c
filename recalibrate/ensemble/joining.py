"""Single trees become an ensemble, their leaf values rounded so that all sums are exact."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recalibrate.ensemble.trees import LEAF, NOT_ONE_PARENT, Ensemble, Floats, check_links

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
    from recalibrate.kernels.ensemble import depth_first

    feature, left, right = (
        np.ascontiguousarray(a, dtype=np.int32) for a in (tree.feature, tree.left, tree.right)
    )
    check_links(n_columns, feature, left, right)
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
