"""A loop that draws labels under calibration and adds them up in overlapping groups.

The groups of row i are ``groups[starts[i]:starts[i + 1]]``. Random numbers are a hash of a
counter, so that they are the same on every machine and for every number of draws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import helper, kernel

Floats = NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_ONE = np.uint64(1)


@helper
def _uniform(counter: np.uint64) -> float:
    """Number number ``counter`` of a splitmix64 sequence, in [0, 1)."""
    state = counter * _GOLDEN
    state = (state ^ (state >> _30)) * _FIRST
    state = (state ^ (state >> _27)) * _SECOND
    return np.float64((state ^ (state >> _31)) >> _11) * 2.0**-53


@kernel
def draw_events(
    starts: NDArray[np.int64],
    groups: NDArray[np.int32],
    f: Floats,
    weight: Floats,
    outcomes: Floats,
) -> None:
    """Fill ``outcomes[draw, group]`` with the weight of rows with label 1, drawn by f."""
    counter = np.uint64(0)
    for draw in range(outcomes.shape[0]):
        out = outcomes[draw]
        for i in range(f.shape[0]):
            counter += _ONE
            if _uniform(counter) < f[i]:
                for k in range(starts[i], starts[i + 1]):
                    out[groups[k]] += weight[i]
