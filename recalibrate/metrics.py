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

from recalibrate.data.columns import quantile_edges
from recalibrate.data.labels import Float64, finite_vector, read_weight_vector, to_array

__all__ = [
    "Decomposition",
    "covariance_form",
    "decompose",
    "deviance",
    "ecce",
    "ecce_p",
    "ecce_sigma",
    "ece",
    "ece_debiased",
    "group_k2",
    "k1",
    "k2",
    "k2_unbiased",
    "kinf",
    "msce",
    "worst_group_ece",
]


# --- Rows of a measure, checked once, and sums over their level sets ----------------------------


Functions = ArrayLike | Iterable[tuple[str, ArrayLike]]
Bins = int | ArrayLike


@dataclass(frozen=True)
class Rows:
    """Checked rows: predictions, labels, weights and the number of each row's level set."""

    f: Float64
    y: Float64
    w: Float64
    level: NDArray[np.intp]

    def sums(self, values: Float64) -> Float64:
        """Weighted sum of values on every level set."""
        return np.asarray(np.bincount(self.level, weights=self.w * values), dtype=np.float64)

    @cached_property
    def mass(self) -> Float64:
        return self.sums(np.ones_like(self.w))

    @cached_property
    def total(self) -> float:
        return float(self.w.sum())

    def level_mean(self, values: Float64) -> Float64:
        """Weighted mean of values on every level set; 0 where there is no weight."""
        return ratio(self.sums(values), self.mass)

    def moments(self, h: Float64) -> Float64:
        """Weighted sum of h (y - f) on every level set."""
        return self.sums(h * (self.y - self.f))

    def means(self, h: Float64) -> Float64:
        """Weighted mean of h (y - f) on every level set."""
        return ratio(self.moments(h), self.mass)


