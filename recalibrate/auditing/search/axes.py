"""What a search for subgroups looks along: code columns, and which sets of their codes count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import lgamma, log
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.groups.spec import Groups
from recalibrate.classes.trees.spec import Trees
from recalibrate.core.learning import choose_columns
from recalibrate.data.bins import Bins, FeatureBins, bin_columns
from recalibrate.data.columns import Columns
from recalibrate.data.table import Column, Table
from recalibrate.groups import expressions as ex
from recalibrate.groups.conditions import condition_of, conjunction, is_whole, said
from recalibrate.groups.groupset import bind

BINS = 64
"""Per feature: fine enough to cut off a fiftieth of the rows, coarse enough for all pairs."""

Bools = NDArray[np.bool_]


class Axis(Protocol):
    """One column of codes."""

    @property
    def codes(self) -> NDArray[np.unsignedinteger]:
        """Code of every row."""

    @property
    def sides(self) -> Bools:
        """Sets of codes that may be part of a rule, [set, code]."""

    @property
    def ordered(self) -> bool | None:
        """Whether sets of codes are intervals, or any; None where only sides make rules."""

    def take(self, rows: NDArray[np.intp]) -> Axis:
        """Some of the rows."""

    def choices(self, codes: Bools) -> float:
        """Logarithm of the number of sets of codes of this form."""

    def condition(self, codes: Bools) -> ex.Condition | str | None:
        """A set of codes as a condition, or in words where there is none; None of all codes."""


@dataclass(frozen=True, eq=False)
class Everyone:
    """The axis that tells nobody apart: with it, a pair of axes is a single one."""

    codes: NDArray[np.unsignedinteger]

    @property
    def sides(self) -> Bools:
        return np.ones((1, 1), dtype=np.bool_)

    @property
    def ordered(self) -> None:
        return None

    def choices(self, codes: Bools) -> float:
        return 0.0

    def take(self, rows: NDArray[np.intp]) -> Everyone:
        return Everyone(self.codes[rows])

    def condition(self, codes: Bools) -> None:
        return None


@dataclass(frozen=True, eq=False)
class FeatureAxis:
    """A feature: sides are what one split of a tree can tell apart."""

    feature: FeatureBins
    column: Column
    codes: NDArray[np.unsignedinteger]
    whole: bool
    missing: bool

    @cached_property
    def sides(self) -> Bools:
        """Up to and above every edge; every category and all others; missing or not."""
        count = self.feature.count
        if self.feature.categorical:
            own = np.eye(count, dtype=np.bool_)[1:]
        else:
            own = np.tri(count, dtype=np.bool_)[1:-1]
            own[:, 0] = False
        other = ~own
        other[:, 0] = False
        some = [own, other]
        if self.missing:
            nothing = np.zeros((1, count), dtype=np.bool_)
            nothing[0, 0] = True
            some += [nothing, ~nothing]
        every = np.unique(np.concatenate(some), axis=0)
        # Sets without codes, or with all that occur, are no part of a rule.
        occurring = np.bincount(self.codes, minlength=count) > 0
        told = every & occurring
        return np.asarray(every[told.any(axis=1) & (told != occurring).any(axis=1)])

    @property
    def ordered(self) -> bool:
        return not self.feature.categorical

    def choices(self, codes: Bools) -> float:
        count, inside = self.feature.count - 1, int(codes[1:].sum())
        if self.ordered:
            alone = inside == 0 or codes[1] or codes[-1]
            return log(max(len(self.sides), 1)) if alone else log(count * (count - 1) / 2)
        if inside <= 1 or inside >= count - 1:
            return log(max(len(self.sides), 1))
        return lgamma(count + 1) - lgamma(inside + 1) - lgamma(count - inside + 1)

    def take(self, rows: NDArray[np.intp]) -> FeatureAxis:
        return replace(self, codes=self.codes[rows])

    def condition(self, codes: Bools) -> ex.Condition | None:
        return condition_of(
            self.feature, self.column, codes, whole=self.whole, missing=self.missing
        )


@dataclass(frozen=True, eq=False)
class TermAxis:
    """A group term: sides are its groups."""

    labels: tuple[str, ...]
    codes: NDArray[np.unsignedinteger]

    @property
    def sides(self) -> Bools:
        return np.eye(len(self.labels) + 1, dtype=np.bool_)[1:]

    @property
    def ordered(self) -> None:
        return None

    def choices(self, codes: Bools) -> float:
        return log(len(self.labels))

    def take(self, rows: NDArray[np.intp]) -> TermAxis:
        return replace(self, codes=self.codes[rows])

    def condition(self, codes: Bools) -> str:
        return self.labels[int(np.flatnonzero(codes)[0]) - 1]


def feature_axes(H: Trees, table: Table) -> tuple[list[Axis], Bins]:
    """Axes of the columns that trees may look at, and their bins."""
    names = choose_columns(table.schema, H.features, base_score=False)
    if not names:
        raise ValueError("Trees(features=[]) leaves no column to search; name one")
    bins = bin_columns(Columns.of(table), names, most=BINS)
    codes = bins.encode(table)
    axes: list[Axis] = []
    for j, feature in enumerate(bins.features):
        values = table.column(feature.name)
        axes.append(
            FeatureAxis(
                feature,
                table.schema.columns[table.schema.index(feature.name)],
                np.ascontiguousarray(codes[:, j]),
                is_whole(values),
                bool(np.isnan(values).any()),
            )
        )
    return axes, bins


def term_axes(H: Groups, table: Table) -> list[Axis]:
    """Axes of group terms."""
    groups = bind(H.terms, table, min_rows=H.min_rows)
    codes = groups.codes(table)
    return [
        TermAxis(
            groups.labels[groups.offsets[t] : groups.offsets[t + 1]],
            np.ascontiguousarray(codes[:, t]).astype(np.uint32),
        )
        for t in range(len(groups.terms))
    ]


@dataclass(frozen=True, eq=False)
class Rule:
    """Some sides of some axes, on one level set or (-1) on all of them."""

    parts: tuple[tuple[int, Bools], ...]
    level: int = -1

    @property
    def key(self) -> object:
        """Equal for equal rules."""
        return self.level, frozenset((axis, codes.tobytes()) for axis, codes in self.parts)

    def rows(self, axes: Sequence[Axis], level: NDArray[np.int32], at: Any = slice(None)) -> Bools:
        """Which of some rows the rule holds for."""
        held = np.ones(len(level[at]), np.bool_) if self.level < 0 else level[at] == self.level
        for axis, codes in self.parts:
            held &= codes[axes[axis].codes[at]]
        return np.asarray(held)

    def relaxed(self) -> list[Rule]:
        """The rule with a condition less: any level, one part fewer, or both."""
        fewer = [
            Rule(self.parts[:k] + self.parts[k + 1 :], self.level) for k in range(len(self.parts))
        ]
        if self.level < 0:
            return fewer
        anywhere = [Rule(rule.parts) for rule in (self, *fewer)]
        return [anywhere[0], *fewer, *anywhere[1:]]

    def words(self, axes: Sequence[Axis], score: str) -> tuple[str, str]:
        """The rule in words, and its conditions on columns as a group expression (or empty).

        ``score`` is the level set in words, empty for all of them.
        """
        parts = sorted(self.parts, key=lambda part: part[0])
        found = [axes[axis].condition(codes) for axis, codes in parts]
        labels = [each for each in found if isinstance(each, str)]
        conditions = [each for each in found if each is not None and not isinstance(each, str)]
        said_parts = [*labels, said(conditions), score]
        rule = " and ".join(part for part in said_parts if part) or "all rows"
        whole = None if labels else conjunction(conditions)
        return rule, "" if whole is None else ex.to_text(whole)
