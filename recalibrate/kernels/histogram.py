"""One pass over the rows of a block: route to the child, add to the child's histogram.

A row carries one to three int64 words (see ``fixedpoint``); a histogram is a flat int64 array
[slot, bin over all features, word]. ``slot`` maps a node to its histogram or to -1 for nodes
that are not summed: of two siblings only the smaller one is, the other is the difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel


@kernel
def route(
    codes: NDArray[np.integer],
    node: NDArray[np.int32],
    feature: NDArray[np.int32],
    last_bin: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
    child: NDArray[np.int32],
) -> None:
    """Send every row one depth down: ``child`` is the left child's number, at -1 it stays.

    A numeric split sends ``1 <= code <= last_bin`` to the left, a categorical one
    (``subset >= 0``) the codes marked in its row of ``subsets``.
    """
    for i in range(node.shape[0]):
        k = np.uint64(node[i])
        if child[k] < 0:
            continue
        code = codes[i, np.uint64(feature[k])]
        if subset[k] >= 0:
            left = subsets[np.uint64(subset[k]), code]
        elif code == 0:
            left = missing_left[k]
        else:
            left = code <= last_bin[k]
        node[i] = child[k] if left else child[k] + 1


@kernel
def count_one_word(
    codes: NDArray[np.unsignedinteger],
    features: NDArray[np.uint64],
    offsets: NDArray[np.uint64],
    words: NDArray[np.int64],
    node: NDArray[np.int32],
    slot: NDArray[np.int32],
    size: int,
    out: NDArray[np.int64],
) -> None:
    """Histograms of rows that carry one packed word.

    Indices are unsigned because numba then leaves out the test for negative ones: 1.5 times
    faster; a plain loop over all features is another 1.2 times faster than one over a list.
    """
    width = np.uint64(codes.shape[1])
    everything = features.shape[0] == codes.shape[1]
    for i in range(node.shape[0]):
        k = np.uint64(node[i])
        if slot[k] < 0:
            continue
        at = np.uint64(slot[k]) * np.uint64(size)
        word = words[i, 0]
        if everything:
            for j in range(width):
                out[at + offsets[j] + np.uint64(codes[i, j])] += word
        else:
            for j in features:
                out[at + offsets[j] + np.uint64(codes[i, j])] += word


@kernel
def count_words(
    codes: NDArray[np.unsignedinteger],
    features: NDArray[np.uint64],
    offsets: NDArray[np.uint64],
    words: NDArray[np.int64],
    node: NDArray[np.int32],
    slot: NDArray[np.int32],
    size: int,
    out: NDArray[np.int64],
) -> None:
    """Histograms of rows that carry two or three words, side by side in a cell."""
    width = words.shape[1]
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for i in range(node.shape[0]):
        k = np.uint64(node[i])
        if slot[k] < 0:
            continue
        at = np.uint64(slot[k]) * np.uint64(size)
        first = words[i, 0]
        second = words[i, 1]
        if width == 2:
            for j in features:
                cell = two * (at + offsets[j] + np.uint64(codes[i, j]))
                out[cell] += first
                out[cell + one] += second
        else:
            third = words[i, 2]
            for j in features:
                cell = three * (at + offsets[j] + np.uint64(codes[i, j]))
                out[cell] += first
                out[cell + one] += second
                out[cell + two] += third
