"""Rounds as a short list of updates of the score: what a graph computes, before any node.

Steps are joined where nothing comes between them: trees that are added one after another, on
level sets that do not depend on what was added, are one sum. Where scores are rounded, a level
set says what the score is, so the new score itself stands in the leaves and rounding is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import fsum, inf, isinf, nextafter

import numpy as np

from recalibrate.core.levels import Levels
from recalibrate.core.rounds import Encoder, Rounds, Step
from recalibrate.data.table import Schema
from recalibrate.graph.features import FeatureList
from recalibrate.graph.forms import AddTrees, Draw, Place, SetTrees, Turn, Update, form_of
from recalibrate.graph.inputs import ExportError
from recalibrate.graph.trees import MARGIN, Leaf, Node, Split, rounding

# --- Rounds that follow each other as one tree: the later tree stands in the leaves of the
# earlier
#
# A leaf says what the score becomes, so the level set of the next round is known there (rounded
# scores) or nearly so (scores that a leaf adds to): most of the search for it is spared, and one
# operator does the work of several. What a path through the first tree has shown about a column
# also decides splits of the second one.


MOST_SPLITS = 4_000
"""Splits of a composed tree: beyond some 100 kB it no longer stays in a processor's cache."""


class _TooManyError(Exception):
    """A composed tree would have too many splits."""


@dataclass(frozen=True, slots=True)
class _Range:
    """What a path says about a column: low < x <= high, or NaN if that is possible."""

    low: float = -inf
    high: float = inf
    maybe_nan: bool = True

    def left_of(self, split: Split) -> _Range:
        """The same on the left of a split."""
        return _Range(
            self.low, min(self.high, split.threshold), self.maybe_nan and split.missing_left
        )

    def right_of(self, split: Split) -> _Range:
        """The same on the right of a split."""
        return _Range(
            max(self.low, split.threshold), self.high, self.maybe_nan and not split.missing_left
        )

    def decides(self, split: Split) -> bool | None:
        """Whether all rows go left (True) or right (False); None if that is open."""
        if self.high <= split.threshold and (split.missing_left or not self.maybe_nan):
            return True
        if self.low >= split.threshold and not (split.missing_left and self.maybe_nan):
            return False
        return None


_ANY = _Range()
_Known = dict[int, _Range]


def compose_replacing(first: Node, second: Node) -> Node | None:
    """The second tree after the first, whose leaves are the score; None if it is too large."""

    def after(leaf: Leaf, known: _Known, count: Callable[[], None]) -> Node:
        here = known | {MARGIN: _Range(nextafter(leaf.value, -inf), leaf.value, False)}
        return _pruned(second, here, count, 0.0, 0.0)

    return _compose(first, after)


def compose_adding(first: Node, second: Node) -> Node | None:
    """The second tree after the first, whose leaves are added to the score, as is the sum here.

    Sums of scores and leaf values are exact, so that comparing the score with a threshold minus
    what a leaf adds is the same as comparing the sum with the threshold.
    """

    def after(leaf: Leaf, known: _Known, count: Callable[[], None]) -> Node:
        return _pruned(second, known, count, leaf.value, leaf.value)

    return _compose(first, after)


def _compose(first: Node, after: Callable[[Leaf, _Known, Callable[[], None]], Node]) -> Node | None:
    splits = 0

    def count() -> None:
        nonlocal splits
        splits += 1
        if splits > MOST_SPLITS:
            raise _TooManyError

    def walk(node: Node, known: _Known) -> Node:
        if isinstance(node, Leaf):
            return after(node, known, count)
        count()
        return _join_children(node, *(walk(child, seen) for child, seen in _ways(node, known)))

    try:
        return walk(first, {})
    except _TooManyError:
        return None


def _ways(node: Split, known: _Known) -> tuple[tuple[Node, _Known], tuple[Node, _Known]]:
    """Both children, and what is known there."""
    if node.members is not None:
        return (node.left, known), (node.right, known)
    seen = known.get(node.column, _ANY)
    left, right = seen.left_of(node), seen.right_of(node)
    return (node.left, known | {node.column: left}), (node.right, known | {node.column: right})


def _join_children(node: Split, left: Node, right: Node) -> Node:
    if isinstance(left, Leaf) and left == right:
        return left
    return Split(node.column, node.threshold, node.missing_left, left, right, node.members)


def _pruned(
    node: Node, known: _Known, count: Callable[[], None], added: float, shift: float
) -> Node:
    """The tree without splits that are decided; its scores are those of the first tree.

    ``added`` goes to the leaves, and scores count as larger by ``shift``.
    """
    if isinstance(node, Leaf):
        return Leaf(added + node.value)
    if node.column == MARGIN and shift:
        threshold = _shifted(node.threshold, shift)
        node = Split(MARGIN, threshold, node.missing_left, node.left, node.right, node.members)
    if node.members is None:
        decided = known.get(node.column, _ANY).decides(node)
        if decided is not None:
            return _pruned(node.left if decided else node.right, known, count, added, shift)
    count()
    left, right = (_pruned(child, seen, count, added, shift) for child, seen in _ways(node, known))
    return _join_children(node, left, right)


