"""Growing trees on rows that are all in one part, all depths in one call.

The same steps, by the same kernels, as ``growth.grow`` takes between passes over several
parts. Small tables are where it pays: a tree then costs little more than its histograms, and
folds on other threads need not wait for the interpreter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel
from recalibrate.kernels.growing import child_histograms, order_codes, plan_depth, write_subsets
from recalibrate.kernels.histogram import count_rows
from recalibrate.kernels.routing import active_rows, descend, descend_all, pack_nodes
from recalibrate.kernels.splitting import best_splits, node_totals


@kernel
def grow_alone(
    codes: NDArray[np.unsignedinteger],
    words: NDArray[np.int64],
    node: NDArray[np.int32],
    features: NDArray[np.int32],
    offsets: NDArray[np.int64],
    style: NDArray[np.int8],
    values: NDArray[np.float64],
    plain: bool,
    shift: int,
    steps: tuple[float, float],
    limits: tuple[int, int, int, int, int],
    penalties: tuple[float, float, float],
    few_moving: float,
    order: NDArray[np.int32],
    owner: NDArray[np.int32],
    parent: NDArray[np.int32],
    totals: NDArray[np.int64],
    gain: NDArray[np.float64],
    feature: NDArray[np.int32],
    last_bin: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    left: NDArray[np.int64],
    child: NDArray[np.int32],
    slot: NDArray[np.int32],
    kept: NDArray[np.bool_],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
    packed: NDArray[np.uint64],
) -> tuple[int, int, int]:
    """Grow the trees; returns the number of nodes, the depth, and the subsets used.

    ``limits`` are levels, depth, leaves (0: none), least rows of a leaf and of a level set;
    ``penalties`` l2, least gain and smoothing; ``steps`` those of weights and responses.
    """
    levels, most_depth, leaves, least_rows, least_level_rows = limits
    l2, min_gain, smoothing = penalties
    weight_step, response_step = steps
    width = words.shape[1]
    size = offsets[-1]
    unsigned_features, starts = features.astype(np.uint64), offsets.astype(np.uint64)
    rows = np.empty(0, np.int32)
    active = node.shape[0]
    before, first, last = 0, 0, levels
    slots, depth, used = levels, 0, 0
    moving = active
    above = np.empty(0, np.int64)
    while depth < most_depth:
        if depth > 0:
            if rows.shape[0] == 0 and moving < few_moving * node.shape[0]:
                rows = active_rows(node, child)
                active = rows.shape[0]
            if rows.shape[0] == 0:
                descend_all(codes, node, packed, subset, subsets)
            else:
                active = descend(codes, node, rows, active, packed, subset, subsets)
        summed = np.zeros(slots * size * width, np.int64)
        count_rows(
            codes,
            unsigned_features,
            starts,
            words,
            node,
            rows,
            active,
            slot,
            depth == 0,
            size,
            summed,
        )
        if depth == 0:
            cells = summed
            node_totals(cells, levels, features[0], offsets, width, plain, shift, totals)
            order_codes(
                cells,
                levels,
                features,
                offsets,
                style,
                width,
                plain,
                shift,
                weight_step,
                response_step,
                values,
                smoothing,
                order,
            )
        else:
            cells = np.empty((last - first) * size * width, np.int64)
            child_histograms(first, last, before, slot, parent, above, summed, size * width, cells)
        best_splits(
            cells,
            first,
            last,
            features,
            offsets,
            order,
            style,
            width,
            plain,
            shift,
            weight_step,
            response_step,
            l2,
            least_rows,
            totals,
            gain,
            feature,
            last_bin,
            missing_left,
            left,
        )
        after = plan_depth(
            first,
            last,
            levels,
            leaves,
            min_gain,
            least_level_rows,
            owner,
            parent,
            totals,
            gain,
            left,
            child,
            slot,
            kept,
        )
        used = write_subsets(
            first,
            last,
            style,
            offsets,
            order,
            feature,
            last_bin,
            missing_left,
            child,
            subset,
            used,
            subsets,
        )
        pack_nodes(feature, last_bin, missing_left, subset, child, first, after, packed)
        if after == last:
            break
        depth += 1
        moving = totals[last:after, 0].sum()
        before, first, slots = first, last, (after - last) // 2
        last, above = after, cells
    return last, depth, used
