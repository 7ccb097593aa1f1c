"""Growing trees, over plain arrays: what happens between passes over the rows, and all of it.

The best splits of new nodes are found (`find_splits`), some of them are made (`make_children`),
rows are sorted by child and histograms are summed (``histogram``), and so on. Where one part has
all rows this is done by one kernel (`grow_alone`), which with a limit on leaves makes the best
split of every tree, one at a time. Where rows are in several parts a pass over them costs more than
histograms that turn out to be unnecessary, so that all nodes of a depth are split that may be in
the tree, as far as is known (`Rules.every`). The trees are the same.

A node is a record of one array, because every array that a kernel takes costs time to compile and
to call, and every array in a tuple several times as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recalibrate.kernels.compiler import helper, kernel
from recalibrate.kernels.histogram import count_nodes, split_nodes
from recalibrate.kernels.routing import CHILD, LEAF, PackedTrees, pack_node
from recalibrate.kernels.rows import read_words

if TYPE_CHECKING:
    from recalibrate.core.fixedpoint import Scale

NODE = np.dtype(
    [
        # Number of the root of its tree, which is that of the level set; -1 as parent: a root.
        ("owner", np.int32),
        ("parent", np.int32),
        # 1 for a root, 2 p and 2 p + 1 for the children of p: orders nodes by depth, then from left
        # to right.
        ("place", np.int32),
        # Left child, which the right one follows; -1: none.
        ("child", np.int32),
        # Which histogram is its own.
        ("histogram", np.int32),
        # Its best split: place among the features, last bin on the left in the order of their
        # codes (or the one category), whether missing values go left; gain 0: none.
        ("feature", np.int32),
        ("last_bin", np.int32),
        ("missing_left", np.bool_),
        # Whether the split is in the tree, as far as is known.
        ("kept", np.bool_),
        # Of a root: the node of its tree that gains most among those that may be split next.
        ("best", np.int32),
        # Where the tree ends up without what is not reached, by depth: the node's number (-1:
        # dropped), that of its left child, the number of what stands in its place; and which node
        # has the number that this record stands at.
        ("number", np.int32),
        ("final_child", np.int32),
        ("final", np.int32),
        ("numbered", np.int32),
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
    every
        Whether all nodes of a depth are split that may be in the tree, as far as is known.
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
    every: bool


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
    codes
        Codes of every feature, one after another.
    widest
        Most codes of any categorical feature, drawn or not; 0: there is none.
    """

    columns: NDArray[np.int32]
    offsets: NDArray[np.int64]
    style: NDArray[np.int8]
    codes: NDArray[np.int32]
    widest: int


class Nodes(NamedTuple):
    """Nodes of all level sets' trees.

    Attributes
    ----------
    records
        See `NODE`.
    slot
        Which of the histograms that are summed next is the node's own, -1 if none is: of two
        siblings only the smaller one is summed, the other is the difference.
    packed
        Nodes as they are walked.
    order
        Codes of every feature in the order they are scanned.
    cells
        The histograms.
    """

    records: NDArray[np.void]
    slot: NDArray[np.int32]
    packed: PackedTrees
    order: NDArray[np.int32]
    cells: NDArray[np.int64]


def make_nodes(rules: Rules, candidates: Candidates, words: int) -> Nodes:
    """Room for all nodes and histograms that there can be; the roots are there."""
    levels, leaves = rules.levels, rules.leaves
    splits = [1 << depth for depth in range(rules.depth)]
    if leaves > 0:
        splits = [min(count, leaves - 1) for count in splits]
    inner, summed = sum(splits), sum(splits[:-1])
    if leaves > 0 and not rules.every:
        inner, summed = min(inner, leaves - 1), min(summed, leaves - 1)
    size = levels * (1 + 2 * inner)
    records = np.zeros(size, NODE)
    records["owner"][:levels] = records["histogram"][:levels] = np.arange(levels)
    records["place"][:levels] = 1
    records["parent"] = records["child"] = -1
    slot = np.full(size, -1, np.int32)
    slot[:levels] = np.arange(levels)
    widest = candidates.widest
    packed = PackedTrees(
        np.empty(size, np.uint64),
        np.full(size, -1, np.int32),
        np.zeros((levels * inner if widest else 0, max(1, widest)), np.bool_),
    )
    cells = np.empty(levels * (1 + summed) * int(candidates.offsets[-1]) * words, np.int64)
    return Nodes(records, slot, packed, candidates.codes.copy(), cells)


