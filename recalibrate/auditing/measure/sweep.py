"""Passes over the rows, in blocks: all sums that an audit is made of.

A block's groups are found when it is its turn, so memory grows with rows and with groups, never
with their product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.segments import Rows, Segments
from recalibrate.data.columns import cut_at_quantiles, distinct_values, integer_weights
from recalibrate.data.labels import Float64, Labels, to_array
from recalibrate.metrics import SMALLEST_VARIANCE, Decomposition, Loss, decompose_sorted, ratio
from recalibrate.support.hashing import mix

# --- The rows of an audit: labels, weights and clusters of those that count ---------------------


FEWEST = 5.0
"""Rows (or clusters) below which the noise of other than 0/1 labels cannot be told."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of positive weight.

    Attributes
    ----------
    rows : ndarray of int
        Where they are among the rows that the user gave.
    y : ndarray of float64
        Labels, scaled to [0, 1].
    weight : ndarray of float64
        Ones where they are equal, else scaled by a power of two, so that squares neither vanish
        nor overflow.
    weighted : bool
        Whether weights differ from each other.
    cluster : ndarray of int64 or None
        Number of every row's cluster.
    exposure : ndarray of float64 or None
        What the labels are rates over, where that differs between rows.
    binary : bool
        Whether labels are 0/1, so that predictions tell their own variance.
    unit : bool
        Whether labels are binary or soft, so that there is a log loss.
    losses : tuple of Loss
        What scores are taken apart for: squared error, and the loss that rows have besides.
    low, high : float
        What 0 and 1 are in the units of the label.
    """

    rows: NDArray[np.intp]
    y: Float64
    weight: Float64
    weighted: bool
    cluster: NDArray[np.int64] | None
    binary: bool
    unit: bool
    losses: tuple[Loss, ...]
    low: float
    high: float
    exposure: Float64 | None = None

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def shows_noise(self) -> bool:
        """Whether enough labels differ from the smallest one to tell how much others would.

        Hardly any claims say hardly anything about how much totals vary; of 0/1 labels the
        predictions say it.
        """
        return self.binary or int(np.count_nonzero(self.y > self.y.min())) >= FEWEST

    def variance(self, f: Float64, residual: Float64) -> Float64:
        """Variance of every label under calibration: known for 0/1, else the squared residual."""
        return np.maximum(f * (1.0 - f), SMALLEST_VARIANCE) if self.binary else residual**2

    @property
    def deviance(self) -> bool:
        """Whether rows have a loss besides squared error that is no log loss."""
        return len(self.losses) > 1 and not self.unit

    def loss(self, f: Float64, y: Float64) -> Float64:
        """Loss of every row besides squared error, in the units of the label; 0 if there is none.

        Log loss takes predictions of 0 and 1 as the nearest others.
        """
        if len(self.losses) == 1:
            return np.zeros_like(f)
        if self.binary:
            tiny = np.finfo(np.float64).eps
            p = np.clip(f, tiny, 1.0 - tiny)
            return -np.log(np.where(y > 0.5, p, 1.0 - p))
        return self.losses[1].rows(self.unscale(f), self.unscale(y))

    def unscale(self, values: Float64) -> Float64:
        """Values in the units of the label."""
        return values * (self.high - self.low) + self.low

    def decompose(self, f: Float64, order: NDArray[np.intp]) -> tuple[Decomposition, ...]:
        """What the scores consist of; ``order`` sorts the predictions."""
        f, y = (self.unscale(values[order]) for values in (f, self.y))
        return decompose_sorted(f, y, self.weight[order], self.losses)


def take_sample(
    labels: Labels,
    clusters: NDArray[np.int64] | None,
    loss: Loss | None = None,
    exposure: Float64 | None = None,
) -> Sample:
    """The rows that count; without a loss it is log loss for labels in [0, 1]."""
    squared, unit = Loss(0.0), labels.kind != "regression"
    chosen = loss or (Loss(None) if unit else squared)
    n_rows = len(labels.values)
    rows = np.arange(n_rows) if labels.weight is None else np.flatnonzero(labels.weight > 0)
    weight = np.ones(len(rows))
    if labels.weight is not None and (labels.weight[rows] != labels.weight[rows[0]]).any():
        weight = labels.weight[rows]
        weight = np.ldexp(weight, -np.frexp(weight.max())[1])
    return Sample(
        rows,
        labels.values[rows],
        weight,
        bool((weight != weight[0]).any()),
        None if clusters is None else clusters[rows],
        labels.kind == "binary",
        unit,
        (squared,) if chosen == squared else (squared, chosen),
        labels.low,
        labels.high,
        None if exposure is None or np.ptp(exposure[rows]) == 0.0 else exposure[rows],
    )


def read_clusters(cluster: Any, n_rows: int) -> NDArray[np.int64]:
    """Check clusters and number them from 0."""
    import pandas as pd

    values = to_array(cluster, "cluster")
    if values.shape != (n_rows,):
        raise ValueError(
            f"cluster has shape {values.shape}, but there are {n_rows} rows: give the person or "
            "household of every row."
        )
    numbers, _ = pd.factorize(values)
    if (numbers < 0).any():
        row = int((numbers < 0).argmax())
        raise ValueError(
            f"cluster is missing for {int((numbers < 0).sum())} rows, the first is row {row} "
            "(from 0). Give each of these rows a value of its own if they stand alone."
        )
    return numbers.astype(np.int64)


# --- How the residuals of all rows vary: what a group of a few rows cannot tell by itself -------


LEAST_SPREAD = 0.1
"""How much the noise of groups is taken to differ at least: variance of its ratio to that of all
rows. Where residuals are normal the noise of all rows then counts as 20 rows of a group. With
heavier tails a group's own residuals say less about their variance, and these are more."""