def ratio(a: Float64, b: Float64) -> Float64:
    """Return a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _read_rows(
    f: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, bins: Bins | None
) -> Rows:
    """Check the rows and find their level sets; see `recalibrate.metrics` for the conventions."""
    scores = finite_vector(f, "f")
    labels = finite_vector(y, "y", len(scores))
    if sample_weight is None:
        weight = np.ones_like(scores)
    else:
        weight = read_weight_vector(sample_weight, len(scores))
        # A power of two keeps every bit; near 1 the squares neither vanish nor overflow.
        weight = np.ldexp(weight, -np.frexp(weight.max())[1])
    if bins is None:
        level = np.unique(scores, return_inverse=True)[1]
    else:
        edges = _edges(bins, scores, None if sample_weight is None else weight)
        level = np.searchsorted(edges, scores, side="right")
    return Rows(scores, labels, weight, level)


def _is_count(bins: object) -> TypeGuard[int]:
    """Whether bins is a number of bins."""
    return isinstance(bins, int | np.integer) and not isinstance(bins, bool) and bool(bins >= 1)


def _edges(bins: Bins, f: Float64, weight: Float64 | None) -> Float64:
    if _is_count(bins):
        return np.asarray(quantile_edges(f, int(bins), weight), dtype=np.float64)
    edges = np.asarray(bins)
    if edges.ndim != 1 or edges.dtype.kind not in "iuf":
        raise ValueError(f"bins must be None, an integer of at least 1 or edges, got {bins!r}")
    if not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise ValueError(f"edges of bins must be finite and strictly ascending, got {bins!r}")
    return edges.astype(np.float64)


def each(
    rows: Rows,
    h: Functions | None,
    measure: Callable[[Float64], float],
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
    block = to_array(h, name)
    if block.ndim == 2:
        return np.array([measure(_checked(name, column, n_rows, name)) for column in block.T])
    return float(measure(_checked(name, block, n_rows, name)))


def _is_pairs(h: object) -> TypeGuard[Iterable[tuple[str, ArrayLike]]]:
    if isinstance(h, Iterator):
        return True
    first = h[0] if isinstance(h, list | tuple) and h else None
    return isinstance(first, tuple) and len(first) == 2 and isinstance(first[0], str)


def _checked(label: str, values: ArrayLike, n_rows: int, kind: str) -> Float64:
    vector = finite_vector(values, label, n_rows)
    if kind == "mask" and not np.isin(vector, (0.0, 1.0)).all():
        raise ValueError(f"{label} must be boolean or 0/1; it has other values")
    return vector


# --- Expected calibration error in equal-width bins, of all rows and of the worst group ---------


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
    if not _is_count(bins):
        raise ValueError(f"bins must be an integer of at least 1, got {bins!r}")
    rows = _read_rows(f, y, sample_weight, 1)
    level = np.clip(np.floor(rows.f * bins), 0, bins - 1).astype(np.intp)
    return Rows(rows.f, rows.y, rows.w, level)


# --- Cumulative calibration error: no bins, a known distribution under calibration --------------
#
# Residuals are added up in the order of predictions, S_k = sum of the first k of w (y - f), at
# the ends of runs of equal predictions only. A calibrated model makes S a random walk around zero;
# the range of the walk, largest minus smallest S with S_0 = 0 among them, is the error [1]_, also
# known as Kuiper's statistic.
#
# References
# ----------
# .. [1] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert, C. Xu, "Metrics of calibration for
#    probabilistic predictions", JMLR 2022.
# .. [2] I. Guy, D. Haimovich, F. Linder, N. Okati, L. Perini, N. Tax, M. Tygert, "Measuring
#    multi-calibration", 2025.
# .. [3] W. Feller, "The asymptotic distribution of the range of sums of independent random
#    variables", Annals of Mathematical Statistics, 1951.


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
    rows = _read_rows(f, y, sample_weight, 1)
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
    return float(_walk(_read_rows(f, y, sample_weight, 1)).sigma())


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
    return float(_walk(_read_rows(f, y, sample_weight, 1)).p_value())


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


# --- Mean deviances of predicted means, and what they consist of --------------------------------
#
# A deviance is a loss that the true mean minimises: squared error, log loss, and for positive
# means the deviances of variances that grow with a power p of the mean (p = 1: Poisson, 2:
# gamma, between them Tweedie). Replacing every prediction by the mean outcome of the rows with
# such predictions, by isotonic regression of y on f, takes it apart [1]_:
#
# .. math:: S(f) = \underbrace{S(f) - S(\hat f)}_{\text{miscalibration}}
#    - \underbrace{(S(\bar y) - S(\hat f))}_{\text{discrimination}}
#    + \underbrace{S(\bar y)}_{\text{uncertainty}}
#
# with :math:`\hat f` the isotonic regression and :math:`\bar y` the mean outcome.
#
# References
# ----------
# .. [1] T. Dimitriadis, T. Gneiting, A. I. Jordan, "Stable reliability diagrams for probabilistic
#    classifiers", PNAS 2021.


_NAMES = {"squared": 0.0, "poisson": 1.0, "gamma": 2.0, "tweedie": 1.5}
_TITLES = {0.0: "squared error", 1.0: "Poisson deviance", 2.0: "gamma deviance"}
LOG_LOSS = "log_loss"
MOST_POOLED = 1 << 14
"""Predictions that are pooled in Python, in milliseconds."""


@dataclass(frozen=True)
class Loss:
    """A deviance: of a variance that grows with a power of the mean, or log loss (power None)."""

    power: float | None

    @property
    def title(self) -> str:
        """The loss in words."""
        if self.power is None:
            return "log loss"
        return _TITLES.get(self.power, f"Tweedie deviance of power {self.power:g}")

    @property
    def name(self) -> str | float:
        """What `read_loss` finds it by."""
        return LOG_LOSS if self.power is None else self.power

    def rows(self, f: Float64, y: Float64) -> Float64:
        """The loss of every row; log loss takes predictions of 0 and 1 as the nearest others."""
        from scipy.special import xlogy

        p = self.power
        if p is None:
            tiny = np.finfo(np.float64).eps
            inside = np.clip(f, tiny, 1.0 - tiny)
            return np.asarray(-(y * np.log(inside) + (1.0 - y) * np.log1p(-inside)))
        if p == 0.0:
            return np.asarray((y - f) ** 2)
        tiny = np.finfo(np.float64).tiny
        f = np.maximum(f, tiny)  # an isotonic regression is 0 where all outcomes are
        if p == 1.0:
            return np.asarray(2.0 * (xlogy(y, y / f) - y + f))
        if p == 2.0:
            return np.asarray(2.0 * (np.log(f / np.maximum(y, tiny)) + y / f - 1.0))
        parts = y ** (2.0 - p) / (1.0 - p) - (2.0 - p) / (1.0 - p) * y * f ** (1.0 - p)
        return np.asarray(2.0 * (parts + f ** (2.0 - p)) / (2.0 - p))

    def check(self, f: Float64, y: Float64) -> None:
        """Refuse predictions and outcomes that the loss has no value for."""
        if self.power == 0.0:
            return
        if self.power is None:
            _refuse(self, "predictions and outcomes in [0, 1]", (f < 0) | (f > 1), f)
            _refuse(self, "predictions and outcomes in [0, 1]", (y < 0) | (y > 1), y)
            return
        _refuse(self, "predictions above 0", f <= 0.0, f)
        if self.power == 2.0:
            _refuse(self, "outcomes above 0", y <= 0.0, y)
        _refuse(self, "outcomes of at least 0", y < 0.0, y)


def _refuse(loss: Loss, needed: str, wrong: np.ndarray, values: Float64) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"The {loss.title} needs {needed}, but {int(wrong.sum())} rows have others; the first "
            f"is {values[row]:g} in row {row} (from 0). Choose another loss, or leave them out."
        )


def read_loss(loss: str | float) -> Loss:
    """A loss by its name or power.

    Examples
    --------
    >>> read_loss("poisson").title, read_loss("tweedie-1.7").title
    ('Poisson deviance', 'Tweedie deviance of power 1.7')
    """
    if isinstance(loss, str):
        kind, _, own = loss.partition("-")
        if loss == LOG_LOSS:
            return Loss(None)
        if loss in _NAMES:
            return Loss(_NAMES[loss])
        if kind == "tweedie" and own.replace(".", "", 1).isdigit():
            return read_loss(float(own))
    elif not isinstance(loss, bool) and (loss in (0, 1, 2) or 1.0 < loss < 2.0):
        return Loss(float(loss))
    raise ValueError(
        'loss must be "squared", "log_loss", "poisson", "gamma", "tweedie" (of power 1.5), '
        f'"tweedie-1.7" and so on, or a power of 0 or from 1 to 2; got {loss!r}'
    )


@dataclass(frozen=True)
class Decomposition:
    """A mean deviance, and what it consists of: miscalibration - discrimination + uncertainty.

    Attributes
    ----------
    loss : str
        The deviance, in words; squared error has the unit of squared labels, Poisson deviance
        that of the labels.
    score : float
        Its mean.
    miscalibration : float
        What isotonic recalibration would gain.
    discrimination : float
        How much better recalibrated predictions are than the mean outcome for everybody.
    uncertainty : float
        The score of the mean outcome for everybody.
    """

    loss: str
    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def deviance(
    f: ArrayLike,
    y: ArrayLike,
    *,
    loss: str | float = "squared",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the mean deviance of predicted means.

    Parameters
    ----------
    f, y, sample_weight
        As in `k1`. For counts with an exposure: rates, with the exposure as weights.
    loss : {"squared", "log_loss", "poisson", "gamma", "tweedie", "tweedie-1.7", ...} or float
        The loss, or the power of the mean that the variance grows with.

    Returns
    -------
    float

    Examples
    --------
    >>> deviance([1.0, 2.0, 3.0], [0, 2, 4], loss="poisson")
    0.767152...
    """
    chosen, f, y, w = _read(f, y, loss, sample_weight)
    return float(np.average(chosen.rows(f, y), weights=w))


