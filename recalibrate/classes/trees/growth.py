"""Growing the trees of all level sets at once, depth by depth.

Every depth is one pass over the rows: route to the child, add to the smaller sibling's
histogram. With a limit on leaves the result is the best-first tree: which splits it has among
those found so far is decided anew at every depth, and only these are followed further down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.learning import Task
from recalibrate.core.levels import Levels
from recalibrate.core.part import Answer, Draft, Part
from recalibrate.core.rounds import Scores
from recalibrate.core.source import total
from recalibrate.data.bins import Bins
from recalibrate.kernels import alone, growing, histogram, routing, splitting

Ints = NDArray[np.int32]
MANY_CELLS = 100_000
"""Histograms of this many cells are worth a second thread."""
FEW_MOVING = 0.7
"""Below this share of rows that are not in leaves yet, a list of them pays."""


@dataclass(frozen=True, eq=False)
class Rules:
    """Limits on a tree, and how its features are visited.

    ``style`` of a feature: 0 by the order of its codes, 1 by a learned order of its categories,
    2 one category against the rest.
    """

    depth: int
    leaves: int | None
    min_leaf_rows: int
    smoothing: float
    features: Ints
    style: NDArray[np.int8]
    bare_roots: bool = True


class Grower:
    """Arrays of all nodes, filled as the trees grow; see ``kernels.growing``."""

    def __init__(self, levels: int, rules: Rules, bins: Bins) -> None:
        widest = [2**d if rules.leaves is None else min(2**d, rules.leaves - 1) for d in range(6)]
        inner = levels * sum(widest[: rules.depth])
        size = levels + 2 * inner
        self.owner = np.empty(size, np.int32)
        self.owner[:levels] = np.arange(levels)
        # One array for all of a kind: there are many small trees.
        self.parent, self.child, self.slot, self.subset = np.full((4, size), -1, np.int32)
        self.feature, self.last_bin = np.zeros((2, size), np.int32)
        self.totals, self.left = np.zeros((2, size, 3), np.int64)
        self.missing_left, self.kept = np.zeros((2, size), np.bool_)
        self.gain = np.full(size, -1.0)
        self.subsets = np.zeros((inner if rules.style.any() else 0, bins.widest_category), np.bool_)
        self.used = 0
        self.order = bins.natural_order.copy()
        self.last = levels
        self.depth = 0
        self.moving: list[float] = []
        self.packed = np.empty(size, np.uint64)
        self.learned: Any = None
        self.final = np.empty(0, np.int32)

    def __getstate__(self) -> dict[str, Any]:
        """Of a grower that travels to rows elsewhere only what sends rows down."""
        nodes = {name: getattr(self, name)[: self.last] for name in ("packed", "subset", "slot")}
        return {
            **nodes,
            "child": self.child[: self.last],
            "subsets": self.subsets[: self.used],
            "moving": self.moving,
            "last": self.last,
            "used": self.used,
            "learned": None,
        }

    def pack(self, first: int, last: int) -> None:
        """Make the nodes first..last ready to be walked."""
        routing.pack_nodes(
            self.feature,
            self.last_bin,
            self.missing_left,
            self.subset,
            self.child,
            first,
            last,
            self.packed,
        )


class Descent:
    """Where a part's rows are while trees grow."""

    def __init__(self, trees: Grower, level: Ints, depth: int = 0) -> None:
        self.trees = trees
        self.node = level
        self.rows = np.empty(0, np.int32)  # empty: all rows
        self.active = len(level)
        self.depth = depth

    def follow(self, codes: NDArray[np.unsignedinteger], depth: int) -> None:
        """Down to a depth, unless the rows are there already."""
        trees = self.trees
        way = (trees.packed, trees.subset, trees.subsets)
        while self.depth < depth:
            if not len(self.rows) and trees.moving[self.depth] < FEW_MOVING:
                self.rows = routing.active_rows(self.node, trees.child)
                self.active = len(self.rows)
            if len(self.rows):
                self.active = routing.descend(codes, self.node, self.rows, self.active, *way)
            else:
                routing.descend_all(codes, self.node, *way)
            self.depth += 1

    def scores(self, codes: NDArray[np.unsignedinteger], f: Scores, replaces: bool) -> Scores:
        """Scores after the step with the table that was learned, without walking it again."""
        trees = self.trees
        self.follow(codes, trees.depth - 1)
        value = np.append(trees.learned.value, np.nan)[trees.final]
        out = np.empty(len(f))
        routing.finish(
            codes,
            self.node,
            trees.packed,
            trees.subset,
            trees.subsets,
            value,
            f,
            replaces,
            out,
        )
        return out

    def levels(self, codes: NDArray[np.unsignedinteger], level: Ints, grid: Levels) -> Ints:
        """Levels after the step, where it replaces scores and rounds them to ``grid``."""
        trees = self.trees
        self.follow(codes, trees.depth - 1)
        node_level = np.append(grid.index(trees.learned.value), np.int32(-1))[trees.final]
        out = np.empty(len(self.node), np.int32)
        routing.finish_on_grid(
            codes, self.node, trees.packed, trees.subset, trees.subsets, node_level, out
        )
        if (node_level[: len(trees.learned.roots)] < 0).any():
            alone = out < 0
            out[alone] = level[alone]
        return out


