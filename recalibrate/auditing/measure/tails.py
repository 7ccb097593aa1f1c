"""How surprising a summed residual is if the predictions are right, as a normal score.

For 0/1 labels the sum of weighted residuals is a sum of independent variables whose law is known
under calibration; its tail comes from the saddlepoint approximation, which is accurate where the
normal one is off by factors: few expected events, and the far tails that many tests ask for.
Otherwise the sum is divided by the root of its summed squares, by cluster where there are any.
"""

from __future__ import annotations

from math import copysign, erfc, log, sinh, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CERTAIN = 2.0**-20
"""Predictions are kept this far from 0 and 1, which nothing can be tested against."""
FARTHEST = 40.0
"""Largest exponent of the saddlepoint: beyond, every row has the rarer label."""
NEWTON_STEPS = 60


def two_sided(score: float) -> float:
    """Two-sided p-value of a normal score.

    Examples
    --------
    >>> round(two_sided(1.96), 3)
    0.05
    """
    return erfc(abs(score) / sqrt(2.0))


def summed_score(gaps: Floats, cluster: NDArray[np.intp] | None = None) -> float:
    """Sum of residuals over the root of their summed squares.

    Examples
    --------
    >>> summed_score(np.array([1.0, 1.0, 1.0, 1.0]))
    2.0
    """
    if cluster is not None:
        gaps = np.bincount(cluster, weights=gaps).astype(np.float64)
    squares = float(gaps @ gaps)
    return float(gaps.sum()) / sqrt(squares) if squares > 0 else 0.0


def binary_score(y: Floats, f: Floats, weight: Floats | None) -> float:
    """Normal score with the tail probability of a sum of weighted 0/1 residuals.

    Lugannani and Rice's saddlepoint approximation in Barndorff-Nielsen's form; with equal
    weights the sum is a whole number plus a constant, and is corrected for continuity.

    Examples
    --------
    >>> exact = 0.9 ** 100  # no event in 100 rows of probability .1
    >>> approximate = two_sided(binary_score(np.zeros(100), np.full(100, 0.1), None)) / 2
    >>> bool(abs(approximate / exact - 1) < 0.1)
    True
    """
    f = np.clip(f, CERTAIN, 1.0 - CERTAIN)
    w = np.ones(len(f)) if weight is None else weight / float(weight.max())
    total = float(np.sum(w * (y - f)))
    if weight is None:
        total = copysign(max(abs(total) - 0.5, 0.0), total)
    if abs(total) < 1e-9 * sqrt(len(f)):
        return 0.0
    t = _saddlepoint(total, f, w)
    tilted = _tilted(t, f, w)
    # K(t) = sum log(1 - f + f e^(tw)) - t w f, without overflow for large t w.
    cumulant = float(np.sum(np.logaddexp(np.log1p(-f), np.log(f) + t * w) - t * w * f))
    root = copysign(sqrt(max(2.0 * (t * total - cumulant), 0.0)), t)
    spread = sqrt(float(np.sum(w**2 * tilted * (1.0 - tilted))))
    reach = (2.0 * sinh(t / 2.0) if weight is None else t) * spread
    if abs(t) >= FARTHEST or abs(root) < 1e-3 or reach / root <= 0:
        return root
    return root + log(reach / root) / root


def _tilted(t: float, f: Floats, w: Floats) -> Floats:
    """Probabilities under which the sum is expected to be what it is."""
    margin = np.log(f) - np.log1p(-f) + t * w
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(margin, -700.0, 700.0))))


def _saddlepoint(total: float, f: Floats, w: Floats) -> float:
    """The t with K'(t) = total, by Newton's method inside a bracket that shrinks."""
    low, high = (0.0, FARTHEST) if total > 0 else (-FARTHEST, 0.0)
    t = float(np.clip(total / np.sum(w**2 * f * (1.0 - f)), low, high))
    for _ in range(NEWTON_STEPS):
        tilted = _tilted(t, f, w)
        excess = float(np.sum(w * (tilted - f))) - total
        if abs(excess) <= 1e-9 * abs(total):
            break
        low, high = (low, t) if excess > 0 else (t, high)
        slope = float(np.sum(w**2 * tilted * (1.0 - tilted)))
        step = t - excess / slope if slope > 0 else low
        t = step if low < step < high else (low + high) / 2.0
    return t