def decompose(
    f: ArrayLike,
    y: ArrayLike,
    *,
    loss: str | float = "squared",
    sample_weight: ArrayLike | None = None,
) -> Decomposition:
    """Take a mean deviance apart: miscalibration, discrimination and uncertainty.

    Parameters
    ----------
    f, y, loss, sample_weight
        As in `deviance`.

    Returns
    -------
    Decomposition

    Examples
    --------
    >>> parts = decompose([0.2, 0.2, 0.8, 0.8], [0, 0, 0, 1])
    >>> round(parts.score, 3), round(parts.miscalibration, 3)
    (0.19, 0.065)
    >>> round(parts.uncertainty, 4), round(parts.discrimination, 4)
    (0.1875, 0.0625)
    """
    chosen, f, y, w = _read(f, y, loss, sample_weight)
    order = np.argsort(f, kind="stable")
    (found,) = decompose_sorted(f[order], y[order], w[order], (chosen,))
    return found


def _read(
    f: ArrayLike, y: ArrayLike, loss: str | float, sample_weight: ArrayLike | None
) -> tuple[Loss, Float64, Float64, Float64]:
    """Check the arguments; rows without weight do not count."""
    rows, chosen = _read_rows(f, y, sample_weight, bins=1), read_loss(loss)
    counts = rows.w > 0.0
    values = rows.f[counts], rows.y[counts]
    chosen.check(*values)
    return chosen, *values, rows.w[counts]


