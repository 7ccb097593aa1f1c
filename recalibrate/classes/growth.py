"""Growing the trees of all level sets at once, depth by depth.

Every depth is one pass over the rows: route to the child, add to the smaller sibling's
histogram. With a limit on leaves the result is the best-first tree: a split is in it exactly
when fewer than ``leaves - 1`` splits of its level set have a larger key, the key being the
smallest gain on the way from the root. Keys only fall on the way down, so splits that can no
longer be in the tree are dropped as soon as they are found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recalibrate.bins import Bins
from recalibrate.classes.base import Task
from recalibrate.engines.memory import total
from recalibrate.engines.part import Answer, Draft, Part
from recalibrate.kernels import histogram, splits

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Splits:
    """Splits of the nodes of one depth; ``child`` is the left child's number, -1 a leaf."""

    feature: Ints
    last_bin: Ints
    missing_left: NDArray[np.bool_]
    subset: Ints
    subsets: NDArray[np.bool_]
    child: Ints


@dataclass(frozen=True, eq=False)
class Histogram:
    """Question: histograms of the nodes that ``slot`` numbers, at the depth reached so far."""

    draft: Draft
    encoder: int
    token: object
    path: tuple[Splits, ...]
    slot: Ints
    slots: int
    features: Ints
    offsets: NDArray[np.int64]

    def ask(self, part: Part) -> Answer:
        codes = part.blocks[self.encoder]
        words = part.words(self.draft)
        node = self._nodes(part, codes)
        size = int(self.offsets[-1])
        out = np.zeros(self.slots * size * words.shape[1], dtype=np.int64)
        count = histogram.count_one_word if words.shape[1] == 1 else histogram.count_words
        count(
            codes,
            self.features.astype(np.uint64),
            self.offsets.astype(np.uint64),
            words,
            node,
            self.slot,
            size,
            out,
        )
        return (out,)

    def _nodes(self, part: Part, codes: NDArray[np.integer]) -> Ints:
        """Node of every row, from where this part last was on this tree."""
        token, depth, node = part.scratch.get("nodes", (None, 0, None))
        if token is not self.token or depth > len(self.path):
            level = part.levels(self.draft)
            node, depth = (level.copy() if node is None else node), 0
            node[:] = level
        for step in self.path[depth:]:
            histogram.route(
                codes,
                node,
                step.feature,
                step.last_bin,
                step.missing_left,
                step.subset,
                step.subsets,
                step.child,
            )
        part.scratch["nodes"] = (self.token, len(self.path), node)
        return node


@dataclass(eq=False)
class Depth:
    """All nodes of one depth, with their best splits."""

    owner: Ints
    """Level set of the node."""
    parent: Ints
    """Number of the parent at the depth above."""
    totals: NDArray[np.int64]
    gain: NDArray[np.float64]
    key: NDArray[np.float64]
    feature: Ints
    position: Ints
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int64]
    child: Ints


@dataclass(frozen=True, eq=False)
class Rules:
    """Limits on a tree, and how its features are visited."""

    depth: int
    leaves: int | None
    min_leaf_rows: int
    l2: float
    min_gain: float
    features: Ints
    style: NDArray[np.int8]


