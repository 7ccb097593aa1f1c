r"""Calibration and multicalibration errors of predictions.

For predictions f with level sets {f = v} and a function h of the features (a group's indicator,
say), the errors of [1]_ weigh the mean residual times h on every level set,

.. math:: m_v = E[h(x) (y - f(x)) \mid f = v],

by the level set's mass: ``K1`` is the sum of P(v) abs(m_v), ``K2`` the sum of P(v) m_v^2 and
``Kinf`` the largest P(v) abs(m_v). Predictions that are not rounded have a level set per row,
which says nothing: give ``bins``, and level sets are bins of f.

These errors are weighted by mass, so a small group can be far off and still have a small K2; the
error within a group is `group_k2`.

Conventions: ``f`` and ``y`` have shape (n,). Where ``h`` is allowed, it may be None (h = 1), a
vector, an array of shape (n, G), or the (label, mask) pairs of ``GroupSet.masks``; the last two
give an array with one value per column or group. ``bins`` is None (level sets are the distinct
values of f), an integer (weighted quantile bins of f in which ties stay together) or ascending
edges (the bin is the number of edges at or below f). A row of weight 2 counts as the row twice.

References
----------
.. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
   "Multicalibration as Boosting for Regression", ICML 2023.
.. [2] P. Gopalan, A. T. Kalai, O. Reingold, V. Sharan, U. Wieder, "Omnipredictors", ITCS 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recalibrate.groupset import quantile_edges, read_weight

__all__ = [
    "covariance_form",
    "ece",
    "group_k2",
    "k1",
    "k2",
    "k2_unbiased",
    "kinf",
    "msce",
    "worst_group_ece",
]

Vector = NDArray[np.float64]
Functions = ArrayLike | Iterable[tuple[str, ArrayLike]]
Bins = int | ArrayLike


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
    rows = _read(f, y, sample_weight, bins)
    return _each(rows, h, lambda h: np.abs(rows.moments(h)).sum() / rows.total)


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
    rows = _read(f, y, sample_weight, bins)
    return _each(rows, h, lambda h: (rows.moments(h) * rows.means(h)).sum() / rows.total)


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
    rows = _read(f, y, sample_weight, bins)
    return _each(rows, h, lambda h: np.abs(rows.moments(h)).max() / rows.total)


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
    rows = _read(f, y, sample_weight, bins)
    centred = rows.y - rows.level_mean(rows.y)[rows.level]

    def measure(h: Vector) -> float:
        spread = rows.sums((h - rows.level_mean(h)[rows.level]) * centred)
        return float(np.abs(spread).sum() / rows.total)

    return _each(rows, h, measure, required=True)


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
    rows = _read(f, y, sample_weight, bins)
    degrees = np.maximum(_ratio(rows.mass**2, rows.sums(rows.w)) - 1.0, 0.0)

    def measure(h: Vector) -> float:
        residual, mean = h * (rows.y - rows.f), rows.means(h)
        spread = rows.level_mean((residual - mean[rows.level]) ** 2)
        unbiased = np.where(degrees > 0, mean**2 - _ratio(spread, degrees), 0.0)
        return float((rows.mass * unbiased).sum() / rows.total)

    return _each(rows, h, measure)


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
    rows = _read(f, y, sample_weight, bins)

    def measure(inside: Vector) -> float:
        mass, moments = rows.sums(inside), rows.moments(inside)
        total = mass.sum()
        return float((moments * _ratio(moments, mass)).sum() / total) if total else float("nan")

    return _each(rows, mask, measure, name="mask", required=True)


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
    found = _each(rows, masks, lambda inside: _ece_inside(rows, inside), name="mask", required=True)
    return float(np.nanmax(np.append(found, _ece_inside(rows, np.ones_like(rows.f)))))


def _ece_inside(rows: _Rows, inside: Vector) -> float:
    total = float(rows.w @ inside)
    return float(np.abs(rows.moments(inside)).sum() / total) if total else float("nan")


# --------------------------------------------------------------------------------------------
# Rows, validated at the door


@dataclass(frozen=True)
class _Rows:
    """Checked rows: predictions, labels, weights and the number of each row's level set."""

    f: Vector
    y: Vector
    w: Vector
    level: NDArray[np.intp]

    def sums(self, values: Vector) -> Vector:
        """Weighted sum of values on every level set."""
        return np.asarray(np.bincount(self.level, weights=self.w * values), dtype=np.float64)

    @cached_property
    def mass(self) -> Vector:
        return self.sums(np.ones_like(self.w))

    @cached_property
    def total(self) -> float:
        return float(self.w.sum())

    def level_mean(self, values: Vector) -> Vector:
        """Weighted mean of values on every level set; 0 where there is no weight."""
        return _ratio(self.sums(values), self.mass)

    def moments(self, h: Vector) -> Vector:
        """Weighted sum of h (y - f) on every level set."""
        return self.sums(h * (self.y - self.f))

    def means(self, h: Vector) -> Vector:
        """Weighted mean of h (y - f) on every level set."""
        return _ratio(self.moments(h), self.mass)


