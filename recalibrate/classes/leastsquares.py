"""Solving per-level sums of products; shared by Linear and Groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.learning import Task
from recalibrate.kernels.gram import solve_level

COLLINEAR = 1e-9
"""A column explained by others up to this share of its square adds nothing but noise."""

LARGEST_SYSTEM = 1 << 28
"""Numbers in all level sets' systems together (2 GiB)."""


def check_systems(task: Task, count: int, what: str, fewer: str) -> None:
    """Refuse systems of so many unknowns that do not fit into memory; ``what`` they are."""
    size = task.levels * count * count
    if size > LARGEST_SYSTEM:
        raise ValueError(
            f"{what} on {task.levels} level sets need {size * 8 / 2**30:.1f} GiB; use fewer level "
            f"sets, or fewer {fewer}"
        )


def solve_levels(
    task: Task,
    rows: NDArray[np.int64],
    gram: NDArray[np.float64],
    cross: NDArray[np.float64],
    ridge: NDArray[np.float64],
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Coefficients of all level sets, and which level sets were solved.

    Parameters
    ----------
    rows
        Rows of every level set.
    gram, cross
        Sums of s x x' (lower triangle) and g x, in real units; the first column is constant.
    ridge
        Added to the diagonal.
    """
    present = (rows >= task.penalty.min_level_rows) & (gram[:, 0, 0] > 0)
    coefficient = np.zeros(cross.shape)
    diagonal = np.arange(gram.shape[1])
    gram[:, diagonal, diagonal] += ridge
    for v in np.flatnonzero(present):
        solve_level(gram[v], cross[v], COLLINEAR, coefficient[v])
    if not task.draft.replace:
        coefficient *= task.step
    return present, coefficient
