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
    edges = tuple(np.asarray(quantile_edges(own, levels)) for own in scores.T)
    # Cuts by every other row and counts of the rest, so that Fisher's test is exact.
    cuts = tuple(np.asarray(quantile_edges(own[::2], CUTS + 1)) for own in scores.T)
    names = tuple(each.name for each in left_out)
    empty = Watched(bound, edges, cuts, np.empty((0, 0, 0)), names)
    codes, _ = empty.codes(table, n_rows, allow_unknown=True)
    half = np.ascontiguousarray(codes[1::2])  # one kind of array for the compiled loop
    counts = count_scores(half, empty.offsets, len(empty.names), scores[1::2], cuts)
    return Watched(bound, edges, cuts, counts, names)
