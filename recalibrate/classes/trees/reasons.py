"""Why a tree moved a row, in words."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.trees.paths import Paths
from recalibrate.classes.trees.spec import TreeTable
from recalibrate.data.bins import Bins
from recalibrate.explain.reasons import Floats, Ints, Reasons
from recalibrate.groups.conditions import condition_of, said


class TreeReasons(Reasons[TreeTable, Bins]):
    """A row's way through its tree.

    A feature is credited with what its splits change: the value of the node below minus that of
    the node above.
    """

    @cached_property
    def _paths(self) -> Paths:
        return Paths(self.table, self.encoder)

    @cached_property
    def _leaf(self) -> Ints:
        return self.table.leaves(self.block, self.level)

    @cached_property
    def _said(self) -> dict[tuple[int, tuple[int, ...]], str]:
        """Rules said so far, by leaf and columns whose value is missing."""
        return {}

    def words(self, row: int) -> str:
        leaf = int(self._leaf[row])
        if leaf < 0:
            return ""
        codes = self._paths.codes(leaf)
        missing = tuple(j for j in codes if self.block[row, j] == 0)
        if (leaf, missing) not in self._said:
            self._said[leaf, missing] = self._say(codes, missing)
        return self._said[leaf, missing]

    def _say(self, codes: dict[int, NDArray[np.bool_]], missing: tuple[int, ...]) -> str:
        """The way's conditions, of missing values only that they are missing."""
        conditions = []
        for j, some in codes.items():
            feature = self.encoder.features[j]
            column = self.schema.columns[self.schema.index(feature.name)]
            held = np.zeros_like(some) if j in missing else some.copy()
            held[0] = j in missing
            condition = condition_of(feature, column, held, missing=j in missing)
            if condition is not None:
                conditions.append(condition)
        return said(conditions)

    def parts(self) -> dict[str, Floats]:
        features = self.encoder.features
        added = np.zeros((len(features), len(self._leaf)))
        every = np.arange(len(self._leaf))
        node = self._leaf.copy()
        value, parent, feature = self.table.value, self._paths.parent, self.table.feature
        while True:
            above = np.where(node >= 0, parent[node], -1)
            moving = every[above >= 0]
            if not len(moving):
                break
            up = above[moving]
            added[feature[up], moving] += value[node[moving]] - value[up]
            node = above
        parts: dict[str, Floats] = {}
        for own, values in zip(features, added, strict=True):
            if values.any():
                parts[own.name] = parts.get(own.name, 0.0) + values
        return parts


REASONS = TreeReasons
