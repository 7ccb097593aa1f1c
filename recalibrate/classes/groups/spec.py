"""Groups: an intercept and one number per group and level set, by exact least squares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.leastsquares import solve_levels
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import Lesson, Task
from recalibrate.core.part import Answer, Draft, Part
from recalibrate.core.rounds import Block, Scores
from recalibrate.core.source import total
from recalibrate.data.table import Table, read_table
from recalibrate.groups.groupset import GroupSet, bind
from recalibrate.kernels import gram as kernels

LARGEST_SYSTEM = 1 << 28
"""Numbers in all level sets' systems together (2 GiB); more groups need fewer levels."""


@dataclass(frozen=True, init=False)
class Groups:
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
        table = read_table(X)
        return bind(self.terms, table, min_rows=self.min_rows).masks(table)

    def bind(
        self, table: Table, weight: NDArray[np.int64], *, threads: int = 1, index: int = 0
    ) -> GroupLearner:
        """The groups on the columns of a table."""
        mass = weight.astype(np.float64) if len(weight) else None

        def groups() -> GroupSet:
            return bind(self.terms, table, weight=mass, min_rows=self.min_rows)

        return self.bind_by(groups, index=index)

    def bind_by(self, groups: Callable[[], GroupSet], *, index: int = 0) -> GroupLearner:
        """The groups on columns wherever their rows are; ``groups`` binds the terms."""
        if not self.terms:
            raise ValueError('Groups() names no group; write for example Groups("sex", "age < 25")')
        return GroupLearner(self, GroupEncoder(groups()), index)


@dataclass(frozen=True, eq=False)
class GroupEncoder:
    """Turns a table into group numbers, one column per term, 0 = in none of its groups."""

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
    """Question: rows, summed weight of every pair of groups and summed response of each."""

    draft: Draft
    encoder: int
    levels: int
    offsets: NDArray[np.int64]

    def ask(self, part: Part) -> Answer:
        count = int(self.offsets[-1]) + 1
        rows = np.zeros(self.levels, np.int64)
        gram = np.zeros((self.levels, count, count), np.int64)
        cross = np.zeros((self.levels, count), np.int64)
        kernels.add_group_products(
            part.blocks[self.encoder],
            self.offsets,
            part.levels(self.draft),
            part.words(self.draft).ravel(),
            part.scale,
            rows,
            gram,
            cross,
        )
        return rows, gram, cross


@dataclass(frozen=True, eq=False)
class GroupTable:
    """A number per level set and group; column 0 is the intercept.

    ``columns`` are the terms that count, ``offsets`` where each one's groups begin; what is added
    to a score is cut at +-``limit``.
    """

    present: NDArray[np.bool_]
    coefficient: NDArray[np.float64]
    columns: NDArray[np.int64]
    offsets: NDArray[np.int64]
    limit: float = inf

    @property
    def n_learners(self) -> int:
        return int(np.count_nonzero(self.present))

    def keep(self, levels: NDArray[np.bool_]) -> GroupTable:
        """The same numbers on some level sets only."""
        return replace(self, present=self.present & levels)

    def scaled(self, factor: float) -> GroupTable:
        """The same numbers, multiplied."""
        coefficient = snap(factor * self.coefficient)
        return replace(self, coefficient=coefficient, limit=factor * self.limit)

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
        if task.levels * count * count > LARGEST_SYSTEM:
            raise ValueError(
                f"{count - 1} groups on {task.levels} level sets need "
                f"{task.levels * count * count * 8 / 2**30:.1f} GiB; use fewer level sets, or "
                "fewer groups (Groups(..., min_rows=...) leaves small crossings out)"
            )
        scale = task.source.scale
        rows, gram, cross = total(
            task.source, GroupProducts(task.draft, self.index, task.levels, offsets)
        )
        ridge = np.full(count, task.penalty.l2)
        ridge[0] = 0.0
        real_gram: NDArray[np.float64] = np.multiply(gram, scale.weight_step)
        real_cross: NDArray[np.float64] = np.multiply(cross, scale.response_step)
        present, solved = solve_levels(task, rows, real_gram, real_cross, ridge)
        skipped = int(gram[~present, 0, 0].sum())
        columns = np.arange(len(offsets) - 1)
        table = GroupTable(present, snap(solved), columns, offsets, task.limit)
        return Lesson(table, skipped)
