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
from recalibrate.kernels.routing import Placement

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
def count_one_word(
    codes: NDArray[np.unsignedinteger],
    columns: NDArray[np.uint64],
    starts: NDArray[np.uint64],
    words: NDArray[np.int64],
    placement: Placement,
    slot: NDArray[np.int32],
    complete: bool,
    out: NDArray[np.int64],
) -> None:
    """Histograms of rows that carry one word; ``complete`` says that every node has a slot."""
    node, rows, active = placement
    width, size = np.uint64(columns.shape[0]), starts[-1]
    everything = columns.shape[0] == codes.shape[1]
    if complete and everything and rows.shape[0] == 0:
        for i in range(node.shape[0]):
            at = np.uint64(slot[np.uint64(node[i])]) * size
            word = words[i, 0]
            for j in range(width):
                out[at + starts[j] + np.uint64(codes[i, j])] += word
        return
    picked = np.empty(BATCH + 1, np.int64)
    for start in range(0, active, BATCH):
        count = pick(node, rows, start, min(start + BATCH, active), slot, picked)
        for place in range(count):
            row = np.uint64(picked[place])
            at = np.uint64(slot[np.uint64(node[row])]) * size
            word = words[row, 0]
            if everything:
                for j in range(width):
                    out[at + starts[j] + np.uint64(codes[row, j])] += word
            else:
                for a in range(width):
                    out[at + starts[a] + np.uint64(codes[row, columns[a]])] += word


@kernel
def count_words(
    codes: NDArray[np.unsignedinteger],
    columns: NDArray[np.uint64],
    starts: NDArray[np.uint64],
    words: NDArray[np.int64],
    placement: Placement,
    slot: NDArray[np.int32],
    out: NDArray[np.int64],
) -> None:
    """Histograms of rows that carry two or three words, side by side in a cell."""
    node, rows, active = placement
    width, size = np.uint64(columns.shape[0]), starts[-1]
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    picked = np.empty(BATCH + 1, np.int64)
    for start in range(0, active, BATCH):
        count = pick(node, rows, start, min(start + BATCH, active), slot, picked)
        for place in range(count):
            i = np.uint64(picked[place])
            at = np.uint64(slot[np.uint64(node[i])]) * size
            first = words[i, 0]
            second = words[i, 1]
            if words.shape[1] == 2:
                for a in range(width):
                    cell = two * (at + starts[a] + np.uint64(codes[i, columns[a]]))
                    out[cell] += first
                    out[cell + one] += second
            else:
                third = words[i, 2]
                for a in range(width):
                    cell = three * (at + starts[a] + np.uint64(codes[i, columns[a]]))
                    out[cell] += first
                    out[cell + one] += second
                    out[cell + two] += third


@kernel
def count_rows(
    codes: NDArray[np.unsignedinteger],
    features: NDArray[np.int32],
    offsets: NDArray[np.int64],
    words: NDArray[np.int64],
    placement: Placement,
    slot: NDArray[np.int32],
    slots: int,
) -> NDArray[np.int64]:
    """Histograms of the active rows of nodes that have one of the ``slots``.

    ``features`` are columns of the codes; bins of the j-th of them begin at ``offsets[j]``,
    whose last number is the size of a histogram.
    """
    columns, starts = features.astype(np.uint64), offsets.astype(np.uint64)
    out = np.zeros(slots * offsets[-1] * words.shape[1], np.int64)
    if words.shape[1] == 1:
        complete = slots == slot.shape[0]
        count_one_word(codes, columns, starts, words, placement, slot, complete, out)
    else:
        count_words(codes, columns, starts, words, placement, slot, out)
    return out
