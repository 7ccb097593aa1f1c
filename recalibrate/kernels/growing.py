"""Bookkeeping of trees that grow depth by depth, over plain arrays.

Nodes of all level sets are numbered in the order they are made: first the roots, then pairs of
siblings. Arrays are indexed by that number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel
from recalibrate.kernels.splitting import unpack


@kernel
def order_codes(
    cells: NDArray[np.int64],
    levels: int,
    features: NDArray[np.int32],
    offsets: NDArray[np.int64],
    style: NDArray[np.int8],
    words: int,
    plain: bool,
    shift: int,
    weight_step: float,
    response_step: float,
    values: NDArray[np.float64],
    smoothing: float,
    order: NDArray[np.int32],
) -> None:
    """Codes of categorical features (style 1) by their smoothed residual mean; ties by code.

    One order per feature from all level sets together: orders per level set were measured to
    overfit. Where rows carry labels, ``values`` holds the scores of the level sets, which are
    taken off level by level in order; it is empty where they carry residuals.
    """
    size = offsets[-1]
    for j in features:
        if style[j] != 1:
            continue
        start = offsets[j] + 1
        count = offsets[j + 1] - start
        mean = np.zeros(count)
        for c in range(count):
            mass = response = 0
            for v in range(levels):
                _, s, g = unpack(cells, v * size + start + c, words, plain, shift)
                mass += s
                response += g
            residual = response * response_step
            for v in range(values.shape[0]):
                _, s, _ = unpack(cells, v * size + start + c, words, plain, shift)
                residual = residual - values[v] * (s * weight_step)
            denominator = mass * weight_step + smoothing
            if denominator > 0.0:
                mean[c] = residual / denominator
        ranked = np.argsort(mean, kind="mergesort")
        for place in range(count):
            order[start + place] = ranked[place] + 1


@kernel
def keep_best(
    owner: NDArray[np.int32],
    parent: NDArray[np.int32],
    gain: NDArray[np.float64],
    last: int,
    levels: int,
    leaves: int,
    kept: NDArray[np.bool_],
) -> None:
    """Splits that the best-first trees of at most ``leaves`` leaves have among the nodes so far.

    Again and again, every level set takes the largest gain among the nodes it has reached (ties:
    the lower number). Deeper nodes only add rivals: what is not kept now will never be. Without
    a limit (``leaves`` 0) all gains above zero are kept.
    """
    for k in range(last):
        kept[k] = leaves <= 0 and gain[k] > 0.0 and (parent[k] < 0 or kept[parent[k]])
    best = np.empty(levels, np.int64)
    for _ in range(leaves - 1):
        best[:] = -1
        for k in range(last):
            v = owner[k]
            if kept[k] or gain[k] <= 0.0 or (parent[k] >= 0 and not kept[parent[k]]):
                continue
            if best[v] < 0 or gain[k] > gain[best[v]]:
                best[v] = k
        found = False
        for v in range(levels):
            if best[v] >= 0:
                kept[best[v]] = True
                found = True
        if not found:
            break


@kernel
def plan_depth(
    first: int,
    last: int,
    levels: int,
    leaves: int,
    min_gain: float,
    min_level_rows: int,
    owner: NDArray[np.int32],
    parent: NDArray[np.int32],
    totals: NDArray[np.int64],
    gain: NDArray[np.float64],
    left: NDArray[np.int64],
    child: NDArray[np.int32],
    slot: NDArray[np.int32],
    kept: NDArray[np.bool_],
) -> int:
    """Choose the splits of the nodes first..last and make their children; returns the new last.

    ``slot`` numbers the smaller sibling of every new pair (ties: the left one), -1 elsewhere.
    """
    for k in range(first, last):
        small = parent[k] < 0 and totals[k, 0] < min_level_rows
        if small or gain[k] <= min_gain:
            gain[k] = -1.0
        slot[k] = -1
    keep_best(owner, parent, gain, last, levels, leaves, kept)
    after = last
    pairs = 0
    for k in range(first, last):
        if not kept[k]:
            continue
        child[k] = after
        for side in range(2):
            new = after + side
            owner[new] = owner[k]
            parent[new] = k
            child[new] = -1
            for c in range(3):
                totals[new, c] = left[k, c] if side == 0 else totals[k, c] - left[k, c]
        right_smaller = totals[after + 1, 0] < totals[after, 0]
        slot[after] = -1 if right_smaller else pairs
        slot[after + 1] = pairs if right_smaller else -1
        pairs += 1
        after += 2
    return after


@kernel
def write_subsets(
    first: int,
    last: int,
    style: NDArray[np.int8],
    offsets: NDArray[np.int64],
    order: NDArray[np.int32],
    feature: NDArray[np.int32],
    last_bin: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    child: NDArray[np.int32],
    subset: NDArray[np.int32],
    used: int,
    subsets: NDArray[np.bool_],
) -> int:
    """Codes that go left at the new categorical splits, a row each; returns the rows used."""
    for k in range(first, last):
        subset[k] = -1
        if child[k] < 0 or style[feature[k]] == 0:
            continue
        start = offsets[feature[k]]
        subset[k] = used
        subsets[used, 0] = missing_left[k]
        if style[feature[k]] == 2:
            subsets[used, order[start + last_bin[k]]] = True
        else:
            for place in range(1, last_bin[k] + 1):
                subsets[used, order[start + place]] = True
        used += 1
    return used


@kernel
def child_histograms(
    first: int,
    last: int,
    above: int,
    slot: NDArray[np.int32],
    parent: NDArray[np.int32],
    parents: NDArray[np.int64],
    small: NDArray[np.int64],
    size: int,
    out: NDArray[np.int64],
) -> None:
    """Histograms of the nodes first..last: summed, or parent minus sibling, which is exact.

    ``parents`` holds those of the depth before, whose first node is ``above``.
    """
    for k in range(first, last, 2):
        left_summed = slot[k] >= 0
        source = (slot[k] if left_summed else slot[k + 1]) * size
        over = (parent[k] - above) * size
        left, right = (k - first) * size, (k + 1 - first) * size
        for cell in range(size):
            summed = small[source + cell]
            rest = parents[over + cell] - summed
            out[left + cell] = summed if left_summed else rest
            out[right + cell] = rest if left_summed else summed


@kernel
def number_nodes(
    last: int,
    levels: int,
    min_level_rows: int,
    bare_roots: bool,
    parent: NDArray[np.int32],
    totals: NDArray[np.int64],
    kept: NDArray[np.bool_],
    number: NDArray[np.int32],
) -> int:
    """Final number of every node that is reached, -1 of others; returns how many are.

    Roots of level sets that are too small, or without ``bare_roots`` of those that were not
    split, are not reached.
    """
    count = 0
    for k in range(last):
        if k < levels:
            reached = totals[k, 0] >= min_level_rows and totals[k, 1] > 0
            reached = reached and (bare_roots or kept[k])
        else:
            reached = number[parent[k]] >= 0 and kept[parent[k]]
        number[k] = count if reached else -1
        if reached:
            count += 1
    return count


@kernel
def final_numbers(
    last: int, parent: NDArray[np.int32], number: NDArray[np.int32], out: NDArray[np.int32]
) -> None:
    """Final number of every node's place in the trees; below a dropped split that is its own."""
    for k in range(last):
        if number[k] >= 0 or parent[k] < 0:
            out[k] = number[k]
        else:
            out[k] = out[parent[k]]