@dataclass(frozen=True, eq=False)
class Histogram:
    """Question: histograms of the nodes that have a slot, at the depth reached so far."""

    draft: Draft
    encoder: int
    trees: Grower
    depth: int
    slots: int
    features: NDArray[np.uint64]
    offsets: NDArray[np.uint64]

    def ask(self, part: Part) -> Answer:
        codes = part.blocks[self.encoder]
        words = part.words(self.draft)
        descent = part.descent
        if not isinstance(descent, Descent) or descent.trees is not self.trees:
            descent = part.descent = Descent(self.trees, part.levels(self.draft).copy())
        descent.follow(codes, self.depth)
        size = int(self.offsets[-1])
        out = np.zeros(self.slots * size * words.shape[1], dtype=np.int64)
        histogram.count_rows(
            codes,
            self.features,
            self.offsets,
            words,
            descent.node,
            descent.rows,
            descent.active,
            self.trees.slot,
            self.depth == 0,
            size,
            out,
        )
        return (out,)


def grow(task: Task, bins: Bins, encoder: int, rules: Rules) -> Grower:
    """Grow one tree per level set."""
    part = task.source.only_part
    if part is not None:
        return _grow_alone(task, part, bins, encoder, rules)
    offsets, scale = bins.offsets, task.source.scale
    layout = (scale.words, scale.plain, scale.shift)
    width = int(offsets[-1]) * scale.words
    trees = Grower(task.levels, rules, bins)
    features, starts = rules.features.astype(np.uint64), offsets.astype(np.uint64)
    trees.slot[: task.levels] = trees.owner[: task.levels]
    before, first, slots = 0, 0, task.levels
    cells = above = np.empty(0, np.int64)
    for depth in range(rules.depth):
        question = Histogram(task.draft, encoder, trees, depth, slots, features, starts)
        (summed,) = total(task.source, question)
        if depth == 0:
            cells = summed
            splitting.node_totals(
                cells, task.levels, int(rules.features[0]), offsets, *layout, trees.totals
            )
            _order(task, trees, cells, rules, offsets)
        else:
            cells = np.empty((trees.last - first) * width, np.int64)
            growing.child_histograms(
                first, trees.last, before, trees.slot, trees.parent, above, summed, width, cells
            )
        _find(task, trees, cells, first, rules, offsets)
        last = _plan(task, trees, first, rules, offsets)
        trees.pack(first, last)
        if last == trees.last:
            break
        moving = trees.totals[trees.last : last, 0].sum() / trees.totals[: task.levels, 0].sum()
        trees.moving.append(float(moving))
        trees.depth = depth + 1
        before, first, slots = first, trees.last, (last - trees.last) // 2
        trees.last, above = last, cells
    return trees


