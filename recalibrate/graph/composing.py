"""Rounds that follow each other as one tree: the later tree stands in the leaves of the earlier.

A leaf says what the score becomes, so the level set of the next round is known there (rounded
scores) or nearly so (scores that a leaf adds to): most of the search for it is spared, and one
operator does the work of several. What a path through the first tree has shown about a column
also decides splits of the second one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import fsum, inf, isinf, nextafter

from recalibrate.graph.trees import MARGIN, Leaf, Node, Split

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
        return _joined(node, *(walk(child, seen) for child, seen in _ways(node, known)))

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


def _joined(node: Split, left: Node, right: Node) -> Node:
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
    return _joined(node, left, right)


def _shifted(threshold: float, shift: float) -> float:
    """Largest number that is at most the threshold after the shift was added, without rounding."""
    if isinf(threshold):
        return threshold
    found = threshold - shift
    # The sign of what rounding took away; fsum rounds only once, at the end.
    return found if fsum((threshold, -shift, -found)) >= 0 else nextafter(found, -inf)
