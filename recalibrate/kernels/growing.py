"""Trees that grow depth by depth, over plain arrays: what happens between passes over the rows.

For every depth the histograms that were summed are turned into those of all its nodes, whose best
splits are found (`find_splits`), and the splits worth making get children (`close_depth`).

A node is a record of one array, because every array that a kernel takes costs time to compile and
to call, and every array in a tuple several times as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import helper, kernel
from recalibrate.kernels.routing import CHILD, LEAF, PackedTrees, pack_node
from recalibrate.kernels.words import read_words

if TYPE_CHECKING:
    from recalibrate.core.fixedpoint import Scale

NODE = np.dtype(
    [
        # Number of the root of its tree, which is that of the level set; -1 as parent: a root.
        ("owner", np.int32),
        ("parent", np.int32),
        # Left child, which the right one follows; -1: none.
        ("child", np.int32),
        # Its best split: place among the features, last bin on the left in the order of their
        # codes (or the one category), whether missing values go left; gain 0: none.
        ("feature", np.int32),
        ("last_bin", np.int32),
        ("missing_left", np.bool_),
        # Whether the split is in the tree, as far as is known.
        ("kept", np.bool_),
        # Of a root: the node of its tree that gains most among those that may be split next.
        ("best", np.int32),
        # Where the tree ends up without what is not reached: the node's number (-1: dropped), that
        # of its left child, and the number of what stands in its place.
        ("number", np.int32),
        ("final_child", np.int32),
        ("final", np.int32),
        ("gain", np.float64),
        # Its rows, and those that the split sends to the left.
        ("count", np.int64),
        ("s", np.int64),
        ("g", np.int64),
        ("left_count", np.int64),
        ("left_s", np.int64),
        ("left_g", np.int64),
    ],
    align=True,
)
"""A node of a tree that grows. Roots come first, then pairs of siblings in the order they are
made."""


class Rules(NamedTuple):
    """Limits on trees.

    Attributes
    ----------
    levels
        Level sets: there is a tree for each.
    depth
        Depth of every tree at most.
    leaves
        Leaves of every tree at most, grown best-first; 0 leaves it to the depth.
    min_leaf_rows, min_level_rows
        Rows of a leaf at least, and of a level set that gets a tree.
    min_gain
        Splits must gain more than this.
    l2
        Added to the summed weight (or hessian) of every node.
    smoothing
        Rows of residual zero added to every category before ordering them.
    bare_roots
        Whether a tree without a split counts.
    weight_step, response_step
        Real value of one unit of s and g.
    """

    levels: int
    depth: int
    leaves: int
    min_leaf_rows: int
    min_level_rows: int
    min_gain: float
    l2: float
    smoothing: float
    bare_roots: bool
    weight_step: float
    response_step: float


class Candidates(NamedTuple):
    """Features that may be split on.

    Attributes
    ----------
    columns
        Columns of the codes, in the order they are visited.
    offsets
        Where in a histogram the bins of each of them begin; last: how many there are of all.
    style
        Of each of them: 0 by the order of its codes, 1 by a learned order of its categories,
        2 one category against the rest.
    widest
        Most codes of any categorical feature, drawn or not; 0: there is none.
    """

    columns: NDArray[np.int32]
    offsets: NDArray[np.int64]
    style: NDArray[np.int8]
    widest: int


class Span(NamedTuple):
    """Numbers of the nodes of a depth, first..last, and of the first one of the depth above."""

    above: int
    first: int
    last: int


class Nodes(NamedTuple):
    """Nodes of all level sets' trees.

    Attributes
    ----------
    records
        See `NODE`.
    slot
        Which of the histograms that are summed is the node's own, -1 if none is: of two
        siblings only the smaller one is summed, the other is the difference.
    packed
        Nodes as they are walked.
    order
        Codes of every feature in the order they are scanned.
    """

    records: NDArray[np.void]
    slot: NDArray[np.int32]
    packed: PackedTrees
    order: NDArray[np.int32]


def make_nodes(rules: Rules, candidates: Candidates) -> Nodes:
    """Room for all nodes that there can be; the roots are there."""
    inner = sum(
        1 << depth if rules.leaves == 0 else min(1 << depth, rules.leaves - 1)
        for depth in range(rules.depth)
    )
    inner *= rules.levels
    size = rules.levels + 2 * inner
    records = np.zeros(size, NODE)
    slot = np.empty(size, np.int32)
    records["owner"][: rules.levels] = slot[: rules.levels] = np.arange(rules.levels)
    records["parent"] = records["child"] = -1
    widest = candidates.widest
    packed = PackedTrees(
        np.empty(size, np.uint64),
        np.full(size, -1, np.int32),
        np.zeros((inner if widest else 0, max(1, widest)), np.bool_),
    )
    counts = np.diff(candidates.offsets)
    codes = np.arange(candidates.offsets[-1]) - np.repeat(candidates.offsets[:-1], counts)
    return Nodes(records, slot, packed, codes.astype(np.int32))


@kernel
def find_splits(
    summed: NDArray[np.int64],
    above: NDArray[np.int64],
    span: Span,
    start: int,
    last: int,
    rules: Rules,
    offsets: NDArray[np.int64],
    style: NDArray[np.int8],
    order: NDArray[np.int32],
    scale: Scale,
    nodes: NDArray[np.void],
    slot: NDArray[np.int32],
    cells: NDArray[np.int64],
) -> None:
    """The split with the largest gain of the nodes start..last; ties keep the first one found.

    Bins are visited from low to high (categories in their order), and missing values are first
    tried on the right. ``cells`` are the histograms of the nodes of the depth: those of the roots
    are summed all; of deeper siblings one is the parent's, in ``above``, minus the other's, which
    is exact.
    """
    weight_step, response_step, l2 = rules.weight_step, rules.response_step, rules.l2
    least_rows, size = rules.min_leaf_rows, offsets[-1]
    for k in range(start, last):
        node = nodes[k]
        at = (k - span.first) * size
        if node.parent < 0:
            for cell in range(offsets[1]):
                count, s, g = read_words(cells, at + cell, scale)
                node.count += count
                node.s += s
                node.g += g
        elif (k - span.first) & 1 == 0:
            left_summed = slot[k] >= 0
            width = size * scale.words
            source = (slot[k] if left_summed else slot[k + 1]) * width
            over = (node.parent - span.above) * width
            left = (k - span.first) * width
            smaller, larger = (left, left + width) if left_summed else (left + width, left)
            for cell in range(width):
                own = summed[source + cell]
                cells[smaller + cell] = own
                cells[larger + cell] = above[over + cell] - own
        count_all, s_all, g_all = node.count, node.s, node.g
        total = g_all * response_step
        mass = s_all * weight_step + l2
        parent = total * total / mass if mass > 0.0 else 0.0
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
                    # G^2 / (S + l2) of both sides: how much fitting constants lowers the
                    # (doubled, quadratic) loss.
                    total = g_left * response_step
                    mass = s_left * weight_step + l2
                    value = total * total / mass if mass > 0.0 else 0.0
                    total = (g_all - g_left) * response_step
                    mass = (s_all - s_left) * weight_step + l2
                    value = (value + (total * total / mass if mass > 0.0 else 0.0)) - parent
                    if value > best:
                        best = value
                        node.feature = j
                        node.last_bin = b
                        node.missing_left = (
                            side == 1 if count_missing > 0 else 2 * c_left >= count_all
                        )
                        node.left_count = c_left
                        node.left_s = s_left
                        node.left_g = g_left
        small = node.parent < 0 and count_all < rules.min_level_rows
        node.gain = 0.0 if small or best <= rules.min_gain else best


@helper
def keep_best(last: int, rules: Rules, nodes: NDArray[np.void]) -> None:
    """Splits that the best-first trees of limited leaves have among the nodes so far.

    Again and again, every level set takes the largest gain among the nodes it has reached (ties:
    the lower number). Deeper nodes only add rivals: what is not kept now will never be. Without
    a limit all gains above zero are kept.
    """
    for k in range(last):
        node = nodes[k]
        reached = node.parent < 0 or nodes[node.parent].kept
        node.kept = rules.leaves <= 0 and node.gain > 0.0 and reached
    for _ in range(rules.leaves - 1):
        for v in range(rules.levels):
            nodes[v].best = -1
        found = False
        for k in range(last):
            node = nodes[k]
            if node.kept or node.gain <= 0.0 or (node.parent >= 0 and not nodes[node.parent].kept):
                continue
            root = nodes[node.owner]
            if root.best < 0 or node.gain > nodes[root.best].gain:
                root.best = k
                found = True
        if not found:
            break
        for v in range(rules.levels):
            if nodes[v].best >= 0:
                nodes[nodes[v].best].kept = True


@kernel
def close_depth(
    span: Span,
    used: int,
    rules: Rules,
    columns: NDArray[np.int32],
    offsets: NDArray[np.int64],
    style: NDArray[np.int8],
    order: NDArray[np.int32],
    nodes: NDArray[np.void],
    slot: NDArray[np.int32],
    packed: NDArray[np.uint64],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
) -> tuple[int, int, float]:
    """Take the splits of a depth that are worth it and make their children.

    Slots go to the smaller sibling of every new pair (ties: the left one). Returns the number of
    nodes with these, that of ``subsets`` used, and the share of all rows that the children have.
    """
    keep_best(span.last, rules, nodes)
    after = span.last
    moving = pairs = every = 0
    for v in range(rules.levels):
        every += nodes[v].count
    for k in range(span.first, span.last):
        node = nodes[k]
        slot[k] = -1
        packed[k] = LEAF | (np.uint64(k) << CHILD)
        if not node.kept:
            continue
        node.child = after
        for side in range(2):
            new = nodes[after + side]
            new.owner = node.owner
            new.parent = k
            new.count = node.left_count if side == 0 else node.count - node.left_count
            new.s = node.left_s if side == 0 else node.s - node.left_s
            new.g = node.left_g if side == 0 else node.g - node.left_g
            packed[after + side] = LEAF | (np.uint64(after + side) << CHILD)
        right_smaller = nodes[after + 1].count < nodes[after].count
        slot[after] = -1 if right_smaller else pairs
        slot[after + 1] = pairs if right_smaller else -1
        by_set = style[node.feature] != 0
        if by_set:
            start = offsets[node.feature]
            subset[k] = used
            subsets[used, 0] = node.missing_left
            first = node.last_bin if style[node.feature] == 2 else 1
            for place in range(first, node.last_bin + 1):
                subsets[used, order[start + place]] = True
            used += 1
        packed[k] = pack_node(
            after, columns[node.feature], node.last_bin, node.missing_left, by_set
        )
        moving += node.count
        pairs += 1
        after += 2
    number_nodes(after, rules, nodes)
    return after, used, moving / every


@helper
def number_nodes(last: int, rules: Rules, nodes: NDArray[np.void]) -> None:
    """Where the nodes end up without those that are not reached; siblings stay side by side.

    Roots of level sets that are too small, or without ``bare_roots`` of those that were not
    split, are not reached.
    """
    count = 0
    for k in range(last):
        node = nodes[k]
        if k < rules.levels:
            reached = node.count >= rules.min_level_rows and node.s > 0
            reached = reached and (rules.bare_roots or node.kept)
        else:
            above = nodes[node.parent]
            reached = above.number >= 0 and above.kept
        node.number = count if reached else -1
        node.final = nodes[node.parent].final if k >= rules.levels and not reached else node.number
        count += reached
    for k in range(last):
        node = nodes[k]
        node.final_child = nodes[node.child].number if node.kept else -1


def order_codes(
    cells: NDArray[np.int64],
    rules: Rules,
    candidates: Candidates,
    scale: Scale,
    values: NDArray[np.float64],
    order: NDArray[np.int32],
) -> None:
    """Codes of categorical features (style 1) by their smoothed residual mean; ties by code.

    One order per feature from all level sets together: orders per level set were measured to
    overfit. Where rows carry labels, ``values`` holds the scores of the level sets, which are
    taken off level by level in order; it is empty where they carry residuals.
    """
    learned = np.flatnonzero(candidates.style == 1)
    if not len(learned):
        return
    _, mass, response = scale.unpack(cells.reshape(rules.levels, -1, scale.words))
    for j in learned:
        own = slice(candidates.offsets[j] + 1, candidates.offsets[j + 1])
        residual = response[:, own].sum(axis=0) * rules.response_step
        for v in range(len(values)):
            residual -= values[v] * (mass[v, own] * rules.weight_step)
        denominator = mass[:, own].sum(axis=0) * rules.weight_step + rules.smoothing
        mean = np.divide(residual, denominator, out=np.zeros(len(residual)), where=denominator > 0)
        order[own] = np.argsort(mean, kind="stable") + 1
