"""Cells: one group term at a time, chosen by a test, on every level set.

The last stage of a default fit. Where a booster has stopped gaining, what is left are small gaps
inside cells (group x level). Each step tests every candidate term for more variation of its
cells' summed residuals G than noise explains: the sum of G^2 / V over its m cells (V the variance
of G for a calibrated model) is chi-square with m degrees of freedom, and Wilson and Hilferty's
cube root makes it a normal z. The term that exceeds its threshold most has its cells moved, each
by the share of its gap that is more than noise. When no term exceeds its threshold nothing is
learned, which ends the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.groups.spec import GroupEncoder, GroupTable
from recalibrate.core.fixedpoint import INT64_BITS, Scale, snap
from recalibrate.core.learning import Lesson, Task
from recalibrate.core.part import Draft, Part, Sums, square_step
from recalibrate.core.source import StatsSource
from recalibrate.kernels.histogram import count_rows, sort_by_level

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

    draft: Draft
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
        own = self.draft.log.family
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
        if self.draft.log.family.known_noise:
            return rows, s, g, spread, np.ones((levels, 1))
        # Every row is in one cell of any term.
        term = 0 if self.terms is None else int(self.terms[0])
        any_term = slice(int(self.offsets[term]), int(self.offsets[term + 1]))
        mass = spread[:, any_term].sum(axis=1, keepdims=True)
        mass[mass <= 0] = 1.0
        scaled: NDArray[Any] = squares * square_step(scale)
        if self.draft.log.family.positive:
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

    def sums(self, task: Task) -> CellTotals:
        """Rows, sums and noise of all cells, [level set, group over all terms]."""
        offsets = self._starts
        statistic = CellSums(task.draft, self.index, task.levels, offsets)
        rows, s, g, variance, _ = statistic.real(task.source, self.least)
        events = np.divide(s**2, variance, out=np.zeros(s.shape), where=variance > 0)
        least = LEAST_CELL_EVENTS if task.draft.log.family.newton else 0.0
        usable = (rows >= LEAST_CELL_ROWS) & (variance > 0) & (events > least)
        usable[:, offsets[:-1]] = False  # code 0: in none of the term's groups
        return CellTotals(usable, s, g, np.where(usable, variance, 1.0))

    def statistics(self, task: Task) -> NDArray[np.float64]:
        """How far every term is off, as a normal score."""
        return self._scores(self.sums(task))

    def _scores(self, cells: CellTotals) -> NDArray[np.float64]:
        starts = self._starts[:-1]
        count = np.add.reduceat(cells.usable.sum(axis=0), starts)
        sums = np.add.reduceat(cells.squares.sum(axis=0), starts)
        return _normal_score(sums, count)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Where every term's codes begin, its code 0 (in none of its groups) included."""
        sizes = np.diff(self.encoder.offsets) + 1
        return np.concatenate([[0], np.cumsum(sizes)])

    def learn(self, task: Task) -> Lesson:
        cells = self.sums(task)
        excess = self._scores(cells) - self.thresholds
        best = int(np.argmax(excess))
        own = cells.of(slice(self._starts[best] + 1, self._starts[best + 1]))
        shift = own.shift() if excess[best] > 0 else np.zeros(own.g.shape)
        coefficient = snap(np.column_stack([np.zeros(task.levels), task.step * shift]))
        present = np.asarray(coefficient.any(axis=1))
        place = np.array([best]), np.array([0, shift.shape[1]])
        table = GroupTable(present, coefficient, task.limit, *place)
        return Lesson(table)


@dataclass(frozen=True, eq=False)
class CellTotals:
    """Cells of some terms: which ones are usable, s, G, and the variance of G if calibrated."""

    usable: NDArray[np.bool_]
    s: NDArray[np.float64]
    g: NDArray[np.float64]
    variance: NDArray[np.float64]

    def of(self, columns: slice) -> CellTotals:
        """Some of the columns."""
        return CellTotals(**{name: part[:, columns] for name, part in vars(self).items()})

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
