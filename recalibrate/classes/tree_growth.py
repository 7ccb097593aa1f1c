"""Growing the trees of all level sets at once.

Where one part has all rows, a single kernel does it all (`kernels.growing.grow_alone`). Where
there are several, every depth is one pass over them: rows are sorted by node and the histograms
of the smaller siblings are summed. The trees are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.learning import StepContext
from recalibrate.core.levels import Levels
from recalibrate.core.part import Buffers, Part, PendingStep, Sums, take_buffer
from recalibrate.core.rounds import Scores
from recalibrate.kernels.growing import (
    Candidates,
    Nodes,
    Rules,
    find_splits,
    grow_alone,
    make_children,
    make_nodes,
    number_nodes,
    order_codes,
)
from recalibrate.kernels.histogram import (
    ALL_ROWS,
    count_nodes,
    count_rows,
    sort_by_level,
    split_nodes,
    take_drawn,
)
from recalibrate.kernels.routing import PackedTrees, finish, finish_on_grid

Ints = NDArray[np.int32]
Codes = NDArray[np.unsignedinteger]
MANY_CELLS = 100_000
"""Histograms of this many cells are worth a second thread."""
SCATTERED_LEVELS = 16
"""Rows of so many level sets are put side by side: each would be a cache miss of its own. One copy
costs a tenth of the misses when the rows of 300 level sets are counted once."""


@dataclass(frozen=True, eq=False)
class _Grown:
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
class _Grower:
    """Trees while they grow, as rows are sorted by them, and what became of them.

    Attributes
    ----------
    levels
        Number of level sets.
    room
        Nodes that there can be.
    packed
        The nodes so far.
    last
        Their number.
    grown
        The trees that are left, which the table ``learned`` is made of.
    """

    levels: int
    room: int
    packed: PackedTrees
    last: int
    grown: Any = None
    learned: Any = None


def grow(task: StepContext, encoder: int, rules: Rules, candidates: Candidates) -> _Grower:
    """Grow one tree per level set."""
    part, words = task.source.only_part, task.source.scale.words
    nodes = make_nodes(rules, candidates, words)
    trees = _Grower(rules.levels, len(nodes.records), nodes.packed, rules.levels)
    trees.last, used = (
        _grow_on_parts(task, encoder, rules, candidates, nodes, trees)
        if part is None
        else _grow_on_one(task, part, encoder, rules, candidates, nodes, trees)
    )
    trees.grown = _prune(nodes, trees.last, rules, candidates.columns)
    packed, subset, subsets = nodes.packed
    trees.packed = PackedTrees(packed[: trees.last], subset[: trees.last], subsets[:used])
    return trees


def _grow_on_one(
    task: StepContext,
    part: Part,
    encoder: int,
    rules: Rules,
    candidates: Candidates,
    nodes: Nodes,
    trees: _Grower,
) -> tuple[int, int]:
    """Grow them on a part that has all rows; the numbers of nodes and of subsets."""
    draw, scale = task.draft.draw, task.source.scale
    offsets, style = candidates.offsets, candidates.style
    columns, starts = _unsigned(candidates)
    codes, words, level = part.blocks[encoder], part.words(task.draft), part.levels(task.draft)
    if draw is not None and draw.least > 0 and len(part.keys):
        # Most rows are left out: these and columns not drawn cost nothing.
        codes, words, level = take_drawn(codes, words, level, columns)
        descent = _Descent(trees, level)
        columns = np.arange(len(columns), dtype=np.uint64)
    else:
        descent = part.descent = _Descent(trees, level, part.buffers)
    codes, words = descent.gather(codes, words)
    roots = descent.count_roots(codes, words, columns, starts)
    nodes.cells[: len(roots)] = roots
    order_codes(roots, rules, candidates, scale, _values(task), nodes.order)
    descent.make_room()
    return grow_alone(
        codes, words, rules, columns, offsets, starts, style, nodes.order, scale, nodes.records,
        nodes.slot, *nodes.packed, nodes.cells, descent.order, descent.spare, descent.bounds,
    )  # fmt: skip


def _grow_on_parts(
    task: StepContext,
    encoder: int,
    rules: Rules,
    candidates: Candidates,
    nodes: Nodes,
    trees: _Grower,
) -> tuple[int, int]:
    """Grow them on several parts; the numbers of nodes and of subsets."""
    source, scale = task.source, task.source.scale
    offsets, style = candidates.offsets, candidates.style
    columns, starts = _unsigned(candidates)
    width = int(offsets[-1]) * scale.words
    first, last, summed, used = 0, rules.levels, 0, 0
    more = rules.levels
    packed, subset, subsets = nodes.packed
    for depth in range(rules.depth):
        slot = nodes.slot[:last]
        # No more than there is so far: it travels to where the rows are.
        trees.packed = PackedTrees(packed[:last], subset[:last], subsets[:used])
        trees.last = last
        if more > summed:
            statistic = _Histogram(
                task.draft, encoder, trees, columns, starts, first, slot, more - summed
            )
            (sums,) = source.sums(statistic)
            nodes.cells[summed * width : more * width] = sums
        if depth == 0:
            order_codes(sums, rules, candidates, scale, _values(task), nodes.order)
        summed = more
        _find(task, first, last, rules, candidates, nodes)
        after, more, used = make_children(
            last, summed, used, rules, columns, offsets, style, nodes.order, nodes.records,
            nodes.slot, packed, subset, subsets,
        )  # fmt: skip
        first, last = last, after
        if first == last:
            break
    return last, used


def _unsigned(candidates: Candidates) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Columns and offsets as `count_nodes` takes them."""
    return candidates.columns.astype(np.uint64), candidates.offsets.astype(np.uint64)


