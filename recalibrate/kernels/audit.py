"""Loops of the audit: sums over overlapping groups in one pass over the rows.

Groups come as ``codes``, one column per term: the 1-based group of the row among those of the
term, 0 for none. Group ``offsets[t] + code - 1`` is its number among all groups. Nothing here is
ever as large as rows times groups. Loops go row by row: the groups of a row are all different,
so that no addition waits for the one before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]

# Columns of a walk: what is known about the cumulated residuals of one group so far.
# Those that every row looks at come first: they share a line of the cache.
SUM, LAST, VARIANCE, SKEW, TOP, LOW = 0, 1, 2, 3, 4, 5
TOP_AT, TOP_VARIANCE, TOP_SKEW = 6, 7, 8
LOW_AT, LOW_VARIANCE, LOW_SKEW = 9, 10, 11
WALK = 12


@kernel
def add_sums(
    codes: Codes,
    offsets: NDArray[np.int64],
    cell: NDArray[np.int64],
    values: Floats,
    sums: Floats,
) -> None:
    """Add the rows' values to ``sums[cell, group]``."""
    n_terms, n_values = codes.shape[1], values.shape[1]
    for i in range(codes.shape[0]):
        at = cell[i]
        for t in range(n_terms):
            code = codes[i, t]
            if code > 0:
                group = offsets[t] + code - 1
                for k in range(n_values):
                    sums[at, group, k] += values[i, k]


@kernel
def add_six(
    codes: Codes,
    offsets: NDArray[np.int64],
    cell: NDArray[np.int64],
    values: Floats,
    sums: Floats,
) -> None:
    """The same for exactly six values, in half the time."""
    for i in range(codes.shape[0]):
        at = cell[i]
        a, b, c = values[i, 0], values[i, 1], values[i, 2]
        d, e, f = values[i, 3], values[i, 4], values[i, 5]
        for t in range(codes.shape[1]):
            code = codes[i, t]
            if code > 0:
                group = offsets[t] + code - 1
                sums[at, group, 0] += a
                sums[at, group, 1] += b
                sums[at, group, 2] += c
                sums[at, group, 3] += d
                sums[at, group, 4] += e
                sums[at, group, 5] += f


@kernel
def _look(walks: Floats, g: int) -> None:
    """Compare a sum with the extremes so far; between equal predictions nobody looks."""
    if walks[g, SUM] > walks[g, TOP]:
        walks[g, TOP], walks[g, TOP_AT] = walks[g, SUM], walks[g, LAST]
        walks[g, TOP_VARIANCE], walks[g, TOP_SKEW] = walks[g, VARIANCE], walks[g, SKEW]
    if walks[g, SUM] < walks[g, LOW]:
        walks[g, LOW], walks[g, LOW_AT] = walks[g, SUM], walks[g, LAST]
        walks[g, LOW_VARIANCE], walks[g, LOW_SKEW] = walks[g, VARIANCE], walks[g, SKEW]


@kernel
def add_steps(
    codes: Codes,
    offsets: NDArray[np.int64],
    f: Floats,
    residual: Floats,
    variance: Floats,
    skew: Floats,
    walks: Floats,
) -> None:
    """Go on with every group's walk; rows are in ascending order of f over all calls."""
    for i in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            code = codes[i, t]
            if code > 0:
                g = offsets[t] + code - 1
                if f[i] != walks[g, LAST]:
                    _look(walks, g)
                    walks[g, LAST] = f[i]
                walks[g, SUM] += residual[i]
                walks[g, VARIANCE] += variance[i]
                walks[g, SKEW] += skew[i]


@kernel
def end_walks(walks: Floats) -> None:
    """Look at the last sums."""
    for g in range(walks.shape[0]):
        _look(walks, g)


@kernel
def add_pairs(
    codes: Codes,
    offsets: NDArray[np.int64],
    variance: Floats,
    shared: Floats,
) -> None:
    """Add the rows' variances to ``shared[g, h]`` (h <= g) of all pairs of their groups."""
    n_terms = codes.shape[1]
    inside = np.empty(n_terms, np.int64)
    for i in range(codes.shape[0]):
        count = 0
        for t in range(n_terms):
            code = codes[i, t]
            if code > 0:
                inside[count] = offsets[t] + code - 1
                count += 1
        for a in range(count):
            row = shared[inside[a]]
            for b in range(a + 1):
                row[inside[b]] += variance[i]


@kernel
def add_cluster_squares(
    codes: Codes,
    offsets: NDArray[np.int64],
    cluster: NDArray[np.int64],
    values: Floats,
    last: NDArray[np.int64],
    pending: Floats,
    count: NDArray[np.int64],
    squares: Floats,
) -> None:
    """Add the products of every cluster's sums to ``squares[group, k, l]``.

    Rows of a cluster stand together, over all calls. A group's sums of the cluster that it saw
    last wait in ``pending``; `end_clusters` adds the last ones.
    """
    n_values = values.shape[1]
    for i in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            code = codes[i, t]
            if code > 0:
                group = offsets[t] + code - 1
                if last[group] != cluster[i]:
                    _flush(pending[group], squares[group])
                    last[group] = cluster[i]
                    count[group] += 1
                for k in range(n_values):
                    pending[group, k] += values[i, k]


