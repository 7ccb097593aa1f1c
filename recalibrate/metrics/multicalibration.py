"""Errors on level sets, after Globus-Harris et al. (2023): K1, K2, Kinf and relatives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recalibrate.data.vectors import Float64
from recalibrate.metrics.levelsets import Bins, Functions, each, ratio, read_rows


def k1(
    f: ArrayLike,
    y: ArrayLike,
    h: Functions | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    bins: Bins | None = None,
) -> float | Any:
    r"""Mean absolute (multi)calibration error.

    .. math:: K_1(f, h) = \sum_v P[f = v] \, | E[h(x) (y - f(x)) \mid f = v] |

    Parameters
    ----------
    f, y : array-like of shape (n,)
        Predictions and labels.
    h : array-like of shape (n,) or (n, G), or (label, mask) pairs, optional
        Function or functions of the features; None is the constant 1.
    sample_weight : array-like of shape (n,), optional
        Row weights.
    bins : int or array-like of edges, optional
        Level sets, see the module's conventions.

    Returns
    -------
    float, or ndarray of shape (G,)
        For h bounded by 1: K2 <= K1 <= sqrt(K2) and Kinf <= K1 <= (number of levels) Kinf [1]_.

    References
    ----------
    .. [1] Globus-Harris et al., "Multicalibration as Boosting for Regression", 2023.

    Examples
    --------
    >>> k1([0.5, 0.5, 0.8, 0.8], [1, 1, 1, 0])
    0.4
    """
    rows = read_rows(f, y, sample_weight, bins)
    return each(rows, h, lambda h: np.abs(rows.moments(h)).sum() / rows.total)


def k2(
    f: ArrayLike,
    y: ArrayLike,
    h: Functions | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    bins: Bins | None = None,
) -> float | Any:
    r"""Mean squared (multi)calibration error, the main notion of [1]_.

    .. math:: K_2(f, h) = \sum_v P[f = v] \, ( E[h(x) (y - f(x)) \mid f = v] )^2

    f is alpha-approximately multicalibrated for a class H bounded by h^2 <= B when K2(f, h) is at
    most alpha for every such h. With few rows per level set this estimate is too large even for a
    perfect f; see `k2_unbiased`.

    Parameters
    ----------
    f, y, h, sample_weight, bins
        As in `k1`.

    Returns
    -------
    float, or ndarray of shape (G,)

    References
    ----------
    .. [1] Globus-Harris et al., "Multicalibration as Boosting for Regression", 2023.

    Examples
    --------
    >>> k2([0.5, 0.5, 0.8, 0.8], [1, 1, 1, 0])
    0.17
    >>> group = [True, True, False, False]
    >>> k2([0.5, 0.5, 0.8, 0.8], [1, 1, 1, 0], group)
    0.125
    """
    rows = read_rows(f, y, sample_weight, bins)
    return each(rows, h, lambda h: (rows.moments(h) * rows.means(h)).sum() / rows.total)


def kinf(
    f: ArrayLike,
    y: ArrayLike,
    h: Functions | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    bins: Bins | None = None,
) -> float | Any:
    r"""Largest (multi)calibration error of a level set, weighted by its mass.

    .. math:: K_\infty(f, h) = \max_v P[f = v] \, | E[h(x) (y - f(x)) \mid f = v] |

    The absolute value is ours; [1]_ omits it.

    Parameters
    ----------
    f, y, h, sample_weight, bins
        As in `k1`.

    Returns
    -------
    float, or ndarray of shape (G,)

    References
    ----------
    .. [1] Globus-Harris et al., "Multicalibration as Boosting for Regression", 2023.

    Examples
    --------
    >>> kinf([0.5, 0.5, 0.8, 0.8], [1, 1, 1, 0])
    0.25
    """
    rows = read_rows(f, y, sample_weight, bins)
    return each(rows, h, lambda h: np.abs(rows.moments(h)).max() / rows.total)


def msce(
    f: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    bins: Bins | None = None,
) -> float:
    r"""Mean squared calibration error: calibration without groups, ``K2(f, 1)`` of [1]_.

    .. math:: MSCE(f) = \sum_v P[f = v] \, ( E[y - f(x) \mid f = v] )^2

    Parameters
    ----------
    f, y, sample_weight, bins
        As in `k1`.

    Returns
    -------
    float

    References
    ----------
    .. [1] Globus-Harris et al., "Multicalibration as Boosting for Regression", 2023.

    Examples
    --------
    >>> msce([0.25, 0.25, 0.75, 0.75], [0, 1, 0, 1])
    0.0625
    """
    return float(k2(f, y, sample_weight=sample_weight, bins=bins))


def covariance_form(
    f: ArrayLike,
    y: ArrayLike,
    h: Functions,
    *,
    sample_weight: ArrayLike | None = None,
    bins: Bins | None = None,
) -> float | Any:
    r"""Covariance form of the multicalibration error [2]_.

    .. math:: \sum_v P[f = v] \, | Cov(h(x), y \mid f = v) |

    For h^2 <= B it is at most K1(f, h) + sqrt(B * MSCE(f)), compare [1]_.

    Parameters
    ----------
    f, y, h, sample_weight, bins
        As in `k1`, except that h must be given: a constant has no covariance.

    Returns
    -------
    float, or ndarray of shape (G,)

    References
    ----------
    .. [1] Globus-Harris et al., "Multicalibration as Boosting for Regression", 2023.
    .. [2] Gopalan et al., "Omnipredictors", 2022.

    Examples
    --------
    >>> covariance_form([0.5, 0.5, 0.5, 0.5], [1, 1, 0, 0], [1, 1, 0, 0])
    0.25
    """
    rows = read_rows(f, y, sample_weight, bins)
    centred = rows.y - rows.level_mean(rows.y)[rows.level]

    def measure(h: Float64) -> float:
        spread = rows.sums((h - rows.level_mean(h)[rows.level]) * centred)
        return float(np.abs(spread).sum() / rows.total)

    return each(rows, h, measure, required=True)


def k2_unbiased(
    f: ArrayLike,
    y: ArrayLike,
    h: Functions | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    bins: Bins | None = None,
) -> float | Any:
    r"""`k2` with its small-sample bias removed.

    .. math:: \sum_b P(b) \, ( m_b^2 - s_b^2 / n_b )

    with m_b and s_b^2 the mean and the (unbiased) variance of h(x) (y - f(x)) in bin b. Near
    perfect calibration the result can be negative. With weights, n_b is the effective number of
    rows (sum w)^2 / sum w^2, so here alone a row of weight 2 is not the row twice: repeating a
    row adds no information about noise. Bins with one row, whose noise cannot be told, add
    nothing.

    Parameters
    ----------
    f, y, h, sample_weight, bins
        As in `k1`.

    Returns
    -------
    float, or ndarray of shape (G,)

    Examples
    --------
    >>> k2([0.5, 0.5, 0.5, 0.5], [0, 1, 1, 1])
    0.0625
    >>> k2_unbiased([0.5, 0.5, 0.5, 0.5], [0, 1, 1, 1])
    0.0
    """
    rows = read_rows(f, y, sample_weight, bins)
    degrees = np.maximum(ratio(rows.mass**2, rows.sums(rows.w)) - 1.0, 0.0)

    def measure(h: Float64) -> float:
        residual, mean = h * (rows.y - rows.f), rows.means(h)
        spread = rows.level_mean((residual - mean[rows.level]) ** 2)
        unbiased = np.where(degrees > 0, mean**2 - ratio(spread, degrees), 0.0)
        return float((rows.mass * unbiased).sum() / rows.total)

    return each(rows, h, measure)


def group_k2(
    f: ArrayLike,
    y: ArrayLike,
    mask: Functions,
    *,
    sample_weight: ArrayLike | None = None,
    bins: Bins | None = None,
) -> float | Any:
    r"""Mean squared calibration error within a group g, whatever the group's share.

    .. math:: \sum_v P[f = v \mid g] \, ( E[y - f(x) \mid f = v, g] )^2

    Level sets (and quantile bins) are those of f on all rows, so that groups can be compared.

    Parameters
    ----------
    f, y, sample_weight, bins
        As in `k1`.
    mask : array-like of bool or 0/1, shape (n,) or (n, G), or (label, mask) pairs
        The group or groups.

    Returns
    -------
    float, or ndarray of shape (G,)
        NaN for a group without rows (of positive weight).

    Examples
    --------
    >>> group_k2([0.5, 0.5, 0.8, 0.8], [1, 1, 1, 0], [True, True, False, False])
    0.25
    """
    rows = read_rows(f, y, sample_weight, bins)

    def measure(inside: Float64) -> float:
        mass, moments = rows.sums(inside), rows.moments(inside)
        total = mass.sum()
        return float((moments * ratio(moments, mass)).sum() / total) if total else float("nan")

    return each(rows, mask, measure, name="mask", required=True)
