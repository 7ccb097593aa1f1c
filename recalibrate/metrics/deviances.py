r"""Mean deviances of predicted means, and what they consist of.

A deviance is a loss that the true mean minimises: squared error, log loss, and for positive means
the deviances of variances that grow with a power p of the mean (p = 1: Poisson, 2: gamma, between
them Tweedie). Replacing every prediction by the mean outcome of the rows with such predictions, by
isotonic regression of y on f, takes it apart [1]_:

.. math:: S(f) = \underbrace{S(f) - S(\hat f)}_{\text{miscalibration}}
   - \underbrace{(S(\bar y) - S(\hat f))}_{\text{discrimination}}
   + \underbrace{S(\bar y)}_{\text{uncertainty}}

with :math:`\hat f` the isotonic regression and :math:`\bar y` the mean outcome.

References
----------
.. [1] T. Dimitriadis, T. Gneiting, A. I. Jordan, "Stable reliability diagrams for probabilistic
   classifiers", PNAS 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from recalibrate.data.vectors import Float64
from recalibrate.metrics.levelsets import read_rows

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
    rows, chosen = read_rows(f, y, sample_weight, bins=1), read_loss(loss)
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
