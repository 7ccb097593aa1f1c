"""Groups: an intercept and one number per group and level set, by exact least squares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.leastsquares import Coefficients, check_systems, fit_levels, no_products
from recalibrate.core.fixedpoint import INT64_BITS, Scale, snap
from recalibrate.core.learning import (
    FitResult,
    Floats,
    FunctionClass,
    Reasons,
    StatsSource,
    StepContext,
    everyone,
    is_score,
)
from recalibrate.core.part import Part, PendingStep, Sums, square_step
from recalibrate.core.rounds import Block, Scores
from recalibrate.data.columns import Columns
from recalibrate.data.table import Schema, Table, read_table
from recalibrate.files import codec
from recalibrate.files.codec import LARGEST_VALUE, ClassFiles, check_coefficients, find_column
from recalibrate.groups.expressions import columns_of, parse
from recalibrate.groups.groupset import GroupSet, bind, bind_columns
from recalibrate.kernels import gram as kernels
from recalibrate.kernels.histogram import count_rows, sort_by_level
from recalibrate.support.checks import ModelFileError

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
class _GroupProducts:
    """Statistic: rows, summed weight of every pair of groups and summed response of each."""

    draft: PendingStep
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
class _GroupWeights:
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

    def learn(self, task: StepContext) -> FitResult:
        offsets = self.encoder.offsets
        count = int(offsets[-1]) + 1
        advice = "groups (Groups(..., min_rows=...) leaves small crossings out)"
        check_systems(task, count, f"{count - 1} groups", advice)
        products = _GroupProducts(task.draft, self.index, task.levels, offsets)
        present, solved, skipped = fit_levels(task, products)
        columns = np.arange(len(offsets) - 1)
        table = GroupTable(present, snap(solved), task.limit, columns, offsets)
        return FitResult(table, skipped)

    def group_shares(self, source: StatsSource) -> dict[str, float]:
        """Share of the rows' weight in every group."""
        offsets, labels = self.encoder.offsets, self.encoder.groups.labels
        sizes = tuple(int(size) + 1 for size in np.diff(offsets))
        (weights,) = source.sums(_GroupWeights(sizes))
        shares: dict[str, float] = {}
        for t, counts in enumerate(np.split(weights, np.cumsum(sizes)[:-1])):
            for k in range(len(counts) - 1):
                shares[labels[offsets[t] + k]] = float(counts[k + 1] / counts.sum())
        return shares


CLASS = Groups


# --- Cells: one group term at a time, chosen by a test, on every level set ----------------------
#
# The last stage of a default fit. Where a booster has stopped gaining, what is left are small gaps
# inside cells (group x level). Each step tests every candidate term for more variation of its
# cells' summed residuals G than noise explains: the sum of G^2 / V over its m cells (V the variance
# of G for a calibrated model) is chi-square with m degrees of freedom, and Wilson and Hilferty's
# cube root makes it a normal z. The term that exceeds its threshold most has its cells moved, each
# by the share of its gap that is more than noise. When no term exceeds its threshold nothing is
# learned, which ends the run.


LEAST_CELL_ROWS, LEAST_CELL_EVENTS = 25, 5.0
"""Smaller cells have no usable normal approximation; they are neither tested nor moved.

For 0/1 labels the variance of the sum, p (1 - p) per row, is what counts as events.
"""
POOLED_ROWS = 25
"""Rows that the noise of all cells counts for beside a cell's own: as many as the smallest that is
tested. Where labels of a group scatter more than others (incomes, prices) its rows say so; of a few
rows that is too uncertain by itself. Less than the others' noise is not believed: shifts of other
terms carry that noise into the cell (simulated right bases: it tripled the harm)."""


