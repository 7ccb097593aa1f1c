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

from recalibrate.auditing.measure.limits import critical_value, wider
from recalibrate.auditing.measure.segments import Rows, Segments
from recalibrate.auditing.measure.sweep import WEIGHT, F, R, Sample, Sums, blocks, cluster_numbers
from recalibrate.auditing.records import Estimate, Rate, Rates
from recalibrate.data.labels import Float64
from recalibrate.metrics import ratio
from recalibrate.support.notices import listed

# --- Limits of proportions, and of how two of them differ ---------------------------------------
#
# A proportion has the exact limits of Clopper and Pearson. With weights or clusters the number of
# rows is replaced by the effective one, the number of equal rows that would vary as much [1]_.
# Limits of the difference and of the ratio of two groups are put together from the limits of each
# (MOVER, the method of variance estimates recovery [2]_), as if the groups were independent: where
# they share rows, or clusters, that makes them wider.
#
# References
# ----------
# .. [1] E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected
#    number of positive counts estimated from survey data", Survey Methodology 1998.
# .. [2] A. Donner and G. Y. Zou, "Closed-form confidence intervals for functions of the normal mean
#    and standard deviation", Statistical Methods in Medical Research 2012.


Limits = tuple[Float64, Float64]


def _effective_count(
    p: Float64, variance: Float64, equal: Float64, degrees: Float64 | None, critical: float
) -> Float64:
    """Number of equal rows whose proportion varies as much; ``equal`` where that is not known.

    Parameters
    ----------
    p, variance
        Estimates, and the variances of them.
    equal
        Numbers of rows of equal weight, or of clusters; there are never more.
    degrees
        Degrees of freedom of the variances, where these come from clusters.
    critical
        Normal score of the limits.
    """
    count = np.where(variance > 0.0, ratio(p * (1.0 - p), variance), equal)
    if degrees is not None:
        count = count * (critical / wider(critical, np.maximum(degrees, 1e-9))) ** 2
    return np.minimum(count, equal)


def _proportion_limits(p: Float64, count: Float64, critical: float) -> Limits:
    """Limits of Clopper and Pearson; NaN where there are no rows.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = _proportion_limits(np.array([0.0, 0.3]), np.array([10.0, 10.0]), 1.959964)
    >>> low.round(3), high.round(3)
    (array([0.   , 0.067]), array([0.308, 0.652]))
    """
    from scipy.special import betaincinv, ndtr

    tail = float(ndtr(-critical))
    told = count > 0.0
    n = np.where(told, count, 1.0)
    x = np.clip(np.where(told, p, 0.5) * n, 0.0, n)
    none, full = x <= 0.0, x >= n
    low = np.where(none, 0.0, betaincinv(np.where(none, 1.0, x), n - x + 1.0, tail))
    high = np.where(full, 1.0, betaincinv(x + 1.0, np.where(full, 1.0, n - x), 1.0 - tail))
    return np.where(told, low, np.nan), np.where(told, high, np.nan)


def difference_limits(a: Float64, own: Limits, b: Float64, other: Limits) -> Limits:
    """Limits of a - b from the limits of either.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.array([0.5]), np.array([0.25])
    >>> around = lambda p: (p - 0.03, p + 0.03)
    >>> [float(limit[0].round(3)) for limit in difference_limits(a, around(a), b, around(b))]
    [0.208, 0.292]
    """
    low = a - b - np.hypot(a - own[0], other[1] - b)
    high = a - b + np.hypot(own[1] - a, b - other[0])
    return low, high


