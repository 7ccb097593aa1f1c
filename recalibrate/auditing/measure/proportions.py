"""Limits of proportions, and of how two of them differ.

A proportion has the exact limits of Clopper and Pearson. With weights or clusters the number of
rows is replaced by the effective one, the number of equal rows that would vary as much [1]_.
Limits of the difference and of the ratio of two groups are put together from the limits of each
(MOVER, the method of variance estimates recovery [2]_), as if the groups were independent: where
they share rows, or clusters, that makes them wider.

References
----------
.. [1] E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected
   number of positive counts estimated from survey data", Survey Methodology 1998.
.. [2] A. Donner and G. Y. Zou, "Closed-form confidence intervals for functions of the normal mean
   and standard deviation", Statistical Methods in Medical Research 2012.
"""

from __future__ import annotations

import numpy as np

from recalibrate.auditing.measure.simultaneous import wider
from recalibrate.data.vectors import Float64
from recalibrate.metrics import ratio

Limits = tuple[Float64, Float64]


def effective_count(
    p: Float64, variance: Float64, equal: Float64, degrees: Float64 | None, critical: float
) -> Float64:
    """Number of equal rows whose proportion varies as much; ``equal`` where that is not known.

    Parameters
    ----------
    p, variance
        Estimates, and the variances of them.
    equal
        Numbers of rows of equal weight, or of clusters; there are never more.
    degrees
        Degrees of freedom of the variances, where these come from clusters.
    critical
        Normal score of the limits.
    """
    count = np.where(variance > 0.0, ratio(p * (1.0 - p), variance), equal)
    if degrees is not None:
        count = count * (critical / wider(critical, np.maximum(degrees, 1e-9))) ** 2
    return np.minimum(count, equal)


def proportion_limits(p: Float64, count: Float64, critical: float) -> Limits:
    """Limits of Clopper and Pearson; NaN where there are no rows.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = proportion_limits(np.array([0.0, 0.3]), np.array([10.0, 10.0]), 1.959964)
    >>> low.round(3), high.round(3)
    (array([0.   , 0.067]), array([0.308, 0.652]))
    """
    from scipy.special import betaincinv, ndtr

    tail = float(ndtr(-critical))
    told = count > 0.0
    n = np.where(told, count, 1.0)
    x = np.clip(np.where(told, p, 0.5) * n, 0.0, n)
    none, full = x <= 0.0, x >= n
    low = np.where(none, 0.0, betaincinv(np.where(none, 1.0, x), n - x + 1.0, tail))
    high = np.where(full, 1.0, betaincinv(x + 1.0, np.where(full, 1.0, n - x), 1.0 - tail))
    return np.where(told, low, np.nan), np.where(told, high, np.nan)


def difference_limits(a: Float64, own: Limits, b: Float64, other: Limits) -> Limits:
    """Limits of a - b from the limits of either.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.array([0.5]), np.array([0.25])
    >>> around = lambda p: (p - 0.03, p + 0.03)
    >>> [float(limit[0].round(3)) for limit in difference_limits(a, around(a), b, around(b))]
    [0.208, 0.292]
    """
    low = a - b - np.hypot(a - own[0], other[1] - b)
    high = a - b + np.hypot(own[1] - a, b - other[0])
    return low, high


def ratio_limits(a: Float64, own: Limits, b: Float64, other: Limits) -> Limits:
    """Limits of a / b from the limits of either; the upper one is infinite where b may be zero.

    They solve (a - r b)^2 = (a - own)^2 + r^2 (b - other)^2 for r.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.array([0.4]), np.array([0.5])
    >>> around = lambda p: (p - 0.05, p + 0.05)
    >>> [float(limit[0].round(3)) for limit in ratio_limits(a, around(a), b, around(b))]
    [0.679, 0.937]
    """
    told = (a >= 0.0) & (b > 0.0)
    a, b = np.where(told, a, 0.0), np.where(told, b, 1.0)

    def parts(mine: Float64, theirs: Float64) -> tuple[Float64, Float64, Float64]:
        square, constant = theirs * (2.0 * b - theirs), mine * (2.0 * a - mine)
        root = np.sqrt(np.maximum((a * b) ** 2 - square * constant, 0.0))
        return square, constant, a * b + root

    _, constant, both = parts(own[0], other[1])
    low = ratio(np.maximum(constant, 0.0), both)
    square, _, both = parts(own[1], other[0])
    high = np.where(square > 0.0, ratio(both, square), np.inf)
    return np.where(told, low, np.nan), np.where(told, high, np.nan)
