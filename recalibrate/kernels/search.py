"""Loops of the search for subgroups: sums over pairs of features, overlaps of rules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel

Codes = NDArray[np.unsignedinteger]


@kernel
def add_pair(
    first: Codes,
    second: Codes,
    level: NDArray[np.int32],
    gaps: NDArray[np.int64],
    noise: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Add every row's count, gap and noise to its cell [level, first code, second code]."""
    for i in range(level.shape[0]):
        cell = out[level[i], first[i], second[i]]
        cell[0] += 1
        cell[1] += gaps[i]
        cell[2] += noise[i]


@kernel
def add_overlaps(
    inside: NDArray[np.bool_],
    rows: NDArray[np.intp],
    weight: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Weight of every rule on some rows; ``inside`` is [rule, row]."""
    for k in range(inside.shape[0]):
        own = inside[k]
        for i in rows:
            out[k] += own[i] * weight[i]