@kernel
def find_splits(
    first: int,
    last: int,
    rules: Rules,
    offsets: NDArray[np.int64],
    style: NDArray[np.int8],
    order: NDArray[np.int32],
    scale: Scale,
    nodes: NDArray[np.void],
    cells: NDArray[np.int64],
) -> None:
    """The split with the largest gain of the nodes first..last; ties keep the first one found.

    Bins are visited from low to high (categories in their order), and missing values are first
    tried on the right. The histograms of roots are summed all; of deeper siblings only one is, and
    the other has that of the parent, which becomes its own minus the other's: that is exact.
    """
    weight_step, response_step, l2 = rules.weight_step, rules.response_step, rules.l2
    least_rows, size = rules.min_leaf_rows, offsets[-1]
    for k in range(first, last):
        node = nodes[k]
        if node.histogram < 0:
            continue
        at = node.histogram * size
        if node.parent < 0:
            for cell in range(offsets[1]):
                count, s, g = read_words(cells, at + cell, scale)
                node.count += count
                node.s += s
                node.g += g
        elif (k - rules.levels) & 1 == 0:
            width = size * scale.words
            whole = nodes[node.parent].histogram
            one = node.histogram if nodes[k + 1].histogram == whole else nodes[k + 1].histogram
            for cell in range(width):
                cells[whole * width + cell] -= cells[one * width + cell]
        count_all, s_all, g_all = node.count, node.s, node.g
        if count_all < 2 * least_rows:
            continue
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
def _keep_best(last: int, rules: Rules, nodes: NDArray[np.void]) -> None:
    """The next splits of the trees: of limited leaves best-first, else all that gain.

    Every level set takes the largest gain among the nodes it has reached (ties: the one that is
    higher up, then further left), once. Or (`Rules.every`) it takes all splits that its tree has
    among the nodes so far, from the root on: deeper nodes only add rivals, and what is not kept now
    will never be.
    """
    if rules.leaves <= 0 or rules.every:
        for k in range(last):
            nodes[k].kept = rules.leaves <= 0 and nodes[k].gain > 0.0
    for _ in range(rules.leaves - 1 if rules.every else min(rules.leaves, 1)):
        for v in range(rules.levels):
            nodes[v].best = -1
        found = False
        for k in range(last):
            node = nodes[k]
            if node.kept or node.gain <= 0.0 or (node.parent >= 0 and not nodes[node.parent].kept):
                continue
            root = nodes[node.owner]
            if root.best >= 0:
                rival = nodes[root.best]
                if node.gain < rival.gain or (node.gain == rival.gain and node.place > rival.place):
                    continue
            root.best = k
            found = True
        if not found:
            break
        for v in range(rules.levels):
            if nodes[v].best >= 0:
                nodes[nodes[v].best].kept = True


