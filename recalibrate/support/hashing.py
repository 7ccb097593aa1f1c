"""A small vectorised hash: pseudo-random numbers that depend on values, not on positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

UInts = NDArray[np.uint64]
GOLDEN = 0x9E3779B97F4A7C15


def combine(state: UInts, values: UInts) -> UInts:
    """One round of splitmix64 over the state and new values."""
    state = state * np.uint64(GOLDEN) + values
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def mix(values: UInts, *salts: int) -> UInts:
    """Hash of every value together with some whole numbers.

    Examples
    --------
    >>> import numpy as np
    >>> a = mix(np.arange(3, dtype=np.uint64), 0)
    >>> bool((a == mix(np.arange(3, dtype=np.uint64), 0)).all()), len(set(a.tolist()))
    (True, 3)
    """
    state = values
    for salt in salts:
        state = combine(state, np.full(len(values), (salt + 1) % 2**64, dtype=np.uint64))
    return state
