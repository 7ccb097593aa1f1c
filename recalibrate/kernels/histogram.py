"""Histograms of one pass over the rows of a part.

A row carries one to three int64 words (see ``fixedpoint``); a histogram is a flat int64 array
[slot, bin over all features, word]. ``slot`` maps a node to its histogram or to -1 for nodes
that are not summed: of two siblings only the smaller one is, the other is the difference.

Indices are unsigned because numba then leaves out the test for negative ones: 1.5 times faster.
Rows of nodes that are not summed are sorted out in small batches first, without a branch, which
would be mispredicted for every other row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel

BATCH = 256


@kernel
def pick(
    node: NDArray[np.int32],
    rows: NDArray[np.int32],
    start: int,
    stop: int,
    slot: NDArray[np.int32],
    picked: NDArray[np.int64],
) -> int:
    """Those of the active rows start..stop whose node has a slot; returns how many."""
    count = np.uint64(0)
    every = rows.shape[0] == 0
    for at in range(start, stop):
        i = np.uint64(at if every else rows[at])
        picked[count] = i
        count += np.uint64(slot[np.uint64(node[i])] >= 0)
    return int(count)


@kernel
def chosen_offsets(features: NDArray[np.uint64], offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Offsets of some features side by side: a quarter faster than to look them up per row."""
    chosen = np.empty(features.shape[0], np.uint64)
    for a in range(features.shape[0]):
        chosen[a] = offsets[features[a]]
    return chosen


@kernel
def count_one_word(
    codes: NDArray[np.unsignedinteger],
    features: NDArray[np.uint64],
    offsets: NDArray[np.uint64],
    words: NDArray[np.int64],
    node: NDArray[np.int32],
    rows: NDArray[np.int32],
    active: int,
    slot: NDArray[np.int32],
    complete: bool,
    size: int,
    out: NDArray[np.int64],
) -> None:
    """Histograms of active rows that carry one packed word; with empty ``rows`` of all of them.

    ``complete`` says that every row's node has a slot.
    """
    width = np.uint64(codes.shape[1])
    everything = features.shape[0] == codes.shape[1]
    if complete and everything and rows.shape[0] == 0:
        for i in range(node.shape[0]):
            at = np.uint64(slot[np.uint64(node[i])]) * np.uint64(size)
            word = words[i, 0]
            for j in range(width):
                out[at + offsets[j] + np.uint64(codes[i, j])] += word
        return
    chosen = chosen_offsets(features, offsets)
    picked = np.empty(BATCH + 1, np.int64)
    for start in range(0, active, BATCH):
        count = pick(node, rows, start, min(start + BATCH, active), slot, picked)
        for place in range(count):
            row = np.uint64(picked[place])
            at = np.uint64(slot[np.uint64(node[row])]) * np.uint64(size)
            word = words[row, 0]
            if everything:
                for j in range(width):
                    out[at + offsets[j] + np.uint64(codes[row, j])] += word
            else:
                for a in range(np.uint64(chosen.shape[0])):
                    out[at + chosen[a] + np.uint64(codes[row, features[a]])] += word


@kernel
def count_words(
    codes: NDArray[np.unsignedinteger],
    features: NDArray[np.uint64],
    offsets: NDArray[np.uint64],
    words: NDArray[np.int64],
    node: NDArray[np.int32],
    rows: NDArray[np.int32],
    active: int,
    slot: NDArray[np.int32],
    complete: bool,
    size: int,
    out: NDArray[np.int64],
) -> None:
    """Histograms of active rows that carry two or three words, side by side in a cell."""
    width = words.shape[1]
    chosen = chosen_offsets(features, offsets)
    count_features = np.uint64(chosen.shape[0])
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    picked = np.empty(BATCH + 1, np.int64)
    for start in range(0, active, BATCH):
        count = pick(node, rows, start, min(start + BATCH, active), slot, picked)
        for place in range(count):
            i = np.uint64(picked[place])
            at = np.uint64(slot[np.uint64(node[i])]) * np.uint64(size)
            first = words[i, 0]
            second = words[i, 1]
            if width == 2:
                for a in range(count_features):
                    cell = two * (at + chosen[a] + np.uint64(codes[i, features[a]]))
                    out[cell] += first
                    out[cell + one] += second
            else:
                third = words[i, 2]
                for a in range(count_features):
                    cell = three * (at + chosen[a] + np.uint64(codes[i, features[a]]))
                    out[cell] += first
                    out[cell + one] += second
                    out[cell + two] += third


@kernel
def count_rows(
    codes: NDArray[np.unsignedinteger],
    features: NDArray[np.uint64],
    offsets: NDArray[np.uint64],
    words: NDArray[np.int64],
    node: NDArray[np.int32],
    rows: NDArray[np.int32],
    active: int,
    slot: NDArray[np.int32],
    complete: bool,
    size: int,
    out: NDArray[np.int64],
) -> None:
    """Histograms of active rows, however many words they carry."""
    if words.shape[1] == 1:
        count_one_word(
            codes, features, offsets, words, node, rows, active, slot, complete, size, out
        )
    else:
        count_words(codes, features, offsets, words, node, rows, active, slot, complete, size, out)
