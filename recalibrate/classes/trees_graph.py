"""Trees in a graph: from trees over codes, as they are grown, to those over columns' values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.trees import TreeTable
from recalibrate.data.bins import Bins, FeatureBins
from recalibrate.data.table import Schema
from recalibrate.graph.features import Code, FeatureList, Number, Rank
from recalibrate.graph.forms import Form, Place, Update
from recalibrate.graph.inputs import ExportError
from recalibrate.graph.trees import Leaf, Node, Split

SMALL_SET = 3
"""Sets of so many members (or all but so many) are looked up; larger ones become places."""

Marks = NDArray[np.bool_]


class _TreeForm(Form[TreeTable, Bins]):
    """One tree per level set."""

    def update(self, table: TreeTable, encoder: Bins, place: Place) -> Update:
        chains = _chains_of(table, encoder)
        translator = _Translator(table, encoder, place.schema, place.features, chains)
        return place.one_tree(
            [None if root < 0 else translator.node(int(root)) for root in table.roots]
        )

    def thresholds(self, encoder: Bins, tables: Sequence[TreeTable]) -> Iterator[tuple[str, float]]:
        if not tables:
            return
        child, subset, feature, last_bin = (
            np.concatenate([getattr(table, name) for table in tables])
            for name in ("child", "subset", "feature", "last_bin")
        )
        numeric = (child >= 0) & (subset < 0)
        pairs = np.unique(np.stack([feature[numeric], last_bin[numeric]]), axis=1)
        for number, last in pairs.T.tolist():
            own = encoder.features[number]
            if 1 <= last <= len(own.edges):
                yield own.name, float(own.edges[last - 1])


FORM = _TreeForm()


@dataclass(frozen=True, eq=False)
class _Chain:
    """Sets of codes, each inside of the next one: prefixes of one order.

    A code's place is the number of the first set that holds it, so that ``code in sets[k]`` is
    ``place <= k``.
    """

    sets: list[Marks]

    def ranks(self) -> tuple[int, ...]:
        """Place of every code, from code 1."""
        inside = np.array(self.sets)[:, 1:]
        place = np.where(inside.any(axis=0), inside.argmax(axis=0), len(self.sets))
        return tuple(int(k) for k in place)


def chains(sets: list[Marks]) -> list[_Chain]:
    """As few chains as it takes, one for sets that come from one order of the codes."""
    found: list[_Chain] = []
    for marks in sorted(sets, key=lambda marks: int(marks[1:].sum())):
        for chain in found:
            if not np.any(chain.sets[-1][1:] & ~marks[1:]):
                chain.sets.append(marks)
                break
        else:
            found.append(_Chain([marks]))
    return found


def _marks(table: TreeTable, k: int, own: FeatureBins) -> Marks:
    """Codes of a feature that go left at node k, 0 for missing."""
    marks: Marks = table.subsets[table.subset[k]][: own.count]
    return marks


def _is_small(marks: Marks) -> bool:
    members = int(marks[1:].sum())
    return min(members, len(marks) - 1 - members) <= SMALL_SET


def _chains_of(table: TreeTable, bins: Bins) -> dict[tuple[int, bytes], tuple[_Chain, int]]:
    """Chain and number in it of every large set, by feature and marked codes."""
    by_feature: dict[int, dict[bytes, Marks]] = {}
    for k in np.flatnonzero((table.child >= 0) & (table.subset >= 0)).tolist():
        feature = int(table.feature[k])
        marks = _marks(table, k, bins.features[feature])
        if not _is_small(marks):
            by_feature.setdefault(feature, {})[marks[1:].tobytes()] = marks
    return {
        (feature, marks[1:].tobytes()): (chain, number)
        for feature, sets in by_feature.items()
        for chain in chains(list(sets.values()))
        for number, marks in enumerate(chain.sets)
    }


@dataclass(frozen=True, eq=False)
class _Translator:
    """Follows the nodes of a table."""

    table: TreeTable
    bins: Bins
    schema: Schema
    features: FeatureList
    chains: dict[tuple[int, bytes], tuple[_Chain, int]]

    @cached_property
    def _nodes(self) -> list[tuple[int, float, int, int, int, bool]]:
        """The nodes as plain numbers, which are read many times faster one by one."""
        t = self.table
        arrays = t.child, t.value, t.feature, t.subset, t.last_bin, t.missing_left
        return list(zip(*(array.tolist() for array in arrays), strict=True))

    def node(self, k: int) -> Node:
        child, value, feature, subset, last_bin, missing_left = self._nodes[k]
        if child < 0:
            return Leaf(value)
        left, right = self.node(child), self.node(child + 1)
        own = self.bins.features[feature]
        if subset >= 0:
            return self._by_set(k, own, left, right)
        column = self.features.number(self._code(own) if own.ordered else Number(own.name))
        if last_bin == 0:  # missing values against all others
            return Split(column, inf, False, right, left) if missing_left else right
        threshold = float(last_bin)
        if not own.ordered:  # codes up to last_bin are the values up to the edge after it
            threshold = float(own.edges[last_bin - 1]) if last_bin <= len(own.edges) else inf
        return Split(column, threshold, missing_left, left, right)

    def _code(self, own: FeatureBins) -> Code:
        if own.lookup is None:
            raise ExportError(f"a tree splits the numeric column {own.name!r} by categories")
        described = self.schema.columns[self.schema.index(own.name)]
        natural = own.exact and not own.ordered
        return Code(described, () if natural else tuple(int(b) for b in own.lookup[1:]))

    def _by_set(self, k: int, own: FeatureBins, left: Node, right: Node) -> Node:
        code = self._code(own)
        marks = _marks(self.table, k, own)
        if not _is_small(marks):
            chain, number = self.chains[int(self.table.feature[k]), marks[1:].tobytes()]
            column = self.features.number(Rank(code, chain.ranks()))
            return Split(column, float(number), bool(marks[0]), left, right)
        if 2 * marks[1:].sum() > len(marks) - 1:
            marks, left, right = ~marks, right, left
        members = np.flatnonzero(marks[1:]).astype(np.float64) + 1.0
        return Split(self.features.number(code), 0.0, bool(marks[0]), left, right, members)