SURELY = 2.0
"""Standard deviations of chance that groups must differ by."""

_TINY = 1e-300

FEWEST_IN_BIN = 5
"""With fewer rows in a bin, the noise of all rows is the same for all bins."""


@dataclass(frozen=True, eq=False)
class Law:
    """Noise by bin of the predictions: variance, third moment, and kurtosis of all bins.

    ``centre`` is the mean residual of a bin, which they are moments around.
    """

    variance: Float64
    third: Float64
    kurtosis: float
    centre: Float64

    @classmethod
    def of(
        cls,
        residual: Float64,
        place: NDArray[np.integer],
        n_bins: int,
        exposure: Float64 | None = None,
    ) -> Law:
        """The law of residuals of rows in these bins.

        Rates over an exposure e vary less the longer it is: the variance of their residuals is
        proportional to 1 / e and the third moment to 1 / e^2, as those of counts and of sums of
        claims are. The law is then that of rows with an exposure of 1.
        """

        def sums(values: Float64) -> Float64:
            return np.asarray(np.bincount(place, weights=values, minlength=n_bins))

        e = np.ones(len(place)) if exposure is None else exposure
        mass = sums(e)
        rows = ratio(mass**2, sums(e**2))
        if n_bins > 1 and rows[rows > 0].min() < FEWEST_IN_BIN:
            same = cls.of(residual, np.zeros_like(place), 1, exposure)
            values = (same.variance, same.third, same.centre)
            variance, third, centre = (each.repeat(n_bins) for each in values)
            return cls(variance, third, same.kurtosis, centre)
        centre = ratio(sums(e * residual), mass)
        apart = e * (residual - centre[place])
        square = apart**2
        second, third = sums(square), ratio(sums(square * apart), mass)
        # Equal residuals leave only rounding errors of the subtraction.
        told = second > 1e-12 * sums((e * residual) ** 2)
        variance = np.where(told, ratio(second, mass) * rows / np.maximum(rows - 1.0, 1.0), 0.0)
        fourth = ratio(square, variance[place]) ** 2
        kurtosis = max(3.0, float(fourth.sum() / np.sum(e**2)))
        share = rows / (rows + (kurtosis - 1.0) / LEAST_SPREAD)
        smooth = [
            _smoothed(values, rows, share) for values in (variance, np.where(told, third, 0.0))
        ]
        return cls(smooth[0], smooth[1], kurtosis, centre)

    def prior(self) -> float:
        """Rows that this law counts as, against a group's own."""
        return float(prior_rows(self.kurtosis))

    def moderate(self, own: Float64, pooled: Float64, count: Float64) -> tuple[Float64, Float64]:
        """Variance of a sum by its own residuals and by this law, and the share of the former."""
        share = count / (count + self.prior())
        return share * own + (1.0 - share) * pooled, share