@kernel
def compact(
    last: int,
    levels: int,
    leaves: int,
    min_level_rows: int,
    bare_roots: bool,
    owner: NDArray[np.int32],
    parent: NDArray[np.int32],
    totals: NDArray[np.int64],
    gain: NDArray[np.float64],
    feature: NDArray[np.int32],
    last_bin: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    subset: NDArray[np.int32],
    child: NDArray[np.int32],
    kept: NDArray[np.bool_],
) -> Any:
    """The trees without nodes that are not reached; siblings stay side by side.

    Returns the roots, the nodes' arrays (feature, last_bin, missing_left, subset, child, totals,
    gain) and the final number of every node's place.
    """
    if leaves > 0:
        keep_best(owner, parent, gain, last, levels, leaves, kept)
    number = np.empty(last, np.int32)
    count = number_nodes(last, levels, min_level_rows, bare_roots, parent, totals, kept, number)
    own_feature = np.empty(count, np.int32)
    own_last_bin = np.empty(count, np.int32)
    own_missing_left = np.empty(count, np.bool_)
    own_subset = np.empty(count, np.int32)
    own_child = np.empty(count, np.int32)
    own_totals = np.empty((count, 3), np.int64)
    own_gain = np.empty(count, np.float64)
    for k in range(last):
        at = number[k]
        if at < 0:
            continue
        inner = kept[k]
        own_feature[at] = feature[k] if inner else -1
        own_last_bin[at] = last_bin[k] if inner else 0
        own_missing_left[at] = missing_left[k] and inner
        own_subset[at] = subset[k] if inner else -1
        own_child[at] = number[child[k]] if inner else -1
        own_gain[at] = gain[k] if inner else 0.0
        for c in range(3):
            own_totals[at, c] = totals[k, c]
    final = np.empty(last, np.int32)
    final_numbers(last, parent, number, final)
    own = (own_feature, own_last_bin, own_missing_left, own_subset, own_child, own_totals, own_gain)
    return number[:levels].copy(), own, final