@kernel
def _flush(pending: Floats, squares: Floats) -> None:
    for k in range(pending.shape[0]):
        for m in range(pending.shape[0]):
            squares[k, m] += pending[k] * pending[m]
    pending[:] = 0.0


@kernel
def end_clusters(pending: Floats, squares: Floats) -> None:
    """Add what still waits."""
    for group in range(pending.shape[0]):
        _flush(pending[group], squares[group])


@kernel
def add_cluster_pairs(
    codes: Codes,
    offsets: NDArray[np.int64],
    ends: NDArray[np.bool_],
    values: Floats,
    shared: Floats,
    sums: Floats,
    seen: NDArray[np.bool_],
    inside: NDArray[np.int64],
    count: int,
) -> int:
    """Add the products of every cluster's sums to ``shared[g, h]`` (h <= g) of pairs of groups.

    ``ends`` marks the last row of every cluster. A cluster may go on in the next call: its
    ``sums``, the groups ``seen`` and ``inside``, and their ``count`` (returned) wait until then.
    """
    for i in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            code = codes[i, t]
            if code > 0:
                group = offsets[t] + code - 1
                sums[group] += values[i]
                if not seen[group]:
                    seen[group] = True
                    inside[count] = group
                    count += 1
        if ends[i]:
            for a in range(count):
                for b in range(count):
                    if inside[b] <= inside[a]:
                        shared[inside[a], inside[b]] += sums[inside[a]] * sums[inside[b]]
            for a in range(count):
                sums[inside[a]] = 0.0
                seen[inside[a]] = False
            count = 0
    return count


# Measures whose change from one set of predictions to another gets a standard error.
GAP, SQUARED, LOG, ECE, K1, K2, KINF, ECCE = 0, 1, 2, 3, 4, 5, 6, 7
MEASURES = 8


@kernel
def _influence(
    f: float,
    r: float,
    loss: float,
    mean: float,
    sign: float,
    is_worst: bool,
    interval: Floats,
    level: Floats,
    factor: float,
    out: Floats,
) -> None:
    """Add factor times the derivative of every measure of a group by the weight of one row.

    ``mean`` is the mean residual of the row's quantile bin in the group, ``sign`` that of the
    residual sum of its equal-width bin, ``level`` the measures themselves.
    """
    out[GAP] += factor * (r - level[GAP])
    out[SQUARED] += factor * (r * r - level[SQUARED])
    out[LOG] += factor * (loss - level[LOG])
    out[ECE] += factor * (sign * r - level[ECE])
    turned = r if mean > 0.0 else (-r if mean < 0.0 else 0.0)
    out[K1] += factor * (turned - level[K1])
    out[K2] += factor * (2.0 * mean * r - mean * mean - level[K2])
    out[KINF] += factor * ((turned if is_worst else 0.0) - level[KINF])
    inside = interval[0] < f <= interval[1]
    out[ECCE] += factor * ((interval[2] * r if inside else 0.0) - level[ECCE])


@kernel
def add_influence(
    codes: Codes,
    offsets: NDArray[np.int64],
    cluster: NDArray[np.int64],
    weight: Floats,
    rows: Floats,
    bins: NDArray[np.int64],
    means: Floats,
    signs: Floats,
    worst: NDArray[np.int64],
    intervals: Floats,
    levels: Floats,
    last: NDArray[np.int64],
    pending: Floats,
    squares: Floats,
    products: Floats,
) -> None:
    """Add the squared influence of every cluster on the change of every measure, per group.

    Side 0 of ``rows`` (prediction, residual, loss), ``bins`` (quantile, equal-width) and of the
    groups' tables is after, side 1 before. Clusters wait in ``pending`` as in
    `add_cluster_squares`. ``products[group, kind, b, c]`` gets products of the residuals of rows
    in bin b after and bin c before, kind 0 for quantile bins, 1 for equal-width ones.
    """
    for i in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            code = codes[i, t]
            if code == 0:
                continue
            group = offsets[t] + code - 1
            if last[group] != cluster[i]:
                _square(pending[group], squares[group])
                last[group] = cluster[i]
            if products.shape[2]:
                product = weight[i] * weight[i] * rows[0, i, 1] * rows[1, i, 1]
                for kind in range(2):
                    products[group, kind, bins[0, i, kind], bins[1, i, kind]] += product
            for side in range(2):
                quantile, width = bins[side, i, 0], bins[side, i, 1]
                _influence(
                    rows[side, i, 0],
                    rows[side, i, 1],
                    rows[side, i, 2],
                    means[side, group, quantile],
                    signs[side, group, width],
                    worst[side, group] == quantile,
                    intervals[side, group],
                    levels[side, group],
                    weight[i] if side == 0 else -weight[i],
                    pending[group],
                )


@kernel
def _square(pending: Floats, squares: Floats) -> None:
    for k in range(pending.shape[0]):
        squares[k] += pending[k] * pending[k]
        pending[k] = 0.0


@kernel
def end_influence(pending: Floats, squares: Floats) -> None:
    """Add what still waits."""
    for group in range(pending.shape[0]):
        _square(pending[group], squares[group])