def _find(
    task: StepContext, first: int, last: int, rules: Rules, candidates: Candidates, nodes: Nodes
) -> None:
    """Best split of every new node; many nodes are shared out over the threads."""

    def find(start: int, stop: int) -> None:
        find_splits(
            start, stop, rules, candidates.offsets, candidates.style, nodes.order,
            task.source.scale, nodes.records, nodes.cells,
        )  # fmt: skip

    if (last - first) * int(candidates.offsets[-1]) * task.source.scale.words < MANY_CELLS:
        find(first, last)
        return
    middle = first + (last - first) // 4 * 2  # siblings stay together
    pieces = (first, middle), (middle, last)
    task.source.share_out(lambda piece: find(*pieces[piece]), len(pieces))


def _prune(nodes: Nodes, last: int, rules: Rules, columns: Ints) -> _Grown:
    """The trees that have grown to ``last`` nodes, as far as kept."""
    every = nodes.records[:last]
    count = number_nodes(last, rules, nodes.records)
    numbered = every["numbered"][:count]
    records, roots = every[numbered], every["number"][: rules.levels].copy()
    kept, subset = records["kept"], nodes.packed.subset[numbered]
    by_set = np.flatnonzero(kept & (subset >= 0))
    subsets = nodes.packed.subsets[subset[by_set]]
    subset = np.full(count, -1, np.int32)
    subset[by_set] = np.arange(len(by_set))
    return _Grown(
        roots,
        records,
        np.where(kept, columns[records["feature"]], np.int32(-1)),
        subset,
        subsets,
        every["final"].copy(),
        int(every["s"][: rules.levels][roots < 0].sum()),
    )


def _values(task: StepContext) -> NDArray[np.float64]:
    """Scores of the level sets, where rows carry labels instead of residuals."""
    return task.values if task.draft.replace else np.empty(0)


