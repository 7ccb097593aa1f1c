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
from recalibrate.kernels.growing import (
    Candidates,
    Nodes,
    Rules,
    Span,
    close_depth,
    find_splits,
    make_nodes,
    order_codes,
)
from recalibrate.kernels.histogram import count_rows, take_drawn
from recalibrate.kernels.routing import PackedTrees, finish, finish_on_grid, move_rows

Ints = NDArray[np.int32]
Codes = NDArray[np.unsignedinteger]
MANY_CELLS = 100_000
"""Histograms of this many cells are worth a second thread."""


@dataclass(frozen=True, eq=False)
class Grown:
    """Trees without nodes that are not reached; siblings stay side by side.

    ``roots`` are by level set (-1: no tree); ``records`` say about every node what it was when the
    trees grew, see `kernels.growing.NODE`; ``final`` is, for every node while they grew, the one
    that stands in its place now (below a dropped split: where that was), or -1; ``skipped`` the
    summed s of level sets without a tree.
    """

    roots: Ints
    records: NDArray[np.void]
    feature: Ints
    subset: Ints
    subsets: NDArray[np.bool_]
    final: Ints
    skipped: int


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


def grow(task: Task, encoder: int, rules: Rules, candidates: Candidates) -> Grower:
    """Grow one tree per level set."""
    part, draw, scale = task.source.only_part, task.draft.draw, task.source.scale
    columns, offsets, style, _ = candidates
    nodes = make_nodes(rules, candidates)
    trees = Grower(nodes.packed)
    if part is not None:  # nothing to sum
        codes, words, level = part.blocks[encoder], part.words(task.draft), part.levels(task.draft)
        if draw is not None and draw.least > 0 and len(part.keys):
            # Most rows are left out: these and columns not drawn cost nothing.
            codes, words, level = take_drawn(codes, words, level, columns)
            columns = np.arange(len(columns), dtype=np.int32)
            descent = Descent(trees, level)
        else:
            descent = part.descent = Descent(trees, level.copy())
    span, slots, used = Span(0, 0, rules.levels), rules.levels, 0
    above = np.empty(0, np.int64)
    for depth in range(rules.depth):
        slot = nodes.slot[: span.last]
        if part is not None:
            summed = descent.count(codes, words, depth, columns, offsets, slot, slots)
        else:
            (summed,) = task.source.sums(
                Histogram(task.draft, encoder, trees, depth, columns, offsets, slot, slots)
            )
            summed = np.require(summed, requirements="W")  # kernels know no other arrays
        if depth == 0:
            order_codes(summed, rules, candidates, scale, _values(task), nodes.order)
            cells = summed
        else:
            size = int(offsets[-1]) * scale.words
            cells = np.empty((span.last - span.first) * size, np.int64)
        _find(task, summed, above, span, rules, candidates, nodes, cells)
        after, used, moving = close_depth(
            span, used, rules, columns, offsets, style, nodes.order, nodes.records, nodes.slot,
            *nodes.packed,
        )  # fmt: skip
        if after == span.last:
            break
        # No more than there is so far: it travels to where the rows are.
        packed, subset, subsets = nodes.packed
        trees.packed = PackedTrees(packed[:after], subset[:after], subsets[:used])
        trees.moving.append(moving)
        trees.depth = depth + 1
        slots = (after - span.last) // 2
        span, above = Span(span.first, span.last, after), cells
    trees.grown = _prune(nodes, span.last, used, rules.levels, candidates.columns)
    return trees


def _find(
    task: Task,
    summed: NDArray[np.int64],
    above: NDArray[np.int64],
    span: Span,
    rules: Rules,
    candidates: Candidates,
    nodes: Nodes,
    cells: NDArray[np.int64],
) -> None:
    """Best split of every node of a depth; many nodes are shared out over the threads."""

    def find(start: int, last: int) -> None:
        find_splits(
            summed, above, span, start, last, rules, candidates.offsets, candidates.style,
            nodes.order, task.source.scale, nodes.records, nodes.slot, cells,
        )  # fmt: skip

    if len(cells) < MANY_CELLS:
        find(span.first, span.last)
        return
    middle = span.first + (span.last - span.first) // 4 * 2  # siblings stay together
    pieces = (span.first, middle), (middle, span.last)
    task.source.share_out(lambda piece: find(*pieces[piece]), len(pieces))


def _prune(nodes: Nodes, last: int, used: int, levels: int, columns: Ints) -> Grown:
    """The trees that have grown to ``last`` nodes with ``used`` subsets, as far as kept."""
    every = nodes.records[:last]
    number = every["number"]
    reached = number >= 0
    records, roots = every[reached], number[:levels].copy()
    kept = records["kept"]
    return Grown(
        roots,
        records,
        np.where(kept, columns[records["feature"]], np.int32(-1)),
        np.where(kept, nodes.packed.subset[:last][reached], np.int32(-1)),
        nodes.packed.subsets[:used],
        every["final"].copy(),
        int(every["s"][:levels][roots < 0].sum()),
    )


def _values(task: Task) -> NDArray[np.float64]:
    """Scores of the level sets, where rows carry labels instead of residuals."""
    return task.values if task.draft.replace else np.empty(0)


class Descent:
    """Where a part's rows are while trees grow."""

    def __init__(self, trees: Grower, level: Ints) -> None:
        self.trees = trees
        self.node = level
        self.rows, self.active = np.empty(len(level), np.int32), -1
        self.depth = 0

    def follow(self, codes: Codes, depth: int) -> None:
        """Down to a depth, unless the rows are there already."""
        while self.depth < depth:
            moving, packed = self.trees.moving[self.depth], self.trees.packed
            self.active = move_rows(codes, self.node, self.rows, self.active, moving, *packed)
            self.depth += 1

    def count(
        self,
        codes: Codes,
        words: NDArray[np.int64],
        depth: int,
        features: Ints,
        offsets: NDArray[np.int64],
        slot: Ints,
        slots: int,
    ) -> NDArray[np.int64]:
        """Histograms of the nodes that have a slot, at a depth; see `count_rows`."""
        self.follow(codes, depth)
        rows = self.rows, self.active
        return count_rows(codes, features, offsets, words, self.node, slot, slots, *rows)

    def scores(self, codes: Codes, f: Scores, replaces: bool) -> Scores:
        """Scores after the step with the table that was learned, without walking it again."""
        trees = self.trees
        self.follow(codes, trees.depth - 1)
        value = np.append(trees.learned.value, np.nan)[trees.grown.final]
        out = np.empty(len(f))
        finish(codes, self.node, *trees.packed, value, f, replaces, out)
        return out

    def levels(self, codes: Codes, level: Ints, grid: Levels) -> Ints:
        """Levels after the step, where it replaces scores and rounds them to ``grid``."""
        trees = self.trees
        self.follow(codes, trees.depth - 1)
        node_level = np.append(grid.index(trees.learned.value), np.int32(-1))[trees.grown.final]
        out = np.empty(len(level), np.int32)
        finish_on_grid(codes, self.node, *trees.packed, node_level, out)
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
        asked = self.depth, self.features, self.offsets, self.slot, self.slots
        return (descent.count(codes, words, *asked),)
