"""How much of a correction to believe: numbers that held-out rows put on it.

Whether a correction lowers the held-out loss is a blunt question: one that points the right way
but goes too far may not lower it at all. Where it points is asked here, and how far to go.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import Link, from_margin, softmax
from recalibrate.core.rounds import Scores
from recalibrate.support.sums import total

NEWTON_STEPS = 20
LEAST, MOST = 0.5, 2.0
"""Weights outside of these say that something else is wrong."""


def correction_weight(
    y: Scores, before: Scores, after: Scores, link: Link, weight: Scores | None
) -> tuple[float, float]:
    r"""Best share of a correction, and how many standard errors it is from zero.

    With residuals r = y - mean(before) and the correction d = after - before, one Newton step
    from zero gives :math:`\sum w r d / \sum w v d^2` (v = p (1 - p) on the log-odds, else 1).
    The standard error of the numerator is :math:`\sqrt{\sum (w r d)^2}`, whatever the noise.

    Examples
    --------
    >>> import numpy as np
    >>> y, before = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    >>> share, _ = correction_weight(y, before, 2 * y, "identity", None)
    >>> share
    0.5
    """
    w = np.ones(len(y)) if weight is None else weight
    mean = from_margin(before, link)
    step = after - before
    if y.ndim == 2:
        pull = w * np.sum((y - mean) * step, axis=1)
        size = total(w * _covariance(mean, step, step))
    else:
        curvature = mean * (1.0 - mean) if link == "logit" else np.ones(len(y))
        pull = w * (y - mean) * step
        size = total(w * curvature * step**2)
    noise = sqrt(total(pull**2))
    if size <= 0 or noise <= 0:
        return 0.0, 0.0
    return total(pull) / size, total(pull) / noise


def best_weights(
    y: Scores, parts: Sequence[Scores], link: Link, weight: Scores | None
) -> tuple[float, ...] | None:
    """Intercept and a weight for every part of held-out scores; None if some are out of range.

    Boosted scores are over-confident on new rows even at the best number of steps: the weights
    of what was learned are below 1. A few numbers from thousands of rows cost next to nothing.

    Examples
    --------
    >>> import numpy as np
    >>> f = np.array([0.0, 1.0, 2.0])
    >>> best_weights(0.1 + 0.8 * f, [f], "identity", None)
    (0.1, 0.8)
    """
    w = np.ones(len(y)) if weight is None else weight
    design = np.column_stack([np.ones(len(y)), *parts])
    found: NDArray[np.float64] = np.ones(design.shape[1])
    found[0] = 0.0
    for _ in range(NEWTON_STEPS):
        mean = from_margin(design @ found, link)
        curvature = w * (mean * (1.0 - mean) if link == "logit" else 1.0)
        hessian = (design * curvature[:, None]).T @ design
        try:
            step = np.linalg.solve(hessian, design.T @ (w * (y - mean)))
        except np.linalg.LinAlgError:  # a part that is constant
            return None
        found = found + step
        if not np.isfinite(found).all() or float(np.abs(step).max()) < 1e-10:
            break
    usable = np.isfinite(found).all() and (found[1:] >= LEAST).all() and (found[1:] <= MOST).all()
    # Twelve digits: the last ones depend on how the machine adds up.
    return tuple(round(float(value), 12) for value in found) if usable else None


def class_weights(
    y: Scores, parts: Sequence[Scores], weight: Scores | None
) -> tuple[float, ...] | None:
    """A weight for every part of held-out scores of classes; None if some are out of range.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.log(np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]))
    >>> class_weights(np.exp(z), [2 * z], None)
    (0.5,)
    """
    w = np.ones(len(y)) if weight is None else weight
    found: NDArray[np.float64] = np.ones(len(parts))
    for _ in range(NEWTON_STEPS):
        z = sum((c * part for c, part in zip(found, parts, strict=True)), np.zeros(y.shape))
        p = softmax(z)
        hessian = np.array([[total(w * _covariance(p, a, b)) for b in parts] for a in parts])
        slope = np.array([total(w * np.sum((y - p) * part, axis=1)) for part in parts])
        try:
            step = np.linalg.solve(hessian, slope)
        except np.linalg.LinAlgError:  # a part that is constant
            return None
        found = found + step
        if not np.isfinite(found).all() or float(np.abs(step).max()) < 1e-10:
            break
    usable = np.isfinite(found).all() and (found >= LEAST).all() and (found <= MOST).all()
    return tuple(round(float(value), 12) for value in found) if usable else None


def _covariance(p: Scores, a: Scores, b: Scores) -> Scores:
    """Of two scores under the probabilities of classes, row by row."""
    return np.asarray(np.sum(p * a * b, axis=1) - np.sum(p * a, axis=1) * np.sum(p * b, axis=1))
