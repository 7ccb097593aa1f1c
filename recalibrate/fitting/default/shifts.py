r"""Shifts of groups: all groups at once, each believed as far as its rows go.

Groups of a term (the categories of a column, the cells of a crossing) are effects of one kind,
whose variance the data say (``evidence.Effects``): of a group whose residuals sum to G over a
summed p (1 - p) of s, the share :math:`s / (s + 1 / \tau^2)` of G / s is believed. What counts is
s, not rows, so that groups with few events are believed less. Terms take turns, each given the
shifts of the others, and so does the line through the score: groups that differ in their scores
are confounded with it.

First on everyone, then on level sets of the score. There every group has three kinds of effects: a
shift, a slope over the level sets, and what every level set has by itself. Each kind has a variance
of its own, and none is one of the answers. All of it is one step of the model for every drawing
of level sets, a table to look up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from recalibrate.classes.groups.cells import CellSums
from recalibrate.classes.groups.spec import GroupEncoder, GroupTable
from recalibrate.classes.linear.spec import UNIT, UNIT_BITS, Products, bits_to_cut
from recalibrate.core.boost import EVERYTHING, Settings, draw_levels
from recalibrate.core.family import LEAST_NOISE, family
from recalibrate.core.fixedpoint import snap
from recalibrate.core.levels import Levels
from recalibrate.core.part import Draft
from recalibrate.core.rounds import Rounds, Step
from recalibrate.core.source import StatsSource
from recalibrate.data.table import Schema
from recalibrate.fitting.default.evidence import (
    LIMIT,
    MEAN_ODDS,
    Effects,
    Floats,
    certainly_off,
)
from recalibrate.fitting.default.score import ScoreStage

MANY_CATEGORIES = 128
"""With more than this many, a column's categories are moved at once before trees look at them.

Up to here trees do as well or better by themselves (cross-validated): their small steps see the
residuals that other columns leave, not those of the beginning.
"""
TURNS, LEVEL_TURNS = 4, 2
"""Turns of every term; the last ones change next to nothing."""
LEVELS, FEW_LEVELS, FEW_ROWS = 5, 3, 1000
"""Level sets, and those of fewer rows than that (cross-validated: 5 do as well as 10 or better)."""
CURVE_LEVELS = 20
"""Level sets of the curve of all rows, which has all of them to fill its cells."""
DRAWINGS = 2
"""How often level sets are drawn: the second ones are those of scores that groups have moved."""
EVERYONE = -1
"""Stands for a term: all rows are its only group."""


def large_columns(schema: Schema, names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns among ``names`` that have many categories."""
    columns = [schema.columns[schema.index(name)] for name in names]
    return tuple(each.name for each in columns if len(each.categories) > MANY_CATEGORIES)


@dataclass(frozen=True, eq=False)
class Shifts:
    """Terms of groups, bound to a table.

    Attributes
    ----------
    encoder
        The groups.
    index
        Number of the encoder in the model.
    limit
        Standard errors that a group may be left off by; None: as many as its term's others say.
    """

    encoder: GroupEncoder
    index: int
    limit: float | None = LIMIT

    def on_everyone(
        self, source: StatsSource, log: Rounds, score: ScoreStage | None = None
    ) -> Rounds:
        """``log`` with one more step, if groups differ by more than noise."""
        drawn, moved = _Drawing(self, EVERYTHING, source, log.link), log
        for _ in range(TURNS):
            if score is not None:
                moved = drawn.line(moved, score)
            drawn.turn(moved)
        return drawn.append(moved) if drawn.worth_it(log) else log

    def on_curve(self, source: StatsSource, log: Rounds) -> Rounds:
        """``log`` with a step that moves every level set as a whole, if the curve is off."""
        count = CURVE_LEVELS if source.n_rows >= FEW_ROWS else LEVELS
        partition = draw_levels(source, log, Settings(link=log.link, levels=count))
        drawn = _Drawing(self, partition, source, log.link)
        drawn.turn(log, terms=range(EVERYONE, 0))
        return drawn.append(log) if partition.count > 1 and drawn.worth_it(log) else log

    def on_level_sets(self, source: StatsSource, log: Rounds) -> Rounds:
        """``log`` with up to two more steps, each on level sets drawn anew."""
        count = LEVELS if source.n_rows >= FEW_ROWS else FEW_LEVELS
        for _ in range(DRAWINGS):
            partition = draw_levels(source, log, Settings(link=log.link, levels=count))
            if partition.count == 1:
                break
            drawn = _Drawing(self, partition, source, log.link)
            for _ in range(LEVEL_TURNS):
                drawn.turn(log)
            if not drawn.worth_it(log):
                break
            log = drawn.append(log)
        return log


