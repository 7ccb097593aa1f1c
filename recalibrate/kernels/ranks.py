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
# counts half. What there is of either label stands side by side, of label 0 first.
NEGATIVE, POSITIVE, PAIRS, NEGATIVE_BELOW2, POSITIVE_BELOW2 = 0, 1, 2, 3, 4
NEGATIVE2, POSITIVE2, NEGATIVE_BELOW, POSITIVE_BELOW = 5, 6, 7, 8
TIED_NEGATIVE, TIED_POSITIVE, TIED_NEGATIVE2, TIED_POSITIVE2 = 9, 10, 11, 12
RANKS = 13


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
    more = int(np.searchsorted(f, last[0], side="right"))
    if more:
        _add_ranks(codes[:more], offsets, f[:more], y[:more], weight[:more], equal, ranks)
    if more < len(f):
        _close(ranks)
        _add_ranks(codes[more:], offsets, f[more:], y[more:], weight[more:], equal, ranks)
    last[0] = f[-1]


def end_ranks(ranks: Floats, equal: bool) -> None:
    """Count the last rows, and what equal weights tell by themselves."""
    _close(ranks)
    if equal:
        own = ranks.T
        own[POSITIVE2], own[NEGATIVE2] = own[POSITIVE], own[NEGATIVE]
        own[POSITIVE_BELOW] = own[PAIRS]
        own[NEGATIVE_BELOW] = own[POSITIVE] * own[NEGATIVE] - own[PAIRS]


def _close(ranks: Floats) -> None:
    """Count the rows of all groups that share their prediction, as `_add_ranks` does for some."""
    own = ranks.T
    for label in (1, 0):
        tied, square = own[TIED_NEGATIVE + label], own[TIED_NEGATIVE2 + label]
        below = own[POSITIVE - label] + 0.5 * own[TIED_POSITIVE - label]
        if label:
            own[PAIRS] += tied * below
        own[NEGATIVE2 + label] += square
        own[NEGATIVE_BELOW + label] += square * below
        own[NEGATIVE_BELOW2 + label] += square * below * below
    own[NEGATIVE : POSITIVE + 1] += own[TIED_NEGATIVE : TIED_POSITIVE + 1]
    own[TIED_NEGATIVE:] = 0.0


@kernel
def _add_ranks(
    codes: Codes,
    offsets: NDArray[np.int64],
    f: Floats,
    y: Floats,
    weight: Floats,
    equal: bool,
    ranks: Floats,
) -> None:
    """Add rows; those of the last prediction are not counted yet."""
    n_rows, n_terms = codes.shape
    start = 0
    while start < n_rows:
        stop = start + 1
        while stop < n_rows and f[stop] == f[start]:
            stop += 1
        alone = equal and stop == start + 1 and stop < n_rows
        for i in range(start, stop):
            label = np.int64(y[i] > 0.5)
            for t in range(n_terms):
                code = codes[i, t]
                if code > 0:
                    own = ranks[offsets[t] + code - 1]
                    if alone:
                        below = own[POSITIVE - label]
                        own[NEGATIVE + label] += 1.0
                        own[NEGATIVE_BELOW2 + label] += below * below
                        own[PAIRS] += label * below
                    else:
                        own[TIED_NEGATIVE + label] += weight[i]
                        own[TIED_NEGATIVE2 + label] += weight[i] * weight[i]
        if stop < n_rows and not alone:
            for i in range(start, stop):
                for t in range(n_terms):
                    code = codes[i, t]
                    if code > 0:
                        _close_one(ranks[offsets[t] + code - 1])
        start = stop


@helper
def _close_one(own: Floats) -> None:
    for side in range(2):
        label = 1 - side
        tied, square = own[TIED_NEGATIVE + label], own[TIED_NEGATIVE2 + label]
        if tied > 0.0:
            below = own[side] + 0.5 * own[TIED_NEGATIVE + side]
            own[PAIRS] += label * tied * below
            own[NEGATIVE2 + label] += square
            own[NEGATIVE_BELOW + label] += square * below
            own[NEGATIVE_BELOW2 + label] += square * below * below
    for label in range(2):
        own[label] += own[TIED_NEGATIVE + label]
        own[TIED_NEGATIVE + label] = 0.0
        own[TIED_NEGATIVE2 + label] = 0.0


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
