r"""Gaps of rules that were reported because they are large: corrected for that choice.

A subgroup is reported if its score z, on rows that did not suggest it, is beyond a threshold c.
So z is not normal around the true score :math:`\theta`, but the part of that beyond c, and is too
large on average. The corrected score is the :math:`\theta` of which z is the median, and limits are
those of which it is an extreme quantile [1]_. Close to the threshold they reach far towards and
beyond zero; so they are cut where limits for all tested rules at once, which hold whatever is
chosen among them, end.

References
----------
.. [1] J. D. Lee, D. L. Sun, Y. Sun, J. E. Taylor, "Exact post-selection inference", Annals of
   Statistics 2016.
.. [2] I. Andrews, T. Kitagawa, A. McCloskey, "Inference on winners", Quarterly Journal of
   Economics 2024.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

HALVINGS = 60
FARTHEST = 60.0
FOR_ALL = 0.1
"""Share of the allowed error that goes to limits for all rules at once."""


def thresholds(p: Sequence[float], weight: Sequence[float], alpha: float) -> list[float]:
    """Largest p-value of each hypothesis that weighted Holm would reject, the others given.

    Examples
    --------
    >>> [round(value, 4) for value in thresholds([0.001, 0.2], [1.0, 1.0], 0.05)]
    [0.025, 0.05]
    """
    order = sorted(range(len(p)), key=lambda k: p[k] / weight[k])
    found = []
    for k in range(len(p)):
        left = float(sum(weight))
        for j in order:
            if j == k:
                continue
            if p[j] * left > alpha * weight[j]:
                break
            left -= weight[j]
        found.append(min(1.0, alpha * weight[k] / left))
    return found


def correct(z: float, threshold: float, sure: float, alpha: float) -> tuple[float, float, float]:
    """The score of which one beyond a threshold is the median, and limits of it.

    ``sure`` is the critical value for all rules at once, at `FOR_ALL` of the error.

    Examples
    --------
    >>> [round(value, 2) for value in correct(9.0, 3.0, 4.0, 0.05)]
    [9.0, 7.0, 11.0]
    >>> middle, low, high = correct(3.2, 3.0, 4.0, 0.05)
    >>> middle < 2.0 and low < 0.0
    True
    """
    outside = (1.0 - FOR_ALL) * alpha / 2.0
    middle, low, high = (_score_where(z, threshold, q) for q in (0.5, outside, 1.0 - outside))
    bottom, top = z - sure, z + sure
    return max(middle, bottom), max(low, bottom), min(high, top)


def _score_where(z: float, threshold: float, chance: float) -> float:
    """The true score of which one beyond the threshold is above z with this probability."""
    from scipy.special import log_ndtr

    low, high = z - FARTHEST, z + FARTHEST
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        above = log_ndtr(middle - z) - log_ndtr(middle - min(threshold, z))
        low, high = (middle, high) if above < np.log(chance) else (low, middle)
    return 0.5 * (low + high)