@dataclass(eq=False)
class _Drawing:
    """Effects on the level sets of one drawing, found by turns."""

    shifts: Shifts
    partition: Levels
    source: StatsSource
    link: str
    effects: dict[tuple[int, str], Floats] = field(default_factory=dict)
    odds: dict[tuple[int, str], float] = field(default_factory=dict)
    distances: list[Floats] = field(default_factory=list)
    noise: float = 1.0

    def __post_init__(self) -> None:
        offsets = self.shifts.encoder.offsets
        self.coefficient = np.zeros((self.partition.count, int(offsets[-1]) + 1))
        # Where every term's codes begin, its code 0 (in none of its groups) included.
        self.starts = offsets + np.arange(len(offsets))

    def worth_it(self, log: Rounds) -> bool:
        """Whether some kind of effect is more than noise, counting all that were looked at.

        A model that was moved anyway has nothing to lose: all effects are shrunken, and one kind
        that the labels speak for is enough.
        """
        if not self.coefficient.any():
            return False
        if log.steps:
            return max(self.odds.values()) > 1.0
        certain = bool(self.distances) and certainly_off(np.concatenate(self.distances))
        return certain or float(np.mean(list(self.odds.values()))) > MEAN_ODDS

    def append(self, log: Rounds) -> Rounds:
        """``log`` with the step."""
        offsets = self.shifts.encoder.offsets
        present = np.ones(self.partition.count, np.bool_)
        columns = np.arange(len(offsets) - 1)
        table = GroupTable(present, snap(self.coefficient), log.family.step_limit, columns, offsets)
        return log.append(Step(self.partition, table, self.shifts.index, False, None))

    def turn(self, log: Rounds, terms: range | None = None) -> None:
        """New effects of every term, or of some, each given those of the others."""
        for term in terms or range(EVERYONE, len(self.starts) - 1):
            s, g, variance = self._sums(self.append(log), term)
            own = self._columns(term)
            for kind in ("shift", "slope", "free") if self.partition.count > 1 else ("shift",):
                self._update(term, kind, s, g, variance)
                new = self._together(term)
                moved, self.coefficient[:, own] = new - self.coefficient[:, own], new
                g = g - s * moved

    def line(self, log: Rounds, score: ScoreStage) -> Rounds:
        """``log`` with shift and slope of the score as the groups' shifts leave room for."""
        draft = Draft(self.append(log), EVERYTHING)
        scale, terms = self.source.scale, score.learner.encoder.count
        _, gram, cross = self.source.sums(Products(draft, score.index, 1, terms))
        if terms < 2:
            return log
        gram_cut, cross_cut = bits_to_cut(scale)
        information = np.multiply(gram[0], scale.weight_step * 2.0 ** (gram_cut - 2 * UNIT_BITS))
        pull = np.multiply(cross[0], scale.response_step * 2.0 ** (cross_cut - UNIT_BITS))
        if information[0, 0] <= 0:
            return log
        middle = information[1, 0] / information[0, 0]  # of the column, in its unit
        noise = self._noise(log)
        size = score.column_unit
        around = information[1, 1] - middle * information[1, 0]
        known = Effects(
            np.array([(pull[1] - middle * pull[0]) * size]) / noise,
            np.array([max(around, 0.0) * size**2]) / noise,
        )
        (rise,), _ = known.believed()
        return score.adjusted(log, -float(rise) * score.at(middle), float(rise)) if rise else log

    def _noise(self, log: Rounds) -> float:
        """Variance of a summed response per unit of s."""
        s, _, variance = self._sums(self.append(log), EVERYONE)
        return float(variance.sum() / s.sum())

    def _sums(self, log: Rounds, term: int) -> tuple[Floats, Floats, Floats]:
        """Sums of s and of responses of a term's groups, [level set, group], and their variance."""
        levels, starts, at = self.partition.count, self.starts, max(term, 0)
        # The step that was taken last has drawn the level sets.
        columns = np.array([at], np.int32)
        statistic = CellSums(Draft(log, None), self.shifts.index, levels, starts, columns)
        _, *sums, squares = statistic.real(self.source)
        own = slice(int(starts[at]), int(starts[at + 1]))
        s, g, variance = (each[:, own] for each in sums)
        if not log.family.known_noise:
            self.noise = max(float(squares.sum()) / float(s.sum()), LEAST_NOISE)
            variance = variance * self.noise
        if term == EVERYONE:
            s, g, variance = (each.sum(axis=1, keepdims=True) for each in (s, g, variance))
            return s, g, variance
        return s[:, 1:], g[:, 1:], variance[:, 1:]

    def _columns(self, term: int) -> slice:
        """A term's columns of the coefficients."""
        offsets = self.shifts.encoder.offsets
        return slice(0, 1) if term == EVERYONE else slice(*(offsets[term : term + 2] + 1).tolist())

    def _update(self, term: int, kind: str, s: Floats, g: Floats, variance: Floats) -> None:
        """New effects of one kind, as if they had not been moved yet."""
        across = self._across[:, None]
        if kind == "shift":
            g, s, variance = (each.sum(axis=0) for each in (g, s, variance))
        elif kind == "slope":
            g = (across * g).sum(axis=0)
            s, variance = ((across**2 * each).sum(axis=0) for each in (s, variance))
        old = self.effects.get((term, kind), np.zeros(g.shape))
        unit = family(self.link).unit(self.noise)
        # A shift d moves g by s d: g / s has the variance of g over s^2.
        each = np.divide(s, variance, out=np.zeros(s.shape), where=variance > 0)
        known = Effects(((g + s * old) * each).ravel(), (s * each).ravel(), unit)
        limit = self.shifts.limit if kind == "shift" else None
        found, odds = known.believed(limit)
        self.effects[term, kind] = found.reshape(g.shape)
        if (term, kind) not in self.odds:
            self.odds[term, kind] = odds
            if limit is not None and self.partition.count == 1:
                self.distances.append(known.distances)

    @property
    def _across(self) -> Floats:
        """Level sets from low to high, with mean 0 and mean square 1."""
        k = np.arange(self.partition.count) - (self.partition.count - 1) / 2
        return np.asarray(k / max(float(np.sqrt(np.mean(k**2))), 1.0 / UNIT))

    def _together(self, term: int) -> Floats:
        """All effects of a term so far, [level set, group]."""
        across = self._across[:, None]
        basis = {"shift": np.ones_like(across), "slope": across, "free": np.ones_like(across)}
        known = [basis[kind] * own for (t, kind), own in self.effects.items() if t == term]
        return np.asarray(sum(known[1:], known[0]))
