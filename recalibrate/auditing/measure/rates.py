"""Rates of the groups: decisions at thresholds, and the ranking of rows, against a reference.

What is counted is counted in the pass over the rows that the other measures are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.auc import auc_limits, auc_of, clustered_variance
from recalibrate.auditing.measure.proportions import (
    Limits,
    difference_limits,
    effective_count,
    proportion_limits,
    ratio_limits,
)
from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.segments import Rows, Segments
from recalibrate.auditing.measure.simultaneous import critical_value, wider
from recalibrate.auditing.measure.sweep import Sums, blocks, cluster_numbers
from recalibrate.auditing.records import Estimate, Rate, Rates
from recalibrate.data.vectors import Float64
from recalibrate.metrics import ratio
from recalibrate.support.notices import listed

# Rows by label and decision: 0 and 1 have label 0, odd ones are positive decisions.
_CELLS = 4
# Per rate the cells of its numerator, and the others of its denominator.
_SHARES = {
    "selection_rate": ((1, 3), (0, 2)),
    "tpr": ((3,), (2,)),
    "fpr": ((1,), (0,)),
    "ppv": ((3,), (1,)),
}
ROWS, MASS, SQUARES = range(3)


class Tally:
    """Counts the rows of one set of predictions, while they pass in their order.

    Parameters
    ----------
    f : ndarray
        Predictions of the sample's rows, on the scale of the thresholds.
    """

    def __init__(
        self, segments: Segments, sample: Sample, f: Float64, thresholds: Sequence[float]
    ) -> None:
        from recalibrate.kernels import ranks

        n_groups = len(segments.names)
        self.sample, self._segments, self._f = sample, segments, f
        label = 2 * (sample.y > 0.5) if sample.binary else np.zeros(len(f), dtype=np.int64)
        self.cells = [label + (f >= each) for each in thresholds]
        self._sums = [np.zeros((_CELLS, n_groups, 3 if sample.weighted else 1)) for _ in thresholds]
        self.ranks = np.zeros((n_groups, ranks.RANKS))
        self._last = np.array([-np.inf])

    def add(self, rows: Rows, codes: NDArray[np.int32]) -> None:
        """Count some more rows, in ascending order of prediction over all calls."""
        from recalibrate.kernels.audit import add_sums
        from recalibrate.kernels.ranks import add_ranks

        weight, offsets = self.sample.weight[rows], self._segments.offsets
        if self.sample.binary:
            f, y = self._f[rows], self.sample.y[rows]
            equal = not self.sample.weighted
            add_ranks(codes, offsets, f, y, weight, equal, self._last, self.ranks)
        if self.cells:
            columns = [np.ones(len(rows))]
            if self.sample.weighted:
                columns += [weight, weight**2]
            values = np.column_stack(columns)
            for cell, sums in zip(self.cells, self._sums, strict=True):
                add_sums(codes, offsets, cell[rows], values, sums)

    @cached_property
    def ranked(self) -> Float64:
        """What is known of every group's ranks when all rows have passed."""
        from recalibrate.kernels.ranks import end_ranks

        ranks = self.ranks.copy()
        end_ranks(ranks, not self.sample.weighted)
        return ranks

    @property
    def sums(self) -> list[Float64]:
        """Per threshold rows, weights and squared weights, shape (_CELLS, groups, 3)."""
        if self.sample.weighted:
            return self._sums
        return [np.repeat(each, 3, axis=2) for each in self._sums]


@dataclass(frozen=True, eq=False)
class _Found:
    """A rate of all groups."""

    value: Float64
    limits: Limits
    rows: NDArray[np.int64]


def find_rates(
    tallies: Sequence[Tally],
    sums: Sequence[Sums],
    segments: Segments,
    sample: Sample,
    *,
    thresholds: Sequence[float],
    named: Sequence[int],
    alpha: float,
) -> Rates | None:
    """All rates, of after and maybe before; None where there is none to tell."""
    others = match_references(segments, sums[0].total[:, 0], named)
    critical = critical_value(None, len(segments.names), alpha)
    sides = [
        _side(tally, own, segments, sample, thresholds, critical)
        for tally, own in zip(tallies, sums, strict=True)
    ]
    rates = [
        Rate(measure, threshold, segments.names[g], segments.names[others[g]], *estimates)
        for measure, threshold in sides[0]
        for g, estimates in enumerate(
            zip(*(_estimates(side[measure, threshold], others) for side in sides), strict=True)
        )
    ]
    return Rates(tuple(rates), tuple(float(each) for each in thresholds), alpha) if rates else None


def read_references(segments: Segments, named: Any) -> list[int]:
    """Numbers of the groups that the user named as references."""
    if named is None:
        return []
    chosen = (named,) if isinstance(named, str) else tuple(named)
    unknown = [name for name in chosen if name not in segments.names]
    if unknown:
        raise ValueError(
            f"reference must name groups of the report, got {unknown[0]!r}; they are "
            f"{listed(segments.names)}"
        )
    return [segments.names.index(name) for name in chosen]


