r"""Cumulative calibration error: no bins, a known distribution under calibration.

Residuals are added up in the order of predictions, S_k = sum of the first k of w (y - f), at
the ends of runs of equal predictions only. A calibrated model makes S a random walk around zero;
the range of the walk, largest minus smallest S with S_0 = 0 among them, is the error [1]_, also
known as Kuiper's statistic.

References
----------
.. [1] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert, C. Xu, "Metrics of calibration for
   probabilistic predictions", JMLR 2022.
.. [2] I. Guy, D. Haimovich, F. Linder, N. Okati, L. Perini, N. Tax, M. Tygert, "Measuring
   multi-calibration", 2025.
.. [3] W. Feller, "The asymptotic distribution of the range of sums of independent random
   variables", Annals of Mathematical Statistics, 1951.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from recalibrate.data.vectors import Float64
from recalibrate.metrics.levelsets import Rows, ratio, read_rows

SMALLEST_VARIANCE = 1e-9
"""Of a 0/1 label: a prediction of exactly 0 that turns out wrong is unlikely, not impossible."""

_SERIES = 12  # terms that matter on either side of the switch between the two series
_SWITCH = 2.0


@dataclass(frozen=True)
class Excursion:
    """The range of walks and what is needed to judge it; arrays with one entry per walk.

    Attributes
    ----------
    range : ndarray
        Largest minus smallest cumulated residual.
    variance : ndarray
        Of the whole walk's last value under calibration.
    part_variance, part_skew : ndarray
        Second and third cumulant of the part between the two extremes; the third one signed so
        that positive means a heavier tail in the direction that the part took.
    """

    range: Float64
    variance: Float64
    part_variance: Float64
    part_skew: Float64

    def sigma(self) -> Float64:
        """The range in standard deviations."""
        return ratio(self.range, np.sqrt(self.variance))

    def p_value(self) -> Float64:
        r"""Probability of such a range under calibration.

        That of the range of Brownian motion, after a correction for skewness: the part of the
        walk between the extremes has z standard deviations and skewness s, and a sum with that
        skewness reaches z as easily as a normal one reaches r, where (a Poisson variable being
        the model of a skewed sum, :math:`x = 1 + s z`)
        :math:`r^2 / 2 = (x \log x - x + 1) / s^2`. The range is scaled by r / z if that is below
        1. Without this a few rows with small predictions are called miscalibrated far too often.
        """
        deviation = np.sqrt(self.part_variance)
        z = ratio(self.range, deviation)
        s = ratio(self.part_skew, deviation**3)
        x = np.maximum(1.0 + s * z, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            deviance = (x * np.log(np.where(x > 0, x, 1.0)) - x + 1.0) / s**2
            equal = np.sqrt(2.0 * np.maximum(deviance, 0.0)) / z
        # A tiny skewness changes nothing, and the formula loses its digits there.
        factor = np.where((np.abs(s * z) > 1e-6) & (z > 0), np.minimum(equal, 1.0), 1.0)
        return range_survival(self.sigma() * factor)


def range_survival(x: ArrayLike) -> Float64:
    """Probability that the range of standard Brownian motion on [0, 1] exceeds x.

    Two series of Feller (1951) that converge fast on either side; the one for large x keeps its
    relative accuracy down to the smallest numbers.

    Examples
    --------
    >>> range_survival([0.0, 2.4977]).round(4)
    array([1.  , 0.05])
    """
    from scipy.special import ndtr

    given = np.asarray(x, dtype=np.float64)
    k = np.arange(1.0, _SERIES + 1.0)
    large = np.maximum(given, _SWITCH)[..., None]
    sign = np.where(k % 2 == 1, 1.0, -1.0)
    tail = 8.0 * (sign * k * ndtr(-k * large)).sum(axis=-1)
    small = np.clip(given, 0.1, _SWITCH)[..., None]
    odd = (2.0 * k - 1.0) ** 2
    below = (8.0 / small**2 + 8.0 / (np.pi**2 * odd)) * np.exp(-odd * np.pi**2 / (2.0 * small**2))
    return np.asarray(np.where(given > _SWITCH, tail, 1.0 - below.sum(axis=-1)))


def ecce(f: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    r"""Return the cumulative calibration error (ECCE, Kuiper).

    .. math:: \frac{\max_k S_k - \min_k S_k}{\sum_i w_i}, \quad S_k = \sum_{i \le k} w_i (y_i - f_i)

    It is at most `k1` and at least the absolute mean residual.

    Parameters
    ----------
    f, y, sample_weight
        As in `k1`.

    Returns
    -------
    float

    Examples
    --------
    >>> ecce([0.25, 0.25, 0.75, 0.75], [0, 0, 1, 1])
    0.125
    """
    rows = read_rows(f, y, sample_weight, 1)
    return float(_walk(rows).range / rows.total)


def ecce_sigma(f: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Return `ecce` divided by the standard deviation that the walk has under calibration.

    The variance of a label is f (1 - f) for 0/1 labels and the squared residual for others.

    Parameters
    ----------
    f, y, sample_weight
        As in `k1`.

    Returns
    -------
    float
        About 1.6 on average for a calibrated model, above 2.5 in one of twenty.

    Examples
    --------
    >>> round(ecce_sigma([0.2] * 100, [0] * 70 + [1] * 30), 6)
    2.5
    """
    return float(_walk(read_rows(f, y, sample_weight, 1)).sigma())


def ecce_p(f: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Return the p-value of `ecce`: how likely as large a one is for a calibrated model.

    Corrected for the skewness of 0/1 labels; conservative for few rows.

    Parameters
    ----------
    f, y, sample_weight
        As in `k1`.

    Returns
    -------
    float

    Examples
    --------
    >>> ecce_p([0.2] * 100, [0] * 70 + [1] * 30) < 0.1
    True
    >>> ecce_p([0.02] * 10, [0] * 9 + [1]) > 0.1
    True
    """
    return float(_walk(read_rows(f, y, sample_weight, 1)).p_value())


def _walk(rows: Rows) -> Excursion:
    order = np.argsort(rows.f, kind="stable")
    f, y, w = rows.f[order], rows.y[order], rows.w[order]
    ends = np.append(f[1:] != f[:-1], True)
    steps = w * (y - f)
    if np.isin(y, (0.0, 1.0)).all() and f[0] >= 0.0 and f[-1] <= 1.0:
        spread = w**2 * np.maximum(f * (1.0 - f), SMALLEST_VARIANCE)
        third = w * spread * (1.0 - 2.0 * f)
    else:
        spread, third = steps**2, np.zeros_like(steps)
    walk, variance, skew = (
        np.append(0.0, np.cumsum(values)[ends]) for values in (steps, spread, third)
    )
    top, low = int(walk.argmax()), int(walk.argmin())
    return Excursion(
        walk[top] - walk[low],
        variance[-1],
        np.abs(variance[top] - variance[low]),
        skew[top] - skew[low],
    )
