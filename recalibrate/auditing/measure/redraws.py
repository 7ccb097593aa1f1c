r"""Labels drawn again and again under calibration, for the largest of the groups' scores.

Groups of a few rows, rare outcomes and skewed labels have scores that are not normal, and scores
of 0/1 labels take few values. So the audit's own statistic is computed on data sets in which the
predictions are right by construction, and the critical value is a quantile of its maximum:

- 0/1 labels are drawn with the predicted probabilities. Their law under calibration is known, so
  limits are as exact as the number of draws.
- Other labels get the residuals of rows in the same bin of predictions (centred), so that small
  groups are judged by the shape of all residuals.
- Rows of a cluster share the random number behind their label with a probability that gives
  residuals of a cluster the correlation that they have in the data.

Standard errors, degrees of freedom and skewness are estimated anew from every draw, as they are
from the data: what estimating them costs is part of the quantile (prepivoting [1]_).

References
----------
.. [1] R. Beran, "Balanced simultaneous confidence sets", JASA 1988.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.noise import (
    Residuals,
    Sizes,
    find_sizes,
    label_model,
    moderate,
    pooling_bins,
)
from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.segments import Segments
from recalibrate.auditing.measure.simultaneous import normal_score
from recalibrate.auditing.measure.skewness import skewness_terms, unskewed
from recalibrate.auditing.measure.sweep import ROWS, ClusterSums, F, Sums, blocks
from recalibrate.data.vectors import Float64
from recalibrate.metrics.levelsets import ratio
from recalibrate.support.hashing import combine, mix

FEWEST_DRAWS, MOST_DRAWS = 1_000, 2_000
SMALL = 1.5
WORK = 5e7
"""Memberships (rows times groups a row is in) over all draws, unless there are the fewest."""

MOST_MEMBERSHIPS = 200_000
"""With more, drawing takes seconds; groups are then large enough for normal scores, or so small
that limits are wider than they need to be."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Members:
    """Rows in an order that does not depend on the one that they came in, with their groups.

    Clusters stand together, and rows that are alike in everything may change places. Groups of
    row i are ``groups[starts[i]:starts[i + 1]]``; ``ends`` marks the last row of a cluster.
    """

    order: Ints
    ends: NDArray[np.bool_]
    starts: Ints
    groups: NDArray[np.int32]


def largest_scores(
    segments: Segments,
    sample: Sample,
    f: Float64,
    sums: Sums,
    clusters: ClusterSums | None,
) -> Float64 | None:
    """Largest score of all groups in each of many drawn data sets; None if that takes too long.

    Scores are normal ones, as `recalibrate.auditing.measure.simultaneous.wider` translates them.
    """
    memberships = float(sums.total[:, ROWS].sum())
    if memberships > MOST_MEMBERSHIPS:
        return None
    draws = int(np.clip(WORK / memberships, FEWEST_DRAWS, MOST_DRAWS))
    sizes = find_sizes(sums, sample, clusters)
    members = _members(segments, sample, f)
    if sample.binary and sample.cluster is None:
        return _largest_of_events(members, sample, f, sums, sizes, draws)
    residuals = _draw_residuals(members, sample, f, sums, draws)
    error, skewness, _ = moderate(sizes, residuals)
    if sample.binary:
        model = label_model(sums.cells.swapaxes(0, 1), (error[0] * sizes.mass) ** 2)
        outcomes = residuals.total + sums.total[:, F]
        information = model.information * ratio(np.broadcast_to(error[0], error.shape), error) ** 2
        score = model.scores_of(outcomes, information)
    else:
        a, b = skewness_terms(skewness, sizes.own)
        score = unskewed(ratio(residuals.total / sizes.mass, error), a, b)
    # Small scores never are the critical one, and translating them takes long.
    score = np.where((error > 0) & (np.abs(score) > SMALL), np.abs(score), 0.0)
    draw, group = np.nonzero(score)
    score[draw, group] = normal_score(score[draw, group], sizes.degrees[group])
    return np.asarray(score.max(axis=1))


def critical_score(largest: Float64, alpha: float) -> float:
    """Score that the largest one exceeds with probability alpha.

    Halfway to the next larger one, so that a score that many draws have is on neither side by
    rounding.
    """
    ordered = np.sort(largest)
    reached = ordered[int(np.ceil((1.0 - alpha) * len(ordered))) - 1]
    above = ordered[ordered > reached + 1e-6]
    return float(reached if len(above) == 0 else 0.5 * (reached + above[0]))


def _largest_of_events(
    members: Members, sample: Sample, f: Float64, sums: Sums, sizes: Sizes, draws: int
) -> Float64:
    from recalibrate.kernels import redraws as kernels

    outcomes = np.zeros((draws, len(sizes.mass)))
    order = members.order
    kernels.draw_events(members.starts, members.groups, f[order], sample.weight[order], outcomes)
    variance = sizes.known if sizes.known is not None else sizes.mass
    model = label_model(sums.cells.swapaxes(0, 1), variance)
    return np.asarray(np.abs(model.scores_of(outcomes, model.information)).max(axis=1))