def prior_rows(kurtosis: Float64 | float, spread: float = LEAST_SPREAD) -> Float64:
    """Rows that the noise of others counts as, against a group's own, if noise differs so much."""
    return np.asarray((kurtosis - 1.0) / spread)


def noise_spread(relative: Float64, count: Float64, rows: float, kurtosis: float) -> float:
    """How much noise differs between groups of a term, of so many rows of all each.

    That is the variance of their own variances, relative to what is expected, by moments
    (DerSimonian and Laird): by chance alone a group of n of all N rows has a variance of
    (kurtosis - 1) (1 / n - 1 / N). Only what is more than chance counts.
    """
    # With very unequal weights a group can tell as much as more rows than all rows do.
    others = np.maximum(1.0 - count / rows, 0.0)
    chance = others.sum() + SURELY * np.sqrt(2.0 * others.sum())
    excess = count @ (relative - 1.0) ** 2 - (kurtosis - 1.0) * chance
    return max(float(ratio(excess, count @ others)), LEAST_SPREAD)


def noise_score(relative: Float64, count: Float64, kurtosis: Float64) -> Float64:
    """Normal score of variances of so many rows, as multiples of what is expected.

    A variance of n rows has a gamma law of mean 1 and variance (kurtosis - 1) / n. But heavy tails
    show in few rows: if residuals are 0 but for one row in ``kurtosis``, a small variance says
    that few of n rows are such ones, and is as likely as that (binomial law).

    Examples
    --------
    >>> few, many = np.full(2, 0.1), np.array([20.0, 200.0])
    >>> noise_score(few, many, np.array([3.0, 3.0])).round(1)  # of normal residuals
    array([ -2.9, -10.5])
    >>> noise_score(few, many, np.array([30.0, 30.0])).round(1)
    array([ 0. , -2.6])
    """
    from scipy.special import betainc, gammainc, gammaincc, ndtri

    shape = count / (kurtosis - 1.0)
    large = np.minimum(relative, 1.0) * count / kurtosis
    few = betainc(count - large, large + 1.0, 1.0 - 1.0 / kurtosis)
    less = np.maximum(gammainc(shape, shape * relative), few)
    more = gammaincc(shape, shape * relative)
    # Whatever is larger than any chance is all the same.
    low, high = (ndtri(np.maximum(tail, _TINY)) for tail in (less, more))
    return np.asarray(np.where(relative < 1.0, np.minimum(low, 0.0), np.maximum(-high, 0.0)))


def law_factors(weight: Float64, exposure: Float64 | None) -> tuple[Float64, Float64]:
    """What a row adds to variance and third moment of a weighted sum, as multiples of the law.

    That is w^2 and w^3; with an exposure e, w^2 / e and w^3 / e^2.

    Examples
    --------
    >>> law_factors(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    (array([1., 2.]), array([1., 2.]))
    """
    if exposure is None:
        return weight**2, weight**3
    rest = weight / exposure
    return weight * rest, weight * rest**2


def _smoothed(values: Float64, rows: Float64, share: Float64) -> Float64:
    """Means by bin: a share of them their own, the rest that of three bins around them."""
    mass, total = (np.convolve(each, np.ones(3))[1:-1] for each in (rows, rows * values))
    return share * values + (1.0 - share) * ratio(total, mass)


Ints = NDArray[np.int64]

BLOCK = 16_384
FINE_BINS = 48
"""Quantile bins that describe how predictions vary within a group."""

