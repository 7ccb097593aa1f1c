"""Loops of the audit: sums over overlapping groups in one pass over the rows.

Groups come as ``codes``, one column per term: the 1-based group of the row among those of the
term, 0 for none. Group ``offsets[t] + code - 1`` is its number among all groups. Nothing here is
ever as large as rows times groups. Loops go row by row: the groups of a row are all different,
so that no addition waits for the one before.
"""

from __future__ import annotations

import math

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


# --- Loops of the audit over rows in the order of predictions: how groups rank their rows -------
#
# Groups come as in the loops above.


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


# --- A loop that draws labels under calibration and adds them up in overlapping groups ----------
#
# The groups of row i are ``groups[starts[i]:starts[i + 1]]``. Random numbers are a hash of a
# counter, so that they are the same on every machine and for every number of draws.


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_ONE = np.uint64(1)


@helper
def _uniform(counter: np.uint64) -> float:
    """Number number ``counter`` of a splitmix64 sequence, in [0, 1)."""
    state = counter * _GOLDEN
    state = (state ^ (state >> _30)) * _FIRST
    state = (state ^ (state >> _27)) * _SECOND
    return np.float64((state ^ (state >> _31)) >> _11) * 2.0**-53


@kernel
def draw_events(
    starts: NDArray[np.int64],
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


# --- Loops of the search for subgroups: sums over pairs of features, overlaps of rules ----------


UnsignedCodes = NDArray[np.unsignedinteger]


@kernel
def add_pair(
    first: UnsignedCodes,
    second: UnsignedCodes,
    level: NDArray[np.int32],
    gaps: NDArray[np.int64],
    noise: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Add every row's count, gap and noise to its cell [level, first code, second code]."""
    for i in range(level.shape[0]):
        cell = out[level[i], first[i], second[i]]
        cell[0] += 1
        cell[1] += gaps[i]
        cell[2] += noise[i]


@kernel
def add_overlaps(
    inside: NDArray[np.bool_],
    rows: NDArray[np.intp],
    weight: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Weight of every rule on some rows; ``inside`` is [rule, row]."""
    for k in range(inside.shape[0]):
        own = inside[k]
        for i in rows:
            out[k] += own[i] * weight[i]


# --- Exact tails of the hypergeometric law: shares of two samples compared ----------------------


@helper
def _log_choose(n: float, k: float) -> float:
    return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)


@kernel
def two_sided(
    below: NDArray[np.float64],
    size: NDArray[np.float64],
    other_below: NDArray[np.float64],
    other_size: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Fisher's exact test, twice the smaller tail: of ``size`` rows ``below`` are below a cut.

    Given how many rows of both samples together are below it, the number of these in the first
    has a hypergeometric law. Terms of the tail fall from the observed one outwards.
    """
    for i in range(below.shape[0]):
        n, k = size[i], below[i]
        total, good = n + other_size[i], below[i] + other_below[i]
        if n <= 0.0 or other_size[i] <= 0.0 or good <= 0.0 or good >= total:
            out[i] = 1.0
            continue
        first = math.exp(
            _log_choose(good, k) + _log_choose(total - good, n - k) - _log_choose(total, n)
        )
        down = k * total <= good * n
        term, tail = first, first
        while term > 1e-17 * tail:
            if down:
                if k <= 0.0 or total - good - n + k <= 0.0:
                    break
                term *= k * (total - good - n + k) / ((good - k + 1.0) * (n - k + 1.0))
                k -= 1.0
            else:
                if k >= good or k >= n:
                    break
                term *= (good - k) * (n - k) / ((k + 1.0) * (total - good - n + k + 1.0))
                k += 1.0
            tail += term
        out[i] = min(1.0, 2.0 * tail)
