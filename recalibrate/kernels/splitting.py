"""Best splits of all nodes from their histograms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel


@kernel
def unpack(
    cells: NDArray[np.int64], at: int, words: int, plain: bool, shift: int
) -> tuple[int, int, int]:
    """Count, s and g of one histogram cell; the layout is that of ``fixedpoint.Scale``."""
    if words == 1:
        word = cells[at]
        count = (word + (1 << (shift - 1))) >> shift
        return count, count, word - (count << shift)
    if words == 2:
        word = cells[2 * at]
        if plain:
            return word, word, cells[2 * at + 1]
        count = word >> shift
        return count, word - (count << shift), cells[2 * at + 1]
    return cells[3 * at], cells[3 * at + 1], cells[3 * at + 2]


@kernel
def part_gain(s: float, g: float, weight_step: float, response_step: float, l2: float) -> float:
    """G^2 / (S + l2): how much fitting a constant lowers the (doubled, quadratic) loss."""
    total = g * response_step
    mass = s * weight_step + l2
    return total * total / mass if mass > 0.0 else 0.0


@kernel
def best_splits(
    cells: NDArray[np.int64],
    start: int,
    last: int,
    features: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.int32],
    style: NDArray[np.int8],
    words: int,
    plain: bool,
    shift: int,
    weight_step: float,
    response_step: float,
    l2: float,
    least_rows: int,
    totals: NDArray[np.int64],
    gain: NDArray[np.float64],
    feature: NDArray[np.int32],
    last_bin: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    left: NDArray[np.int64],
) -> None:
    """The split with the largest gain of the nodes start..last; ties keep the first one found.

    Features are visited in the order given, bins from low to high (categories in ``order``),
    and missing values are first tried on the right. ``style`` of a feature: 0 and 1 scan
    prefixes of its order (numeric, categorical), 2 tries each category against the rest.
    ``last_bin`` is the last bin (in order) on the left, or the one category; ``left`` gets the
    left child's count, s and g. ``gain`` is -1 where nothing can be split.
    """
    size = offsets[-1]
    for k in range(start, last):
        at = (k - start) * size
        count_all, s_all, g_all = totals[k, 0], totals[k, 1], totals[k, 2]
        parent = part_gain(s_all, g_all, weight_step, response_step, l2)
        best = -1.0
        for j in features:
            begin = offsets[j]
            bins = offsets[j + 1] - begin
            count_missing, s_missing, g_missing = unpack(cells, at + begin, words, plain, shift)
            count = s = g = 0
            sides = 1 if count_missing == 0 else 2
            for b in range(1, bins):
                c_bin, s_bin, g_bin = unpack(
                    cells, at + begin + order[begin + b], words, plain, shift
                )
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
                        feature[k] = j
                        last_bin[k] = b
                        missing_left[k] = (
                            side == 1 if count_missing > 0 else 2 * c_left >= count_all
                        )
                        left[k, 0], left[k, 1], left[k, 2] = c_left, s_left, g_left
        gain[k] = best


@kernel
def node_totals(
    cells: NDArray[np.int64],
    nodes: int,
    first: int,
    offsets: NDArray[np.int64],
    words: int,
    plain: bool,
    shift: int,
    out: NDArray[np.int64],
) -> None:
    """Count, s and g of every node: the sum over the bins of one feature."""
    size = offsets[-1]
    for k in range(nodes):
        for cell in range(offsets[first], offsets[first + 1]):
            count, s, g = unpack(cells, k * size + cell, words, plain, shift)
            out[k, 0] += count
            out[k, 1] += s
            out[k, 2] += g
