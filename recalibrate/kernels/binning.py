"""Columns to small integer codes: 0 is missing, 1..B are the bins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel


@kernel
def count_integers(
    column: NDArray[np.float32], weight: NDArray[np.int64], low: int, out: NDArray[np.int64]
) -> None:
    """Add the weight of each integer value; an empty ``weight`` counts rows."""
    unit = weight.shape[0] == 0
    for i in range(column.shape[0]):
        value = column[i]
        if value == value:
            out[int(value) - low] += 1 if unit else weight[i]


@kernel
def code_by_lookup(
    column: NDArray[np.float32], low: int, lookup: NDArray[np.int32], out: NDArray[np.integer]
) -> None:
    """Code of integer values through a table; values outside of it are clamped to its ends."""
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
                out[i] = lookup[int(at)]


@kernel
def code_by_search(
    column: NDArray[np.float32], edges: NDArray[np.float32], out: NDArray[np.integer]
) -> None:
    """Code = 1 + edges below the value, so that ``x <= edges[b]`` is ``code <= b + 1``."""
    count = edges.shape[0]
    for i in range(column.shape[0]):
        value = column[i]
        if value != value:
            out[i] = 0
            continue
        low = 0
        high = count
        while low < high:
            middle = (low + high) >> 1
            if edges[middle] < value:
                low = middle + 1
            else:
                high = middle
        out[i] = low + 1