def decompose_sorted(
    f: Float64, y: Float64, w: Float64, losses: tuple[Loss, ...]
) -> tuple[Decomposition, ...]:
    """The same of rows in ascending order of prediction, for several losses."""
    first = np.flatnonzero(np.append(True, f[1:] != f[:-1]))
    mass, outcomes = np.add.reduceat(w, first), np.add.reduceat(w * y, first)
    level = isotonic_means(outcomes / mass, mass)
    everybody, total = np.atleast_1d(outcomes.sum() / mass.sum()), float(mass.sum())
    recalibrated = np.repeat(level, np.diff(np.append(first, len(f))))
    found = []
    for loss in losses:
        score = float(w @ loss.rows(f, y)) / total
        if loss.power is None:  # linear in y: sums of equal predictions are enough
            shares = outcomes / mass
            best, plain = (float(mass @ loss.rows(p, shares)) / total for p in (level, everybody))
        else:
            best, plain = (float(w @ loss.rows(p, y)) / total for p in (recalibrated, everybody))
        parts = (score - best, plain - best)  # neither is negative, but for rounding
        noise = 1e-12 * (abs(score) + abs(plain))
        lost, gained = (part if part > noise else 0.0 for part in parts)
        found.append(Decomposition(loss.title, score, lost, gained, plain))
    return tuple(found)


def isotonic_means(means: Float64, mass: Float64) -> Float64:
    """Ascending means by pooling adjacent violators, of groups of rows with positive mass.

    As scipy's function, to the last bit: it is used for many groups only, because the package that
    it is in takes longer to import than the rest of a small audit to run.
    """
    if len(means) > MOST_POOLED:
        from scipy.optimize import isotonic_regression  # sklearn's takes a second to import

        return np.asarray(isotonic_regression(means, weights=mass).x)
    x, w = means.tolist(), mass.tolist()
    pools: list[tuple[float, float, int]] = []  # mean, mass and number of groups of each
    at = 0
    while at < len(x):
        level, weight, first = x[at], w[at], at
        at += 1
        if pools and pools[-1][0] >= level:
            before, own, count = pools.pop()
            total = own * before + weight * level
            weight += own
            level, first = total / weight, first - count
            while at < len(x) and level >= x[at]:
                total += w[at] * x[at]
                weight += w[at]
                level, at = total / weight, at + 1
            while pools and pools[-1][0] >= level:
                before, own, count = pools.pop()
                total += own * before
                weight += own
                level, first = total / weight, first - count
        pools.append((level, weight, at - first))
    return np.repeat([level for level, _, _ in pools], [count for _, _, count in pools])


# --- Errors on level sets, after Globus-Harris et al. (2023): K1, K2, Kinf and relatives --------


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
    rows = _read_rows(f, y, sample_weight, bins)
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
    rows = _read_rows(f, y, sample_weight, bins)
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
    rows = _read_rows(f, y, sample_weight, bins)
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
    rows = _read_rows(f, y, sample_weight, bins)
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
    rows = _read_rows(f, y, sample_weight, bins)
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
    rows = _read_rows(f, y, sample_weight, bins)

    def measure(inside: Float64) -> float:
        mass, moments = rows.sums(inside), rows.moments(inside)
        total = mass.sum()
        return float((moments * ratio(moments, mass)).sum() / total) if total else float("nan")

    return each(rows, mask, measure, name="mask", required=True)
