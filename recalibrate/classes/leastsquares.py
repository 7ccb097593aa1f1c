"""Solving per-level sums of products; shared by Linear, Polynomial and Groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import StepContext
from recalibrate.core.levels import Compact
from recalibrate.core.part import Statistic
from recalibrate.kernels.gram import solve_level

COLLINEAR = 1e-9
"""A column explained by others up to this share of its square adds nothing but noise."""

LARGEST_SYSTEM = 1 << 28
"""Numbers in all level sets' systems together (2 GiB)."""


def check_systems(task: StepContext, count: int, what: str, fewer: str) -> None:
    """Refuse systems of so many unknowns that do not fit into memory; ``what`` they are."""
    size = task.levels * count * count
    if size > LARGEST_SYSTEM:
        raise ValueError(
            f"{what} on {task.levels} level sets need {size * 8 / 2**30:.1f} GiB; use fewer level "
            f"sets, or fewer {fewer}"
        )


def no_products(levels: int, count: int) -> tuple[NDArray[np.int64], ...]:
    """Rows, sums of s x x' and of g x of level sets without rows."""
    shapes: list[tuple[int, ...]] = [(levels,), (levels, count, count), (levels, count)]
    return tuple(np.zeros(shape, np.int64) for shape in shapes)


def fit_levels(
    task: StepContext,
    statistic: Statistic,
    ridge: float = 0.0,
    gram_unit: float = 1,
    cross_unit: float = 1,
) -> tuple[NDArray[np.bool_], NDArray[np.float64], int]:
    """Which level sets were solved, the coefficients of all, and the weight of the others' rows.

    Parameters
    ----------
    statistic
        Asks for the rows of every level set, the sums of s x x' (lower triangle) and of g x; the
        first column is constant.
    ridge
        Added to the diagonal, but for the constant, together with the penalty of the task.
    gram_unit, cross_unit
        What the sums count in, beyond the steps of s and g.
    """
    scale = task.source.scale
    rows, sums, responses = task.source.sums(statistic)
    gram: NDArray[np.float64] = np.multiply(sums, scale.weight_step * gram_unit)
    cross: NDArray[np.float64] = np.multiply(responses, scale.response_step * cross_unit)
    present = (rows >= task.penalty.min_level_rows) & (gram[:, 0, 0] > 0)
    coefficient = np.zeros(cross.shape)
    beyond_first = np.arange(1, gram.shape[1])
    gram[:, beyond_first, beyond_first] += ridge + task.penalty.l2
    for v in np.flatnonzero(present):
        solve_level(gram[v], cross[v], COLLINEAR, coefficient[v])
    if not task.draft.replace:
        coefficient *= task.step
    return present, coefficient, int(sums[~present, 0, 0].sum() * gram_unit)


@dataclass(frozen=True, eq=False)
class Coefficients(Compact):
    """Numbers of every level set, if it is ``present``.

    What is added to a score is cut at +-``limit``.
    """

    exact = True
    present: NDArray[np.bool_]
    coefficient: NDArray[np.float64]
    limit: float

    @property
    def n_learners(self) -> int:
        return int(np.count_nonzero(self.present))

    def keep(self, levels: NDArray[np.bool_]) -> Self:
        """The same numbers on some level sets only."""
        return replace(self, present=self.present & levels)

    def scaled(self, factor: float) -> Self:
        """The same numbers, multiplied."""
        coefficient = snap(factor * self.coefficient)
        return replace(self, coefficient=coefficient, limit=factor * self.limit)
