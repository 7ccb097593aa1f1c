"""Decision trees as the exporter writes them: small nested nodes, flattened at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import Levels
from recalibrate.ensemble import Ensemble

MARGIN = -1
"""Number of the column that holds the score which the level sets were drawn from."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value."""

    value: float


@dataclass(frozen=True, slots=True)
class Split:
    """Left if x <= threshold, or x is one of the members; NaN as it says."""

    column: int
    threshold: float
    missing_left: bool
    left: Node
    right: Node
    members: NDArray[np.float64] | None = None


Node = Leaf | Split


def search(column: int, cuts: Sequence[float], children: Sequence[Node]) -> Node:
    """A balanced choice between children: the first one with x <= its cut, NaN to the last.

    Neighbours that are the same leaf become one.
    """
    kept_cuts: list[float] = []
    kept: list[Node] = [children[0]]
    for cut, child in zip(cuts, children[1:], strict=True):
        if isinstance(child, Leaf) and child == kept[-1]:
            continue
        kept_cuts.append(cut)
        kept.append(child)
    return _balanced(column, kept_cuts, kept)


def _balanced(column: int, cuts: Sequence[float], children: Sequence[Node]) -> Node:
    if not cuts:
        return children[0]
    middle = (len(cuts) - 1) // 2
    left = _balanced(column, cuts[:middle], children[: middle + 1])
    right = _balanced(column, cuts[middle + 1 :], children[middle + 1 :])
    return Split(column, cuts[middle], False, left, right)


def by_level(levels: Levels, children: Sequence[Node]) -> Node:
    """The child of a score's level; a score at a threshold belongs above it."""
    below = np.nextafter(levels.thresholds, -np.inf)
    return search(MARGIN, below.tolist(), children)


def rounding(levels: Levels) -> Node:
    """The value of the level that a score belongs to."""
    if levels.values is None:
        raise ValueError("only a grid that has values can round")
    return by_level(levels, [Leaf(float(value)) for value in levels.values])


def relabelled(node: Node, change: Callable[[float], float]) -> Node:
    """The same tree with other values in its leaves; splits that no longer matter are dropped."""
    if isinstance(node, Leaf):
        return Leaf(change(node.value))
    left, right = relabelled(node.left, change), relabelled(node.right, change)
    if isinstance(left, Leaf) and left == right:
        return left
    return replace(node, left=left, right=right)


def columns_of(nodes: Sequence[Node]) -> set[int]:
    """Columns that any of the trees looks at."""
    found: set[int] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Split):
            found.add(node.column)
            waiting += (node.left, node.right)
    return found


def value_range(node: Node) -> tuple[float, float]:
    """Smallest and largest value in the leaves."""
    values = [leaf.value for leaf in _leaves(node)]
    return min(values), max(values)


def _leaves(node: Node) -> list[Leaf]:
    found, waiting = [], [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Leaf):
            found.append(node)
        else:
            waiting += (node.left, node.right)
    return found


def flatten(trees: Sequence[Node], n_columns: int, place: Callable[[int], int]) -> Ensemble:
    """Trees as one ensemble; ``place`` gives the position of a column in the matrix.

    A tree that is a single leaf becomes part of the bias: exact, like all sums of these values.
    """
    nodes = _Nodes(place)
    roots = [nodes.add_tree(tree) for tree in trees if isinstance(tree, Split)]
    return Ensemble(
        n_columns=n_columns,
        roots=np.array(roots, dtype=np.int32),
        feature=np.array(nodes.feature, dtype=np.int32),
        threshold=np.array(nodes.threshold, dtype=np.float64),
        missing_left=np.array(nodes.missing_left, dtype=np.bool_),
        subset=np.array(nodes.subset, dtype=np.int32),
        subsets=tuple(nodes.subsets),
        left=np.array(nodes.left, dtype=np.int32),
        right=np.array(nodes.right, dtype=np.int32),
        value=np.array(nodes.value, dtype=np.float64),
        bias=float(sum(tree.value for tree in trees if isinstance(tree, Leaf))),
    )


class _Nodes:
    """Nodes of several trees in the columns of an ensemble."""

    def __init__(self, place: Callable[[int], int]) -> None:
        self.place = place
        self.feature: list[int] = []
        self.threshold: list[float] = []
        self.missing_left: list[bool] = []
        self.subset: list[int] = []
        self.subsets: list[NDArray[np.float64]] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.value: list[float] = []

    def add_tree(self, tree: Split) -> int:
        """Number of the tree's root; its nodes follow depth first, left before right."""
        root = len(self.feature)
        waiting: list[tuple[Node, int | None]] = [(tree, None)]
        while waiting:
            node, parent = waiting.pop()
            at = self._add(node)
            if parent is not None:
                # A left child comes right after its parent, a right one later.
                side = self.left if at == parent + 1 else self.right
                side[parent] = at
            if isinstance(node, Split):
                waiting += ((node.right, at), (node.left, at))
        return root

    def _add(self, node: Node) -> int:
        split = node if isinstance(node, Split) else None
        members = None if split is None else split.members
        self.feature.append(-1 if split is None else self.place(split.column))
        self.threshold.append(0.0 if split is None else split.threshold)
        self.missing_left.append(split is not None and split.missing_left)
        self.subset.append(-1 if members is None else len(self.subsets))
        self.value.append(node.value if isinstance(node, Leaf) else 0.0)
        self.left.append(0)
        self.right.append(0)
        if members is not None:
            self.subsets.append(members)
        return len(self.feature) - 1
