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

from recalibrate.kernels.compiler import helper, kernel
from recalibrate.kernels.routing import NO_ROWS

BATCH = 256


def count_rows(
    codes: NDArray[np.unsignedinteger],
    features: NDArray[np.int32],
    offsets: NDArray[np.int64],
    words: NDArray[np.int64],
    node: NDArray[np.int32],
    slot: NDArray[np.int32],
    slots: int,
    rows: NDArray[np.int32] = NO_ROWS,
    active: int = -1,
) -> NDArray[np.int64]:
    """Histograms of the rows in nodes that have one of the ``slots``.

    ``features`` are columns of the codes; bins of the j-th of them begin at ``offsets[j]``,
    whose last number is the size of a histogram. Of all rows, or of the first ``active`` of
    ``rows``, if it is not negative.
    """
    out = np.zeros(slots * int(offsets[-1]) * words.shape[1], np.int64)
    columns, starts = features.astype(np.uint64), offsets.astype(np.uint64)
    picked = np.empty(BATCH, np.int64)
    if words.shape[1] == 1:
        complete = slots == len(slot) and active < 0
        _count_one(codes, columns, starts, words, node, rows, active, slot, complete, picked, out)
    else:
        _count_more(codes, columns, starts, words, node, rows, active, slot, picked, out)
    return out


@helper
def _pick(
    node: NDArray[np.int32],
    rows: NDArray[np.int32],
    active: int,
    start: int,
    slot: NDArray[np.int32],
    picked: NDArray[np.int64],
) -> int:
    """Those of the next rows from ``start`` on whose node has a slot; returns how many."""
    count = np.uint64(0)
    stop = node.shape[0] if active < 0 else active
    if stop > start + BATCH:
        stop = start + BATCH
    for at in range(start, stop):
        i = np.uint64(at if active < 0 else rows[at])
        picked[count] = i
        count += np.uint64(slot[np.uint64(node[i])] >= 0)
    return int(np.int64(count))


@kernel
def _count_one(
    codes: NDArray[np.unsignedinteger],
    columns: NDArray[np.uint64],
    starts: NDArray[np.uint64],
    words: NDArray[np.int64],
    node: NDArray[np.int32],
    rows: NDArray[np.int32],
    active: int,
    slot: NDArray[np.int32],
    complete: bool,
    picked: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Histograms of rows that carry one word; ``complete``: all of them are in nodes with slots."""
    width, size = np.uint64(columns.shape[0]), starts[-1]
    everything = columns.shape[0] == codes.shape[1]
    if complete and everything:
        for i in range(node.shape[0]):
            at = np.uint64(slot[np.uint64(node[i])]) * size
            word = words[i, 0]
            for j in range(width):
                out[at + starts[j] + np.uint64(codes[i, j])] += word
        return
    for start in range(0, node.shape[0] if active < 0 else active, BATCH):
        for place in range(_pick(node, rows, active, start, slot, picked)):
            row = np.uint64(picked[place])
            at = np.uint64(slot[np.uint64(node[row])]) * size
            word = words[row, 0]
            if everything:
                for j in range(width):
                    out[at + starts[j] + np.uint64(codes[row, j])] += word
            else:
                for j in range(width):
                    out[at + starts[j] + np.uint64(codes[row, columns[j]])] += word


@kernel
def _count_more(
    codes: NDArray[np.unsignedinteger],
    columns: NDArray[np.uint64],
    starts: NDArray[np.uint64],
    words: NDArray[np.int64],
    node: NDArray[np.int32],
    rows: NDArray[np.int32],
    active: int,
    slot: NDArray[np.int32],
    picked: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Histograms of rows that carry two or three words, side by side in a cell."""
    width, size = np.uint64(columns.shape[0]), starts[-1]
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for start in range(0, node.shape[0] if active < 0 else active, BATCH):
        for place in range(_pick(node, rows, active, start, slot, picked)):
            i = np.uint64(picked[place])
            at = np.uint64(slot[np.uint64(node[i])]) * size
            first = words[i, 0]
            second = words[i, 1]
            if words.shape[1] == 2:
                for j in range(width):
                    cell = two * (at + starts[j] + np.uint64(codes[i, columns[j]]))
                    out[cell] += first
                    out[cell + one] += second
            else:
                third = words[i, 2]
                for j in range(width):
                    cell = three * (at + starts[j] + np.uint64(codes[i, columns[j]]))
                    out[cell] += first
                    out[cell + one] += second
                    out[cell + two] += third


def take_drawn(
    codes: NDArray[np.unsignedinteger],
    words: NDArray[np.int64],
    level: NDArray[np.int32],
    features: NDArray[np.int32],
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
    features: NDArray[np.int32],
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