@kernel
def make_children(
    last: int,
    summed: int,
    used: int,
    rules: Rules,
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    style: NDArray[np.int8],
    order: NDArray[np.int32],
    nodes: NDArray[np.void],
    slot: NDArray[np.int32],
    packed: NDArray[np.uint64],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
) -> tuple[int, int, int]:
    """Choose splits and make their children.

    Slots go to the smaller sibling of every new pair (ties: the left one) that may be split
    further. Returns the numbers of nodes, of histograms ``summed`` and of ``subsets`` used.
    """
    _keep_best(last, rules, nodes)
    after, before = last, summed
    for k in range(last):
        node = nodes[k]
        slot[k] = -1
        if node.child >= 0:
            continue
        packed[k] = LEAF | (np.uint64(k) << CHILD)
        if not node.kept:
            continue
        node.child = after
        for side in range(2):
            new = nodes[after + side]
            new.owner = node.owner
            new.parent = k
            new.place = 2 * node.place + side
            new.count = node.left_count if side == 0 else node.count - node.left_count
            new.s = node.left_s if side == 0 else node.s - node.left_s
            new.g = node.left_g if side == 0 else node.g - node.left_g
            new.histogram = slot[after + side] = -1
            packed[after + side] = LEAF | (np.uint64(after + side) << CHILD)
        smaller = after + int(nodes[after + 1].count < nodes[after].count)
        larger = 2 * after + 1 - smaller
        deepest = nodes[after].place >= 1 << rules.depth
        if not deepest and nodes[larger].count >= 2 * rules.min_leaf_rows:
            slot[smaller] = summed - before
            nodes[smaller].histogram = summed
            nodes[larger].histogram = node.histogram
            summed += 1
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
        after += 2
    return after, summed, used


@kernel
def number_nodes(last: int, rules: Rules, nodes: NDArray[np.void]) -> int:
    """Number the nodes by depth, then from left to right, without those that are not reached.

    Roots of level sets that are too small, or without ``bare_roots`` of those that were not
    split, are not reached. Returns how many are.
    """
    count = 0
    for k in range(last):
        nodes[k].number = -1
    for k in range(rules.levels):
        node = nodes[k]
        if node.count >= rules.min_level_rows and node.s > 0 and (rules.bare_roots or node.kept):
            node.number = count
            nodes[count].numbered = k
            count += 1
    at = 0
    while at < count:
        node = nodes[nodes[at].numbered]
        node.final_child = -1
        if node.kept:
            node.final_child = count
            for side in range(2):
                nodes[node.child + side].number = count
                nodes[count].numbered = node.child + side
                count += 1
        at += 1
    for k in range(last):
        node = nodes[k]
        reached = k < rules.levels or node.number >= 0
        node.final = node.number if reached else nodes[node.parent].final
    return count


@kernel
def grow_alone(
    codes: NDArray[np.unsignedinteger],
    words: NDArray[np.int64],
    rules: Rules,
    columns: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    starts: NDArray[np.uint64],
    style: NDArray[np.int8],
    order: NDArray[np.int32],
    scale: Scale,
    nodes: NDArray[np.void],
    slot: NDArray[np.int32],
    packed: NDArray[np.uint64],
    subset: NDArray[np.int32],
    subsets: NDArray[np.bool_],
    cells: NDArray[np.int64],
    rows: NDArray[np.int32],
    spare: NDArray[np.int32],
    bounds: NDArray[np.int64],
) -> tuple[int, int]:
    """Grow the trees of one part's ``rows``; the histograms of the roots are there.

    ``starts`` are the ``offsets`` without a sign, as `count_nodes` takes them.
    Rows of the nodes that are split last are left as they are. Returns how many nodes there are,
    and how many subsets are used.
    """
    # A literal 0 would be a type of its own, for which what it is passed to is compiled once more.
    first, used = int(np.int64(0)), int(np.int64(0))
    last = summed = rules.levels
    width = offsets[-1] * scale.words
    turns = rules.leaves - 1 if rules.leaves > 0 else rules.depth
    for turn in range(turns):
        find_splits(first, last, rules, offsets, style, order, scale, nodes, cells)
        after, more, used = make_children(
            last, summed, used, rules, columns, offsets, style, order, nodes, slot, packed,
            subset, subsets,
        )  # fmt: skip
        first, last = last, after
        if first == last or turn == turns - 1:
            break
        split_nodes(codes, rows, spare, bounds, rules.levels, first, packed, subset, subsets)
        for cell in range(summed * width, more * width):
            cells[cell] = 0
        own = cells[summed * width :]
        count_nodes(codes, columns, starts, words, rows, bounds, slot, first, last, own)
        summed = more
    return last, used


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
