"""Loops of the audit over rows in the order of predictions: how groups rank their rows.

Groups come as in ``recalibrate.kernels.audit``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.audit import Codes, Floats
from recalibrate.kernels.compiler import helper, kernel

# What is known about one group so far. NEGATIVE and POSITIVE are weights of rows below; BELOW_...
# add up, over rows of the one label, the weight of rows of the other label that are below: times
# w, times w squared, and that times itself. What every row of weight 1 changes comes first: it
# shares a line of the cache. Rows of the same prediction wait in TIED_...: among them every pair
# counts half.
NEGATIVE, POSITIVE, PAIRS, POSITIVE_BELOW2, NEGATIVE_BELOW2 = 0, 1, 2, 3, 4
POSITIVE2, POSITIVE_BELOW, NEGATIVE2, NEGATIVE_BELOW = 5, 6, 7, 8
TIED_NEGATIVE, TIED_NEGATIVE2, TIED_POSITIVE, TIED_POSITIVE2 = 9, 10, 11, 12
RANKS = 13


@helper
def _close(ranks: Floats, g: int) -> None:
    """Count the rows of a group that share their prediction."""
    negative, positive = ranks[g, TIED_NEGATIVE], ranks[g, TIED_POSITIVE]
    if positive > 0.0:
        below, square = ranks[g, NEGATIVE] + 0.5 * negative, ranks[g, TIED_POSITIVE2]
        ranks[g, PAIRS] += positive * below
        ranks[g, POSITIVE2] += square
        ranks[g, POSITIVE_BELOW] += square * below
        ranks[g, POSITIVE_BELOW2] += square * below * below
        ranks[g, TIED_POSITIVE] = 0.0
        ranks[g, TIED_POSITIVE2] = 0.0
    if negative > 0.0:
        below, square = ranks[g, POSITIVE] + 0.5 * positive, ranks[g, TIED_NEGATIVE2]
        ranks[g, NEGATIVE2] += square
        ranks[g, NEGATIVE_BELOW] += square * below
        ranks[g, NEGATIVE_BELOW2] += square * below * below
        ranks[g, TIED_NEGATIVE] = 0.0
        ranks[g, TIED_NEGATIVE2] = 0.0
        ranks[g, NEGATIVE] += negative
    ranks[g, POSITIVE] += positive


@helper
def _add_alone(
    codes: NDArray[np.int32], offsets: NDArray[np.int64], positive: bool, ranks: Floats
) -> None:
    """Add a row of weight 1 whose prediction no other row has."""
    for t in range(codes.shape[0]):
        code = codes[t]
        if code > 0:
            g = offsets[t] + code - 1
            if positive:
                below = ranks[g, NEGATIVE]
                ranks[g, POSITIVE] += 1.0
                ranks[g, PAIRS] += below
                ranks[g, POSITIVE_BELOW2] += below * below
            else:
                below = ranks[g, POSITIVE]
                ranks[g, NEGATIVE] += 1.0
                ranks[g, NEGATIVE_BELOW2] += below * below


@kernel
def add_ranks(
    codes: Codes,
    offsets: NDArray[np.int64],
    f: Floats,
    y: Floats,
    weight: Floats,
    equal: bool,
    last: Floats,
    ranks: Floats,
) -> None:
    """Add rows of labels 0 and 1; they are in ascending order of f over all calls.

    ``equal``: all weights are 1. The rows of the last prediction wait, which is in ``last[0]``,
    because the next call may have more of them.
    """
    n_rows, n_terms = codes.shape
    everywhere = f[0] == last[0]
    if not everywhere:
        for g in range(ranks.shape[0]):
            _close(ranks, g)
    start = 0
    while start < n_rows:
        stop = start + 1
        while stop < n_rows and f[stop] == f[start]:
            stop += 1
        if equal and stop == start + 1 and stop < n_rows and not everywhere:
            _add_alone(codes[start], offsets, y[start] > 0.5, ranks)
            start = stop
            continue
        for i in range(start, stop):
            w, place = weight[i], TIED_POSITIVE if y[i] > 0.5 else TIED_NEGATIVE
            for t in range(n_terms):
                if codes[i, t] > 0:
                    g = offsets[t] + codes[i, t] - 1
                    ranks[g, place] += w
                    ranks[g, place + 1] += w * w
        if stop < n_rows:
            if everywhere:  # groups of rows of the call before wait, too
                for g in range(ranks.shape[0]):
                    _close(ranks, g)
                everywhere = False
            for i in range(start, stop):
                for t in range(n_terms):
                    if codes[i, t] > 0:
                        _close(ranks, offsets[t] + codes[i, t] - 1)
        start = stop
    last[0] = f[n_rows - 1]


@kernel
def end_ranks(ranks: Floats, equal: bool) -> None:
    """Count the last rows, and what equal weights tell by themselves."""
    for g in range(ranks.shape[0]):
        _close(ranks, g)
        if equal:
            ranks[g, POSITIVE2], ranks[g, NEGATIVE2] = ranks[g, POSITIVE], ranks[g, NEGATIVE]
            ranks[g, POSITIVE_BELOW] = ranks[g, PAIRS]
            ranks[g, NEGATIVE_BELOW] = ranks[g, POSITIVE] * ranks[g, NEGATIVE] - ranks[g, PAIRS]


@kernel
def add_cluster_influence(
    codes: Codes,
    offsets: NDArray[np.int64],
    cluster: NDArray[np.int64],
    place: NDArray[np.int64],
    weight: Floats,
    influence: Floats,
    last: NDArray[np.int64],
    pending: Floats,
    count: NDArray[np.int64],
    squares: Floats,
) -> None:
    """Count clusters, and add the squares of their sums of weight * ``influence[place, group]``.

    Rows of a cluster stand together, over all calls; what waits in ``pending`` at the end is
    still to be squared and added.
    """
    for i in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            code = codes[i, t]
            if code > 0:
                g = offsets[t] + code - 1
                if last[g] != cluster[i]:
                    squares[g] += pending[g] * pending[g]
                    pending[g] = 0.0
                    last[g] = cluster[i]
                    count[g] += 1
                pending[g] += weight[i] * influence[place[i], g]
