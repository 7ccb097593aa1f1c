"""Expected calibration error in equal-width bins, of all rows and of the worst group."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from recalibrate.data.vectors import Float64
from recalibrate.metrics.levelsets import Functions, Rows, each, is_count, ratio, read_rows


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


def ece_debiased(
    f: ArrayLike,
    y: ArrayLike,
    *,
    bins: int = 10,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Return `ece` with the bias of small samples removed.

    Noise makes every bin's mean residual d_b differ from zero, so that `ece` is positive for a
    perfect model. With the sign of one half of a bin's rows and the mean of the other half the
    noise cancels; averaged over all halves that is, for a standard error s_b and z = d_b / s_b,

    .. math:: \sum_b P(b) \, s_b \, (z (2 \Phi(z) - 1) - 2 \varphi(z))

    with mean zero under calibration and the same as `ece` where the errors exceed the noise; in
    between it is somewhat too low.

    Parameters
    ----------
    f, y, bins, sample_weight
        As in `ece`.

    Returns
    -------
    float
        Near perfect calibration it can be negative.

    Examples
    --------
    >>> round(ece_debiased([0.5] * 100, [0] * 45 + [1] * 55), 3)
    0.01
    >>> round(ece([0.5] * 100, [0] * 45 + [1] * 55), 3)
    0.05
    """
    rows = _read_equal_width(f, y, bins, sample_weight)
    moment, residual = rows.moments(np.ones_like(rows.f)), rows.y - rows.f
    if np.isin(rows.y, (0.0, 1.0)).all() and rows.f.min() >= 0.0 and rows.f.max() <= 1.0:
        noise = rows.sums(rows.w * rows.f * (1.0 - rows.f))
    else:
        squares = rows.sums(rows.w)
        centred = residual - rows.level_mean(residual)[rows.level]
        noise = mean_noise(
            rows.sums(rows.w * centred**2), rows.mass, squares, rows.sums(rows.w * residual**2)
        )
    return float(absolute_mean(moment, np.sqrt(noise)).sum() / rows.total)


def mean_noise(centred: Float64, mass: Float64, squares: Float64, plain: Float64) -> Float64:
    """Estimate the variance of a weighted sum of residuals.

    From sum w^2 (r - mean)^2, sum w, sum w^2 and sum w^2 r^2, with the effective number of rows
    m = (sum w)^2 / sum w^2; a single row's noise is its own residual.
    """
    effective = ratio(mass**2, squares)
    several = effective > 1.0 + 1e-9
    return np.where(several, ratio(centred * effective, effective - 1.0), plain)


def absolute_mean(sums: Float64, error: Float64) -> Float64:
    """Estimate absolute values of means from noisy ones, without bias where the mean is zero."""
    from scipy.special import ndtr

    z = ratio(np.abs(sums), error)
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return np.where(error > 0, error * (z * (2.0 * ndtr(z) - 1.0) - 2.0 * density), np.abs(sums))


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
