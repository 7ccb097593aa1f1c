"""Growing the trees of all level sets at once, depth by depth.

Every depth is one pass over the rows: route to the child, add to the smaller sibling's
histogram. With a limit on leaves the result is the best-first tree: which splits it has among
those found so far is decided anew at every depth, and only these are followed further down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.learning import Task
from recalibrate.core.levels import Levels
from recalibrate.core.part import Draft, Part, Sums
from recalibrate.core.rounds import Scores
from recalibrate.kernels.alone import grow_alone, take_drawn
from recalibrate.kernels.growing import close_depth, compact, make_nodes, open_depth
from recalibrate.kernels.histogram import count_rows
from recalibrate.kernels.nodes import Nodes, Rules, Span
from recalibrate.kernels.routing import PackedTrees, Placement, descend, finish, finish_on_grid
from recalibrate.kernels.splitting import best_splits

Ints = NDArray[np.int32]
Codes = NDArray[np.unsignedinteger]
MANY_CELLS = 100_000
"""Histograms of this many cells are worth a second thread."""


@dataclass(eq=False)
class Grower:
    """Trees while they grow, as rows are sent down, and what became of them.

    Attributes
    ----------
    packed
        The nodes so far.
    moving
        Share of the rows that go on, by depth.
    depth
        Depth reached.
    grown
        The trees that are left, which the table ``learned`` is made of.
    """

    packed: PackedTrees
    moving: list[float] = field(default_factory=list)
    depth: int = 0
    grown: Any = None
    learned: Any = None


def grow(task: Task, encoder: int, rules: Rules) -> Grower:
    """Grow one tree per level set."""
    part, draw = task.source.only_part, task.draft.draw
    if part is not None:
        some = draw is not None and draw.least > 0 and len(part.keys)
        return (_grow_on_some if some else _grow_alone)(task, part, encoder, rules)
    scale, values = task.source.scale, _values(task)
    nodes = make_nodes(rules)
    trees = Grower(PackedTrees(nodes.packed, nodes.subset, nodes.subsets))
    span, slots, used = Span(0, 0, rules.levels), rules.levels, 0
    above = np.empty(0, np.int64)
    for depth in range(rules.depth):
        slot = nodes.slot[: span.last]
        statistic = Histogram(
            task.draft, encoder, trees, depth, rules.features, rules.offsets, slot, slots
        )
        (summed,) = task.source.sums(statistic)
        cells = open_depth(summed, above, span, rules, scale, values, nodes)
        _find(task, cells, span, rules, nodes)
        after, used, moving = close_depth(span, used, rules, nodes)
        if after == span.last:
            break
        # No more than there is so far: it travels to where the rows are.
        trees.packed = PackedTrees(nodes.packed[:after], nodes.subset[:after], nodes.subsets[:used])
        trees.moving.append(moving)
        trees.depth = depth + 1
        slots = (after - span.last) // 2
        span, above = Span(span.first, span.last, after), cells
    trees.grown = compact(span.last, used, rules, nodes)
    return trees


def _grow_alone(task: Task, part: Part, encoder: int, rules: Rules) -> Grower:
    """The same where one part has all the rows: nothing to sum, so one call does it."""
    node = part.levels(task.draft).copy()
    codes, words = part.blocks[encoder], part.words(task.draft)
    packed, depth, grown = grow_alone(codes, words, node, rules, task.source.scale, _values(task))
    trees = Grower(packed, depth=depth, grown=grown)
    # Rows are at most one depth above their leaves, which is what finishing expects.
    part.descent = Descent(trees, node, depth=depth)
    return trees


def _grow_on_some(task: Task, part: Part, encoder: int, rules: Rules) -> Grower:
    """The same where most rows are left out: these and columns not drawn cost nothing."""
    words, features = part.words(task.draft), rules.features
    some = take_drawn(part.blocks[encoder], words, part.levels(task.draft), features)
    own = rules._replace(features=np.arange(len(features), dtype=np.int32))
    packed, depth, grown = grow_alone(*some, own, task.source.scale, _values(task))
    known = np.append(features, np.int32(-1))  # at a leaf, feature -1 is the last
    return Grower(packed, depth=depth, grown=grown._replace(feature=known[grown.feature]))


def _find(task: Task, cells: NDArray[np.int64], span: Span, rules: Rules, nodes: Nodes) -> None:
    """Best split of every node of a depth; many nodes are shared out over the threads."""
    scale = task.source.scale
    width = int(rules.offsets[-1]) * scale.words
    middle = [] if len(cells) < MANY_CELLS else [(span.first + span.last) // 2]
    borders = [span.first, *middle, span.last]

    def find(piece: int) -> None:
        start, last = borders[piece : piece + 2]
        own = cells[(start - span.first) * width : (last - span.first) * width]
        best_splits(own, start, last, rules, scale, nodes)

    task.source.share_out(find, len(borders) - 1)


def _values(task: Task) -> NDArray[np.float64]:
    """Scores of the level sets, where rows carry labels instead of residuals."""
    return task.values if task.draft.replace else np.empty(0)


class Descent:
    """Where a part's rows are while trees grow."""

    def __init__(self, trees: Grower, level: Ints, depth: int = 0) -> None:
        self.trees = trees
        self.placement = Placement(level, np.empty(0, np.int32), len(level))
        self.depth = depth

    def follow(self, codes: Codes, depth: int) -> None:
        """Down to a depth, unless the rows are there already."""
        while self.depth < depth:
            moving = self.trees.moving[self.depth]
            self.placement = descend(codes, self.placement, self.trees.packed, moving)
            self.depth += 1

    def scores(self, codes: Codes, f: Scores, replaces: bool) -> Scores:
        """Scores after the step with the table that was learned, without walking it again."""
        trees = self.trees
        self.follow(codes, trees.depth - 1)
        value = np.append(trees.learned.value, np.nan)[trees.grown.final]
        out = np.empty(len(f))
        finish(codes, self.placement.node, trees.packed, value, f, replaces, out)
        return out

    def levels(self, codes: Codes, level: Ints, grid: Levels) -> Ints:
        """Levels after the step, where it replaces scores and rounds them to ``grid``."""
        trees = self.trees
        self.follow(codes, trees.depth - 1)
        node_level = np.append(grid.index(trees.learned.value), np.int32(-1))[trees.grown.final]
        out = np.empty(len(level), np.int32)
        finish_on_grid(codes, self.placement.node, trees.packed, node_level, out)
        if (node_level[: len(trees.learned.roots)] < 0).any():
            alone = out < 0
            out[alone] = level[alone]
        return out


@dataclass(frozen=True, eq=False)
class Histogram:
    """Statistic: histograms of the nodes that have a slot, at the depth reached so far."""

    draft: Draft
    encoder: int
    trees: Grower
    depth: int
    features: Ints
    offsets: NDArray[np.int64]
    slot: Ints
    slots: int

    def of(self, part: Part) -> Sums:
        codes = part.blocks[self.encoder]
        words = part.words(self.draft)
        descent = part.descent
        if not isinstance(descent, Descent) or descent.trees is not self.trees:
            descent = part.descent = Descent(self.trees, part.levels(self.draft).copy())
        descent.follow(codes, self.depth)
        summed = count_rows(
            codes, self.features, self.offsets, words, descent.placement, self.slot, self.slots
        )
        return (summed,)
