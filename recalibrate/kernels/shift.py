"""Exact tails of the hypergeometric law: shares of two samples compared."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import helper, kernel


@helper
def _log_choose(n: float, k: float) -> float:
    return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)


@kernel
def two_sided(
    below: NDArray[np.float64],
    size: NDArray[np.float64],
    other_below: NDArray[np.float64],
    other_size: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Fisher's exact test, twice the smaller tail: of ``size`` rows ``below`` are below a cut.

    Given how many rows of both samples together are below it, the number of these in the first
    has a hypergeometric law. Terms of the tail fall from the observed one outwards.
    """
    for i in range(below.shape[0]):
        n, k = size[i], below[i]
        total, good = n + other_size[i], below[i] + other_below[i]
        if n <= 0.0 or other_size[i] <= 0.0 or good <= 0.0 or good >= total:
            out[i] = 1.0
            continue
        first = math.exp(
            _log_choose(good, k) + _log_choose(total - good, n - k) - _log_choose(total, n)
        )
        down = k * total <= good * n
        term, tail = first, first
        while term > 1e-17 * tail:
            if down:
                if k <= 0.0 or total - good - n + k <= 0.0:
                    break
                term *= k * (total - good - n + k) / ((good - k + 1.0) * (n - k + 1.0))
                k -= 1.0
            else:
                if k >= good or k >= n:
                    break
                term *= (good - k) * (n - k) / ((k + 1.0) * (total - good - n + k + 1.0))
                k += 1.0
            tail += term
        out[i] = min(1.0, 2.0 * tail)