def grow(
    task: Task, bins: Bins, encoder: int, rules: Rules, order: OrderRule
) -> tuple[list[Depth], Ints]:
    """Nodes of all trees, depth by depth, and the order their codes were scanned in."""
    offsets = bins.offsets
    token = object()
    path: tuple[Splits, ...] = ()

    def histograms(slot: Ints, slots: int) -> NDArray[np.int64]:
        question = Histogram(task.draft, encoder, token, path, slot, slots, rules.features, offsets)
        return total(task.source, question)[0]

    levels = task.levels
    owner = np.arange(levels, dtype=np.int32)
    cells = histograms(owner, levels)
    scale = task.source.scale
    totals = np.zeros((levels, 3), dtype=np.int64)
    layout = (scale.words, scale.plain, scale.shift)
    splits.node_totals(cells, levels, int(rules.features[0]), offsets, *layout, totals)
    ranking = order(task, cells, offsets)
    depths = [
        _find(
            task, cells, owner, np.full(levels, -1, np.int32), totals, None, rules, ranking, offsets
        )
    ]
    width = int(offsets[-1]) * scale.words
    while len(depths) <= rules.depth:
        here = depths[-1]
        _choose(depths, rules.leaves)
        expanded = np.flatnonzero(here.child >= 0)
        if not len(expanded):
            break
        last = len(depths) == rules.depth
        children = _children(here, expanded)
        if last:
            depths.append(_leaves(children))
            break
        path = (*path, as_splits(here, bins, ranking, offsets, rules.style))
        slot, small_slot, summed = _smaller_siblings(children.totals)
        small = histograms(slot, len(expanded))
        grown = np.empty(len(children.owner) * width, dtype=np.int64)
        splits.sibling_histograms(cells, small, children.parent, small_slot, summed, width, grown)
        cells = grown
        depths.append(
            _find(
                task,
                cells,
                children.owner,
                children.parent,
                children.totals,
                here.key[children.parent],
                rules,
                ranking,
                offsets,
            )
        )
    return depths, ranking


class OrderRule:
    """Order in which a feature's codes are scanned: as they are, or by residual mean.

    One order per feature and tree, from all level sets together: orders per level set were
    measured to overfit.
    """

    def __init__(self, style: NDArray[np.int8], smoothing: float) -> None:
        self.style = style
        self.smoothing = smoothing

    def __call__(self, task: Task, cells: NDArray[np.int64], offsets: NDArray[np.int64]) -> Ints:
        size = int(offsets[-1])
        order = np.concatenate(
            [
                np.arange(b - a, dtype=np.int32)
                for a, b in zip(offsets[:-1], offsets[1:], strict=True)
            ]
        )
        if not (self.style == 1).any():
            return order
        scale = task.source.scale
        words = cells.reshape(task.levels, size, scale.words)
        for j in np.flatnonzero(self.style == 1):
            a, b = int(offsets[j]), int(offsets[j + 1])
            _, mass, response = scale.unpack(words[:, a + 1 : b])
            weight = mass.sum(axis=0) * scale.weight_step
            residual = response.sum(axis=0) * scale.response_step
            if task.draft.replace:
                # Rows carry labels: the level's value is taken off, level by level in order.
                for v, value in enumerate(task.values):
                    residual = residual - value * (mass[v] * scale.weight_step)
            # A code without rows, and no smoothing, ranks as a residual of zero.
            denominator = weight + self.smoothing
            mean = np.divide(
                residual, denominator, out=np.zeros(len(residual)), where=denominator > 0
            )
            order[a + 1 : b] = np.argsort(mean, kind="stable").astype(np.int32) + 1
        return order


def _find(
    task: Task,
    cells: NDArray[np.int64],
    owner: Ints,
    parent: Ints,
    totals: NDArray[np.int64],
    key_above: NDArray[np.float64] | None,
    rules: Rules,
    order: Ints,
    offsets: NDArray[np.int64],
) -> Depth:
    """Best split of every node of a depth."""
    nodes = len(owner)
    scale = task.source.scale
    found = Depth(
        owner,
        parent,
        totals,
        np.empty(nodes),
        np.empty(nodes),
        np.full(nodes, -1, np.int32),
        np.zeros(nodes, np.int32),
        np.zeros(nodes, np.bool_),
        np.zeros((nodes, 3), np.int64),
        np.full(nodes, -1, np.int32),
    )
    splits.best_splits(
        cells,
        nodes,
        rules.features,
        offsets,
        order,
        rules.style,
        scale.words,
        scale.plain,
        scale.shift,
        scale.weight_step,
        scale.response_step,
        rules.l2,
        rules.min_leaf_rows,
        totals,
        found.gain,
        found.feature,
        found.position,
        found.missing_left,
        found.left,
    )
    small = totals[:, 0] < task.penalty.min_level_rows if key_above is None else False
    found.gain[(found.gain <= rules.min_gain) | small] = -1.0
    found.key[:] = found.gain if key_above is None else np.minimum(found.gain, key_above)
    return found