def ratio_limits(a: Float64, own: Limits, b: Float64, other: Limits) -> Limits:
    """Limits of a / b from the limits of either; the upper one is infinite where b may be zero.

    They solve (a - r b)^2 = (a - own)^2 + r^2 (b - other)^2 for r.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.array([0.4]), np.array([0.5])
    >>> around = lambda p: (p - 0.05, p + 0.05)
    >>> [float(limit[0].round(3)) for limit in ratio_limits(a, around(a), b, around(b))]
    [0.679, 0.937]
    """
    told = (a >= 0.0) & (b > 0.0)
    a, b = np.where(told, a, 0.0), np.where(told, b, 1.0)

    def parts(mine: Float64, theirs: Float64) -> tuple[Float64, Float64, Float64]:
        square, constant = theirs * (2.0 * b - theirs), mine * (2.0 * a - mine)
        root = np.sqrt(np.maximum((a * b) ** 2 - square * constant, 0.0))
        return square, constant, a * b + root

    _, constant, both = parts(own[0], other[1])
    low = ratio(np.maximum(constant, 0.0), both)
    square, _, both = parts(own[1], other[0])
    high = np.where(square > 0.0, ratio(both, square), np.inf)
    return np.where(told, low, np.nan), np.where(told, high, np.nan)


# --- The area under the ROC curve of every group, with limits -----------------------------------
#
# The variance is that of DeLong, DeLong and Clarke-Pearson [1]_, with weights, and over sums of
# clusters where there are any. Limits are where a score test would reject: the variance there is
# the one of Hanley and McNeil [2]_, times what DeLong's was larger at the estimate. So they stay
# inside of [0, 1] and exist where all pairs are ranked rightly.
#
# References
# ----------
# .. [1] E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, "Comparing the areas under two or more
#    correlated receiver operating characteristic curves", Biometrics 1988.
# .. [2] R. G. Newcombe, "Confidence intervals for an effect size measure based on the Mann-Whitney
#    statistic, part 2", Statistics in Medicine 2006 (method 5).


_HALVINGS = 50
FEW = 100.0
"""Rows of either label up to which DeLong's variance only counts where it is the larger."""


def _auc_of(ranks: Float64) -> tuple[Float64, Float64, Float64, Float64]:
    """AUC, its variance, and the effective numbers of rows of labels 1 and 0.

    From shape (groups, RANKS), see `recalibrate.kernels.audit`; NaN where a label is missing.
    """
    from recalibrate.kernels import audit as at

    own = ranks.T
    positive, negative = own[at.POSITIVE], own[at.NEGATIVE]
    both = (positive > 0.0) & (negative > 0.0)
    value = np.where(both, ratio(own[at.PAIRS], positive * negative), np.nan)
    n_positive = ratio(positive**2, own[at.POSITIVE2])
    n_negative = ratio(negative**2, own[at.NEGATIVE2])
    # Rows of label 1: share of label 0 below them. Rows of label 0: share of label 1 below them.
    placed = [
        (own[at.POSITIVE2], own[at.POSITIVE_BELOW], own[at.POSITIVE_BELOW2], negative, positive),
        (own[at.NEGATIVE2], own[at.NEGATIVE_BELOW], own[at.NEGATIVE_BELOW2], positive, negative),
    ]
    variance = np.zeros(len(value))
    for (w2, below, below2, others, mass), mean, n in zip(
        placed, (value, 1.0 - value), (n_positive, n_negative), strict=True
    ):
        spread = ratio(below2, others**2) - 2.0 * mean * ratio(below, others) + mean**2 * w2
        variance += ratio(np.maximum(spread, 0.0), mass**2) * ratio(n, np.maximum(n - 1.0, 0.5))
    return value, variance, n_positive, n_negative


def _auc_limits(
    value: Float64,
    variance: Float64,
    positive: Float64,
    negative: Float64,
    critical: float | Float64,
) -> Limits:
    """Limits from the estimate, its variance and the numbers of rows of either label."""
    expected = _hanley(value, positive, negative)
    factor = ratio(variance, expected)
    few = np.minimum(positive, negative) < FEW
    factor = np.where((factor > 0.0) & ~few, factor, np.maximum(factor, 1.0))

    def reach(at: Float64) -> Float64:
        return critical * np.sqrt(np.maximum(factor * _hanley(at, positive, negative), 0.0))

    ends = []
    for edge in (0.0, 1.0):
        inner, outer = value, np.full(len(value), edge)
        for _ in range(_HALVINGS):
            middle = 0.5 * (inner + outer)
            within = np.abs(value - middle) <= reach(middle)
            inner, outer = np.where(within, middle, inner), np.where(within, outer, middle)
        ends.append(np.where(np.isnan(value), np.nan, outer))
    return ends[0], ends[1]