@dataclass(frozen=True, eq=False)
class CellSums:
    """Statistic: words and squared responses summed by level set, term and group.

    ``terms`` are those that count; None: all. Where rows differ in weight, also w s: the variance
    of g in units of the noise. Where labels are 0/1 there are no squares, and on logarithms, where
    the mean says how the noise differs, they are summed by level set alone.
    """

    draft: PendingStep
    encoder: int
    levels: int
    offsets: NDArray[np.int64]
    terms: NDArray[np.int32] | None = None

    def of(self, part: Part) -> Sums:
        codes = part.blocks[self.encoder]
        words = part.words(self.draft)
        level = part.levels(self.draft)
        features = self.terms
        if features is None:
            features = np.arange(codes.shape[1], dtype=np.int32)
        starts = np.append(self.offsets[features], self.offsets[-1])
        rows = sort_by_level(level, self.levels, self.levels)
        sums = count_rows(codes, features, starts, words, *rows)
        own = self.draft.model.family
        if own.positive:
            return sums, part.squares(self.draft, level, self.levels)

        def by_cell(values: NDArray[np.int64]) -> NDArray[np.int64]:
            return count_rows(codes, features, starts, values[:, None], *rows)

        # 0/1 labels need none; sums of parts have the same shapes everywhere.
        squares = np.zeros(0, np.int64) if own.known_noise else by_cell(part.squared(self.draft))
        if not part.scale.weighted:
            return sums, squares
        _, s, _ = part.scale.unpack(words)
        both = s * (part.weight * 2.0 ** -self.cut(part.scale))
        return sums, squares, by_cell(np.rint(both).astype(np.int64))

    def real(
        self, source: StatsSource, least: float, *, together: bool = False
    ) -> tuple[NDArray[Any], ...]:
        """Rows, s, g and the variance of g, [level set, group over all terms]; the noise.

        The noise is that of all rows of a level set, and not below ``least``: what multiplies s,
        or w s, to give the variance of g, where groups do not differ in it. With ``together``
        groups are added up, one level set after the other: of a million groups all at once would
        fill the memory.
        """
        sums = [each.reshape(self.levels, -1) for each in source.sums(self)]
        if not together:
            return self._real(source.scale, sums, least)
        found = [
            _added_up(self._real(source.scale, [each[v : v + 1] for each in sums], least))
            for v in range(self.levels)
        ]
        return tuple(np.concatenate(each) for each in zip(*found, strict=True))

    def _real(
        self, scale: Scale, sums: list[NDArray[np.int64]], least: float
    ) -> tuple[NDArray[Any], ...]:
        """The same of some level sets."""
        words, squares, *weighed = sums
        levels = len(words)
        rows, mass, response = scale.unpack(words.reshape(levels, -1, scale.words))
        s: NDArray[Any] = mass * scale.weight_step
        g: NDArray[Any] = response * scale.response_step
        spread = s
        if weighed:
            unit = scale.weight_step / scale.weight_factor * 2.0 ** self.cut(scale)
            # By Cauchy and Schwarz; all that is left of cells too light for the sums.
            least_spread = s**2 / np.maximum(rows, 1)
            spread = np.maximum(weighed[0] * unit, least_spread)
        if self.draft.model.family.known_noise:
            return rows, s, g, spread, np.ones((levels, 1))
        # Every row is in one cell of any term.
        term = 0 if self.terms is None else int(self.terms[0])
        any_term = slice(int(self.offsets[term]), int(self.offsets[term + 1]))
        mass = spread[:, any_term].sum(axis=1, keepdims=True)
        mass[mass <= 0] = 1.0
        scaled: NDArray[Any] = squares * square_step(scale)
        if self.draft.model.family.positive:
            noise = np.maximum(scaled / mass, least)
            return rows, s, g, spread * noise, noise
        noise = np.maximum(scaled[:, any_term].sum(axis=1, keepdims=True) / mass, least)
        # Around the cell's mean: its gap is no noise.
        around = np.maximum(scaled - g**2 / np.maximum(rows, 1), 0.0)
        share = rows / (rows + POOLED_ROWS)
        pooled = spread * noise
        return rows, s, g, np.maximum(pooled, (1.0 - share) * pooled + share * around), noise

    @staticmethod
    def cut(scale: Scale) -> int:
        """Bits taken off w s, so that no sum can overflow."""
        return 2 * scale.mass_bits + scale.hessian_bits - INT64_BITS


