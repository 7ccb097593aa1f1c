"""Best splits of all nodes from their histograms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel
from recalibrate.kernels.nodes import Nodes, Rules
from recalibrate.kernels.words import read_words

if TYPE_CHECKING:
    from recalibrate.core.fixedpoint import Scale


@kernel
def part_gain(s: float, g: float, weight_step: float, response_step: float, l2: float) -> float:
    """G^2 / (S + l2): how much fitting a constant lowers the (doubled, quadratic) loss."""
    total = g * response_step
    mass = s * weight_step + l2
    return total * total / mass if mass > 0.0 else 0.0


@kernel
def best_splits(
    cells: NDArray[np.int64], start: int, last: int, rules: Rules, scale: Scale, nodes: Nodes
) -> None:
    """The split with the largest gain of the nodes start..last; ties keep the first one found.

    Bins are visited from low to high (categories in the nodes' order), and missing values are
    first tried on the right.
    """
    offsets, order, style = rules.offsets, nodes.order, rules.style
    weight_step, response_step, l2 = rules.weight_step, rules.response_step, rules.l2
    least_rows, size = rules.min_leaf_rows, offsets[-1]
    for k in range(start, last):
        at = (k - start) * size
        count_all, s_all, g_all = nodes.totals[k, 0], nodes.totals[k, 1], nodes.totals[k, 2]
        parent = part_gain(s_all, g_all, weight_step, response_step, l2)
        best = -1.0
        for j in range(style.shape[0]):
            begin = offsets[j]
            bins = offsets[j + 1] - begin
            count_missing, s_missing, g_missing = read_words(cells, at + begin, scale)
            count = s = g = 0
            sides = 1 if count_missing == 0 else 2
            for b in range(1, bins):
                c_bin, s_bin, g_bin = read_words(cells, at + begin + order[begin + b], scale)
                if c_bin == 0:
                    continue
                if style[j] == 2:
                    count, s, g = c_bin, s_bin, g_bin
                else:
                    count += c_bin
                    s += s_bin
                    g += g_bin
                    if count == count_all:
                        break
                for side in range(sides):
                    c_left, s_left, g_left = count, s, g
                    if side == 1:
                        c_left += count_missing
                        s_left += s_missing
                        g_left += g_missing
                    c_right = count_all - c_left
                    if c_left < least_rows or c_right < least_rows:
                        continue
                    # The same as part_gain of both sides, written out: it is most of the time.
                    total = g_left * response_step
                    mass = s_left * weight_step + l2
                    value = total * total / mass if mass > 0.0 else 0.0
                    total = (g_all - g_left) * response_step
                    mass = (s_all - s_left) * weight_step + l2
                    value = (value + (total * total / mass if mass > 0.0 else 0.0)) - parent
                    if value > best:
                        best = value
                        nodes.feature[k] = j
                        nodes.last_bin[k] = b
                        nodes.missing_left[k] = (
                            side == 1 if count_missing > 0 else 2 * c_left >= count_all
                        )
                        nodes.left[k, 0] = c_left
                        nodes.left[k, 1] = s_left
                        nodes.left[k, 2] = g_left
        nodes.gain[k] = best


@kernel
def order_codes(
    cells: NDArray[np.int64],
    rules: Rules,
    scale: Scale,
    values: NDArray[np.float64],
    order: NDArray[np.int32],
) -> None:
    """Codes of categorical features (style 1) by their smoothed residual mean; ties by code.

    One order per feature from all level sets together: orders per level set were measured to
    overfit. Where rows carry labels, ``values`` holds the scores of the level sets, which are
    taken off level by level in order; it is empty where they carry residuals.
    """
    offsets, size = rules.offsets, rules.offsets[-1]
    for j in range(rules.style.shape[0]):
        if rules.style[j] != 1:
            continue
        start = offsets[j] + 1
        count = offsets[j + 1] - start
        mean = np.zeros(count)
        for c in range(count):
            mass = response = 0
            for v in range(rules.levels):
                _, s, g = read_words(cells, v * size + start + c, scale)
                mass += s
                response += g
            residual = response * rules.response_step
            for v in range(values.shape[0]):
                _, s, _ = read_words(cells, v * size + start + c, scale)
                residual = residual - values[v] * (s * rules.weight_step)
            denominator = mass * rules.weight_step + rules.smoothing
            if denominator > 0.0:
                mean[c] = residual / denominator
        ranked = np.argsort(mean, kind="mergesort")
        for place in range(count):
            order[start + place] = ranked[place] + 1


@kernel
def root_totals(
    cells: NDArray[np.int64], rules: Rules, scale: Scale, out: NDArray[np.int64]
) -> None:
    """Count, s and g of every level set: the sum over the bins of one feature."""
    offsets, size = rules.offsets, rules.offsets[-1]
    for k in range(rules.levels):
        for cell in range(offsets[1]):
            count, s, g = read_words(cells, k * size + cell, scale)
            out[k, 0] += count
            out[k, 1] += s
            out[k, 2] += g