def _choose(depths: list[Depth], leaves: int | None) -> None:
    """Mark the splits that are in the trees so far: ``child`` >= 0, numbered at the newest depth."""
    if leaves is None:
        chosen = [depth.gain > 0 for depth in depths[-1:]]
        newest = chosen[-1]
    else:
        owner = np.concatenate([depth.owner for depth in depths])
        key = np.concatenate([depth.key for depth in depths])
        ranked = np.lexsort((np.arange(len(key)), -key, owner))
        first = np.searchsorted(owner[ranked], owner[ranked], side="left")
        place = np.empty(len(key), dtype=np.int64)
        place[ranked] = np.arange(len(key)) - first
        kept = (place < leaves - 1) & (key > 0)
        start = 0
        for depth in depths[:-1]:
            depth.child[~kept[start : start + len(depth.owner)]] = -1
            start += len(depth.owner)
        newest = kept[start:]
    here = depths[-1]
    here.child[newest] = 2 * np.arange(int(newest.sum()), dtype=np.int32)


@dataclass(frozen=True, eq=False)
class _Children:
    owner: Ints
    parent: Ints
    totals: NDArray[np.int64]


def _children(here: Depth, expanded: NDArray[np.intp]) -> _Children:
    parent = np.repeat(expanded, 2).astype(np.int32)
    totals = np.empty((len(parent), 3), dtype=np.int64)
    totals[0::2] = here.left[expanded]
    totals[1::2] = here.totals[expanded] - here.left[expanded]
    return _Children(here.owner[parent], parent, totals)


def _leaves(children: _Children) -> Depth:
    nodes = len(children.owner)
    none = np.full(nodes, -1, np.int32)
    return Depth(
        children.owner,
        children.parent,
        children.totals,
        np.full(nodes, -1.0),
        np.full(nodes, -1.0),
        none,
        none,
        np.zeros(nodes, np.bool_),
        np.zeros((nodes, 3), np.int64),
        none.copy(),
    )


def _smaller_siblings(
    totals: NDArray[np.int64],
) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Which child of every pair is summed: the one with fewer rows (ties: the left one)."""
    count = totals[:, 0].reshape(-1, 2)
    right = count[:, 1] < count[:, 0]
    summed = np.column_stack([~right, right]).ravel()
    slot = np.full(len(totals), -1, dtype=np.int32)
    slot[summed] = np.arange(len(count), dtype=np.int32)
    return slot, np.repeat(np.arange(len(count), dtype=np.int32), 2), summed


def as_splits(
    here: Depth, bins: Bins, order: Ints, offsets: NDArray[np.int64], style: NDArray[np.int8]
) -> Splits:
    """A depth's splits in the form that rows are routed by."""
    inner = np.flatnonzero(here.child >= 0)
    categorical = inner[style[here.feature[inner]] > 0]
    widest = max((feature.count for feature in bins.features if feature.categorical), default=1)
    subset = np.full(len(here.owner), -1, np.int32)
    subsets = np.zeros((len(categorical), widest), np.bool_)
    for row, k in enumerate(categorical):
        subset[k] = row
        j = here.feature[k]
        start = int(offsets[j])
        ranks = order[start : int(offsets[j + 1])]
        place = int(here.position[k])
        inside = ranks[place] if style[j] == 2 else ranks[1 : place + 1]
        subsets[row, inside] = True
        subsets[row, 0] = here.missing_left[k]
    return Splits(here.feature, here.position, here.missing_left, subset, subsets, here.child)
