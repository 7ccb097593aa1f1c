"""Rows by node, and the histograms of nodes.

While trees grow, the rows of a part are kept sorted by node: ``order`` lists them node after node,
and ``bounds`` says where those of each node begin and end. A split sorts the rows of its node by
child, and a histogram is summed over the rows of one node. An empty ``order`` stands for all rows
as they come. Going through all rows at every depth instead, with a test whether a row's node is
summed, took twice as long for 15 leaves.

A row carries one to three int64 words (see ``fixedpoint``); a histogram is a flat int64 array
[slot, bin over all features, word]. ``slot`` maps a node to its histogram or to -1 for nodes
that are not summed: of two siblings only the smaller one is, the other is the difference.

Indices are unsigned because numba then leaves out the test for negative ones: 1.5 times faster.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel
from recalibrate.kernels.routing import (
    CHILD,
    FEATURE,
    FEATURES,
    MISSING_RIGHT,
    ONE,
    SUBSET,
    THRESHOLD,
)

ALL_ROWS = np.empty(0, np.int32)
"""In the place of a list of rows: all of them, as they come."""


def count_rows(
    codes: NDArray[np.unsignedinteger],
    features: NDArray[np.integer],
    offsets: NDArray[np.integer],
    words: NDArray[np.int64],
    order: NDArray[np.int32],
    bounds: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Histograms of all nodes.

    ``features`` are columns of the codes; bins of the j-th of them begin at ``offsets[j]``,
    whose last number is the size of a histogram.
    """
    nodes = len(bounds)
    out = np.zeros(nodes * int(offsets[-1]) * words.shape[1], np.int64)
    where = features.astype(np.uint64), offsets.astype(np.uint64)
    slot = np.arange(nodes, dtype=np.int32)
    count_nodes(codes, *where, words, order, bounds, slot, 0, nodes, out)
    return out


def sort_by_level(
    level: NDArray[np.int32], levels: int, nodes: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Rows by level set, in their order, and where those of each begin and end.

    There is room for so many ``nodes``, of which the level sets are the first.
    """
    bounds = np.zeros((nodes, 2), np.int64)
    if levels == 1:
        bounds[0, 1] = len(level)
        return ALL_ROWS, bounds
    order = np.empty(len(level), np.int32)
    _sort_by_level(level, levels, order, bounds)
    return order, bounds


@kernel
def _sort_by_level(
    level: NDArray[np.int32], levels: int, order: NDArray[np.int32], bounds: NDArray[np.int64]
) -> None:
    for i in range(level.shape[0]):
        bounds[np.uint64(level[i]), 1] += 1
    begin = 0
    for v in range(levels):
        count = bounds[v, 1]
        bounds[v, 0] = bounds[v, 1] = begin
        begin += count
    for i in range(level.shape[0]):
        own = np.uint64(level[i])
        order[np.uint64(bounds[own, 1])] = i
        bounds[own, 1] += 1


@kernel
def count_nodes(
    codes: NDArray[np.unsignedinteger],
    features: NDArray[np.uint64],
    starts: NDArray[np.uint64],
    words: NDArray[np.int64],
    order: NDArray[np.int32],
    bounds: NDArray[np.int64],
    slot: NDArray[np.int32],
    first: int,
    last: int,
    out: NDArray[np.int64],
) -> None:
    """Add the rows of the nodes first..last to the histograms in their slots."""
    width, size = np.uint64(features.shape[0]), starts[np.uint64(starts.shape[0] - 1)]
    listed, per_row = order.shape[0] > 0, words.shape[1]
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for k in range(first, last):
        if slot[k] < 0:
            continue
        base = np.uint64(slot[k]) * size
        for at in range(np.uint64(bounds[k, 0]), np.uint64(bounds[k, 1])):
            i = np.uint64(order[at]) if listed else at
            first_word = words[i, 0]
            if per_row == 1:
                for j in range(width):
                    out[base + starts[j] + np.uint64(codes[i, features[j]])] += first_word
                continue
            second_word = words[i, 1]
            if per_row == 2:
                for j in range(width):
                    cell = two * (base + starts[j] + np.uint64(codes[i, features[j]]))
                    out[cell] += first_word
                    out[cell + one] += second_word
                continue
            third_word = words[i, 2]
            for j in range(width):
                cell = three * (base + starts[j] + np.uint64(codes[i, features[j]]))
                out[cell] += first_word
                out[cell + one] += second_word
                out[cell + two] += third_word


@kernel
def split_nodes(
    codes: NDArray[np.unsignedinteger],
    order: NDArray[np.int32],
    spare: NDArray[np.int32],
    bounds: NDArray[np.int64],
    levels: int,
    last: int,
    packed: NDArray[np.uint64],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
) -> None:
    """Sort the rows of the first nodes, ``last`` of them, by child, left ones first.

    Rows of nodes that are not split stay, and those of nodes sorted before are gone already.

    A single root has all rows as they come. Every row is written to both lists, and the place that
    counts moves on: no branch depends on the data. See ``routing.next_node`` about missing codes.
    """
    for k in range(last):
        listed = levels > 1 or k > 0
        word = packed[k]
        child = word >> CHILD
        begin, end = np.uint64(bounds[k, 0]), np.uint64(bounds[k, 1])
        if child == np.uint64(k) or begin == end:
            continue
        feature = (word >> FEATURE) & FEATURES
        left, right = begin, np.uint64(0)
        if (word >> SUBSET) & ONE:
            chosen = np.uint64(subset[k])
            for at in range(begin, end):
                i = np.uint64(order[at]) if listed else at
                stays = np.uint64(subsets[chosen, np.uint64(codes[i, feature])])
                order[left] = i
                spare[right] = i
                left += stays
                right += ONE - stays
        else:
            shift, threshold = (word >> MISSING_RIGHT) & ONE, word & THRESHOLD
            for at in range(begin, end):
                i = np.uint64(order[at]) if listed else at
                goes = np.uint64(np.uint64(codes[i, feature]) - shift > threshold)
                order[left] = i
                spare[right] = i
                left += ONE - goes
                right += goes
        for at in range(right):
            order[left + at] = spare[at]
        bounds[k, 1] = begin
        bounds[child, 0] = begin
        bounds[child, 1] = bounds[child + ONE, 0] = left
        bounds[child + ONE, 1] = end


def take_drawn(
    codes: NDArray[np.unsignedinteger],
    words: NDArray[np.int64],
    level: NDArray[np.int32],
    features: NDArray[np.uint64],
) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64], NDArray[np.int32]]:
    """Codes of some features, words and level sets of the rows whose words are not zero."""
    count = int(np.count_nonzero(words[:, 0]))  # every word counts the row first
    own = np.empty((count, len(features)), codes.dtype)
    own_words, node = np.empty((count, words.shape[1]), np.int64), np.empty(count, np.int32)
    _write_drawn(codes, words, level, features, own, own_words, node)
    return own, own_words, node


@kernel
def _write_drawn(
    codes: NDArray[np.unsignedinteger],
    words: NDArray[np.int64],
    level: NDArray[np.int32],
    features: NDArray[np.uint64],
    own: NDArray[np.unsignedinteger],
    own_words: NDArray[np.int64],
    node: NDArray[np.int32],
) -> None:
    at = 0
    for i in range(words.shape[0]):
        if words[i, 0] == 0:
            continue
        for j in range(features.shape[0]):
            own[at, j] = codes[i, features[j]]
        for k in range(words.shape[1]):
            own_words[at, k] = words[i, k]
        node[at] = level[i]
        at += 1
