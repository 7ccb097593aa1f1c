"""From sums to evidence: all hypotheses at once, which are off, since when, and by how much.

A hypothesis is a class, a group, all its scores or one band of them, and a direction. Their
shares of alpha add up to one: half goes to the groups as wholes, half to the bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from recalibrate.data.vectors import Float64
from recalibrate.monitoring.evidence import (
    ROWS,
    WEIGHT,
    Z1,
    flip,
    limits,
    log_evidence,
    log_sum,
)
from recalibrate.monitoring.timeline import Timeline

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
        return log_sum(self.by_start + shares, axis=1) + self.log_share[:, None]

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
