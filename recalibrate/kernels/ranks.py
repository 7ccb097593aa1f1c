"""Loops of the audit over rows in the order of predictions: how groups rank their rows.

Groups come as in ``recalibrate.kernels.audit``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.audit import Codes, Floats
from recalibrate.kernels.compiler import kernel

# What is known about one group so far. Rows of the same prediction wait in TIED_...: among them
# every pair counts half. NEGATIVE and POSITIVE are weights of rows below; BELOW_... add up, over
# rows of the one label, the weight of rows of the other label that are below: times w, times w
# squared, and that times itself.
LAST, NEGATIVE, POSITIVE = 0, 1, 2
TIED_NEGATIVE, TIED_NEGATIVE2, TIED_POSITIVE, TIED_POSITIVE2 = 3, 4, 5, 6
PAIRS = 7
NEGATIVE2, NEGATIVE_BELOW, NEGATIVE_BELOW2 = 8, 9, 10
POSITIVE2, POSITIVE_BELOW, POSITIVE_BELOW2 = 11, 12, 13
RANKS = 14


@kernel
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


@kernel
def add_ranks(
    codes: Codes,
    offsets: NDArray[np.int64],
    f: Floats,
    y: Floats,
    weight: Floats,
    ranks: Floats,
) -> None:
    """Add rows of labels 0 and 1; they are in ascending order of f over all calls."""
    for i in range(codes.shape[0]):
        w, place = weight[i], TIED_POSITIVE if y[i] > 0.5 else TIED_NEGATIVE
        for t in range(codes.shape[1]):
            code = codes[i, t]
            if code > 0:
                g = offsets[t] + code - 1
                if f[i] != ranks[g, LAST]:
                    _close(ranks, g)
                    ranks[g, LAST] = f[i]
                ranks[g, place] += w
                ranks[g, place + 1] += w * w


@kernel
def end_ranks(ranks: Floats) -> None:
    """Count the last rows."""
    for g in range(ranks.shape[0]):
        _close(ranks, g)


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
