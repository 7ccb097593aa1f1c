"""The stream in a bounded number of time buckets, recent ones short and old ones long.

A bucket holds sums over the rows of its time. Evidence is collected from the start of every
bucket on, because evidence from the first day on is long lost when something changes late: the
gambler puts a share of the wealth aside for every bucket that will be opened, and begins to bet
with it then. These shares add up to one, so the whole is a supermartingale still.
Where two buckets are merged, the bet that began with the second is given up, which can only
lower the wealth. Rows that come late are added to the bucket of their time: bets that began after
that time do not take part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.quantiles import quantile_edges
from recalibrate.data.vectors import Float64
from recalibrate.monitoring.evidence import N_SUMS, ROWS

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
        See `recalibrate.monitoring.evidence`.
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
