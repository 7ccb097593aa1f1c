"""Counting values by their leading bits, for exact quantiles without sorting."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel


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
