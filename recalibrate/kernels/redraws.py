"""Loops that draw labels under calibration and add up the residuals of overlapping groups.

The groups of row i are ``groups[starts[i]:starts[i + 1]]``. Random numbers are a hash of a
counter, so that they are the same on every machine and for every number of draws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_ONE = np.uint64(1)


@kernel
def _uniform(counter: np.uint64) -> float:
    """Number number ``counter`` of a splitmix64 sequence, in [0, 1)."""
    state = counter * _GOLDEN
    state = (state ^ (state >> _30)) * _FIRST
    state = (state ^ (state >> _27)) * _SECOND
    return np.float64((state ^ (state >> _31)) >> _11) * 2.0**-53


@kernel
def draw_events(
    starts: Ints,
    groups: NDArray[np.int32],
    f: Floats,
    weight: Floats,
    outcomes: Floats,
) -> None:
    """Fill ``outcomes[draw, group]`` with the weight of rows with label 1, drawn by f."""
    counter = np.uint64(0)
    for draw in range(outcomes.shape[0]):
        out = outcomes[draw]
        for i in range(f.shape[0]):
            counter += _ONE
            if _uniform(counter) < f[i]:
                for k in range(starts[i], starts[i + 1]):
                    out[groups[k]] += weight[i]


# Columns of the sums of a drawn data set, per group: of w times residual, of its squares by
# row, of those of clusters' sums, and of their products with the clusters' weights.
SUM, SQUARES, CLUSTER_SQUARES, CLUSTER_PRODUCTS = range(4)
N_SUMS = 4


@kernel
def draw_residuals(
    starts: Ints,
    groups: NDArray[np.int32],
    ends: NDArray[np.bool_],
    shared: float,
    f: Floats,
    weight: Floats,
    bins: Ints,
    pool_starts: Ints,
    pool: Floats,
    sums: Floats,
    by_bin: Floats,
) -> None:
    """Draw residuals and fill ``sums[draw, group]`` (columns above) and ``by_bin[draw, bin]``.

    A row's residual is a quantile of those in its bin, ``pool[pool_starts[b]:pool_starts[b + 1]]``
    in ascending order; without a pool that of a 0/1 label with probability f. Rows up to one that
    ``ends`` are a cluster: each takes the cluster's random number with probability ``shared``,
    else its own. ``by_bin`` gets w times residual, its square and its cube.
    """
    n_groups = sums.shape[1]
    pending, weights = np.zeros(n_groups), np.zeros(n_groups)
    seen = np.zeros(n_groups, np.bool_)
    inside, count = np.empty(n_groups, np.int64), 0
    counter = np.uint64(0)
    for draw in range(sums.shape[0]):
        common = -1.0
        for i in range(f.shape[0]):
            if common < 0.0:
                counter += _ONE
                common = _uniform(counter)
            u = common
            if shared < 1.0:
                counter += _ONE
                if shared == 0.0 or _uniform(counter) >= shared:
                    counter += _ONE
                    u = _uniform(counter)
            b = bins[i]
            if pool.shape[0]:
                size = pool_starts[b + 1] - pool_starts[b]
                r = pool[pool_starts[b] + int(u * size)]
            else:
                r = (1.0 if u < f[i] else 0.0) - f[i]
            by_bin[draw, b, 0] += weight[i] * r
            by_bin[draw, b, 1] += weight[i] * r * r
            by_bin[draw, b, 2] += weight[i] * r * r * r
            value = weight[i] * r
            for k in range(starts[i], starts[i + 1]):
                g = groups[k]
                sums[draw, g, SUM] += value
                sums[draw, g, SQUARES] += value * value
                pending[g] += value
                weights[g] += weight[i]
                if not seen[g]:
                    seen[g] = True
                    inside[count] = g
                    count += 1
            if ends[i]:
                for k in range(count):
                    g = inside[k]
                    sums[draw, g, CLUSTER_SQUARES] += pending[g] * pending[g]
                    sums[draw, g, CLUSTER_PRODUCTS] += pending[g] * weights[g]
                    pending[g], weights[g], seen[g] = 0.0, 0.0, False
                count = 0
                common = -1.0