def match_references(segments: Segments, rows: Float64, named: Sequence[int]) -> NDArray[np.intp]:
    """Number of the group that every group is compared with.

    Of those that the user named it is the one of the same term, else the first. Without names it
    is the largest group of the term, or all rows where the term has no other group.
    """
    offsets = segments.offsets
    found = np.zeros(len(segments.names), dtype=np.intp)  # 0 is the number of all rows
    for start, stop in pairwise(offsets.tolist()):
        inside = [place for place in named if start <= place < stop]
        if named:
            found[start:stop] = inside[0] if inside else named[0]
        elif stop - start > 1:
            found[start:stop] = start + int(rows[start:stop].argmax())
    return found


def _side(
    tally: Tally,
    sums: Sums,
    segments: Segments,
    sample: Sample,
    thresholds: Sequence[float],
    critical: float,
) -> dict[tuple[str, float | None], _Found]:
    found: dict[tuple[str, float | None], _Found] = {}
    shares = _SHARES if sample.binary else {"selection_rate": _SHARES["selection_rate"]}
    clusters = _cluster_products(tally, segments, sample) if sample.cluster is not None else None
    for k, (threshold, counted) in enumerate(zip(thresholds, tally.sums, strict=True)):
        products = None if clusters is None else clusters[k]
        for measure in shares:
            found[measure, float(threshold)] = _share(counted, shares[measure], products, critical)
    if sample.binary:
        value, variance, positive, negative = auc_of(tally.ranked)
        cut: float | Float64 = critical
        if sample.cluster is not None:
            clustered, count = clustered_variance(segments, sample, sums, value)
            variance = np.maximum(variance, clustered)
            cut = wider(critical, np.maximum(count - 1.0, 1e-9))
        limits = auc_limits(value, variance, positive, negative, cut)
        found["auc", None] = _Found(value, limits, sums.total[:, 0].astype(np.int64))
    return found


def _share(
    counted: Float64,
    cells: tuple[tuple[int, ...], tuple[int, ...]],
    products: tuple[Float64, NDArray[np.int64]] | None,
    critical: float,
) -> _Found:
    """A share of rows from their sums by label and decision."""
    own, rest = (counted[list(part)].sum(axis=0) for part in cells)
    mass = own[:, MASS] + rest[:, MASS]
    p = np.where(mass > 0.0, ratio(own[:, MASS], mass), np.nan)
    squares = own[:, SQUARES] + rest[:, SQUARES]
    equal = ratio(mass**2, squares)
    variance = (1.0 - p) ** 2 * own[:, SQUARES] + p**2 * rest[:, SQUARES]
    degrees = None
    if products is not None:
        sums, count = products
        part = np.zeros((len(p), _CELLS))
        part[:, list(cells[0])] = (1.0 - p)[:, None]
        part[:, list(cells[1])] = -p[:, None]
        clusters = count.astype(np.float64)
        clustered = np.einsum("gk,gkl,gl->g", part, sums, part)
        clustered = clustered * ratio(clusters, np.maximum(clusters - 1.0, 0.5))
        variance, degrees = np.maximum(variance, clustered), clusters - 1.0
        certain = (p == 0.0) | (p == 1.0)  # then rows do not tell how clusters vary
        equal = np.where(certain, np.minimum(equal, clusters), equal)
    effective = effective_count(p, ratio(variance, mass**2), equal, degrees, critical)
    limits = proportion_limits(p, np.where(mass > 0.0, effective, 0.0), critical)
    rows = (own[:, ROWS] + rest[:, ROWS]).astype(np.int64)
    return _Found(p, limits, rows)


def _cluster_products(
    tally: Tally, segments: Segments, sample: Sample
) -> list[tuple[Float64, NDArray[np.int64]]]:
    """Per threshold the products of clusters' weights by cell, and the clusters of every group."""
    from recalibrate.kernels import audit as kernels

    n_groups, cluster = len(segments.names), cluster_numbers(sample)
    states = [
        (
            np.full(n_groups, -1, dtype=np.int64),
            np.zeros((n_groups, _CELLS)),
            np.zeros(n_groups, dtype=np.int64),
            np.zeros((n_groups, _CELLS, _CELLS)),
        )
        for _ in tally.cells
    ]
    for _, rows, codes in blocks(segments, np.argsort(cluster, kind="stable")):
        for cell, (last, pending, count, squares) in zip(tally.cells, states, strict=True):
            values = sample.weight[rows][:, None] * (cell[rows][:, None] == np.arange(_CELLS))
            kernels.add_cluster_squares(
                codes, segments.offsets, cluster[rows], values, last, pending, count, squares
            )
    for _, pending, _, squares in states:
        kernels.end_clusters(pending, squares)
    return [(squares, count) for _, _, count, squares in states]


def _estimates(found: _Found, others: NDArray[np.intp]) -> list[Estimate]:
    """A rate of every group, compared with that of its reference."""
    a, own = found.value, found.limits
    b, other = a[others], (own[0][others], own[1][others])
    difference, quotient = a - b, np.where(b > 0.0, ratio(a, b), np.nan)
    apart, times = difference_limits(a, own, b, other), ratio_limits(a, own, b, other)
    itself = others == np.arange(len(a))
    apart, times = (
        (np.where(itself, np.nan, each[0]), np.where(itself, np.nan, each[1]))
        for each in (apart, times)
    )
    high = np.where(np.isinf(times[1]), np.nan, times[1])
    columns = [a, *own, found.rows, difference, *apart, quotient, times[0], high]
    return [Estimate(*row) for row in zip(*(each.tolist() for each in columns), strict=True)]
