"""Statements about many groups at once: critical values and adjusted p-values."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from recalibrate.data.vectors import Float64

_WORK = 2.8e9  # multiplications of the simulation
_FEWEST, _MOST = 4_000, 20_000
_AT_ONCE = 1_000


def critical_value(correlation: Float64 | None, n_groups: int, alpha: float) -> float:
    """Size that the largest of the groups' normal scores exceeds with probability alpha.

    The scores are jointly normal with the given correlations, so their largest size is simulated
    (with fixed random numbers). This is the limit of the multiplier bootstrap over rows as the
    number of its repetitions grows, at the cost of groups squared instead of rows. Without
    correlations the scores count as independent, which is never too small (Sidak).

    Examples
    --------
    >>> import numpy as np
    >>> round(critical_value(None, 1, 0.05), 3)
    1.96
    >>> twins = np.ones((2, 2))
    >>> critical_value(twins, 2, 0.05) < critical_value(None, 2, 0.05) - 0.2
    True
    """
    from scipy.special import ndtri

    if correlation is None or n_groups == 1:
        return float(-ndtri(-np.expm1(np.log1p(-alpha) / n_groups) / 2.0))
    draws = int(np.clip(_WORK / n_groups**2, _FEWEST, _MOST))
    # Groups that are the same leave the matrix without a root; a little noise changes nothing.
    root = np.linalg.cholesky(correlation + 1e-9 * np.eye(n_groups)).T.astype(np.float32)
    random = default_rng(20230131)
    largest = [_largest(random, root, _AT_ONCE) for _ in range(0, draws, _AT_ONCE)]
    return float(np.quantile(np.concatenate(largest), 1.0 - alpha))


def _largest(random: Generator, root: NDArray[np.float32], draws: int) -> NDArray[np.float32]:
    scores = random.standard_normal((draws, len(root)), dtype=np.float32) @ root
    return np.asarray(np.abs(scores).max(axis=1))


def wider(critical: float | Float64, degrees: Float64) -> Float64:
    """Critical value for variances estimated with few degrees of freedom (Student's t).

    Examples
    --------
    >>> import numpy as np
    >>> wider(1.959964, np.array([4.0, np.inf])).round(3)
    array([2.776, 1.96 ])
    """
    from scipy.special import ndtr, stdtrit

    known = np.isinf(degrees)
    t = -stdtrit(np.where(known, 1.0, np.maximum(degrees, 1e-9)), ndtr(-critical))
    return np.where(known, critical, t)


def normal_score(t: Float64, degrees: Float64) -> Float64:
    """The inverse of `wider`: size of the normal score that is as surprising as a Student's t.

    Examples
    --------
    >>> import numpy as np
    >>> normal_score(np.array([2.776, 1.96]), np.array([4.0, np.inf])).round(2)
    array([1.96, 1.96])
    """
    from scipy.special import ndtri, stdtr

    degrees = np.broadcast_to(degrees, t.shape)
    found = np.array(t, dtype=np.float64)
    known = np.isinf(degrees)
    found[~known] = -ndtri(stdtr(np.maximum(degrees[~known], 1e-9), -t[~known]))
    return found


def two_sided(score: Float64) -> Float64:
    """P-value of a normal score."""
    from scipy.special import ndtr

    return np.asarray(2.0 * ndtr(-np.abs(score)))


def holm(p: Float64) -> Float64:
    """Adjust p-values for their number (Holm); NaN stays NaN and does not count.

    Examples
    --------
    >>> import numpy as np
    >>> holm(np.array([0.01, 0.04, np.nan, 0.03]))
    array([0.03, 0.06,  nan, 0.06])
    """
    out = np.full(len(p), np.nan)
    told = np.flatnonzero(~np.isnan(p))
    order = told[np.argsort(p[told], kind="stable")]
    scaled = p[order] * np.arange(len(order), 0, -1)
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out
