"""What a monitor looks at, fixed before the first label counts: groups, and bands of the score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.segments import (
    EVERYBODY,
    EverybodyOnly,
    ExpressionSegments,
    read_segments,
)
from recalibrate.data.quantiles import quantile_edges
from recalibrate.data.vectors import Float64
from recalibrate.groups.cells import BANDS
from recalibrate.groups.groupset import GroupSet
from recalibrate.monitoring.shift import CUTS, count_scores
from recalibrate.monitoring.unknown import (
    Unknown,
    find_unknown,
    find_vanished,
    read_known,
    refuse_unknown,
    refuse_vanished,
)

Codes = NDArray[np.int32]

SMALLEST_EDGE = 0.01
"""Bands next to 0 and 1 are at least that wide: the next scores may be a little larger."""


@dataclass(frozen=True, eq=False)
class Watched:
    """Groups and score bands of the first rows, or of a reference.

    Attributes
    ----------
    groups : GroupSet or None
        None where only all rows are watched.
    edges : tuple of ndarray
        Of every class: where scores (on [0, 1]) are cut into bands, the level sets.
    cuts : tuple of ndarray
        Of every class: where shares of scores are compared with the reference.
    reference : ndarray of float64, shape (classes, bins, groups)
        Rows of the reference between the cuts.
    left_out : tuple of str
        Groups that were too small.
    """

    groups: GroupSet | None
    edges: tuple[Float64, ...]
    cuts: tuple[Float64, ...]
    reference: Float64
    left_out: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of all groups; everybody is the first."""
        return (EVERYBODY, *(() if self.groups is None else self.groups.labels))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Groups of term t are numbered from offsets[t] on."""
        own = () if self.groups is None else self.groups.offsets
        return np.append(0, 1 + np.asarray(own, dtype=np.int64)) if own else np.arange(2)

    @property
    def n_bands(self) -> int:
        """Bands of the class that has most."""
        return max(len(own) for own in self.edges) + 1

    def band(self, scores: Float64, k: int) -> NDArray[np.int64]:
        """Band of every score of class k."""
        return np.searchsorted(self.edges[k], scores, side="right")

    @cached_property
    def bounds(self) -> Float64:
        """Largest possible loss of a bet on too low and on too high predictions, per unit weight.

        Residuals of a band are above minus its upper edge and below 1 minus its lower edge. Shape
        (directions, classes, cells); the first cell is for all scores.
        """
        bounds = np.ones((2, len(self.edges), 1 + (self.n_bands if self.n_bands > 1 else 0)))
        for k, own in enumerate(self.edges):
            bounds[0, k, 1 : len(own) + 1] = own
            bounds[1, k, 2 : len(own) + 2] = 1.0 - own
        return bounds

    def codes(
        self, table: Any, n_rows: int, *, allow_unknown: bool = False
    ) -> tuple[Codes, list[Unknown]]:
        """Group of every row within every term, and values that the groups do not know.

        Unless these are allowed, a column that seems to have been recoded is refused.
        """
        if self.groups is None:
            return np.ones((n_rows, 1), dtype=np.int32), []
        if table is None:
            raise ValueError(
                "The groups are expressions over columns: pass the table X (or Z), also where "
                "scores are given."
            )
        read = read_known(self.groups.schema, table, allow_unknown=allow_unknown)
        if read.n_rows != n_rows:
            raise ValueError(f"The table has {read.n_rows} rows, but there are {n_rows}.")
        own = self.groups.codes(read)
        unknown = find_unknown(self.groups, table, read, own > 0)
        if not allow_unknown:
            refuse_unknown(unknown, n_rows)
            if self.reference.size:
                counts = self.reference[0].sum(axis=0)
                refuse_vanished(find_vanished(self.groups, read, own, counts, unknown), n_rows)
        found = np.empty((n_rows, own.shape[1] + 1), dtype=np.int32)
        found[:, 0] = 1
        found[:, 1:] = own
        return found, unknown


def band_edges(scores: Float64, levels: int) -> Float64:
    """Quantiles of the scores, and an edge at twice the largest one if that is below .5.

    Scores of rare events are all small, but only a band with an upper edge allows large stakes;
    likewise at the other end, for events that are nearly certain.

    Examples
    --------
    >>> import numpy as np
    >>> band_edges(np.array([0.1, 0.3, 0.5, 0.9]), 2)
    array([0.5])
    >>> band_edges(np.full(4, 0.02), 2)
    array([0.04])
    """
    edges = np.asarray(quantile_edges(scores, levels), dtype=np.float64)
    if levels == 1:
        return edges
    high = max(2.0 * float(scores.max()), SMALLEST_EDGE)
    low = 1.0 - max(2.0 * float(1.0 - scores.min()), SMALLEST_EDGE)
    guards = [*([low] if low >= 0.5 else []), *([high] if high <= 0.5 else [])]
    return np.union1d(edges, guards)


def watch(
    groups: Any, table: Any, scores: Float64, *, levels: int, depth: int, min_rows: int | None
) -> Watched:
    """Fix groups and bands by some rows, whose labels nobody has looked at."""
    n_rows = len(scores)
    segments, left_out, _ = read_segments(
        groups, table, n_rows=n_rows, weight=None, depth=depth, min_rows=min_rows, bands=BANDS
    )
    bound = None
    if isinstance(segments, ExpressionSegments):
        bound = segments.groups
    elif not isinstance(segments, EverybodyOnly):
        raise TypeError(
            "groups of a monitor must be expressions over columns such as ['sex', 'age < 25']: "
            "masks cannot be computed for the rows of the next batch. Add the mask to the table "
            "as a column and name it."
        )
    edges = tuple(band_edges(own, levels) for own in scores.T)
    # Cuts by every other row and counts of the rest, so that Fisher's test is exact.
    cuts = tuple(np.asarray(quantile_edges(own[::2], CUTS + 1)) for own in scores.T)
    names = tuple(each.name for each in left_out)
    empty = Watched(bound, edges, cuts, np.empty((0, 0, 0)), names)
    codes, _ = empty.codes(table, n_rows, allow_unknown=True)
    half = np.ascontiguousarray(codes[1::2])  # one kind of array for the compiled loop
    counts = count_scores(half, empty.offsets, len(empty.names), scores[1::2], cuts)
    return Watched(bound, edges, cuts, counts, names)
