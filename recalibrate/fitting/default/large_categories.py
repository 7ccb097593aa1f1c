r"""Columns of many categories: a shift for every category, believed as far as its rows go.

Trees split a few categories off at a time, and hundreds of occupations or places take hundreds of
trees. So before trees look at them, their categories are moved all at once, by random effects: if
the shifts of a column's categories vary by :math:`\tau^2`, a category whose residuals sum to G
over s rows (on the log-odds: over a summed p (1 - p) of s) moves by :math:`G / (s + V / (s
\tau^2))`, V the variance of G. The data say what :math:`\tau^2` is: by how much the squares
:math:`G^2` exceed V. A category of a few rows hardly moves, and where categories do not differ
none does. Columns take turns, each given the shifts of the others. All of it is one step of the
model, a table to look up.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from recalibrate.classes.groups.cells import CellSums, CellTotals
from recalibrate.classes.groups.spec import GroupEncoder, GroupTable
from recalibrate.core.boost import EVERYTHING
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import MARGIN_STEP_LIMIT
from recalibrate.core.part import Draft
from recalibrate.core.rounds import Rounds, Step
from recalibrate.core.source import StatsSource
from recalibrate.data.table import Schema

MANY_CATEGORIES = 128
"""With more than this many, a column's categories are moved at once.

Up to here trees do as well or better by themselves (cross-validated): their small steps see the
residuals that other columns leave, not those of the beginning.
"""
TURNS = 4
"""Turns of every column; the last ones change next to nothing."""


def large_columns(schema: Schema, names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns among ``names`` that have many categories."""
    columns = [schema.columns[schema.index(name)] for name in names]
    # A backtick cannot be quoted in the language of groups.
    return tuple(
        column.name
        for column in columns
        if len(column.categories) > MANY_CATEGORIES and "`" not in column.name
    )


@dataclass(frozen=True, eq=False)
class LargeCategories:
    """Columns of many categories, bound to a table.

    Attributes
    ----------
    encoder
        The columns, a term each.
    index
        Number of the encoder in the model.
    weight_spread
        Sum of squared weights over sum of weights: the variance that weights add.
    """

    encoder: GroupEncoder
    index: int
    weight_spread: float = 1.0

    def fit(self, source: StatsSource, log: Rounds) -> Rounds:
        """``log`` with one more step, if categories differ by more than noise."""
        sizes = np.diff(self.encoder.offsets)
        shifts = [np.zeros(size) for size in sizes]
        for _ in range(TURNS):
            for t in range(len(sizes)):
                shifts[t] = self._shifts(source, self._append(log, shifts), t, shifts[t])
        return self._append(log, shifts) if any(shift.any() for shift in shifts) else log

    def _append(self, log: Rounds, shifts: list[NDArray[np.float64]]) -> Rounds:
        coefficient = snap(np.concatenate([[0.0], *shifts])[None, :])
        limit = MARGIN_STEP_LIMIT if log.link == "logit" else inf
        offsets = self.encoder.offsets
        columns = np.arange(len(shifts))
        table = GroupTable(np.ones(1, np.bool_), coefficient, limit, columns, offsets)
        return log.append(Step(EVERYTHING, table, self.index, False, None))

    def _shifts(
        self, source: StatsSource, log: Rounds, t: int, shift: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """New shifts of column t, given those of the others in ``log``; ``shift`` are its own."""
        scale, offsets = source.scale, self.encoder.offsets
        starts = offsets + np.arange(len(offsets))  # every column's code 0, no group, included
        statistic = CellSums(Draft(log, EVERYTHING), self.index, 1, starts.astype(np.uint64))
        words, squares, *_ = source.sums(statistic)
        _, mass, response = scale.unpack(words.reshape(int(starts[-1]), scale.words))
        own = slice(int(starts[t]) + 1, int(starts[t + 1]))
        s: NDArray[np.float64] = np.multiply(mass[own], scale.weight_step)
        g: NDArray[np.float64] = np.multiply(response[own], scale.response_step)
        noise = 1.0  # s is the variance on the log-odds
        if log.link != "logit":
            everyone = float(mass[starts[t] : starts[t + 1]].sum()) * scale.weight_step
            noise = float(squares[0]) * scale.loss_step / everyone
        # As if this column had not been moved yet, and less what all its categories share.
        g = g + s * shift
        g = g - s * (g.sum() / max(s.sum(), 1.0))
        unit = noise * self.weight_spread
        variance = np.maximum(s * unit, np.finfo(float).tiny)
        cells = CellTotals(s > 0, s, g, variance)
        return cells.believed(cells.spread(unit))
