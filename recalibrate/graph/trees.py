"""Decision trees as the exporter writes them: small nested nodes, flattened at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import Levels
from recalibrate.ensemble import LEAF, Ensemble

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
    return {node.column for node in _each(nodes) if isinstance(node, Split)}


def value_range(node: Node) -> tuple[float, float]:
    """Smallest and largest value in the leaves."""
    values = [leaf.value for leaf in _each([node]) if isinstance(leaf, Leaf)]
    return min(values), max(values)


def _each(nodes: Sequence[Node]) -> Iterator[Node]:
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Split):
            waiting += (node.left, node.right)


def flatten(trees: Sequence[Node], n_columns: int, place: Callable[[int], int]) -> Ensemble:
    """Trees as one ensemble; ``place`` gives the position of a column in the matrix.

    A tree that is a single leaf becomes part of the bias: exact, like all sums of these values.
    """
    roots: list[int] = []
    nodes: list[Node] = []
    right: list[int] = []
    for tree in trees:
        if isinstance(tree, Split):
            roots.append(len(nodes))
            _add_nodes(tree, nodes, right)
    is_leaf = np.array([isinstance(node, Leaf) for node in nodes], dtype=np.bool_)
    splits = [node for node in nodes if isinstance(node, Split)]
    sets = np.array([split.members is not None for split in splits], dtype=np.bool_)

    def of_splits(values: Sequence[Any] | NDArray[Any], at_leaf: Any, kind: Any) -> NDArray[Any]:
        out = np.full(len(nodes), at_leaf, dtype=kind)
        out[~is_leaf] = values
        return out

    value = np.zeros(len(nodes))
    value[is_leaf] = [node.value for node in nodes if isinstance(node, Leaf)]
    return Ensemble(
        n_columns=n_columns,
        roots=np.array(roots, dtype=np.int32),
        feature=of_splits([place(split.column) for split in splits], LEAF, np.int32),
        threshold=of_splits([split.threshold for split in splits], 0.0, np.float64),
        missing_left=of_splits([split.missing_left for split in splits], False, np.bool_),
        subset=of_splits(np.where(sets, np.cumsum(sets) - 1, -1), -1, np.int32),
        subsets=tuple(split.members for split in splits if split.members is not None),
        left=of_splits(np.flatnonzero(~is_leaf) + 1, 0, np.int32),
        right=np.array(right, dtype=np.int32),
        value=value,
        bias=float(sum(tree.value for tree in trees if isinstance(tree, Leaf))),
    )


def _add_nodes(tree: Node, nodes: list[Node], right: list[int]) -> None:
    """Depth first: a left child comes right after its parent; ``right`` says where a right one."""
    waiting: list[tuple[Node, int | None]] = [(tree, None)]
    while waiting:
        node, parent = waiting.pop()
        if parent is not None:
            right[parent] = len(nodes)
        if isinstance(node, Split):
            waiting += ((node.right, len(nodes)), (node.left, None))
        nodes.append(node)
        right.append(0)