def _ratio(a: Vector, b: Vector) -> Vector:
    """Return a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _vector(name: str, values: ArrayLike, n_rows: int | None = None) -> Vector:
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from error
    if vector.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got {vector.shape}")
    if not len(vector):
        raise ValueError(f"{name} is empty; at least one row is needed")
    if n_rows is not None and len(vector) != n_rows:
        raise ValueError(f"{name} has {len(vector)} rows, but f has {n_rows}")
    bad = np.flatnonzero(~np.isfinite(vector))
    if len(bad):
        raise ValueError(
            f"{name} must be finite; {len(bad)} values are not, the first is {vector[bad[0]]} "
            f"in row {bad[0]}"
        )
    return vector


def _read(f: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, bins: Bins | None) -> _Rows:
    scores = _vector("f", f)
    labels = _vector("y", y, len(scores))
    if sample_weight is None:
        weight = np.ones_like(scores)
    else:
        weight = read_weight(sample_weight, len(scores))
        # A power of two keeps every bit; near 1 the squares neither vanish nor overflow.
        weight = np.ldexp(weight, -np.frexp(weight.max())[1])
    if bins is None:
        level = np.unique(scores, return_inverse=True)[1]
    else:
        edges = _edges(bins, scores, None if sample_weight is None else weight)
        level = np.searchsorted(edges, scores, side="right")
    return _Rows(scores, labels, weight, level)


def _read_equal_width(
    f: ArrayLike, y: ArrayLike, bins: int, sample_weight: ArrayLike | None
) -> _Rows:
    if not _is_count(bins):
        raise ValueError(f"bins must be an integer of at least 1, got {bins!r}")
    rows = _read(f, y, sample_weight, 1)
    level = np.clip(np.floor(rows.f * bins), 0, bins - 1).astype(np.intp)
    return _Rows(rows.f, rows.y, rows.w, level)


def _is_count(bins: object) -> TypeGuard[int]:
    return isinstance(bins, int | np.integer) and not isinstance(bins, bool) and bool(bins >= 1)


def _edges(bins: Bins, f: Vector, weight: Vector | None) -> Vector:
    if _is_count(bins):
        return np.asarray(quantile_edges(f, int(bins), weight), dtype=np.float64)
    edges = np.asarray(bins)
    if edges.ndim != 1 or edges.dtype.kind not in "iuf":
        raise ValueError(f"bins must be None, an integer of at least 1 or edges, got {bins!r}")
    if not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise ValueError(f"edges of bins must be finite and strictly ascending, got {bins!r}")
    return edges.astype(np.float64)


def _each(
    rows: _Rows,
    h: Functions | None,
    measure: Callable[[Vector], float],
    *,
    name: str = "h",
    required: bool = False,
) -> float | Any:
    """Measure h, or each of its columns: one at a time, so that many masks never coexist."""
    n_rows = len(rows.f)
    if h is None:
        if required:
            raise ValueError(
                f"{name} is None; give a vector, an array (n, G) or (label, mask) pairs"
            )
        return float(measure(np.ones(n_rows)))
    if _is_pairs(h):
        labelled = ((f"{name} of {label!r}", values) for label, values in h)
        return np.array([measure(_checked(own, v, n_rows, name)) for own, v in labelled])
    block = np.asarray(h)
    if block.ndim == 2:
        return np.array([measure(_checked(name, column, n_rows, name)) for column in block.T])
    return float(measure(_checked(name, block, n_rows, name)))


def _is_pairs(h: object) -> TypeGuard[Iterable[tuple[str, ArrayLike]]]:
    if isinstance(h, Iterator):
        return True
    first = h[0] if isinstance(h, list | tuple) and h else None
    return isinstance(first, tuple) and len(first) == 2 and isinstance(first[0], str)


def _checked(label: str, values: ArrayLike, n_rows: int, kind: str) -> Vector:
    vector = _vector(label, values, n_rows)
    if kind == "mask" and not np.isin(vector, (0.0, 1.0)).all():
        raise ValueError(f"{label} must be boolean or 0/1; it has other values")
    return vector