MOST_CELL_SUMS = 50_000_000
MOST_CORRELATED = 3_000
"""More groups than this are not correlated with each other: the matrix would be too large."""

PAIR_BUDGET = 50_000_000
"""Pairs of groups over all rows; beyond that every k-th row or cluster stands for the others."""

ALL_BUT, MORE = 0.999, 1.2
"""A group is around another one with all but this share of its rows, and so many times as many."""

# Columns of the sums: of ones, of weights w, and of w times prediction, residual, ... The last two
# are what the law of all rows is multiplied by to give variance and third moment of a group's sum:
# w^2 and w^3, with exposures e w^2 / e and w^3 / e^2.
ROWS, WEIGHT, F, R, R2, LOSS, W2, W2R, W2R2, W2V, BY_VARIANCE, BY_THIRD = range(12)
N_SUMS = 12
# Of other than 0/1 labels also the powers of w times the residual from the law's centre c.
W3C3, W4C4 = 12, 13


@dataclass(frozen=True, eq=False)
class _Bins:
    """Bins of one set of predictions, of rows in ascending order of prediction.

    ``cell`` numbers the finest pieces: rows of a cell share their quantile bin, their
    equal-width bin and their fine bin. ``quantile`` and ``width`` say which bins a cell is in.
    """

    edges: Float64
    order: Rows
    cell: Ints
    quantile: Ints
    width: Ints

    def of_rows(self, bin_of_cell: Ints) -> Ints:
        """Bin of every row, by ``quantile`` or ``width``."""
        found = np.empty(len(self.order), dtype=np.int64)
        found[self.order] = bin_of_cell[self.cell]
        return found


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the rows of every group, for one set of predictions.

    Attributes
    ----------
    bins : Bins
    n_bins : int
        Bins of either kind.
    cells : ndarray of shape (cells, groups, N_SUMS)
        With two sums more for other than 0/1 labels.
    walks : ndarray of shape (groups, WALK)
        Cumulated residuals, see `recalibrate.kernels.audit`.
    law : Law
        Noise of all rows by quantile bin.
    """

    bins: _Bins
    n_bins: int
    cells: Float64
    walks: Float64
    law: Law

    @cached_property
    def total(self) -> Float64:
        """Shape (groups, N_SUMS)."""
        return np.asarray(self.cells.sum(axis=0))

    @cached_property
    def by_quantile(self) -> Float64:
        """Shape (groups, n_bins, N_SUMS)."""
        return self._gather(self.bins.quantile)

    @cached_property
    def by_width(self) -> Float64:
        """Shape (groups, n_bins, N_SUMS)."""
        return self._gather(self.bins.width)

    def _gather(self, bin_of_cell: Ints) -> Float64:
        out = np.zeros((self.n_bins, *self.cells.shape[1:]))
        np.add.at(out, bin_of_cell, self.cells)
        return np.ascontiguousarray(out.swapaxes(0, 1))


def _cut_bins(f: Float64, sample: Sample, n_bins: int, n_groups: int) -> _Bins:
    """Sort the predictions and cut them."""
    order = np.argsort(f)  # in whatever order among equals: nobody looks between them
    ordered = f[order]
    # Only 0/1 labels need to know more of the predictions than their bins.
    fine = min(FINE_BINS, MOST_CELL_SUMS // (N_SUMS * n_groups)) if sample.binary else 1
    weight = sample.weight[order] if sample.weighted else None
    units = (
        np.empty(0, np.int64) if weight is None else integer_weights(weight, max(n_bins, FINE_BINS))
    )
    distinct = distinct_values(ordered, units)
    edges, fine_edges = (cut_at_quantiles(*distinct, bins) for bins in (n_bins, max(fine, 1)))
    quantile = _bins_of_sorted(ordered, edges)
    width = np.clip(np.floor(ordered * n_bins), 0, n_bins - 1).astype(np.int64)
    new = np.zeros(len(f), dtype=np.bool_)
    for bins in (quantile, width, _bins_of_sorted(ordered, fine_edges)):
        new[1:] |= bins[1:] != bins[:-1]
    first = np.append(0, np.flatnonzero(new))
    return _Bins(np.asarray(edges), order, np.cumsum(new), quantile[first], width[first])


def _bins_of_sorted(ordered: Float64, edges: NDArray[np.floating]) -> Ints:
    """Number of edges at or below each of some ascending values."""
    reached = np.searchsorted(ordered, edges)
    sizes = np.diff(reached, prepend=0, append=len(ordered))
    return np.repeat(np.arange(len(sizes)), sizes)


@dataclass(frozen=True, eq=False)
class Nesting:
    """The groups of every term but all rows, outer ones first; and those ``around`` each group.

    These are in ascending order of size.
    """

    terms: list[Ints]
    around: list[Ints]


class Observer(Protocol):
    """Counts something of its own in the pass over the rows."""

    def add(self, rows: Rows, codes: NDArray[np.int32], /) -> None:
        """Look at some rows and their groups; rows come in ascending order of prediction."""


def sum_groups(
    segments: Segments,
    sample: Sample,
    f: Float64,
    n_bins: int,
    observer: Observer | None = None,
) -> Sums:
    """One pass in the order of predictions."""
    from recalibrate.kernels import audit as kernels

    n_groups = len(segments.names)
    bins = _cut_bins(f, sample, n_bins, n_groups)
    law = Law.of(sample.y - f, bins.of_rows(bins.quantile), n_bins, sample.exposure)
    centre = law.centre[bins.quantile]
    kept, source = _distinct_columns(sample)
    kept += [ROWS] * (-len(kept) % 6)  # the kernel adds six at a time
    parts = [kept[k : k + 6] for k in range(0, len(kept), 6)]
    cells = [np.zeros((len(bins.quantile), n_groups, 6)) for _ in parts]
    walks = np.zeros((n_groups, kernels.WALK))
    walks[:, [kernels.LAST, kernels.TOP_AT, kernels.LOW_AT]] = -np.inf
    for at, rows, codes in blocks(segments, bins.order):
        columns = _columns(sample, f, rows)
        if not sample.binary:
            columns |= _powers(columns, centre[bins.cell[at]])
        for part, sums in zip(parts, cells, strict=True):
            values = np.stack([columns[name] for name in part], axis=1)
            kernels.add_six(codes, segments.offsets, bins.cell[at], values, sums)
        variance, skew = columns[W2V], np.zeros(len(rows))
        if sample.binary:
            skew = sample.weight[rows] * variance * (1.0 - 2.0 * f[rows])
        kernels.add_steps(codes, segments.offsets, f[rows], columns[R], variance, skew, walks)
        if observer is not None:
            observer.add(rows, codes)
    kernels.end_walks(walks)
    return Sums(bins, n_bins, np.concatenate(cells, axis=2)[..., source], walks, law)


def blocks(segments: Segments, order: Rows) -> Iterator[tuple[slice, Rows, NDArray[np.int32]]]:
    """Pieces of an order of rows: where in the order, which rows, and their groups."""
    for start in range(0, len(order), BLOCK):
        at = slice(start, start + BLOCK)
        yield at, order[at], segments.codes(order[at])


def _distinct_columns(sample: Sample) -> tuple[list[int], list[int]]:
    """Columns that must be summed, and for each of all columns the one of these that it equals.

    Without weights half of them are the same, or of no use.
    """
    same: dict[int, int] = {}
    if not sample.weighted and sample.exposure is None:
        same = {WEIGHT: ROWS, W2: ROWS, BY_VARIANCE: ROWS, BY_THIRD: ROWS, W2R: R, W2R2: R2}
    elif sample.exposure is None:
        same = {BY_VARIANCE: W2}
    if not sample.binary:
        same[W2V] = same.get(W2R2, W2R2)
    if len(sample.losses) == 1:
        same[LOSS] = R2  # there is no other one than squared error
    columns = range(N_SUMS if sample.binary else W4C4 + 1)
    kept = [column for column in columns if column not in same]
    return kept, [kept.index(same.get(column, column)) for column in columns]


def _columns(sample: Sample, f: Float64, rows: Rows) -> dict[int, Float64]:
    """Columns of some rows; those that equal others are missing."""
    y, w, p = sample.y[rows], sample.weight[rows], f[rows]
    r = y - p
    square = r**2
    variance, loss = sample.variance(p, r), sample.loss(p, y)
    if not sample.weighted and sample.exposure is None:
        return {ROWS: w, WEIGHT: w, F: p, R: r, R2: square, LOSS: loss, W2V: variance}
    w2 = w**2
    exposure = None if sample.exposure is None else sample.exposure[rows]
    by_variance, by_third = law_factors(w, exposure)
    found = {ROWS: np.ones(len(rows)), WEIGHT: w, F: w * p, R: w * r, R2: w * square}
    found |= {LOSS: w * loss, W2: w2, W2R: w2 * r, W2R2: w2 * square}
    return found | {W2V: w2 * variance, BY_VARIANCE: by_variance, BY_THIRD: by_third}


def _powers(columns: dict[int, Float64], centre: Float64) -> dict[int, Float64]:
    """Third and fourth powers of the weighted residuals from a centre."""
    apart = columns[R] - columns[WEIGHT] * centre
    cube = apart**2 * apart
    return {W3C3: cube, W4C4: cube * apart}


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """How the sums of clusters vary, per group.

    ``squares[g, k, l]`` adds up products of a cluster's sums of w times value k and l; the last
    value is 1. ``count`` are clusters with rows in the group.
    """

    squares: Float64
    count: Ints

    def spread(self, k: int, centre: Float64) -> Float64:
        """Summed squares of the clusters' sums of w times (value k - centre)."""
        own = self.squares[:, k, k] - 2.0 * centre * self.squares[:, k, -1]
        found = own + centre**2 * self.squares[:, -1, -1]
        # Equal values leave only rounding errors of the subtraction.
        return np.where(found > 1e-12 * self.squares[:, k, k], found, 0.0)


