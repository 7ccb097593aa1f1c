"""Loops over the scores of classes: log-odds of each against the rest, and losses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel
from recalibrate.kernels.rows import exp_negative, log_positive

LIMIT = 16.0
"""Log-odds are cut here, as those of two classes are (``core.levels.MARGIN_LIMIT``)."""
STEP = 2.0**24
"""They are rounded to multiples of 1 / STEP, as ``core.levels.MARGIN_STEP`` says and why."""


def class_margins(z: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Log-odds of every class against the rest, from scores z[class, row]."""
    _class_margins(z, np.empty(len(z)), np.empty(len(z)), out)


@kernel
def _class_margins(
    z: NDArray[np.float64],
    share: NDArray[np.float64],
    before: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    count, n_rows = z.shape
    for i in range(n_rows):
        top = z[0, i]
        for k in range(1, count):
            top = max(top, z[k, i])
        total = 0.0
        for k in range(count):
            share[k] = exp_negative(z[k, i] - top)
            before[k] = total
            total += share[k]
        after = 0.0
        for k in range(count - 1, -1, -1):
            rest = before[k] + after  # not total - share: nothing would be left of a small rest
            after += share[k]
            margin = LIMIT if rest == 0.0 else z[k, i] - top - log_positive(rest)
            margin = min(max(margin, -LIMIT), LIMIT)
            out[k, i] = np.rint(margin * STEP) / STEP


@kernel
def add_class_losses(
    y: NDArray[np.float64],
    z: NDArray[np.float64],
    weight: NDArray[np.int64],
    scale: float,
    limit: float,
    out: NDArray[np.int64],
) -> None:
    """Add every row's quantised log loss, from shares y[class, row] and scores z[class, row]."""
    count, n_rows = z.shape
    unit = weight.shape[0] == 0
    for i in range(n_rows):
        top = z[0, i]
        for k in range(1, count):
            top = max(top, z[k, i])
        total, own = 0.0, 0.0
        for k in range(count):
            total += exp_negative(z[k, i] - top)
            own += y[k, i] * (z[k, i] - top)
        w = 1.0 if unit else float(weight[i])
        out[0] += int(np.rint(w * min(log_positive(total) - own, limit) * scale))


def add_scaled(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    matrix: NDArray[np.float64],
    intercept: NDArray[np.float64],
    units: tuple[float, float, float],
    whole: bool,
    slope: NDArray[np.float64],
    by_class: NDArray[np.float64],
) -> float:
    """Losses of scores matrix @ x + intercept, summed, and their gradient in matrix and intercept.

    ``x`` holds whole numbers, scores in steps of 1 / units[0]; residuals and losses are rounded to
    the other two. So sums are whole numbers, and exact in any order of the rows; scores of one row
    are added up in the order of the classes. ``whole`` False: only the diagonal of ``slope``.
    """
    some = np.empty(x.shape[1]), np.empty(x.shape[1])
    by_source = np.ascontiguousarray(matrix.T)
    return _add_scaled(x, y, weight, by_source, intercept, units, whole, *some, slope, by_class)


@kernel
def _add_scaled(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    by_source: NDArray[np.float64],
    intercept: NDArray[np.float64],
    units: tuple[float, float, float],
    whole: bool,
    z: NDArray[np.float64],
    residual: NDArray[np.float64],
    slope: NDArray[np.float64],
    by_class: NDArray[np.float64],
) -> float:
    count, losses = x.shape[1], 0.0
    score_unit, residual_unit, loss_unit = units
    for i in range(x.shape[0]):
        for k in range(count):
            z[k] = intercept[k]
        for j in range(count):
            value = x[i, j] / score_unit
            for k in range(count):
                z[k] += by_source[j, k] * value
        top = z[0]
        for k in range(1, count):
            top = max(top, z[k])
        total, own = 0.0, 0.0
        for k in range(count):
            own += y[i, k] * (z[k] - top)
            z[k] = exp_negative(z[k] - top)
            total += z[k]
        losses += np.rint(weight[i] * (log_positive(total) - own) * loss_unit)
        for k in range(count):
            residual[k] = np.rint(weight[i] * (z[k] / total - y[i, k]) * residual_unit)
            by_class[k] += residual[k]
        if whole:
            for k in range(count):
                for j in range(count):
                    slope[k, j] += residual[k] * x[i, j]
        else:
            for k in range(count):
                slope[k, k] += residual[k] * x[i, k]
    return losses
