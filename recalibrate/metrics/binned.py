"""Expected calibration error in equal-width bins, of all rows and of the worst group."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from recalibrate.metrics.levelsets import Functions, Rows, each, is_count, read_rows
from recalibrate.vectors import Float64


def ece(
    f: ArrayLike,
    y: ArrayLike,
    *,
    bins: int = 10,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Return the expected calibration error in equal-width bins of [0, 1].

    .. math:: \frac{1}{n} \sum_b \Big| \sum_{i \in b} (f_i - y_i) \Big|,
              \quad b_i = \lfloor f_i \cdot bins \rfloor

    Parameters
    ----------
    f, y, sample_weight
        As in `k1`. Predictions outside [0, 1] count in the first and last bin.
    bins : int, default 10
        Number of bins.

    Returns
    -------
    float

    Examples
    --------
    >>> ece([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1])
    0.25
    """
    rows = _read_equal_width(f, y, bins, sample_weight)
    return _ece_inside(rows, np.ones_like(rows.f))


def worst_group_ece(
    f: ArrayLike,
    y: ArrayLike,
    masks: Functions,
    *,
    bins: int = 10,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the largest `ece` of the groups, all rows being one of them.

    Parameters
    ----------
    f, y, bins, sample_weight
        As in `ece`.
    masks : array-like of bool or 0/1, shape (n,) or (n, G), or (label, mask) pairs
        The groups; those without rows are left out.

    Returns
    -------
    float

    Examples
    --------
    >>> worst_group_ece([0.5, 0.5, 0.5, 0.5], [1, 1, 0, 0], [[1, 0], [1, 0], [0, 1], [0, 1]])
    0.5
    """
    rows = _read_equal_width(f, y, bins, sample_weight)
    found = each(rows, masks, lambda inside: _ece_inside(rows, inside), name="mask", required=True)
    return float(np.nanmax(np.append(found, _ece_inside(rows, np.ones_like(rows.f)))))


def _ece_inside(rows: Rows, inside: Float64) -> float:
    total = float(rows.w @ inside)
    return float(np.abs(rows.moments(inside)).sum() / total) if total else float("nan")


def _read_equal_width(
    f: ArrayLike, y: ArrayLike, bins: int, sample_weight: ArrayLike | None
) -> Rows:
    if not is_count(bins):
        raise ValueError(f"bins must be an integer of at least 1, got {bins!r}")
    rows = read_rows(f, y, sample_weight, 1)
    level = np.clip(np.floor(rows.f * bins), 0, bins - 1).astype(np.intp)
    return Rows(rows.f, rows.y, rows.w, level)
