"""What trees are grown by and what they consist of while they grow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Rules(NamedTuple):
    """Limits on trees, and how their splits are looked for.

    Attributes
    ----------
    levels
        Level sets: there is a tree for each.
    depth
        Depth of every tree at most.
    leaves
        Leaves of every tree at most, grown best-first; 0 leaves it to the depth.
    min_leaf_rows, min_level_rows
        Rows of a leaf at least, and of a level set that gets a tree.
    min_gain
        Splits must gain more than this.
    l2
        Added to the summed weight (or hessian) of every node.
    smoothing
        Rows of residual zero added to every category before ordering them.
    bare_roots
        Whether a tree without a split counts.
    weight_step, response_step
        Real value of one unit of s and g.
    features
        Columns of the codes that may be split on, in the order they are visited.
    offsets
        Where in a histogram the bins of each of them begin; last: how many there are of all.
    style
        Of each of them: 0 by the order of its codes, 1 by a learned order of its categories,
        2 one category against the rest.
    widest
        Most codes of any categorical feature, drawn or not; 0: there is none.
    """

    levels: int
    depth: int
    leaves: int
    min_leaf_rows: int
    min_level_rows: int
    min_gain: float
    l2: float
    smoothing: float
    bare_roots: bool
    weight_step: float
    response_step: float
    features: NDArray[np.int32]
    offsets: NDArray[np.int64]
    style: NDArray[np.int8]
    widest: int


class Nodes(NamedTuple):
    """Nodes of all level sets' trees, in the order they are made: roots, then pairs of siblings.

    Attributes
    ----------
    owner, parent, child
        Level set, parent (-1: a root) and left child (-1: none yet) of every node.
    slot
        Which of the histograms that are summed is the node's own, -1 if none is: of two
        siblings only the smaller one is summed, the other is the difference.
    totals
        Count, s and g of its rows.
    gain, feature, last_bin, missing_left
        Its best split: gain (-1: none), place among the rules' features, the last bin on the left
        in the order of the feature's codes (or the one category), and where missing values go.
    left
        Count, s and g of what that split sends to the left.
    kept
        Whether the split is in the tree, as far as is known.
    subset, subsets
        Row of ``subsets`` with the codes that go left at a categorical split, -1 elsewhere.
    packed
        Nodes ready to be walked, see ``kernels.routing``.
    order
        Codes of every feature in the order they are scanned.
    """

    owner: NDArray[np.int32]
    parent: NDArray[np.int32]
    child: NDArray[np.int32]
    slot: NDArray[np.int32]
    totals: NDArray[np.int64]
    gain: NDArray[np.float64]
    feature: NDArray[np.int32]
    last_bin: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int64]
    kept: NDArray[np.bool_]
    subset: NDArray[np.int32]
    subsets: NDArray[np.bool_]
    packed: NDArray[np.uint64]
    order: NDArray[np.int32]


class Span(NamedTuple):
    """Numbers of the nodes of a depth, first..last, and of the first one of the depth above."""

    above: int
    first: int
    last: int