def _hanley(auc: Float64, positive: Float64, negative: Float64) -> Float64:
    """Variance of an AUC whose labels have exponential scores."""
    more = 0.5 * (positive + negative) - 1.0
    spread = 1.0 + more * (1.0 - auc) / (2.0 - auc) + more * auc / (1.0 + auc)
    return ratio(auc * (1.0 - auc) * spread, positive * negative)


def _clustered_variance(
    segments: Segments, sample: Sample, sums: Sums, auc: Float64
) -> tuple[Float64, NDArray[np.int64]]:
    """Variance of every group's AUC over sums of clusters, and their number.

    One more pass over the rows, where a row's share of the other label below it is looked up in
    the cells of the predictions.
    """
    from recalibrate.kernels import audit as kernels

    positive = sums.cells[..., F] + sums.cells[..., R]
    negative = sums.cells[..., WEIGHT] - positive
    mass = positive.sum(axis=0), negative.sum(axis=0)
    below = [np.cumsum(each, axis=0) - 0.5 * each for each in (positive, negative)]
    of_positive = ratio(ratio(below[1], mass[1]) - auc, mass[0])
    of_negative = ratio(1.0 - ratio(below[0], mass[0]) - auc, mass[1])
    influence = np.nan_to_num(np.concatenate([of_negative, of_positive]))
    n_cells = len(sums.cells)
    place = np.empty(sample.n_rows, dtype=np.int64)
    place[sums.bins.order] = sums.bins.cell
    place += n_cells * (sample.y > 0.5)
    n_groups = len(segments.names)
    last = np.full(n_groups, -1, dtype=np.int64)
    count = np.zeros(n_groups, dtype=np.int64)
    pending, squares = np.zeros(n_groups), np.zeros(n_groups)
    cluster = cluster_numbers(sample)
    for _, rows, codes in blocks(segments, np.argsort(cluster, kind="stable")):
        kernels.add_cluster_influence(
            codes,
            segments.offsets,
            cluster[rows],
            place[rows],
            sample.weight[rows],
            influence,
            last,
            pending,
            count,
            squares,
        )
    clusters = count.astype(np.float64)
    more = ratio(clusters, np.maximum(clusters - 1.0, 0.5))
    return (squares + pending**2) * more, count


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
        from recalibrate.kernels import audit

        n_groups = len(segments.names)
        self.sample, self._segments, self._f = sample, segments, f
        label = 2 * (sample.y > 0.5) if sample.binary else np.zeros(len(f), dtype=np.int64)
        self.cells = [label + (f >= each) for each in thresholds]
        self._sums = [np.zeros((_CELLS, n_groups, 3 if sample.weighted else 1)) for _ in thresholds]
        self.ranks = np.zeros((n_groups, audit.RANKS))
        self._last = np.array([-np.inf])

    def add(self, rows: Rows, codes: NDArray[np.int32]) -> None:
        """Count some more rows, in ascending order of prediction over all calls."""
        from recalibrate.kernels.audit import add_ranks, add_sums

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
        from recalibrate.kernels.audit import end_ranks

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
    others = _match_references(segments, sums[0].total[:, 0], named)
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


def _match_references(segments: Segments, rows: Float64, named: Sequence[int]) -> NDArray[np.intp]:
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
        value, variance, positive, negative = _auc_of(tally.ranked)
        cut: float | Float64 = critical
        if sample.cluster is not None:
            clustered, count = _clustered_variance(segments, sample, sums, value)
            variance = np.maximum(variance, clustered)
            cut = wider(critical, np.maximum(count - 1.0, 1e-9))
        limits = _auc_limits(value, variance, positive, negative, cut)
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
    effective = _effective_count(p, ratio(variance, mass**2), equal, degrees, critical)
    limits = _proportion_limits(p, np.where(mass > 0.0, effective, 0.0), critical)
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
