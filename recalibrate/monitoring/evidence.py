r"""Evidence against "the mean gap is at most m", and limits of a gap, at any time.

With z = w (y - p) in [-1, 1] for a row of weight w in [0, 1], a stake lambda > 0 and the row's
conditional mean gap m_i given the past, the wealth of a gambler who bets on a positive gap,

    prod_i (1 + lambda z_i) / (1 + lambda w_i m_i),

is a martingale as long as no factor is negative. By Ville's inequality it ever exceeds 1 / alpha
with probability at most alpha, whenever and however often one looks. The logarithm is concave,
so n rows of total weight W and mean gap m (also one that changes over time) pay at most

    sum_i log(1 + lambda w_i m_i) <= n log(1 + lambda m W / n).

**Stakes.** A residual is at least -b, where b is the largest score of the rows that are bet on
(against over-prediction: 1 minus the smallest). Everybody can stake up to .7; in a band of scores
that ends at b a stake may be as large as .9 / b, because no row loses more than .9 of the wealth.
Where events are rare that is much: an event multiplies the wealth by about 1 + lambda. The stake
must be the same for all rows of the band. One that depends on the row's own score would test
another hypothesis, in which the gaps of rows with low scores count more.

**Sums.** The product needs all rows, but two lower bounds on its logarithm do not. The first is

    log(1 + lambda z) >= lambda z - (lambda z)^2 / 2 + (lambda z)^3 / 3 - c z^4,
    c = -log(1 - lambda) - lambda - lambda^2 / 2 - lambda^3 / 3,

for lambda < 1 and z >= -1 (the remainder of the series, divided by z^4, grows with z). It is good
for residuals of all sizes and poor for rare events, whose residuals are near 1. The second one
treats positive residuals z and negative ones -u apart, with P1, P2 the sums of z and z^2 over
the former and N1, N2 those of u and u^2 over the latter:

    sum log(1 + lambda z) >= P1 / t log(1 + lambda t),   t = P2 / P1,
    sum log(1 - lambda u) >= -lambda N1 - d N2,   d = (-log(1 - lambda b) - lambda b) / b^2.

The first line is Jensen's inequality for the convex function log(1 + lambda z) / z with weights
z, exact where all positive residuals are equal, as they nearly are for rare events. The second
holds because the remainder divided by u^2 grows with u up to b. Both bounds belong to the same
wealth, so the larger one counts. Eight sums give them for every stake and every m: what is kept of
a stream is of fixed size, nothing has to be known in advance, and limits are found by solving
for m. Stakes are mixed over a fixed grid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.vectors import Float64

# Columns of the sums over rows: of ones, of weights w, of powers of z = w (y - p), and of z and z^2
# over positive z. The last two are NaN where a file of an older release did not have them; then
# only the first of the two bounds is known.
ROWS, WEIGHT, Z1, Z2, Z3, Z4, P1, P2 = range(8)
N_SUMS = 8
N_OLD_SUMS = 6

COMMON_STAKES: Float64 = np.asarray(0.7 / 1.6 ** np.arange(15), dtype=np.float64)
"""From .7, where the bounds on the logarithm are still good if residuals may be -1, to .001, the
best stake against a gap of .0002 beyond the tolerance; the best stake of any gap is within a factor
of 1.27 of one of them, which costs at most 7 % of the rows."""

STAKES: Float64 = np.concatenate([COMMON_STAKES, 0.7 * 2.0 ** np.arange(1, 8)])
"""Those of everybody, and seven larger ones for bands of low scores, up to 90: the best stake
against a rate of events of about 50 % where .5 % were predicted."""

MOST_AT_RISK = 0.9
"""Largest share of the wealth that one row can lose at the larger stakes."""

SMALLEST_BOUND = 0.005
"""Bounds of residuals below that count as this: no larger stake would be allowed, and d would be
a difference of nearly equal numbers."""

_SERIES = np.stack([COMMON_STAKES, COMMON_STAKES**2 / 2.0, COMMON_STAKES**3 / 3.0])
_FOURTHS = -np.log1p(-COMMON_STAKES) - _SERIES.sum(axis=0)
_GAINS: Float64 = np.stack([_SERIES[0], -_SERIES[1], _SERIES[2], -_FOURTHS])
"""From sums of powers of z to the first bound, at every common stake."""

_SIGNS: Float64 = np.array([1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0])

_HALVINGS = 40


def moments(weight: Float64, residual: Float64) -> Float64:
    """Columns of the rows, shape (n, 8)."""
    columns = np.empty((len(residual), N_SUMS))
    z = weight * residual
    positive = np.maximum(z, 0.0)
    columns[:, ROWS] = 1.0
    columns[:, WEIGHT] = weight
    columns[:, Z1] = z
    np.multiply(z, z, out=columns[:, Z2])
    np.multiply(columns[:, Z2], z, out=columns[:, Z3])
    np.multiply(columns[:, Z2], columns[:, Z2], out=columns[:, Z4])
    columns[:, P1] = positive
    np.multiply(positive, positive, out=columns[:, P2])
    return columns


def flip(sums: Float64) -> Float64:
    """Sums of the residuals with the other sign."""
    flipped = sums * _SIGNS
    flipped[..., P1] -= sums[..., Z1]
    flipped[..., P2] += sums[..., Z2]
    return np.asarray(flipped)


def log_evidence(sums: Float64, most: float, bound: Float64 | float = 1.0) -> Float64:
    """Logarithm of the mixed wealth against "the mean gap is at most ``most``".

    Parameters
    ----------
    sums : ndarray of shape (..., groups, 8), or (8,)
    most : float
        Largest gap that is all right, at least 0.
    bound : float or ndarray of shape (...)
        Residuals are at least minus that.

    Returns
    -------
    ndarray of shape (..., groups)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> residual = (rng.random(2000) < 0.5) - 0.4
    >>> sums = moments(np.ones(2000), residual).sum(axis=0)
    >>> bool(log_evidence(sums, 0.01) > np.log(1e6)), bool(log_evidence(sums, 0.11) < 0)
    (True, True)
    """
    return _Wealth(sums, bound).mixed(most)


def limits(
    sums: Float64,
    log_line: NDArray[np.float64] | float,
    bounds: tuple[Float64 | float, Float64 | float] = (1.0, 1.0),
) -> tuple[Float64, Float64]:
    """Limits of the mean gap so far: what evidence of exp(log_line) does not speak against.

    ``bounds`` are those of residuals and of residuals with the other sign.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> residual = (rng.random(2000) < 0.5) - 0.4
    >>> low, high = limits(moments(np.ones(2000), residual).sum(axis=0), np.log(40))
    >>> bool(0.04 < low < 0.1 < high < 0.16)
    True
    """
    line = np.broadcast_to(log_line, sums.shape[:-1])
    low, high = (
        _Wealth(own, bound).lower(line)
        for own, bound in zip((sums, flip(sums)), bounds, strict=True)
    )
    return low, -high


class _Wealth:
    """Lower bounds of what every stake has won before the price of m, in logarithms."""

    def __init__(self, sums: Float64, bound: Float64 | float) -> None:
        b = np.maximum(np.asarray(bound, dtype=np.float64), SMALLEST_BOUND)[..., None]
        allowed = (STAKES * b <= MOST_AT_RISK) | (np.arange(len(STAKES)) < len(COMMON_STAKES))
        count = int(allowed.sum(axis=-1).max())
        self.stakes, allowed = STAKES[:count], allowed[..., :count]
        share = np.where(allowed, 1.0 / allowed.sum(axis=-1, keepdims=True), 0.0)
        at_risk = np.where(allowed, self.stakes * b, 0.0)
        curvature = (-np.log1p(-at_risk) - at_risk) / b**2
        if sums.ndim > 1:  # the groups' axis
            share, curvature = share[..., None, :], curvature[..., None, :]
        with np.errstate(divide="ignore"):
            self.log_share = np.log(share)
        self.rows, self.weight = sums[..., ROWS], sums[..., WEIGHT]
        self.mean_weight = self.weight / np.maximum(self.rows, 1.0)
        if (self.weight == self.rows).all():  # saves most logarithms
            self.mean_weight = np.ones(())
        self.gains = self._split(sums, curvature)
        common = self.gains[..., : len(COMMON_STAKES)]
        np.fmax(common, sums[..., Z1 : Z4 + 1] @ _GAINS, out=common)
        self.gains[np.isnan(self.gains)] = -np.inf

    def _split(self, sums: Float64, curvature: Float64) -> Float64:
        """The bound by positive and negative residuals; NaN where these are not known apart."""
        # Sums that are differences may be below zero by rounding.
        positive, squares = np.maximum(np.moveaxis(sums[..., [P1, P2]], -1, 0), 0.0)
        some = ~(positive * squares == 0.0)
        size = np.where(some, squares, 1.0) / np.where(some, positive, 1.0)
        events = np.where(some, positive / size, 0.0)
        gains = np.log1p(size[..., None] * self.stakes)
        gains *= events[..., None]
        gains -= (positive - sums[..., Z1])[..., None] * self.stakes
        gains -= np.maximum(sums[..., Z2] - squares, 0.0)[..., None] * curvature
        return np.asarray(gains)

    def mixed(self, most: Float64 | float) -> Float64:
        """Against a mean gap of at most ``most``."""
        per_row = np.asarray(most * self.mean_weight)[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):  # stakes that are not allowed
            price = self.rows[..., None] * np.log1p(per_row * self.stakes)
        logs = self.gains - price + self.log_share
        return log_sum(np.where(np.isneginf(self.log_share), -np.inf, logs), axis=-1)

    def lower(self, line: Float64) -> Float64:
        """The largest m that there is evidence of exp(line) against, -1 at least.

        Halving an interval whose lower end there is always evidence against, so the result is
        on the safe side by construction.
        """
        known = self.weight > 0
        rows = np.where(known, self.rows, 1.0)[..., None]
        per = self.stakes * np.where(known, self.weight, 1.0)[..., None] / rows

        def solved(share: Float64 | float) -> Float64:
            """Where a stake alone passes the line; the largest of all stakes."""
            gaps = np.expm1((self.gains + share - line[..., None]) / rows) / per
            return np.asarray(np.where(np.isneginf(self.log_share), -np.inf, gaps).max(axis=-1))

        low, high = solved(self.log_share), solved(0.0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            against = self.mixed(middle) >= line
            low, high = np.where(against, middle, low), np.where(against, high, middle)
        return np.where(known, np.clip(low, -1.0, 1.0), np.nan)


def log_sum(logs: Float64, axis: int) -> Float64:
    """Logarithm of a sum of exponentials."""
    top = logs.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(logs - top).sum(axis=axis)) + np.squeeze(top, axis))
