r"""Scores of classes as linear functions of the base's: the line of several classes.

:math:`z = (a I + D + O) x + b` with the base's log-probabilities x: a temperature a, a diagonal D
and intercepts b that every class has of its own, and O for what the score of one class says about
another. Each is pulled towards zero by a ridge that grows with how many numbers it holds, K / n for
D and b, K (K - 1) / n for O, so that a few rows choose a temperature and many a whole matrix.
How much of O is worth having differs from base to base more than its size tells: it is fitted with
a small ridge, and held-out rows say which share of it to take.
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
from recalibrate.kernels.classes import add_scaled

RIDGE = 1.0
"""Times K / n, for the numbers of each class (this and the next: halves of calibration rows)."""
OFF_RIDGE = 0.2
"""Times K (K - 1) / n, for what classes say about each other."""
MOST_STEPS, FACTOR, DIGITS = 200, 1e7, 6
"""The search ends where a step lowers the loss by less than 2e-9 of it, below what rows tell."""
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

    @classmethod
    def identity(cls, count: int) -> Scaling:
        """Scores of so many classes as they are."""
        return cls(np.eye(count), np.zeros(count))

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        unchanged = np.array_equal(self.matrix, np.eye(len(self.matrix)))
        return unchanged and not self.intercept.any()

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

    def towards(self, other: Scaling, share: float) -> Scaling:
        """Between the two: a share of the way to the other."""
        matrix = self.matrix + share * (other.matrix - self.matrix)
        return Scaling(matrix, self.intercept + share * (other.intercept - self.intercept))

    def without(self, other: Scaling, everything: Scaling) -> Scaling:
        """What is left if also those rows are left out that ``other`` was fitted without.

        To first order, rows left out change a fit by a sum over rows (the infinitesimal jackknife).
        """
        matrix = self.matrix + (other.matrix - everything.matrix)
        return Scaling(matrix, self.intercept + (other.intercept - everything.intercept))


def fit_scaling(
    x: Scores,
    y: Scores,
    weight: Scores | None,
    start: Scaling | None = None,
    *,
    whole: bool = True,
) -> Scaling:
    """The matrix with the lowest penalised log loss on some rows, searched from ``start``.

    ``whole`` False: classes say nothing about each other, the matrix is diagonal.
    """
    from scipy.optimize import fmin_l_bfgs_b

    count = x.shape[1]
    begun = Scaling.identity(count) if start is None else start
    found, _, _ = fmin_l_bfgs_b(
        _objective(x, y, weight, whole), _pack(begun), maxiter=MOST_STEPS, m=20, factr=FACTOR
    )
    # Processors add up in different orders, and searches on two of them ended 1e-10 apart. The loss
    # is flat far beyond the sixth digit: its change is of the order of the square of 1e-6.
    return _unpack(np.round(found, DIGITS), count)


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
    x: Scores, y: Scores, weight: Scores | None, whole: bool
) -> Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]:
    """Penalised mean log loss and its gradient."""
    n_rows, count = x.shape
    share = np.ones(n_rows) if weight is None else weight / weight.max()
    total = float(np.sum(np.rint(share * 2.0**LOSS_BITS))) / 2.0**LOSS_BITS
    coarse, labels = np.ascontiguousarray(np.rint(x * 2.0**SCORE_BITS)), np.ascontiguousarray(y)
    units = 2.0**SCORE_BITS, 2.0**RESIDUAL_BITS, 2.0**LOSS_BITS
    diagonal = np.arange(count)
    ridge = np.full((count, count), OFF_RIDGE * count * (count - 1) / total)
    own_ridge = ridge[diagonal, diagonal] = RIDGE * count / total

    def value(packed: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scaling = _unpack(packed, count)
        slope, by_class = np.zeros((count, count)), np.zeros(count)
        rows = coarse, labels, share, scaling.matrix, scaling.intercept
        loss = add_scaled(*rows, units, whole, slope, by_class) / (total * units[2])
        slope /= total * units[1] * units[0]
        apart, b = packed[1 : 1 + count * count].reshape(count, count), scaling.intercept
        penalty = float(np.sum(ridge * apart**2)) + own_ridge * float(b @ b)
        by_class = by_class / (total * units[1]) + 2.0 * own_ridge * b
        gradient = [[np.trace(slope)], (slope + 2.0 * ridge * apart).ravel(), by_class]
        return loss + penalty, np.concatenate(gradient)

    return value
