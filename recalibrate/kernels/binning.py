"""Columns to small integer codes: 0 is missing, 1..B are the bins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel

BATCH = 64


@kernel
def count_integers(
    column: NDArray[np.float32], weight: NDArray[np.int64], low: int, out: NDArray[np.int64]
) -> None:
    """Add the weight of each integer value; an empty ``weight`` counts rows."""
    unit = weight.shape[0] == 0
    for i in range(column.shape[0]):
        value = column[i]
        if value == value:
            out[np.int64(value) - low] += 1 if unit else weight[i]


def sum_scores(
    column: NDArray[np.float32],
    score: NDArray[np.float32],
    weight: NDArray[np.int64],
    limit: float,
    factor: float,
    out: NDArray[np.int64],
) -> None:
    """Add weight and weighted score (cut at +-limit, times factor, rounded) of each code."""
    count_integers(column, weight, 0, out[0])
    present = column == column
    cut = np.clip(score[present].astype(np.float64), -limit, limit)
    scores = np.rint(cut * factor).astype(np.int64)
    if len(weight):
        scores *= weight[present]
    np.add.at(out[1], column[present].astype(np.int64), scores)


@kernel
def code_by_lookup(
    column: NDArray[np.float32], low: int, lookup: NDArray[np.int32], out: NDArray[np.integer]
) -> bool:
    """Code of integer values through a table; values outside of it are clamped to its ends.

    False, and nothing of use in ``out``, if a value inside of it is not an integer.
    """
    last = lookup.shape[0] - 1
    for i in range(column.shape[0]):
        value = column[i]
        if value != value:
            out[i] = 0
        else:
            at = value - low
            if at < 0:
                out[i] = lookup[0]
            elif at > last:
                out[i] = lookup[last]
            else:
                place = np.int64(at)
                if place != at:
                    return False
                out[i] = lookup[place]
    return True


def code_by_search(
    column: NDArray[np.float32], edges: NDArray[np.float32], out: NDArray[np.integer]
) -> None:
    """Code = 1 + edges below the value, so that ``x <= edges[b]`` is ``code <= b + 1``.

    Halving takes the same steps for all values of a batch, so that they can be taken side by
    side and nothing has to be guessed: five to ten times faster than value by value.
    """
    size = 1 << len(edges).bit_length()
    padded = np.append(edges, np.full(size - len(edges), np.inf, np.float32))
    _search(column, padded, np.zeros(BATCH, np.float32), np.empty(BATCH, np.uint64), out)


@kernel
def _search(
    column: NDArray[np.float32],
    padded: NDArray[np.float32],
    values: NDArray[np.float32],
    below: NDArray[np.uint64],
    out: NDArray[np.integer],
) -> None:
    one = np.uint64(1)
    for start in range(0, column.shape[0], BATCH):
        count = column.shape[0] - start
        if count > BATCH:
            count = BATCH
        for k in range(count):
            values[k] = column[start + k]
        for k in range(BATCH):
            below[k] = 0
        half = np.uint64(padded.shape[0] // 2)
        while half > np.uint64(0):
            for k in range(BATCH):
                below[k] += half * np.uint64(padded[below[k] + half - one] < values[k])
            half >>= one
        for k in range(count):
            out[start + k] = (below[k] + one) * np.uint64(values[k] == values[k])


# --- Counting values by their leading bits, for exact quantiles without sorting -----------------


@kernel
def count_prefixes(
    values: NDArray[np.floating],
    bits: NDArray[np.unsignedinteger],
    sign: int,
    weight: NDArray[np.int64],
    parents: NDArray[np.uint64],
    above: int,
    shift: int,
    fan: int,
    out: NDArray[np.int64],
) -> None:
    """Weight of the present values by the next bits of their keys; an empty ``weight``: rows.

    A value's key is its bit pattern ``bits`` (sign bit: number ``sign``), changed so that keys
    are ordered like values. Only values whose key, shifted by ``above``, is among the sorted
    ``parents`` count (without parents: all), in one of ``fan`` cells each.
    """
    unit = weight.shape[0] == 0
    top = np.uint64(1) << np.uint64(sign)
    mask = top | (top - np.uint64(1))
    low_shift, high_shift = np.uint64(shift), np.uint64(above)
    last = np.uint64(fan - 1)
    for i in range(values.shape[0]):
        value = values[i]
        if value != value:
            continue
        pattern = np.uint64(0) if value == 0 else np.uint64(bits[i])  # -0 and 0 are one value
        key = (~pattern & mask) if pattern & top else (pattern | top)
        place = 0
        if parents.shape[0] > 0:
            prefix = key >> high_shift
            high = parents.shape[0]
            while place < high:
                middle = (place + high) >> 1
                if parents[middle] < prefix:
                    place = middle + 1
                else:
                    high = middle
            if place == parents.shape[0] or parents[place] != prefix:
                continue
        cell = place * fan + int((key >> low_shift) & last)
        out[cell] += 1 if unit else weight[i]
