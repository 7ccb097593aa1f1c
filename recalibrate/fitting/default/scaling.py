r"""Scores of classes as linear functions of the base's: the line of several classes.

:math:`z = (a I + D + O) x + b` with the base's log-probabilities x: a temperature a, a diagonal D
and intercepts b that every class has of its own, and O for what the score of one class says about
another. Each is pulled towards zero by a ridge that grows with how many numbers it holds, K / n for
D and b, K (K - 1) / n for O, so that a few rows choose a temperature and many a whole matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.linear.spec import UNIT, LinearTable, Quantiser
from recalibrate.core.boost import EVERYTHING
from recalibrate.core.fixedpoint import snap
from recalibrate.core.rounds import Scores, Step

RIDGE = 1.0
"""Times K / n, for the numbers of each class (this and the next: halves of calibration rows)."""
OFF_RIDGE = 0.2
"""Times K (K - 1) / n, for what classes say about each other."""
MOST_STEPS = 200
SCORE_BITS, RESIDUAL_BITS, LOSS_BITS = 10, 16, 20
"""Bits behind the point of scores, residuals and losses while the matrix is searched for.

Products of so few bits, summed over a million rows, are whole numbers below 2**53: their sums are
exact in any order.
"""


@dataclass(frozen=True, eq=False)
class Scaling:
    """The matrix and the intercepts."""

    matrix: NDArray[np.float64]
    intercept: NDArray[np.float64]

    def of(self, x: Scores) -> Scores:
        """Scores of classes from those of the base; multiples of what steps are made of."""
        # Column by column: a matrix product may add up in any order.
        out = np.empty(x.shape, order="F")
        for k, (row, constant) in enumerate(zip(self.matrix, self.intercept, strict=True)):
            total = np.full(len(x), constant)
            for j, factor in enumerate(row):
                total += factor * x[:, j]
            out[:, k] = total
        return snap(out)

    def steps(
        self, encoder: Quantiser, index: int, names: Sequence[str], x: Scores
    ) -> tuple[Step, ...]:
        """The same as steps of a model, one for every class; ``names`` of the scores' columns."""
        change = self.matrix - np.eye(len(self.matrix))
        values = {t.name: (j, t) for j, t in enumerate(encoder.terms) if t.kind == "value"}
        columns = np.zeros((len(change), len(encoder.terms)))
        columns[:, 0] = self.intercept
        for j, name in enumerate(names):
            if name in values:
                at, term = values[name]
                columns[:, at] = change[:, j] / term.factor
                columns[:, 0] += change[:, j] * term.centre
            else:  # the same score for all rows
                columns[:, 0] += change[:, j] * float(x[0, j])
        columns[:, 0] /= UNIT
        tables = [LinearTable(np.ones(1, np.bool_), row[None, :], inf) for row in snap(columns)]
        return tuple(
            Step(EVERYTHING if k == 0 else None, table, index, False, None, k)
            for k, table in enumerate(tables)
        )

    def weighted(self, factor: float) -> Scaling:
        """The same with all scores multiplied."""
        return Scaling(factor * self.matrix, factor * self.intercept)


def fit_scaling(
    x: Scores, y: Scores, weight: Scores | None, start: Scaling | None = None
) -> Scaling:
    """The matrix with the lowest penalised log loss on some rows, searched from ``start``."""
    from scipy.optimize import fmin_l_bfgs_b

    count = x.shape[1]
    identity = Scaling(np.eye(count), np.zeros(count)) if start is None else start
    found, _, _ = fmin_l_bfgs_b(
        _objective(x, y, weight), _pack(identity), maxiter=MOST_STEPS, m=20, factr=1e5
    )
    # Twelve digits: the last ones depend on how the machine adds up.
    return _unpack(np.round(found, 12), count)


def _pack(scaling: Scaling) -> NDArray[np.float64]:
    """Temperature, what classes differ from it, and intercepts, as one vector."""
    matrix = scaling.matrix
    temperature = float(np.mean(np.diag(matrix)))
    apart = matrix - temperature * np.eye(len(matrix))
    return np.concatenate([[temperature], apart.ravel(), scaling.intercept])


def _unpack(packed: NDArray[np.float64], count: int) -> Scaling:
    apart = packed[1 : 1 + count * count].reshape(count, count)
    return Scaling(apart + packed[0] * np.eye(count), packed[1 + count * count :])


def _objective(
    x: Scores, y: Scores, weight: Scores | None
) -> Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]:
    """Penalised mean log loss and its gradient."""
    n_rows, count = x.shape
    share = np.ones((n_rows, 1)) if weight is None else (weight / weight.max())[:, None]
    total = float(np.sum(np.rint(share * 2.0**LOSS_BITS))) / 2.0**LOSS_BITS
    coarse = np.rint(x * 2.0**SCORE_BITS)
    diagonal = np.arange(count)
    ridge = np.full((count, count), OFF_RIDGE * count * (count - 1) / total)
    ridge[diagonal, diagonal] = RIDGE * count / total
    unit = total * 2.0**RESIDUAL_BITS

    def value(packed: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scaling = _unpack(packed, count)
        z = (coarse @ scaling.matrix.T) / 2.0**SCORE_BITS + scaling.intercept
        top = z.max(axis=1, keepdims=True)
        shares = np.exp(z - top)
        sums = shares.sum(axis=1, keepdims=True)
        losses = share[:, 0] * (np.log(sums) + top - np.sum(y * z, axis=1, keepdims=True))[:, 0]
        loss = float(np.sum(np.rint(losses * 2.0**LOSS_BITS))) / (total * 2.0**LOSS_BITS)
        residual = np.rint(share * (shares / sums - y) * 2.0**RESIDUAL_BITS)
        slope = (residual.T @ coarse) / (unit * 2.0**SCORE_BITS)
        apart = packed[1 : 1 + count * count].reshape(count, count)
        b = scaling.intercept
        penalty = float(np.sum(ridge * apart**2)) + RIDGE * count / total * float(b @ b)
        by_class = residual.sum(axis=0) / unit + 2.0 * RIDGE * count / total * b
        gradient = [[np.trace(slope)], (slope + 2.0 * ridge * apart).ravel(), by_class]
        return loss + penalty, np.concatenate(gradient)

    return value
