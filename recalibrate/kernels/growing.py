"""Trees that grow depth by depth, over plain arrays: what happens between passes over the rows.

A depth is opened with the histograms that were summed, its best splits are looked for
(``splitting.best_splits``), and it is closed with the nodes of the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import kernel
from recalibrate.kernels.nodes import Nodes, Rules, Span
from recalibrate.kernels.routing import pack_nodes
from recalibrate.kernels.splitting import order_codes, root_totals

if TYPE_CHECKING:
    from recalibrate.core.fixedpoint import Scale


def make_nodes(rules: Rules) -> Nodes:
    """Room for all nodes that there can be; the roots are there."""
    inner = sum(
        1 << depth if rules.leaves == 0 else min(1 << depth, rules.leaves - 1)
        for depth in range(rules.depth)
    )
    inner *= rules.levels
    size = rules.levels + 2 * inner
    nodes = Nodes(
        owner=np.empty(size, np.int32),
        parent=np.full(size, -1, np.int32),
        child=np.full(size, -1, np.int32),
        slot=np.empty(size, np.int32),
        totals=np.zeros((size, 3), np.int64),
        gain=np.full(size, -1.0),
        feature=np.zeros(size, np.int32),
        last_bin=np.zeros(size, np.int32),
        missing_left=np.zeros(size, np.bool_),
        left=np.empty((size, 3), np.int64),
        kept=np.zeros(size, np.bool_),
        subset=np.full(size, -1, np.int32),
        subsets=np.zeros((inner if rules.widest else 0, max(1, rules.widest)), np.bool_),
        packed=np.empty(size, np.uint64),
        order=_codes_in_order(rules.offsets),
    )
    nodes.owner[: rules.levels] = nodes.slot[: rules.levels] = np.arange(rules.levels)
    return nodes


def _codes_in_order(offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    """Codes of every feature from 0 on, feature after feature."""
    counts = np.diff(offsets)
    return (np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)).astype(np.int32)


@kernel
def open_depth(
    summed: NDArray[np.int64],
    above: NDArray[np.int64],
    span: Span,
    rules: Rules,
    scale: Scale,
    values: NDArray[np.float64],
    nodes: Nodes,
) -> NDArray[np.int64]:
    """Histograms of all nodes of a depth, from those summed and those of the depth above.

    The roots are summed all: from these come their totals and the order of the categories (see
    `order_codes` about ``values``). Of deeper siblings one is parent minus sibling, which is
    exact.
    """
    if span.first == 0:
        root_totals(summed, rules, scale, nodes.totals)
        order_codes(summed, rules, scale, values, nodes.order)
        return summed
    size = rules.offsets[-1] * scale.words
    out = np.empty((span.last - span.first) * size, np.int64)
    for k in range(span.first, span.last, 2):
        left_summed = nodes.slot[k] >= 0
        source = (nodes.slot[k] if left_summed else nodes.slot[k + 1]) * size
        over = (nodes.parent[k] - span.above) * size
        left, right = (k - span.first) * size, (k + 1 - span.first) * size
        for cell in range(size):
            own = summed[source + cell]
            rest = above[over + cell] - own
            out[left + cell] = own if left_summed else rest
            out[right + cell] = rest if left_summed else own
    return out


@kernel
def close_depth(span: Span, used: int, rules: Rules, nodes: Nodes) -> tuple[int, int, float]:
    """Take the splits of a depth that are worth it and make their children.

    Returns the number of nodes with these, that of subsets ``used``, and the share of all rows
    that the children have.
    """
    after = make_children(span, rules, nodes)
    used = write_subsets(span, used, rules, nodes)
    pack_nodes(nodes, rules.features, span.first, after, nodes.packed)
    moving = nodes.totals[span.last : after, 0].sum() / nodes.totals[: rules.levels, 0].sum()
    return after, used, moving


@kernel
def keep_best(last: int, rules: Rules, nodes: Nodes) -> None:
    """Splits that the best-first trees of limited leaves have among the nodes so far.

    Again and again, every level set takes the largest gain among the nodes it has reached (ties:
    the lower number). Deeper nodes only add rivals: what is not kept now will never be. Without
    a limit all gains above zero are kept.
    """
    parent, gain, kept = nodes.parent, nodes.gain, nodes.kept
    for k in range(last):
        kept[k] = rules.leaves <= 0 and gain[k] > 0.0 and (parent[k] < 0 or kept[parent[k]])
    best = np.empty(rules.levels, np.int64)
    for _ in range(rules.leaves - 1):
        best[:] = -1
        for k in range(last):
            v = nodes.owner[k]
            if kept[k] or gain[k] <= 0.0 or (parent[k] >= 0 and not kept[parent[k]]):
                continue
            if best[v] < 0 or gain[k] > gain[best[v]]:
                best[v] = k
        found = False
        for v in range(rules.levels):
            if best[v] >= 0:
                kept[best[v]] = True
                found = True
        if not found:
            break


@kernel
def make_children(span: Span, rules: Rules, nodes: Nodes) -> int:
    """Choose among the splits of a depth and make their children; returns the new last node.

    Slots go to the smaller sibling of every new pair (ties: the left one).
    """
    totals, slot = nodes.totals, nodes.slot
    for k in range(span.first, span.last):
        small = nodes.parent[k] < 0 and totals[k, 0] < rules.min_level_rows
        if small or nodes.gain[k] <= rules.min_gain:
            nodes.gain[k] = -1.0
        slot[k] = -1
    keep_best(span.last, rules, nodes)
    after = span.last
    pairs = 0
    for k in range(span.first, span.last):
        if not nodes.kept[k]:
            continue
        nodes.child[k] = after
        for side in range(2):
            new = after + side
            nodes.owner[new] = nodes.owner[k]
            nodes.parent[new] = k
            nodes.child[new] = -1
            for c in range(3):
                left = nodes.left[k, c]
                totals[new, c] = left if side == 0 else totals[k, c] - left
        right_smaller = totals[after + 1, 0] < totals[after, 0]
        slot[after] = -1 if right_smaller else pairs
        slot[after + 1] = pairs if right_smaller else -1
        pairs += 1
        after += 2
    return after


@kernel
def write_subsets(span: Span, used: int, rules: Rules, nodes: Nodes) -> int:
    """Codes that go left at the new categorical splits, a row each; returns the rows used."""
    for k in range(span.first, span.last):
        nodes.subset[k] = -1
        style = rules.style[nodes.feature[k]]
        if nodes.child[k] < 0 or style == 0:
            continue
        start = rules.offsets[nodes.feature[k]]
        nodes.subset[k] = used
        nodes.subsets[used, 0] = nodes.missing_left[k]
        first = nodes.last_bin[k] if style == 2 else 1
        for place in range(first, nodes.last_bin[k] + 1):
            nodes.subsets[used, nodes.order[start + place]] = True
        used += 1
    return used


class Grown(NamedTuple):
    """Trees without nodes that are not reached; siblings stay side by side.

    ``roots`` are by level set (-1: no tree); ``final`` is, for every node while the trees grew,
    the one that stands in its place now (below a dropped split: where that was), or -1;
    ``skipped`` the summed s of level sets without a tree.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    last_bin: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    subset: NDArray[np.int32]
    subsets: NDArray[np.bool_]
    child: NDArray[np.int32]
    totals: NDArray[np.int64]
    gain: NDArray[np.float64]
    final: NDArray[np.int32]
    skipped: int


