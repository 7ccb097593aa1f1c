"""Statements about many groups at once: critical values and adjusted p-values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from recalibrate.data.vectors import Float64

_WORK = 2.8e9  # multiplications of the simulation
_FEWEST, _MOST = 4_000, 20_000
_AT_ONCE = 1_000


_TAIL = 20
"""Of the largest simulated scores, so many are too few to say how the tail falls off."""


@dataclass(frozen=True, eq=False)
class LargestScore:
    """Distribution of the largest absolute score of all groups, if no group has a gap.

    Critical values and adjusted p-values are inverse functions of each other, so that a group's
    adjusted p-value is below alpha exactly where its simultaneous limits exclude zero.

    Attributes
    ----------
    n_groups : int
    scores, tail : ndarray
        Scores in ascending order, and the probability that the largest score reaches them; both
        empty if groups count as independent, which is never too small (Sidak).

    Examples
    --------
    >>> import numpy as np
    >>> law = LargestScore.independent(4)
    >>> round(float(law.p_value(np.array([law.critical(0.05)]))[0]), 9)
    0.05
    """

    n_groups: int
    scores: Float64
    tail: Float64

    @classmethod
    def independent(cls, n_groups: int) -> LargestScore:
        """Of independent normal scores."""
        return cls(n_groups, np.empty(0), np.empty(0))

    @classmethod
    def of_draws(cls, largest: Float64, n_groups: int) -> LargestScore:
        """Of simulated largest scores; the data set itself counts as one more draw."""
        scores, first = np.unique(np.sort(largest), return_index=True)
        tail = (len(largest) - first + 1.0) / (len(largest) + 1.0)
        known = max(int(np.count_nonzero(len(largest) - first >= _TAIL)), 1)
        # The largest score is never negative.
        return cls(n_groups, np.append(0.0, scores[:known]), np.append(1.0, tail[:known]))

    @classmethod
    def correlated(cls, correlation: Float64 | None, n_groups: int) -> LargestScore:
        """Of jointly normal scores with these correlations.

        Simulated with fixed random numbers: the limit of the multiplier bootstrap over rows as the
        number of its repetitions grows, at the cost of groups squared instead of rows.
        """
        if correlation is None or n_groups == 1:
            return cls.independent(n_groups)
        draws = int(np.clip(_WORK / n_groups**2, _FEWEST, _MOST))
        # Groups that are the same leave the matrix without a root; a little noise changes nothing.
        root = np.linalg.cholesky(correlation + 1e-9 * np.eye(n_groups)).T.astype(np.float32)
        random = default_rng(20230131)
        largest = [_largest(random, root, _AT_ONCE) for _ in range(0, draws, _AT_ONCE)]
        return cls.of_draws(np.concatenate(largest).astype(np.float64), n_groups)

    def critical(self, alpha: float) -> float:
        """Score that the largest one exceeds with probability alpha."""
        if len(self.tail) and alpha >= self.tail[-1]:
            return float(np.interp(-alpha, -self.tail, self.scores))
        return _sidak_score(alpha / self._beyond, self.n_groups)

    def p_value(self, score: Float64) -> Float64:
        """Probability that the largest score reaches the absolute values of these; NaN stays."""
        size = np.abs(score)
        beyond = np.minimum(self._beyond * _sidak_tail(size, self.n_groups), 1.0)
        if not len(self.tail):
            return beyond
        inside = np.interp(size, self.scores, self.tail)
        return np.where(size < self.scores[-1], inside, np.minimum(beyond, self.tail[-1]))

    @property
    def _beyond(self) -> float:
        """The tail beyond the simulated scores, as multiple of that of independent groups."""
        if not len(self.tail):
            return 1.0
        return float(self.tail[-1] / _sidak_tail(self.scores[-1:], self.n_groups)[0])


def _sidak_tail(score: Float64, n_groups: int) -> Float64:
    from scipy.special import ndtr

    tail = np.minimum(2.0 * ndtr(-score), 1.0 - 2.0**-53)  # a score of 0 is always reached
    return np.asarray(-np.expm1(n_groups * np.log1p(-tail)))


def _sidak_score(tail: float, n_groups: int) -> float:
    from scipy.special import ndtri

    return float(-ndtri(-np.expm1(np.log1p(-tail) / n_groups) / 2.0))


def critical_value(correlation: Float64 | None, n_groups: int, alpha: float) -> float:
    """Size that the largest of the groups' normal scores exceeds with probability alpha.

    Examples
    --------
    >>> import numpy as np
    >>> round(critical_value(None, 1, 0.05), 3)
    1.96
    >>> twins = np.ones((2, 2))
    >>> critical_value(twins, 2, 0.05) < critical_value(None, 2, 0.05) - 0.2
    True
    """
    return LargestScore.correlated(correlation, n_groups).critical(alpha)


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
