"""Groups: an intercept and one number per group and level set, by exact least squares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.leastsquares import Coefficients, check_systems, fit_levels, no_products
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import FunctionClass, Lesson, Task, is_score
from recalibrate.core.part import Draft, Part, Sums
from recalibrate.core.rounds import Block, Scores
from recalibrate.core.source import StatsSource
from recalibrate.data.columns import Columns
from recalibrate.data.table import Schema, Table, read_table
from recalibrate.groups.expressions import columns_of, parse
from recalibrate.groups.groupset import GroupSet, bind, bind_columns
from recalibrate.kernels import gram as kernels

_MIN_ROWS = re.compile(r"\s*min_rows\s*=\s*(\d+)\s*")


@dataclass(frozen=True, init=False)
class Groups(FunctionClass):
    """Indicators of groups of people, and an intercept.

    Parameters
    ----------
    *terms
        Group expressions: a column ("sex": every category a group; a numeric column: bands),
        a condition ("age < 25", "race in ('Black', 'Asian') and not (age >= 65)"), or a
        crossing ("sex*race", "sex*(age < 25)"). Groups may overlap. Column names that are not
        identifiers stand in backticks. Nothing is ever evaluated as Python code.
    min_rows
        Crossed groups with fewer calibration rows are left out.

    Examples
    --------
    >>> from recalibrate import Groups
    >>> Groups("sex", "race*sex", "age < 25")
    Groups('sex', 'race*sex', 'age < 25')
    """

    kind = "groups"
    shorthand = ("groups(sex, race*sex, age < 25, min_rows=100)",)
    has_rules = True
    terms: tuple[str, ...]
    min_rows: int = 1

    def __init__(self, *terms: str, min_rows: int = 1) -> None:
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "min_rows", min_rows)

    def __repr__(self) -> str:
        shown = [repr(term) for term in self.terms]
        if self.min_rows != 1:
            shown.append(f"min_rows={self.min_rows!r}")
        return f"Groups({', '.join(shown)})"

    def reads(self, schema: Schema) -> list[str]:
        """Columns that the terms speak of."""
        own = schema.select([name for name in schema.names if not is_score(name)])
        terms = [parse(term, own) for term in self.terms]
        return list(dict.fromkeys(name for term in terms for name in columns_of(term)))

    def masks(self, X: Any) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Name and rows of every group in a table, for the metrics.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from recalibrate import Groups, metrics
        >>> X = pd.DataFrame({"sex": ["F", "F", "M", "M"]})
        >>> [(name, mask.tolist()) for name, mask in Groups("sex").masks(X)]
        [('sex = F', [True, True, False, False]), ('sex = M', [False, False, True, True])]
        >>> metrics.k1(np.full(4, 0.5), [1, 1, 0, 1], Groups("sex").masks(X))
        array([0.25, 0.  ])
        """
        table = read_table(X, reads=self.reads)
        return bind(self.terms, table, min_rows=self.min_rows).masks(table)

    @classmethod
    def read(cls, arguments: Sequence[str], text: str) -> Groups:
        """Groups from their expressions; min_rows may be among them."""
        terms, min_rows = [], 1
        for argument in arguments:
            found = _MIN_ROWS.fullmatch(argument)
            if found:
                min_rows = int(found[1])
            else:
                terms.append(argument)
        if not terms:
            raise ValueError(f"{text!r} names no group; write for example {cls.shorthand[0]}")
        return cls(*terms, min_rows=min_rows)

    def bind(self, columns: Columns, *, index: int = 0) -> GroupLearner:
        """The groups on some columns."""
        if not self.terms:
            raise ValueError('Groups() names no group; write for example Groups("sex", "age < 25")')
        groups = bind_columns(self.terms, columns, min_rows=self.min_rows)
        return GroupLearner(self, GroupEncoder(groups), index)


@dataclass(frozen=True, eq=False)
class GroupEncoder:
    """Turns a table into group numbers, one column per term, 0 = in none of its groups."""

    kind = "groups"
    groups: GroupSet

    @property
    def names(self) -> tuple[str, ...]:
        return self.groups.schema.names

    @property
    def offsets(self) -> NDArray[np.int64]:
        """``offsets[t] + code`` is a group's place after the intercept."""
        return np.asarray(self.groups.offsets, dtype=np.int64)

    def encode(self, table: Table, threads: int = 1) -> NDArray[np.integer]:
        codes = self.groups.codes(table, threads)
        return codes.astype(np.uint16) if len(self.groups.labels) < 1 << 16 else codes


@dataclass(frozen=True, eq=False)
class GroupProducts:
    """Statistic: rows, summed weight of every pair of groups and summed response of each."""

    draft: Draft
    encoder: int
    levels: int
    offsets: NDArray[np.int64]

    def of(self, part: Part) -> Sums:
        sums = no_products(self.levels, int(self.offsets[-1]) + 1)
        kernels.add_group_products(
            part.blocks[self.encoder],
            self.offsets,
            part.levels(self.draft),
            part.words(self.draft).ravel(),
            part.scale,
            *sums,
        )
        return sums


@dataclass(frozen=True, eq=False)
class GroupWeights:
    """Statistic: weight of every code of every column of a block, one after the other."""

    sizes: tuple[int, ...]

    def of(self, part: Part) -> Sums:
        mass = part.weight if len(part.weight) else np.int64(1)
        counts = [np.zeros(size, np.int64) for size in self.sizes]
        for t, own in enumerate(counts):
            np.add.at(own, part.blocks[0][:, t], mass)
        return (np.concatenate(counts),)


@dataclass(frozen=True, eq=False)
class GroupTable(Coefficients):
    """A number per level set and group; column 0 is the intercept.

    ``columns`` are the terms that count, ``offsets`` where each one's groups begin.
    """

    kind = "groups"
    columns: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def update(self, block: Block, level: NDArray[np.int32], f: Scores, replaces: bool) -> Scores:
        out = np.empty(len(f))
        kernels.group_update(
            block,
            self.columns,
            self.offsets,
            level,
            self.present,
            self.coefficient,
            f,
            replaces,
            self.limit,
            out,
        )
        return out


@dataclass(frozen=True, eq=False)
class GroupLearner:
    """:class:`Groups` bound to a table."""

    spec: Groups
    encoder: GroupEncoder
    index: int = field(default=0)

    @property
    def inexact(self) -> str:
        return ""

    def learn(self, task: Task) -> Lesson:
        offsets = self.encoder.offsets
        count = int(offsets[-1]) + 1
        advice = "groups (Groups(..., min_rows=...) leaves small crossings out)"
        check_systems(task, count, f"{count - 1} groups", advice)
        products = GroupProducts(task.draft, self.index, task.levels, offsets)
        present, solved, skipped = fit_levels(task, products)
        columns = np.arange(len(offsets) - 1)
        table = GroupTable(present, snap(solved), task.limit, columns, offsets)
        return Lesson(table, skipped)

    def group_shares(self, source: StatsSource) -> dict[str, float]:
        """Share of the rows' weight in every group."""
        offsets, labels = self.encoder.offsets, self.encoder.groups.labels
        sizes = tuple(int(size) + 1 for size in np.diff(offsets))
        (weights,) = source.sums(GroupWeights(sizes))
        shares: dict[str, float] = {}
        for t, counts in enumerate(np.split(weights, np.cumsum(sizes)[:-1])):
            for k in range(len(counts) - 1):
                shares[labels[offsets[t] + k]] = float(counts[k + 1] / counts.sum())
        return shares


CLASS = Groups
