"""From sums to evidence: all hypotheses at once, which are off, since when, and by how much.

A hypothesis is a class, a group, all its scores or one band of them, and a direction. Their
shares of alpha add up to one: half goes to the groups as wholes, half to the bands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.columns import quantile_edges
from recalibrate.data.labels import Float64

# --- The stream in a bounded number of time buckets, recent ones short and old ones long --------
#
# A bucket holds sums over the rows of its time. Evidence is collected from the start of every
# bucket on, because evidence from the first day on is long lost when something changes late: the
# gambler puts a share of the wealth aside for every bucket that will be opened, and begins to bet
# with it then. These shares add up to one, so the whole is a supermartingale still.
# Where two buckets are merged, the bet that began with the second is given up, which can only
# lower the wealth. Rows that come late are added to the bucket of their time: bets that began after
# that time do not take part.


MOST_BUCKETS = 32
FEWEST_ROWS = 100
"""A bucket with fewer rows goes on with the next batch: bets from so few rows on lose nothing."""

KEPT_ALONE = 4
"""The newest buckets are not merged."""

SUM_OF_SHARES = 2.10975
"""At least the sum of 1 / (k log(k)^2) over k = 2, 3, ..., which is 2.109743."""

MOST_PIECES = 16
"""Buckets that one batch can fill."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Buckets in the order of time.

    Attributes
    ----------
    number : ndarray of int64, shape (buckets,)
        How many were opened before, and itself.
    start, end : ndarray of float64, shape (buckets,)
        First and last time.
    sums : ndarray of float64, shape (buckets, classes, bands, groups, 8)
        Sums that the evidence is computed from, in the order of `ROWS` to `P2`.
    evidence : ndarray of float64, shape (buckets, classes, groups)
        Logarithm of the evidence at the end of the bucket, adjusted for all hypotheses.
    """

    number: Ints
    start: Float64
    end: Float64
    sums: Float64
    evidence: Float64

    @classmethod
    def empty(cls, n_classes: int, n_bands: int, n_groups: int) -> Timeline:
        """No buckets yet."""
        return cls(
            np.empty(0, np.int64),
            np.empty(0),
            np.empty(0),
            np.empty((0, n_classes, n_bands, n_groups, N_SUMS)),
            np.empty((0, n_classes, n_groups)),
        )

    def __len__(self) -> int:
        return len(self.number)

    @property
    def frontier(self) -> float:
        """The latest time so far."""
        return float(self.end[-1]) if len(self) else -np.inf

    @property
    def log_share(self) -> Float64:
        """Share of the wealth that is bet from the start of every bucket on, in logarithms.

        Of all shares that are as simple and have a finite sum these fall slowest.
        """
        later = np.log1p(self.number.astype(np.float64))
        return np.asarray(-later - 2.0 * np.log(later) - np.log(SUM_OF_SHARES))

    def suffixes(self) -> Float64:
        """Sums from the start of every bucket on."""
        return np.asarray(self.sums[::-1].cumsum(axis=0)[::-1])

    def pieces(self, time: Float64) -> list[NDArray[np.intp] | slice]:
        """Rows that are added together: late ones first, then the others in the order of time.

        A batch gets buckets in proportion to the part of the time line that it covers.
        """
        if time.max() <= self.frontier or (time.min() == time.max()):
            return [slice(None)]
        new = time > self.frontier
        late, fresh = np.flatnonzero(~new), np.flatnonzero(new)
        found: list[NDArray[np.intp] | slice] = [late] if len(late) else []
        own = time[fresh]
        first = float(self.start[0]) if len(self) else float(own.min())
        covered = (own.max() - own.min()) / max(own.max() - first, np.finfo(np.float64).tiny)
        count = min(round(MOST_PIECES * covered), len(own) // FEWEST_ROWS)
        if count < 2:
            return [*found, fresh]
        piece = np.searchsorted(quantile_edges(own, count), own, side="right")
        order = np.argsort(piece, kind="stable")
        cuts = np.flatnonzero(np.diff(piece[order])) + 1
        return [*found, *(fresh[part] for part in np.split(order, cuts))]

    def places(self, time: Float64) -> tuple[Timeline, NDArray[np.intp]]:
        """The bucket of every row of a piece, and the time line with a new one where needed."""
        if not len(self) or (time.min() > self.frontier and self._last_rows() >= FEWEST_ROWS):
            shape = self.sums.shape[1:]
            opened = replace(
                self,
                number=np.append(self.number, self.number[-1] + 1 if len(self) else 1),
                start=np.append(self.start, time.min()),
                end=np.append(self.end, time.max()),
                sums=np.append(self.sums, np.zeros((1, *shape)), axis=0),
                evidence=np.append(self.evidence, np.zeros((1, shape[0], shape[2])), axis=0),
            )
            return opened, np.full(len(time), len(self), dtype=np.intp)
        place = np.searchsorted(self.start, time, side="right") - 1
        start, end = self.start.copy(), self.end.copy()
        start[0] = min(start[0], time.min())
        end[-1] = max(end[-1], time.max())
        return replace(self, start=start, end=end), np.maximum(place, 0)

    def merged(self) -> Timeline:
        """The same with at most the allowed number of buckets.

        Of all neighbours those are merged that are shortest, compared with how long ago they
        are, so that the past is kept with the same relative precision everywhere.
        """
        found = self
        while len(found) > MOST_BUCKETS:
            found = found._merge(found._oldest_and_shortest())
        return found

    def _last_rows(self) -> float:
        """Rows of the newest bucket: everybody is in the first group."""
        return float(self.sums[-1, 0, :, 0, ROWS].sum())

    def _oldest_and_shortest(self) -> int:
        last = self.number[-1] + 1
        following = np.append(self.number[2:], last)  # where the pair ends
        length = following - self.number[:-1]
        cost = length / (last - self.number[:-1])
        return int(cost[:-KEPT_ALONE].argmin())

    def _merge(self, k: int) -> Timeline:
        sums = np.delete(self.sums, k + 1, axis=0)
        sums[k] += self.sums[k + 1]
        return Timeline(
            np.delete(self.number, k + 1),
            np.delete(self.start, k + 1),
            np.delete(self.end, k),
            sums,
            np.delete(self.evidence, k, axis=0),
        )


# --- Evidence against "the mean gap is at most m", and limits of a gap, at any time -------------
#
# With z = w (y - p) in [-1, 1] for a row of weight w in [0, 1], a stake lambda > 0 and the row's
# conditional mean gap m_i given the past, the wealth of a gambler who bets on a positive gap,
#
#     prod_i (1 + lambda z_i) / (1 + lambda w_i m_i),
#
# is a martingale as long as no factor is negative. By Ville's inequality it ever exceeds 1 / alpha
# with probability at most alpha, whenever and however often one looks. The logarithm is concave,
# so n rows of total weight W and mean gap m (also one that changes over time) pay at most
#
#     sum_i log(1 + lambda w_i m_i) <= n log(1 + lambda m W / n).
#
# **Stakes.** A residual is at least -b, where b is the largest score of the rows that are bet on
# (against over-prediction: 1 minus the smallest). Everybody can stake up to .7; in a band of scores
# that ends at b a stake may be as large as .9 / b, because no row loses more than .9 of the wealth.
# Where events are rare that is much: an event multiplies the wealth by about 1 + lambda. The stake
# must be the same for all rows of the band. One that depends on the row's own score would test
# another hypothesis, in which the gaps of rows with low scores count more.
#
# **Sums.** The product needs all rows, but two lower bounds on its logarithm do not. The first is
#
#     log(1 + lambda z) >= lambda z - (lambda z)^2 / 2 + (lambda z)^3 / 3 - c z^4,
#     c = -log(1 - lambda) - lambda - lambda^2 / 2 - lambda^3 / 3,
#
# for lambda < 1 and z >= -1 (the remainder of the series, divided by z^4, grows with z). It is good
# for residuals of all sizes and poor for rare events, whose residuals are near 1. The second one
# treats positive residuals z and negative ones -u apart, with P1, P2 the sums of z and z^2 over
# the former and N1, N2 those of u and u^2 over the latter:
#
#     sum log(1 + lambda z) >= P1 / t log(1 + lambda t),   t = P2 / P1,
#     sum log(1 - lambda u) >= -lambda N1 - d N2,   d = (-log(1 - lambda b) - lambda b) / b^2.
#
# The first line is Jensen's inequality for the convex function log(1 + lambda z) / z with
# weights z, exact where all positive residuals are equal, as they nearly are for rare events.
# The second holds because the remainder divided by u^2 grows with u up to b. Both bounds belong
# to the same wealth, so the larger one counts. Eight sums give them for every stake and every m:
# what is kept of a stream is of fixed size, nothing has to be known in advance, and limits are
# found by solving for m. Stakes are mixed over a fixed grid.


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
        return _log_sum(np.where(np.isneginf(self.log_share), -np.inf, logs), axis=-1)

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


def _log_sum(logs: Float64, axis: int) -> Float64:
    """Logarithm of a sum of exponentials."""
    top = logs.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(logs - top).sum(axis=axis)) + np.squeeze(top, axis))


UNDER, OVER = 0, 1
"""Directions: predicted too low, too high."""


@dataclass(frozen=True)
class Place:
    """A direction, and a cell of a group: 0 for all scores, else a band."""

    direction: int
    cell: int


@dataclass(frozen=True)
class Since:
    """Since when a group seems to be off, and its rows and its gap since then, with limits."""

    rows: int
    time: float
    gap: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Judgement:
    """The evidence of a time line.

    Attributes
    ----------
    timeline : Timeline
    bounds : ndarray of float64, shape (directions, classes, cells)
        See `Watched.bounds`.
    tolerance, alpha : float
        On the scale of [0, 1].
    """

    timeline: Timeline
    bounds: Float64
    tolerance: float
    alpha: float

    @cached_property
    def suffixes(self) -> Float64:
        """Sums since every bucket's start; shape (buckets, classes, cells, groups, 8)."""
        bands = self.timeline.suffixes()
        whole = bands.sum(axis=2, keepdims=True)
        return whole if bands.shape[2] == 1 else np.concatenate([whole, bands], axis=2)

    @cached_property
    def log_share(self) -> Float64:
        """Of every cell's hypotheses (per class, group and direction)."""
        _, n_classes, n_cells, n_groups, _ = self.suffixes.shape
        bands = n_cells - 1
        share = np.array([0.5, *[0.5 / bands] * bands] if bands else [1.0])
        return np.asarray(np.log(share / (2.0 * n_classes * n_groups)))

    @cached_property
    def by_start(self) -> Float64:
        """Evidence since every start, in logarithms.

        Shape (directions, buckets, classes, cells, groups).
        """
        sides = zip((self.suffixes, flip(self.suffixes)), self.bounds, strict=True)
        # One start at a time, because intermediate results then stay in the cache.
        return np.stack(
            [
                np.stack([log_evidence(own, self.tolerance, bound) for own in sums])
                for sums, bound in sides
            ]
        )

    @cached_property
    def adjusted(self) -> Float64:
        """Evidence times its share, to be compared with 1 / alpha; in logarithms."""
        shares = self.timeline.log_share[:, None, None, None]
        return _log_sum(self.by_start + shares, axis=1) + self.log_share[:, None]

    @cached_property
    def evidence(self) -> Float64:
        """The strongest adjusted evidence, in logarithms; shape (classes, groups)."""
        return np.asarray(self.adjusted.max(axis=(0, 2)))

    @property
    def log_line(self) -> float:
        """Where the alarm is."""
        return float(-np.log(self.alpha))

    def place(self, k: int, g: int) -> Place:
        """Where the evidence of a group is strongest."""
        own = self.adjusted[:, k, :, g]
        direction, cell = np.unravel_index(int(own.argmax()), own.shape)
        return Place(int(direction), int(cell))

    def since(self, k: int, g: int, place: Place) -> Since:
        """The start with most evidence since then; limits hold for all starts at once."""
        b = int(self.by_start[place.direction, :, k, place.cell, g].argmax())
        own = self.suffixes[b, k, place.cell, g]
        low, high = self._limits(own, b, place.cell, self.bounds[:, k, place.cell])
        start = float(self.timeline.start[b])
        return Since(int(own[ROWS]), start, float(mean_gap(own)), float(low), float(high))

    def gaps(self) -> tuple[Float64, Float64, Float64, Float64]:
        """Rows, mean gap so far and its limits; shape (classes, cells, groups)."""
        own = self.suffixes[0]
        return own[..., ROWS], mean_gap(own), *self._limits(own, 0, slice(None), self.bounds)

    def running(self) -> tuple[Float64, Float64, Float64]:
        """Mean gap up to the end of every bucket and its limits; (buckets, classes, groups)."""
        sums = self.timeline.sums.sum(axis=2).cumsum(axis=0)
        return mean_gap(sums), *self._limits(sums, 0, 0, self.bounds[:, :, 0])

    def _limits(
        self, sums: Float64, bucket: int, cell: int | slice, bounds: Float64
    ) -> tuple[Float64, Float64]:
        shares = self.log_share[cell] + self.timeline.log_share[bucket]
        line = self.log_line - (shares[:, None] if isinstance(cell, slice) else shares)
        return limits(sums, line, (bounds[UNDER], bounds[OVER]))


def mean_gap(sums: Float64) -> Float64:
    """Mean of y - p; NaN without weight."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., Z1] / sums[..., WEIGHT])
