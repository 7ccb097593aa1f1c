"""What the way to a node of a tree says about every feature."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.trees.spec import TreeTable
from recalibrate.data.bins import Bins


class Paths:
    """Ways from the roots of a step's trees to their nodes."""

    def __init__(self, table: TreeTable, bins: Bins) -> None:
        self.table = table
        self.bins = bins

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """Parent of every node, -1 of roots."""
        child = self.table.child
        parent = np.full(len(child), -1, np.int32)
        inner = np.flatnonzero(child >= 0)
        parent[child[inner]] = inner
        parent[child[inner] + 1] = inner
        return parent

    def nodes(self, node: int) -> list[int]:
        """Nodes from the root to ``node``, both included."""
        way = [node]
        while self.parent[way[-1]] >= 0:
            way.append(int(self.parent[way[-1]]))
        return way[::-1]

    def codes(self, node: int) -> dict[int, NDArray[np.bool_]]:
        """Codes that lead to ``node``, by feature in the order of the splits."""
        way = self.nodes(node)
        found: dict[int, NDArray[np.bool_]] = {}
        for above, below in pairwise(way):
            feature = int(self.table.feature[above])
            left = self._left(above, feature)
            side = left if below == self.table.child[above] else ~left
            found[feature] = found[feature] & side if feature in found else side
        return found

    def _left(self, node: int, feature: int) -> NDArray[np.bool_]:
        """Codes that go to the left child."""
        table, count = self.table, self.bins.features[feature].count
        if table.subset[node] >= 0:
            return np.array(table.subsets[table.subset[node], :count])
        left = np.asarray(np.arange(count) <= table.last_bin[node])
        left[0] = table.missing_left[node]
        return left