def sum_clusters(
    segments: Segments, sample: Sample, values: Callable[[Rows], list[Float64]], count: int
) -> ClusterSums:
    """One pass in the order of clusters; ``values`` gives so many values of some rows."""
    from recalibrate.kernels import audit as kernels

    n_groups = len(segments.names)
    last = np.full(n_groups, -1, dtype=np.int64)
    clusters = np.zeros(n_groups, dtype=np.int64)
    pending = np.zeros((n_groups, count + 1))
    squares = np.zeros((n_groups, count + 1, count + 1))
    cluster = cluster_numbers(sample)
    for _, rows, codes in blocks(segments, np.argsort(cluster, kind="stable")):
        w = sample.weight[rows]
        weighted = np.column_stack([*(w * value for value in values(rows)), w])
        kernels.add_cluster_squares(
            codes, segments.offsets, cluster[rows], weighted, last, pending, clusters, squares
        )
    kernels.end_clusters(pending, squares)
    return ClusterSums(squares, clusters)


def cluster_numbers(sample: Sample) -> Ints:
    """Clusters; a number of its own for every row where there are none."""
    return np.arange(sample.n_rows) if sample.cluster is None else sample.cluster


def together(sample: Sample, sums: Sums) -> float:
    """Share of pairs of rows of a cluster that are in the same quantile bin.

    Clusters make the noise of a bin larger only through the pairs inside of it.
    """
    if sample.cluster is None:
        return 0.0
    place = sums.bins.of_rows(sums.bins.quantile)
    pairs = [
        float((size * (size - 1.0)).sum())
        for size in (
            np.unique(sample.cluster * sums.n_bins + place, return_counts=True)[1],
            np.bincount(sample.cluster),
        )
    ]
    return pairs[0] / pairs[1] if pairs[1] else 0.0


