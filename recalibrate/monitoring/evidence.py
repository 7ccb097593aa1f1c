r"""Evidence against "the mean gap is at most m", and limits of a gap, at any time.

With z = w (y - p) in [-1, 1] for a row of weight w in [0, 1], and a stake 0 < lambda < 1, the
wealth of a gambler who bets on a positive gap,

    prod_i (1 + lambda z_i) exp(-lambda m w_i),

is a supermartingale while the mean of y - p given the past is at most m, because
(1 + lambda m w) <= exp(lambda m w). By Ville's inequality it ever exceeds 1 / alpha with
probability at most alpha, whenever and however often one looks. The product needs all rows, but

    log(1 + lambda z) >= lambda z - (lambda z)^2 / 2 + (lambda z)^3 / 3 - c(lambda) z^4,
    c(lambda) = -log(1 - lambda) - lambda - lambda^2 / 2 - lambda^3 / 3,

for all z >= -1 (the remainder of the series, divided by z^4, grows with z), so that four sums
bound the wealth from below for every stake and every m: what is kept of a stream is of fixed
size, nothing has to be known in advance, and limits are found by solving for m. These hold for the
mean gap so far, also where the gap changes over time. Stakes are mixed over a fixed grid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.vectors import Float64

# Columns of the sums over rows: of ones, of weights w, and of powers of z = w (y - p).
ROWS, WEIGHT, Z1, Z2, Z3, Z4 = range(6)
N_SUMS = 6

STAKES: Float64 = np.asarray(0.7 / 1.6 ** np.arange(15), dtype=np.float64)
"""From .7, where the bound on the logarithm is still good, to .001, the best stake against a gap
of .0002 beyond the tolerance; the best stake of any gap is within a factor of 1.27 of one of them,
which costs at most 7 % of the rows."""

_SERIES = np.stack([STAKES, STAKES**2 / 2.0, STAKES**3 / 3.0])
_FOURTHS = -np.log1p(-STAKES) - _SERIES.sum(axis=0)
_GAINS: Float64 = np.stack([0 * STAKES, 0 * STAKES, _SERIES[0], -_SERIES[1], _SERIES[2], -_FOURTHS])
"""From sums to the logarithm of the wealth at every stake, if nothing were paid for m."""

FLIP: Float64 = np.array([1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
"""From sums to those of residuals of the other sign."""

_HALVINGS = 40


def moments(weight: Float64, residual: Float64) -> Float64:
    """Columns of the rows, shape (n, 6)."""
    found = np.empty((len(residual), N_SUMS))
    z = weight * residual
    found[:, ROWS] = 1.0
    found[:, WEIGHT] = weight
    found[:, Z1] = z
    np.multiply(z, z, out=found[:, Z2])
    np.multiply(found[:, Z2], z, out=found[:, Z3])
    np.multiply(found[:, Z2], found[:, Z2], out=found[:, Z4])
    return found


def log_evidence(sums: Float64, most: float) -> Float64:
    """Logarithm of the mixed wealth against "the mean gap is at most ``most``".

    Parameters
    ----------
    sums : ndarray of shape (..., 6)
    most : float
        Largest gap that is all right.

    Returns
    -------
    ndarray of shape (...)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> residual = (rng.random(2000) < 0.5) - 0.4
    >>> sums = moments(np.ones(2000), residual).sum(axis=0)
    >>> bool(log_evidence(sums, 0.01) > np.log(1e6)), bool(log_evidence(sums, 0.11) < 0)
    (True, True)
    """
    gains = _GAINS.copy()
    gains[WEIGHT] = -most * STAKES
    return _mixed(sums @ gains)


def limits(sums: Float64, log_line: NDArray[np.float64] | float) -> tuple[Float64, Float64]:
    """Limits of the mean gap so far: what evidence of exp(log_line) does not speak against.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> residual = (rng.random(2000) < 0.5) - 0.4
    >>> low, high = limits(moments(np.ones(2000), residual).sum(axis=0), np.log(40))
    >>> bool(0.04 < low < 0.1 < high < 0.16)
    True
    """
    return _lower(sums, log_line), -_lower(sums * FLIP, log_line)


def _mixed(logs: Float64) -> Float64:
    return np.asarray(log_sum(logs, axis=-1) - np.log(len(STAKES)))


def log_sum(logs: Float64, axis: int) -> Float64:
    """Logarithm of a sum of exponentials."""
    top = logs.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(logs - top).sum(axis=axis)) + np.squeeze(top, axis))


def _lower(sums: Float64, log_line: NDArray[np.float64] | float) -> Float64:
    """The largest m that there is evidence against, -1 at least.

    Halving an interval whose lower end there is always evidence against, so the result is on the
    safe side by construction.
    """
    weight = sums[..., WEIGHT]
    known = weight > 0
    line = np.broadcast_to(log_line, weight.shape)[..., None]
    gains, per = sums @ _GAINS, STAKES * np.where(known, weight, 1.0)[..., None]
    low = ((gains - line - np.log(len(STAKES))) / per).max(axis=-1)
    high = ((gains - line) / per).max(axis=-1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        against = _mixed(gains - per * middle[..., None]) >= line[..., 0]
        low, high = np.where(against, middle, low), np.where(against, high, middle)
    return np.where(known, np.clip(low, -1.0, 1.0), np.nan)