def _added_up(found: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    """Sums over the groups, and the noise as it is."""
    *cells, noise = found
    return (*(each.sum(axis=1, keepdims=True) for each in cells), noise)


@dataclass(frozen=True, eq=False)
class CellLearner:
    """Candidate terms on the groups of an encoder.

    Attributes
    ----------
    encoder
        All candidate terms, one column each.
    thresholds
        Smallest z of every term that counts as more than noise.
    index
        Number of the encoder.
    least
        What the noise is at least, see ``core.family``.
    """

    encoder: GroupEncoder
    thresholds: NDArray[np.float64]
    index: int = field(default=0)
    least: float = field(default=0.0)

    @property
    def inexact(self) -> str:
        return "one term at a time, chosen by a test"

    def sums(self, task: StepContext) -> _CellTotals:
        """Rows, sums and noise of all cells, [level set, group over all terms]."""
        offsets = self._starts
        statistic = CellSums(task.draft, self.index, task.levels, offsets)
        rows, s, g, variance, _ = statistic.real(task.source, self.least)
        events = np.divide(s**2, variance, out=np.zeros(s.shape), where=variance > 0)
        least = LEAST_CELL_EVENTS if task.draft.model.family.newton else 0.0
        usable = (rows >= LEAST_CELL_ROWS) & (variance > 0) & (events > least)
        usable[:, offsets[:-1]] = False  # code 0: in none of the term's groups
        return _CellTotals(usable, s, g, np.where(usable, variance, 1.0))

    def statistics(self, task: StepContext) -> NDArray[np.float64]:
        """How far every term is off, as a normal score."""
        return self._scores(self.sums(task))

    def _scores(self, cells: _CellTotals) -> NDArray[np.float64]:
        starts = self._starts[:-1]
        count = np.add.reduceat(cells.usable.sum(axis=0), starts)
        sums = np.add.reduceat(cells.squares.sum(axis=0), starts)
        return _normal_score(sums, count)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Where every term's codes begin, its code 0 (in none of its groups) included."""
        sizes = np.diff(self.encoder.offsets) + 1
        return np.concatenate([[0], np.cumsum(sizes)])

    def learn(self, task: StepContext) -> FitResult:
        cells = self.sums(task)
        excess = self._scores(cells) - self.thresholds
        best = int(np.argmax(excess))
        own = cells.of(slice(self._starts[best] + 1, self._starts[best + 1]))
        shift = own.shift() if excess[best] > 0 else np.zeros(own.g.shape)
        coefficient = snap(np.column_stack([np.zeros(task.levels), task.step * shift]))
        present = np.asarray(coefficient.any(axis=1))
        place = np.array([best]), np.array([0, shift.shape[1]])
        table = GroupTable(present, coefficient, task.limit, *place)
        return FitResult(table)


@dataclass(frozen=True, eq=False)
class _CellTotals:
    """Cells of some terms: which ones are usable, s, G, and the variance of G if calibrated."""

    usable: NDArray[np.bool_]
    s: NDArray[np.float64]
    g: NDArray[np.float64]
    variance: NDArray[np.float64]

    def of(self, columns: slice) -> _CellTotals:
        """Some of the columns."""
        return _CellTotals(**{name: part[:, columns] for name, part in vars(self).items()})

    @property
    def squares(self) -> NDArray[np.float64]:
        """G^2 / V, 0 where a cell is not usable."""
        return np.where(self.usable, self.g**2 / self.variance, 0.0)

    def spread(self, unit: float = 0.0) -> float:
        """By how much the usable cells' shifts vary, tau^2; 0 if noise explains their gaps.

        A shift d moves G by s d, so that G^2 exceeds V by tau^2 s^2 on average. Cells count by
        1 / V, or, for small ones, by 1 / (V + unit): a single rare event has a square that is
        thousands of times its variance.
        """
        count = np.where(self.usable, 1.0 / (self.variance + unit), 0.0)
        surplus = float(np.sum(count * (self.g**2 - self.variance)))
        return surplus / float(np.sum(count * self.s**2)) if surplus > 0 else 0.0

    def believed(self, tau2: float) -> NDArray[np.float64]:
        """Best linear prediction of every cell's shift, if shifts vary by ``tau2``."""
        if tau2 <= 0:
            return np.zeros(self.g.shape)
        some = self.s > 0
        believed = self.s + self.variance / np.where(some, self.s * tau2, 1.0)
        return np.where(some, self.g / believed, 0.0)

    def shift(self) -> NDArray[np.float64]:
        """Best linear prediction of the usable cells' shifts; the others stay."""
        return np.where(self.usable, self.believed(self.spread()), 0.0)


def _normal_score(sums: NDArray[np.float64], cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """Wilson-Hilferty: chi-square sums with ``cells`` degrees of freedom to normal scores."""
    m = np.maximum(cells, 1)
    spread = 2.0 / (9.0 * m)
    z = (np.cbrt(sums / m) - (1.0 - spread)) / np.sqrt(spread)
    return np.where(cells > 0, z, -np.inf)


# --- Groups in a file ---------------------------------------------------------------------------


def _check_columns(encoder: GroupEncoder, schema: Schema) -> None:
    """Refuse groups that take columns for what they are not."""
    for column in encoder.groups.schema.columns:
        if find_column(schema, column.name).kind != column.kind:
            raise ModelFileError(f"groups take column {column.name!r} for {column.kind}")


def _check_groups(table: GroupTable, encoder: GroupEncoder, levels: int) -> None:
    """Refuse groups without a coefficient."""
    check_coefficients(table.present, table.coefficient, levels)
    columns, offsets = table.columns, table.offsets
    sizes = np.diff(encoder.offsets)
    if ((columns < 0) | (columns >= len(sizes))).any() or len(offsets) != len(columns) + 1:
        raise ModelFileError("a term does not exist")
    # A row's number within its term is at most the term's number of groups.
    last = offsets[:-1] + sizes[columns]
    outside = (offsets < 0) | (offsets >= LARGEST_VALUE)
    if outside.any() or (last >= table.coefficient.shape[1]).any():
        raise ModelFileError("a group has no coefficient")


FILES = ClassFiles(
    spec=codec.Record(
        Groups,
        {"min_rows": codec.whole(1)},
        make=lambda terms, min_rows: Groups(*terms, min_rows=min_rows),
    ),
    encoder_kind="groups",
    encoder=codec.Record(GroupEncoder, {"groups": codec.own_form(GroupSet)}),
    check_encoder=_check_columns,
    table=codec.Record(
        GroupTable, {"coefficient": codec.Array(np.float64, 2), "limit": codec.number(0.0)}
    ),
    check_table=_check_groups,
)


# --- Why its groups moved a row, in words -------------------------------------------------------


class _GroupReasons(Reasons[GroupTable, GroupEncoder]):
    """The groups that a row is in."""

    def words(self, row: int) -> str:
        if not self.table.present[self.level[row]]:
            return ""
        starts, labels = self.encoder.groups.offsets, self.encoder.groups.labels
        found = [
            self._said(labels[starts[int(t)] + int(self.block[row, t]) - 1])
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
            added[self._said(self.encoder.groups.terms[int(t)].text)] = own
        return added

    def _said(self, group: str) -> str:
        return "everyone" if group == everyone(self.schema) else group


REASONS = _GroupReasons