@kernel
def number_nodes(last: int, rules: Rules, nodes: Nodes, number: NDArray[np.int32]) -> int:
    """Final number of every node that is reached, -1 of others; returns how many are.

    Roots of level sets that are too small, or without ``bare_roots`` of those that were not
    split, are not reached.
    """
    parent, totals, kept = nodes.parent, nodes.totals, nodes.kept
    count = 0
    for k in range(last):
        if k < rules.levels:
            reached = totals[k, 0] >= rules.min_level_rows and totals[k, 1] > 0
            reached = reached and (rules.bare_roots or kept[k])
        else:
            reached = number[parent[k]] >= 0 and kept[parent[k]]
        number[k] = count if reached else -1
        if reached:
            count += 1
    return count


def make_grown(rules: Rules, nodes: Nodes) -> Grown:
    """Room for what can be left of the trees."""
    size = len(nodes.owner)
    return Grown(
        roots=np.empty(rules.levels, np.int32),
        feature=np.empty(size, np.int32),
        last_bin=np.empty(size, np.int32),
        missing_left=np.empty(size, np.bool_),
        subset=np.empty(size, np.int32),
        subsets=nodes.subsets,
        child=np.empty(size, np.int32),
        totals=np.empty((size, 3), np.int64),
        gain=np.empty(size, np.float64),
        final=np.empty(size, np.int32),
        skipped=0,
    )


@kernel
def write_grown(last: int, rules: Rules, nodes: Nodes, grown: Grown) -> tuple[int, int]:
    """Write the trees that have grown to ``last`` nodes; how many are left, and ``skipped``."""
    if rules.leaves > 0:
        keep_best(last, rules, nodes)
    number, final = np.empty(last, np.int32), grown.final
    count = number_nodes(last, rules, nodes, number)
    for k in range(last):
        at = number[k]
        final[k] = at if at >= 0 or nodes.parent[k] < 0 else final[nodes.parent[k]]
        if at < 0:
            continue
        inner = nodes.kept[k]
        grown.feature[at] = rules.features[nodes.feature[k]] if inner else -1
        grown.last_bin[at] = nodes.last_bin[k] if inner else 0
        grown.missing_left[at] = nodes.missing_left[k] and inner
        grown.subset[at] = nodes.subset[k] if inner else -1
        grown.child[at] = number[nodes.child[k]] if inner else -1
        grown.gain[at] = nodes.gain[k] if inner else 0.0
        for c in range(3):
            grown.totals[at, c] = nodes.totals[k, c]
    skipped = 0
    for v in range(rules.levels):
        grown.roots[v] = number[v]
        if number[v] < 0:
            skipped += nodes.totals[v, 1]
    return count, skipped


def trim_grown(grown: Grown, count: int, last: int, used: int, skipped: int) -> Grown:
    """Without the room that was not needed, of which nothing stays in memory."""
    return Grown(
        roots=grown.roots,
        feature=grown.feature[:count].copy(),
        last_bin=grown.last_bin[:count].copy(),
        missing_left=grown.missing_left[:count].copy(),
        subset=grown.subset[:count].copy(),
        subsets=grown.subsets[:used],
        child=grown.child[:count].copy(),
        totals=grown.totals[:count].copy(),
        gain=grown.gain[:count].copy(),
        final=grown.final[:last].copy(),
        skipped=skipped,
    )


def compact(last: int, used: int, rules: Rules, nodes: Nodes) -> Grown:
    """The trees that have grown to ``last`` nodes with ``used`` subsets."""
    room = make_grown(rules, nodes)
    count, skipped = write_grown(last, rules, nodes, room)
    return trim_grown(room, count, last, used, skipped)
