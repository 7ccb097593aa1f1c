"""Loops of the audit: sums over overlapping groups in one pass over the rows.

Groups come as ``codes``, one column per term: the 1-based group of the row among those of the
term, 0 for none. Group ``offsets[t] + code - 1`` is its number among all groups. Nothing here is
ever as large as rows times groups. Loops go row by row: the groups of a row are all different,
so that no addition waits for the one before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import helper, kernel

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
        at, row = cell[i], values[i]
        for t in range(codes.shape[1]):
            code = codes[i, t]
            if code > 0:
                own = sums[at, offsets[t] + code - 1]
                for k in range(6):
                    own[k] += row[k]


@kernel
def add_eight(
    codes: Codes,
    offsets: NDArray[np.int64],
    cell: NDArray[np.int64],
    values: Floats,
    sums: Floats,
) -> None:
    """The same for exactly eight values."""
    for i in range(codes.shape[0]):
        at, row = cell[i], values[i]
        for t in range(codes.shape[1]):
            code = codes[i, t]
            if code > 0:
                own = sums[at, offsets[t] + code - 1]
                for k in range(8):
                    own[k] += row[k]


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
    """Go on with every group's walk; rows are in ascending order of f over all calls.

    A sum is compared with the extremes so far when the next prediction comes: between equal ones
    nobody looks.
    """
    for i in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            code = codes[i, t]
            if code > 0:
                own = walks[offsets[t] + code - 1]
                total = own[SUM]
                if f[i] != own[LAST]:
                    if total > own[TOP]:
                        own[TOP] = total
                        for k in range(3):
                            own[TOP_AT + k] = own[LAST + k]
                    if total < own[LOW]:
                        own[LOW] = total
                        for k in range(3):
                            own[LOW_AT + k] = own[LAST + k]
                    own[LAST] = f[i]
                own[SUM] = total + residual[i]
                own[VARIANCE] += variance[i]
                own[SKEW] += skew[i]


def end_walks(walks: Floats) -> None:
    """Look at the last sums."""
    for top, sign in ((TOP, 1), (LOW, -1)):
        beyond = sign * walks[:, SUM] > sign * walks[:, top]
        at = TOP_AT if top == TOP else LOW_AT
        for place, value in ((top, SUM), (at, LAST), (at + 1, VARIANCE), (at + 2, SKEW)):
            walks[beyond, place] = walks[beyond, value]


def add_pairs(
    codes: Codes,
    offsets: NDArray[np.int64],
    variance: Floats,
    shared: Floats,
) -> None:
    """Add the rows' variances to ``shared[g, h]`` (h <= g) of all pairs of their groups."""
    _add_pairs(codes, offsets, variance, np.empty(codes.shape[1], np.int64), shared)


@kernel
def _add_pairs(
    codes: Codes,
    offsets: NDArray[np.int64],
    variance: Floats,
    inside: NDArray[np.int64],
    shared: Floats,
) -> None:
    n_terms = codes.shape[1]
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


@helper
def _flush(pending: Floats, squares: Floats) -> None:
    for k in range(pending.shape[0]):
        for m in range(pending.shape[0]):
            squares[k, m] += pending[k] * pending[m]
    for k in range(pending.shape[0]):
        pending[k] = 0.0


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