def _draw_residuals(
    members: Members, sample: Sample, f: Float64, sums: Sums, draws: int
) -> Residuals:
    from recalibrate.kernels import redraws as kernels

    order, weight = members.order, sample.weight
    n_bins = pooling_bins(sums).shape[1]
    bins = sums.bins.of_rows(sums.bins.quantile) if n_bins > 1 else np.zeros_like(order)
    pool_starts, pool, spread = _pool(sample, f, bins, n_bins)
    shared = 0.0 if sample.cluster is None else _shared(sample, f, spread)
    found = np.zeros((draws, len(sums.total), kernels.N_SUMS))
    by_bin = np.zeros((draws, n_bins, 3))
    kernels.draw_residuals(
        members.starts, members.groups, members.ends, shared, f[order], weight[order],
        bins[order], pool_starts, pool, found, by_bin,
    )  # fmt: skip
    total, squares, cluster_squares, products = np.moveaxis(found, 2, 0)
    return Residuals(total, squares, cluster_squares, products, by_bin)


def _pool(
    sample: Sample, f: Float64, bins: Ints, n_bins: int
) -> tuple[Ints, Float64, Float64 | None]:
    """Centred residuals of every bin in ascending order, and each row's standard deviation."""
    starts = np.append(0, np.cumsum(np.bincount(bins, minlength=n_bins)))
    if sample.binary:
        return starts, np.empty(0), None
    residual = sample.y - f
    count = np.maximum(np.diff(starts), 1)
    residual -= (np.bincount(bins, weights=residual, minlength=n_bins) / count)[bins]
    spread = np.sqrt(np.bincount(bins, weights=residual**2, minlength=n_bins) / count)[bins]
    return starts, residual[np.lexsort((residual, bins))], spread


def _shared(sample: Sample, f: Float64, spread: Float64 | None) -> float:
    """Probability that a row takes its cluster's random number.

    Two rows that both do have the largest covariance there is, for 0/1 labels that of
    min(f, g) - f g. The share of it that pairs of rows have is that probability squared.
    """
    cluster = np.zeros(sample.n_rows, dtype=np.int64) if sample.cluster is None else sample.cluster
    w = sample.weight
    residual = w * (sample.y - f)
    observed = _pairs(cluster, residual)
    if spread is None:
        order = np.lexsort((f, cluster))
        c, wf, w = cluster[order], (w * f)[order], w[order]
        # In ascending order of f, min(f, g) is f for all pairs with later rows of the cluster.
        later = np.bincount(c, weights=w)[c] - _running(c, w)
        most = float((wf * later).sum()) - _pairs(c, wf)
    else:
        most = _pairs(cluster, w * spread)
    return float(np.sqrt(np.clip(observed / most, 0.0, 1.0))) if most > 0 else 0.0


def _pairs(cluster: Ints, values: Float64) -> float:
    """Sum of the products of all pairs of rows of a cluster."""
    together = np.bincount(cluster, weights=values)
    return 0.5 * float((together**2).sum() - (values**2).sum())


def _running(cluster: Ints, values: Float64) -> Float64:
    """Sums of the values up to and with every row, within its cluster; clusters in order."""
    total = np.cumsum(values)
    first = np.flatnonzero(np.diff(cluster, prepend=-1))
    before = total[first] - values[first]
    return np.asarray(total - np.repeat(before, np.diff(first, append=len(values))))


def _members(segments: Segments, sample: Sample, f: Float64) -> Members:
    offsets = segments.offsets[:-1].astype(np.int32)
    rows = np.arange(sample.n_rows)
    # By ranks, which do not depend on the units of predictions and weights.
    key = np.zeros(sample.n_rows, dtype=np.uint64)
    for values in (f, sample.weight):
        key = combine(key, np.unique(values, return_inverse=True)[1].astype(np.uint64))
    for at, _, codes in blocks(segments, rows):
        group = mix((codes + (offsets - 1)).ravel().astype(np.uint64), 0).reshape(codes.shape)
        key[at] += np.where(codes > 0, group, np.uint64(0)).sum(axis=1)
    if sample.cluster is None:
        order = np.argsort(key, kind="stable")
        ends = np.ones(len(order), dtype=np.bool_)
    else:
        together = np.zeros(sample.cluster.max() + 1, dtype=np.uint64)
        np.add.at(together, sample.cluster, key)
        order = np.lexsort((key, sample.cluster, together[sample.cluster]))
        ends = np.append(np.diff(sample.cluster[order]) != 0, True)
    counts, groups = [], []
    for _, _, codes in blocks(segments, order):
        inside = codes > 0
        counts.append(inside.sum(axis=1))
        groups.append((codes + (offsets - 1))[inside])
    starts = np.append(0, np.cumsum(np.concatenate(counts)))
    return Members(order, ends, starts, np.concatenate(groups).astype(np.int32))