def overlaps(segments: Segments, sample: Sample, f: Float64) -> Float64 | None:
    """Variance under calibration that pairs of groups share; None for too many groups."""
    n_groups = len(segments.names)
    if n_groups > MOST_CORRELATED:
        return None
    shared = np.zeros((n_groups, n_groups))
    _share_rows(segments, sample, f, shared)
    return shared


def find_nesting(segments: Segments, shared: Float64 | None) -> Nesting:
    """Which groups are inside of which: have no rows that the others do not have, and fewer."""
    n_groups = len(segments.names)
    around = [np.arange(0)] * n_groups
    depth = np.zeros(n_groups, dtype=np.int64)
    if shared is not None:
        size = np.diag(shared)
        for g in np.argsort(-size, kind="stable"):
            both = np.maximum(shared[g], shared[:, g])
            outside = (both >= ALL_BUT * size[g]) & (size > MORE * size[g])
            outside[0] = False
            found = np.flatnonzero(outside)
            around[g] = found[np.argsort(size[found], kind="stable")]
            depth[g] = 1 + max(depth[around[g]], default=0)
    terms = [np.arange(*ends) for ends in pairwise(segments.offsets.tolist()) if ends[0] > 0]
    terms.sort(key=lambda groups: max(depth[groups], default=0))
    return Nesting(terms, around)


