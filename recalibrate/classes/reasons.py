"""Why a step moved a row: its rule in words, and what every feature added."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.groups.spec import GroupEncoder, GroupTable
from recalibrate.classes.linear.spec import LinearTable, Quantiser
from recalibrate.classes.trees.paths import Paths
from recalibrate.classes.trees.spec import TreeTable
from recalibrate.core.rounds import Block, Encoder, Learned
from recalibrate.data.bins import Bins
from recalibrate.data.table import Schema
from recalibrate.groups.conditions import condition_of, said

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
MOST_TERMS = 3
"""Terms of a linear function that are spelled out."""


class Reasons(Protocol):
    """One step on some rows."""

    kind: str
    """What the step's learners are."""

    def words(self, row: int) -> str:
        """The rule that a row met."""

    def parts(self) -> dict[str, Floats]:
        """What every feature (or group term) added to the rows; the rest is the level set's."""


class TreeReasons:
    """A row's way through its tree.

    A feature is credited with what its splits change: the value of the node below minus that of
    the node above.
    """

    kind = "trees"

    def __init__(
        self, table: TreeTable, bins: Bins, schema: Schema, block: Block, level: Ints
    ) -> None:
        self.table, self.bins, self.schema, self.block = table, bins, schema, block
        self.paths = Paths(table, bins)
        self.leaf = table.leaves(block, level)
        self._said: dict[tuple[int, tuple[int, ...]], str] = {}

    def words(self, row: int) -> str:
        leaf = int(self.leaf[row])
        if leaf < 0:
            return ""
        codes = self.paths.codes(leaf)
        missing = tuple(j for j in codes if self.block[row, j] == 0)
        if (leaf, missing) not in self._said:
            self._said[leaf, missing] = self._say(codes, missing)
        return self._said[leaf, missing]

    def _say(self, codes: dict[int, NDArray[np.bool_]], missing: tuple[int, ...]) -> str:
        """The way's conditions, of missing values only that they are missing."""
        conditions = []
        for j, some in codes.items():
            feature = self.bins.features[j]
            column = self.schema.columns[self.schema.index(feature.name)]
            held = np.zeros_like(some) if j in missing else some.copy()
            held[0] = j in missing
            condition = condition_of(feature, column, held, missing=j in missing)
            if condition is not None:
                conditions.append(condition)
        return said(conditions)

    def parts(self) -> dict[str, Floats]:
        added = np.zeros((len(self.bins.features), len(self.leaf)))
        every = np.arange(len(self.leaf))
        node = self.leaf.copy()
        value, parent, feature = self.table.value, self.paths.parent, self.table.feature
        while True:
            above = np.where(node >= 0, parent[node], -1)
            moving = every[above >= 0]
            if not len(moving):
                break
            up = above[moving]
            added[feature[up], moving] += value[node[moving]] - value[up]
            node = above
        parts: dict[str, Floats] = {}
        for own, values in zip(self.bins.features, added, strict=True):
            if values.any():
                parts[own.name] = parts.get(own.name, 0.0) + values
        return parts


class GroupReasons:
    """The groups that a row is in."""

    kind = "groups"

    def __init__(
        self, table: GroupTable, encoder: GroupEncoder, schema: Schema, block: Block, level: Ints
    ) -> None:
        self.table, self.groups, self.block, self.level = table, encoder.groups, block, level

    def words(self, row: int) -> str:
        if not self.table.present[self.level[row]]:
            return ""
        starts, labels = self.groups.offsets, self.groups.labels
        found = [
            labels[starts[int(t)] + int(self.block[row, t]) - 1]
            for t in self.table.columns
            if self.block[row, t] > 0
        ]
        return ", ".join(found) if found else "no group"

    def parts(self) -> dict[str, Floats]:
        table, added = self.table, {}
        for k, t in enumerate(table.columns):
            code = self.block[:, t].astype(np.int64)
            moved = (code > 0) & table.present[self.level]
            at = np.where(moved, table.offsets[k] + code, 0)
            own = np.where(moved, table.coefficient[self.level, at], 0.0)
            added[self.groups.terms[int(t)].text] = own
        return added


class LinearReasons:
    """The terms of a row's linear function."""

    def __init__(
        self, table: LinearTable, encoder: Quantiser, schema: Schema, block: Block, level: Ints
    ) -> None:
        self.table, self.terms, self.block, self.level = table, encoder.terms, block, level
        self.kind = "line" if len(encoder.names) == 1 else "linear"

    @cached_property
    def _parts(self) -> dict[str, Floats]:
        coefficient = np.where(self.table.present[:, None], self.table.coefficient, 0.0)
        products = coefficient[self.level] * self.block
        added: dict[str, Floats] = {}
        for j, term in enumerate(self.terms):
            if term.name:
                added[term.name] = added.get(term.name, 0.0) + products[:, j]
        return added

    def words(self, row: int) -> str:
        if not self.table.present[self.level[row]]:
            return ""
        terms = sorted(self._parts.items(), key=lambda part: -abs(part[1][row]))
        shown = [f"{values[row]:+.3g} by {name}" for name, values in terms[:MOST_TERMS]]
        more = len(terms) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    def parts(self) -> dict[str, Floats]:
        return self._parts


class OtherReasons:
    """A model that does not say why."""

    kind = "estimator"

    def words(self, row: int) -> str:
        return "the level set's regressor"

    def parts(self) -> dict[str, Floats]:
        return {}


def reasons_of(
    table: Learned, encoder: Encoder, schema: Schema, block: Block, level: Ints
) -> Reasons:
    """Why a step moved some rows, whose encoded features and level sets are given."""
    kinds: list[tuple[type, type, Callable[..., Reasons]]] = [
        (TreeTable, Bins, TreeReasons),
        (GroupTable, GroupEncoder, GroupReasons),
        (LinearTable, Quantiser, LinearReasons),
    ]
    for kind, encoder_kind, reasons in kinds:
        if isinstance(table, kind) and isinstance(encoder, encoder_kind):
            return reasons(table, encoder, schema, block, level)
    return OtherReasons()