class _Descent:
    """A part's rows, sorted by node while trees grow.

    Those of many level sets are copied in this order (``rows``: which they are), and numbered anew.
    """

    def __init__(self, trees: _Grower, level: Ints, buffers: Buffers | None = None) -> None:
        self.trees = trees
        self.n_rows = len(level)
        self.order, self.bounds = sort_by_level(level, trees.levels, trees.room)
        self._scattered = np.count_nonzero(np.diff(self.bounds)) >= SCATTERED_LEVELS
        self.spare: Ints = np.empty(0, np.int32)
        self.rows: NDArray[np.intp] | None = None
        self._copies: tuple[Codes, NDArray[np.int64]] | None = None
        self._buffers: Buffers = {} if buffers is None else buffers

    def gather(self, codes: Codes, words: NDArray[np.int64]) -> tuple[Codes, NDArray[np.int64]]:
        """The rows that are listed and sorted: copies where there are many level sets."""
        if not self._scattered:
            return codes, words
        if self._copies is None:
            buffers = self._buffers
            self.rows = take_buffer(buffers, "rows", self.order.shape, np.intp)
            self.rows[:] = self.order
            own_codes = take_buffer(buffers, "codes", codes.shape, codes.dtype)
            own_words = take_buffer(buffers, "words", words.shape, words.dtype)
            for own, given in ((own_codes, codes), (own_words, words)):
                np.take(given, self.rows, axis=0, out=own, mode="clip")  # "raise" works on a copy
            self._copies = own_codes, own_words
            self.order[:] = np.arange(self.n_rows, dtype=np.int32)
        return self._copies

    def count_roots(
        self,
        codes: Codes,
        words: NDArray[np.int64],
        features: NDArray[np.uint64],
        starts: NDArray[np.uint64],
    ) -> NDArray[np.int64]:
        """Histograms of the level sets."""
        levels = self.trees.levels
        order = self.order if levels > 1 else ALL_ROWS
        return count_rows(codes, features, starts, words, order, self.bounds[:levels])

    def make_room(self) -> None:
        """Have room for the rows by node."""
        if not len(self.spare):
            self.spare = np.empty(self.n_rows, np.int32)
            if self.order is ALL_ROWS:
                self.order = np.empty(self.n_rows, np.int32)

    def count(
        self,
        codes: Codes,
        words: NDArray[np.int64],
        features: NDArray[np.uint64],
        starts: NDArray[np.uint64],
        first: int,
        slot: Ints,
        slots: int,
    ) -> NDArray[np.int64]:
        """Histograms of the nodes from ``first`` on that have a slot."""
        codes, words = self.gather(codes, words)
        if first == 0:
            return self.count_roots(codes, words, features, starts)
        self.make_room()
        levels, packed, last = self.trees.levels, self.trees.packed, len(slot)
        split_nodes(codes, self.order, self.spare, self.bounds, levels, first, *packed)
        out = np.zeros(slots * int(starts[-1]) * words.shape[1], np.int64)
        order = self.order, self.bounds
        count_nodes(codes, features, starts, words, *order, slot, first, last, out)
        return out

    def scores(self, codes: Codes, f: Scores, replaces: bool) -> Scores:
        """Scores after the step with the table that was learned, without walking it again."""
        trees = self.trees
        value = np.append(trees.learned.value, np.nan)[trees.grown.final]
        if self._copies is not None:
            codes, f = self._copies[0], f[self.rows]
        out = np.empty(len(f))
        rows = self.order, self.bounds, trees.levels, trees.last
        finish(codes, *rows, *trees.packed, value, f, replaces, out)
        return self._in_row_order(out)

    def levels(self, codes: Codes, level: Ints, grid: Levels) -> Ints:
        """Levels after the step, where it replaces scores and rounds them to ``grid``."""
        trees = self.trees
        node_level = np.append(grid.index(trees.learned.value), np.int32(-1))[trees.grown.final]
        out = np.empty(len(level), np.int32)
        rows = self.order, self.bounds, trees.levels, trees.last
        codes = codes if self._copies is None else self._copies[0]
        finish_on_grid(codes, *rows, *trees.packed, node_level, out)
        out = self._in_row_order(out)
        if (node_level[: trees.levels] < 0).any():
            alone = out < 0
            out[alone] = level[alone]
        return out

    def _in_row_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the sorted rows in the order that rows have outside."""
        if self.rows is None:
            return values
        out = np.empty_like(values)
        out[self.rows] = values
        if self._copies is not None:  # the step is taken, and this was the last question
            self._buffers |= zip(
                ("rows", "codes", "words"), (self.rows, *self._copies), strict=True
            )
        return out


@dataclass(frozen=True, eq=False)
class _Histogram:
    """Statistic: histograms of the nodes from ``first`` on that have a slot."""

    draft: PendingStep
    encoder: int
    trees: _Grower
    features: NDArray[np.uint64]
    starts: NDArray[np.uint64]
    first: int
    slot: Ints
    slots: int

    def of(self, part: Part) -> Sums:
        codes = part.blocks[self.encoder]
        words = part.words(self.draft)
        descent = part.descent
        if not isinstance(descent, _Descent) or descent.trees is not self.trees:
            descent = part.descent = _Descent(self.trees, part.levels(self.draft), part.buffers)
        asked = self.features, self.starts, self.first, self.slot, self.slots
        return (descent.count(codes, words, *asked),)