def _shifted(threshold: float, shift: float) -> float:
    """Largest number that is at most the threshold after the shift was added, without rounding."""
    if isinf(threshold):
        return threshold
    found = threshold - shift
    # The sign of what rounding took away; fsum rounds only once, at the end.
    return found if fsum((threshold, -shift, -found)) >= 0 else nextafter(found, -inf)


def plan_updates(rounds: Rounds, schema: Schema, features: FeatureList) -> list[Update]:
    """All steps in order; the features that their trees look at are added to the list."""
    planner = _Planner(schema, features)
    if rounds.start is not None:
        planner.round_to(rounds.start)
    for step in rounds.by_class:
        planner.add(step, rounds.encoders[step.encoder])
    joined = _joined(planner.updates)
    # Log-odds of a class are rounded anew at every step, which one tree for two would not do.
    return _composed(joined) if rounds.outputs == 1 else joined


def _joined(updates: list[Update]) -> list[Update]:
    """Sums of trees that follow each other as one, and no drawing that nothing looks at."""
    joined: list[Update] = []
    for update in updates:
        last = joined[-1] if joined else None
        if isinstance(update, Draw) and isinstance(last, Draw):
            continue
        if (
            isinstance(update, AddTrees)
            and isinstance(last, AddTrees)
            and update.limit == last.limit == inf
        ):
            joined[-1] = AddTrees(last.trees + update.trees)
            continue
        joined.append(update)
    return joined


def _composed(updates: list[Update]) -> list[Update]:
    """Single trees that look at the score after one another as one tree, where that is small."""
    found: list[Update] = []
    for update, then in zip(updates, [*updates[1:], Draw()], strict=False):
        # Whatever else looks at the level sets in between needs them to be drawn.
        both = _pair(found, update) if isinstance(then, Draw) else None
        if both is not None:
            del found[-2:]
        found.append(update if both is None else both)
    return found


def _pair(before: list[Update], update: Update) -> Update | None:
    """One update that does what the last one, a drawing of level sets and this one do."""
    if len(before) < 3 or not isinstance(before[-1], Draw) or not isinstance(before[-3], Draw):
        return None
    first = before[-2]
    if isinstance(first, SetTrees) and isinstance(update, SetTrees):
        if len(first.trees) != 1 or len(update.trees) != 1:
            return None
        both = compose_replacing(first.trees[0], update.trees[0])
        return None if both is None else SetTrees((both,))
    if isinstance(first, AddTrees) and isinstance(update, AddTrees):
        if len(first.trees) != 1 or len(update.trees) != 1 or first.limit != inf:
            return None
        both = compose_adding(first.trees[0], update.trees[0])
        return None if both is None or update.limit != inf else AddTrees((both,))
    return None


class _Planner:
    """Follows the list of steps the way `recalibrate.core.rounds.State` does."""

    def __init__(self, schema: Schema, features: FeatureList) -> None:
        self.schema = schema
        self.features = features
        self.updates: list[Update] = []
        self.partition: Levels | None = None
        self.on_grid = False
        self.output = 0

    def round_to(self, grid: Levels) -> None:
        """Round the score as it is."""
        self.updates += [Draw(), SetTrees((rounding(grid),))]
        self._rounded(grid)

    def _rounded(self, grid: Levels) -> None:
        if grid.values is None or not np.array_equal(
            grid.index(grid.values), np.arange(grid.count)
        ):
            raise ExportError("scores are rounded to a grid whose values are not in their levels")
        self.updates.append(Draw())
        self.partition, self.on_grid = grid, True

    def add(self, step: Step, encoder: Encoder) -> None:
        """One more step."""
        if step.output != self.output:
            self.updates.append(Turn(step.output))
            self.output, self.partition = step.output, None
        levels = self._draw(step.partition)
        known = levels.values if self.on_grid else None
        if step.replace and known is None:
            raise ExportError("a step replaces scores that are not on a grid")
        place = Place(step, levels, known, self.schema, self.features)
        update = form_of(step.table.kind).update(step.table, encoder, place)
        self.updates.append(update)
        if step.grid is None:
            self.on_grid = False
        elif update.rounded:
            self._rounded(step.grid)
        else:
            self.round_to(step.grid)

    def _draw(self, partition: Levels | None) -> Levels:
        """Level sets of a step; those of rounded scores are drawn already."""
        if partition is not None and not self._is_drawn(partition):
            if partition.count > 1:
                self.updates.append(Draw())
            self.partition, self.on_grid = partition, False
        if self.partition is None:
            raise ExportError("the first step of the model draws no level sets")
        return self.partition

    def _is_drawn(self, partition: Levels) -> bool:
        now = self.partition
        if now is partition:
            return True
        return (
            self.on_grid
            and now is not None
            and partition.values is not None
            and np.array_equal(now.thresholds, partition.thresholds)
            and np.array_equal(np.asarray(now.values), partition.values)
        )
