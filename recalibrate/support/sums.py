"""Sums of real numbers that do not depend on the order of the numbers."""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np
from numpy.typing import NDArray

BITS = 61


def total(values: NDArray[np.float64]) -> float:
    """The sum, with every number rounded to 2**-40 or less of the largest (of a million numbers).

    Whatever their order, the result is the same to the last bit.

    Examples
    --------
    >>> import numpy as np
    >>> total(np.array([0.1, 0.2, 0.3])) == total(np.array([0.3, 0.2, 0.1]))
    True
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return 0.0 if largest == 0.0 else float(np.sum(values))
    bits = BITS - len(values).bit_length() - frexp(largest)[1]
    return ldexp(int(np.rint(np.ldexp(values, bits)).astype(np.int64).sum()), -bits)


def average(values: NDArray[np.float64], weight: NDArray[np.float64] | None = None) -> float:
    """The mean, weighted if there are weights; in the same sense.

    Examples
    --------
    >>> import numpy as np
    >>> average(np.array([1.0, 2.0]), np.array([3.0, 1.0]))
    1.25
    """
    return total(values) / len(values) if weight is None else total(values * weight) / total(weight)
