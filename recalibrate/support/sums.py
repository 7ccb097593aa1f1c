"""Sums of real numbers that do not depend on the order of the numbers."""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np
from numpy.typing import NDArray

BITS = 61
BLOCK = 8192
"""Numbers at a time, which fit a cache: larger ones cost a page fault for every 500 numbers."""
POWERS = 1000
"""Below this 2**k and 2**-k are numbers without loss."""


def total(values: NDArray[np.float64]) -> float:
    """The sum, with every number rounded to 2**-40 or less of the largest (of a million numbers).

    Whatever their order, the result is the same to the last bit.

    Examples
    --------
    >>> import numpy as np
    >>> total(np.array([0.1, 0.2, 0.3])) == total(np.array([0.3, 0.2, 0.1]))
    True
    """
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest == 0.0 or not np.isfinite(largest):
        return 0.0 if largest == 0.0 else float(np.sum(values))
    bits = BITS - len(values).bit_length() - frexp(largest)[1]
    # The same number as by ldexp, in a fifth of the time, where there is such a power of two.
    summed = 0
    for start in range(0, len(values), BLOCK):
        some = values[start : start + BLOCK]
        scaled = some * 2.0**bits if abs(bits) < POWERS else np.ldexp(some, bits)
        summed += int(np.rint(scaled).astype(np.int64).sum())
    return ldexp(summed, -bits)


def average(values: NDArray[np.float64], weight: NDArray[np.float64] | None = None) -> float:
    """The mean, weighted if there are weights; in the same sense.

    Examples
    --------
    >>> import numpy as np
    >>> average(np.array([1.0, 2.0]), np.array([3.0, 1.0]))
    1.25
    """
    return total(values) / len(values) if weight is None else total(values * weight) / total(weight)