def _grow_alone(task: Task, part: Part, bins: Bins, encoder: int, rules: Rules) -> Grower:
    """The same where one part has all the rows: nothing to sum, so one call does it."""
    scale, penalty = task.source.scale, task.penalty
    trees = Grower(task.levels, rules, bins)
    trees.slot[: task.levels] = trees.owner[: task.levels]
    node = part.levels(task.draft).copy()
    trees.last, trees.depth, trees.used = alone.grow_alone(
        part.blocks[encoder],
        part.words(task.draft),
        node,
        rules.features,
        bins.offsets,
        rules.style,
        task.values if task.draft.replace else np.empty(0),
        scale.plain,
        scale.shift,
        (scale.weight_step, scale.response_step),
        (task.levels, rules.depth, rules.leaves or 0, rules.min_leaf_rows, penalty.min_level_rows),
        (penalty.l2, penalty.min_gain, rules.smoothing),
        FEW_MOVING,
        trees.order,
        trees.owner,
        trees.parent,
        trees.totals,
        trees.gain,
        trees.feature,
        trees.last_bin,
        trees.missing_left,
        trees.left,
        trees.child,
        trees.slot,
        trees.kept,
        trees.subset,
        trees.subsets,
        trees.packed,
    )
    # Rows are at most one depth above their leaves, which is what finishing expects.
    part.descent = Descent(trees, node, depth=trees.depth)
    return trees


def _find(
    task: Task,
    trees: Grower,
    cells: NDArray[np.int64],
    first: int,
    rules: Rules,
    offsets: NDArray[np.int64],
) -> None:
    """Best split of every node from ``first`` on; many nodes are shared out over the threads."""
    scale = task.source.scale
    width = int(offsets[-1]) * scale.words
    pieces = 1 if len(cells) < MANY_CELLS else 2
    borders = np.linspace(first, trees.last, pieces + 1).astype(int)

    def find(piece: int) -> None:
        start, last = int(borders[piece]), int(borders[piece + 1])
        splitting.best_splits(
            cells[(start - first) * width : (last - first) * width],
            start,
            last,
            rules.features,
            offsets,
            trees.order,
            rules.style,
            scale.words,
            scale.plain,
            scale.shift,
            scale.weight_step,
            scale.response_step,
            task.penalty.l2,
            rules.min_leaf_rows,
            trees.totals,
            trees.gain,
            trees.feature,
            trees.last_bin,
            trees.missing_left,
            trees.left,
        )

    task.source.share_out(find, pieces)


def _plan(task: Task, trees: Grower, first: int, rules: Rules, offsets: NDArray[np.int64]) -> int:
    """Take the splits that are in the trees so far; the number of nodes with their children."""
    last = growing.plan_depth(
        first,
        trees.last,
        task.levels,
        rules.leaves or 0,
        task.penalty.min_gain,
        task.penalty.min_level_rows,
        trees.owner,
        trees.parent,
        trees.totals,
        trees.gain,
        trees.left,
        trees.child,
        trees.slot,
        trees.kept,
    )
    trees.used = growing.write_subsets(
        first,
        trees.last,
        rules.style,
        offsets,
        trees.order,
        trees.feature,
        trees.last_bin,
        trees.missing_left,
        trees.child,
        trees.subset,
        trees.used,
        trees.subsets,
    )
    return last


def _order(
    task: Task, trees: Grower, cells: NDArray[np.int64], rules: Rules, offsets: NDArray[np.int64]
) -> None:
    """Order in which every categorical feature's codes are scanned."""
    scale = task.source.scale
    growing.order_codes(
        cells,
        task.levels,
        rules.features,
        offsets,
        rules.style,
        scale.words,
        scale.plain,
        scale.shift,
        scale.weight_step,
        scale.response_step,
        task.values if task.draft.replace else np.empty(0),
        rules.smoothing,
        trees.order,
    )