def correlate(
    segments: Segments, sample: Sample, f: Float64, shared: Float64 | None
) -> Float64 | None:
    """Correlation of the groups' residual sums under calibration; None for too many groups.

    A group without rows in the sample of rows or clusters is taken as independent of the others,
    which makes limits wider, never narrower.
    """
    if shared is None:
        return None
    if sample.cluster is not None:
        shared = np.zeros_like(shared)
        _share_clusters(segments, sample, f, shared)
    scale = np.sqrt(np.diag(shared))
    scale[scale == 0.0] = 1.0
    correlation = shared / scale[:, None] / scale
    correlation += np.tril(correlation, -1).T
    np.fill_diagonal(correlation, 1.0)
    return correlation


def _share_rows(segments: Segments, sample: Sample, f: Float64, shared: Float64) -> None:
    from recalibrate.kernels import audit as kernels

    order = _some(segments, sample, np.arange(sample.n_rows))
    for _, rows, codes in blocks(segments, order):
        exposure = None if sample.exposure is None else sample.exposure[rows]
        variance, _ = law_factors(sample.weight[rows], exposure)
        if sample.binary:  # squared residuals of numbers would let a few rows decide
            variance = variance * sample.variance(f[rows], sample.y[rows])
        kernels.add_pairs(codes, segments.offsets, variance, shared)


def _share_clusters(segments: Segments, sample: Sample, f: Float64, shared: Float64) -> None:
    from recalibrate.kernels import audit as kernels

    cluster = cluster_numbers(sample)
    order = _some(segments, sample, np.argsort(cluster, kind="stable"))
    ends = np.append(np.diff(cluster[order]) != 0, True)
    n_groups = len(shared)
    sums, seen = np.zeros(n_groups), np.zeros(n_groups, dtype=np.bool_)
    inside, count = np.empty(n_groups, dtype=np.int64), 0
    for at, rows, codes in blocks(segments, order):
        values = sample.weight[rows] * (sample.y[rows] - f[rows])
        count = kernels.add_cluster_pairs(
            codes, segments.offsets, ends[at], values, shared, sums, seen, inside, count
        )


def _some(segments: Segments, sample: Sample, order: Rows) -> Rows:
    """The rows of an order, or of every k-th cluster where pairing all would take too long."""
    sparse = order[:: max(1, len(order) // 1000)]
    inside = (segments.codes(sparse) > 0).sum(axis=1)
    step = round(len(order) * float((inside**2).mean()) / 2 / PAIR_BUDGET)
    if step <= 1:
        return order
    # By hash, because files are often written in a pattern.
    number = mix(cluster_numbers(sample)[order].astype(np.uint64), 0)
    return np.asarray(order[number % np.uint64(step) == 0])
