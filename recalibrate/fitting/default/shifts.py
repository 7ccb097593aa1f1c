r"""Shifts of groups: all groups at once, each shrunk according to its rows.

Groups of a term (the categories of a column, the cells of a crossing) are effects of one kind,
whose variance the data say (``evidence.Effects``): of a group whose residuals sum to G over a
summed p (1 - p) of s, the posterior mean is :math:`s / (s + 1 / \tau^2)` G / s. What counts is
s, not rows, so that groups with few events are shrunk more. Terms take turns, each given the
shifts of the others, and so does the line through the score: groups that differ in their scores
are confounded with it.

First on everyone: a shift for every group, and a trend over the bands of a numeric column, one
number that a hundred rows can tell. Then on level sets of the score, where every group also has a
slope over the level sets and what every level set has by itself. Each kind has a variance of its
own, and none is one of the answers. All of it is one step of the model for every drawing of level
sets, a table to look up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from recalibrate.classes.groups import CellSums, GroupEncoder, GroupTable
from recalibrate.classes.linear import UNIT, UNIT_BITS, Products, bits_to_cut
from recalibrate.core.boost import EVERYTHING, Settings, draw_levels
from recalibrate.core.family import LEAST_NOISE, family
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import StatsSource
from recalibrate.core.levels import Levels
from recalibrate.core.part import PendingStep
from recalibrate.core.rounds import Rounds, Step
from recalibrate.data.table import Schema
from recalibrate.fitting.default.judging import (
    LIMIT,
    MEAN_ODDS,
    NO_SPREAD,
    Effects,
    Floats,
    certainly_off,
    no_spread_among,
)
from recalibrate.fitting.default.score import UNCHANGED, ScoreStage
from recalibrate.groups.cells import BandCells, ValueCells
from recalibrate.groups.terms import BoundTerm

MANY_CATEGORIES = 128
"""With more than this many, a column's categories are moved at once before trees look at them.

Up to here trees do as well or better by themselves (cross-validated): their small steps see the
residuals that other columns leave, not those of the beginning.
"""
COLUMN_ROWS, MOST_COLUMNS = 5000, 60
"""With fewer rows all columns are moved so, unless there are more: shifts of columns by their
evidence see in a few hundred rows what trees need thousands for, and beyond that add nothing."""
UNNAMED_ROWS = 800
"""So many rows, over those that there are, is the evidence, on average over the kinds of shifts,
that columns which nobody named have to show. Chance exceeds such odds in at most the inverse of
them, and what a mistake costs falls with the rows as well."""
UNCHANGED_ODDS = UNCHANGED / (1.0 - UNCHANGED)
"""And it is at least this where nothing has changed the base yet: the odds that it is right."""
TURNS, LOG_TURNS, LEVEL_TURNS = 4, 8, 2
"""Turns of every term; the last ones change next to nothing."""
LEVELS, FEW_LEVELS, FEW_ROWS = 5, 3, 1000
"""Level sets, and those of fewer rows than that (cross-validated: 5 do as well as 10 or better)."""
CURVE_LEVELS = 20
"""Level sets of the curve of all rows, which has all of them to fill its cells."""
DRAWINGS = 2
"""How often level sets are drawn: the second ones are those of scores that groups have moved."""
LEAST_TREND = 3
"""Bands of a column that has a trend apart from its shifts."""
EVERYONE = -1
"""Stands for a term: all rows are its only group."""


def shifted_columns(schema: Schema, names: tuple[str, ...], n_rows: int) -> tuple[str, ...]:
    """The columns among ``names`` that are moved at once: with few rows all, else large ones."""
    if n_rows < COLUMN_ROWS and len(names) <= MOST_COLUMNS:
        return names
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
    named
        Whether the user asks for these groups. Then one that is surely off is left off by at most
        `LIMIT` standard errors; otherwise by as many as its term's others say.
    least
        What the noise is at least, see ``core.family``.
    effective_rows
        Rows that the evidence against an unchanged base rests on, see ``judging.effective_rows``;
        None: all.
    """

    encoder: GroupEncoder
    index: int
    named: bool = True
    least: float = LEAST_NOISE
    effective_rows: float | None = None

    def on_everyone(
        self,
        source: StatsSource,
        model: Rounds,
        score: ScoreStage | None = None,
        *,
        decided: bool = False,
    ) -> Rounds:
        """``model`` with a line and shifts that suit each other, if groups differ beyond noise.

        Where that is ``decided``, by other rows as well, without asking these.
        """
        drawn = _Drawing(self, EVERYTHING, source, model.link)
        for _ in range(LOG_TURNS if model.family.positive else TURNS):
            if score is not None:
                drawn.turn_line(model, score)
            drawn.turn(model)
        return drawn.append(model) if decided or drawn.worth_it(model) else model

    def on_curve(self, source: StatsSource, model: Rounds) -> Rounds:
        """``model`` with a step that moves every level set as a whole, if the curve is off."""
        count = CURVE_LEVELS if source.n_rows >= FEW_ROWS else LEVELS
        partition = draw_levels(source, model, Settings(link=model.link, levels=count))
        drawn = _Drawing(self, partition, source, model.link)
        drawn.turn(model, terms=range(EVERYONE, 0))
        return drawn.append(model) if partition.count > 1 and drawn.worth_it(model) else model

    def on_level_sets(self, source: StatsSource, model: Rounds) -> Rounds:
        """``model`` with up to two more steps, each on level sets drawn anew."""
        count = LEVELS if source.n_rows >= FEW_ROWS else FEW_LEVELS
        for _ in range(DRAWINGS):
            partition = draw_levels(source, model, Settings(link=model.link, levels=count))
            if partition.count == 1:
                break
            drawn = _Drawing(self, partition, source, model.link)
            for _ in range(LEVEL_TURNS):
                drawn.turn(model)
            if not drawn.worth_it(model):
                break
            model = drawn.append(model)
        return model


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
    rise: float = 0.0
    line: Step | None = None
    no_spread: float = NO_SPREAD

    def __post_init__(self) -> None:
        if not self.shifts.named:
            self.no_spread = no_spread_among(np.empty(0))
        offsets = self.shifts.encoder.offsets
        self.coefficient = np.zeros((self.partition.count, int(offsets[-1]) + 1))
        # Where every term's codes begin, its code 0 (in none of its groups) included.
        self.starts = offsets + np.arange(len(offsets))
        self.trends = [trend_of(term) for term in self.shifts.encoder.groups.terms]

    def worth_it(self, model: Rounds) -> bool:
        """Whether some kind of effect is more than noise, counting all that were looked at.

        Of groups that were asked for, and a model that was moved anyway, one kind that the labels
        speak for is enough: all effects are shrunken.
        """
        if not self.coefficient.any():
            return False
        if not self.shifts.named:
            known = self.shifts.effective_rows
            rows = self.source.n_rows if model.steps or known is None else known
            least = max(UNNAMED_ROWS / rows, 1.0 if model.steps else UNCHANGED_ODDS)
            return float(np.mean(list(self.odds.values()))) > least
        if model.steps:
            return max(self.odds.values()) > 1.0
        certain = bool(self.distances) and certainly_off(np.concatenate(self.distances))
        return certain or float(np.mean(list(self.odds.values()))) > MEAN_ODDS

    def append(self, model: Rounds) -> Rounds:
        """``model`` with the steps."""
        if self.line is not None:
            model = model.append(self.line)
        offsets = self.shifts.encoder.offsets
        present = np.ones(self.partition.count, np.bool_)
        columns = np.arange(len(offsets) - 1)
        table = GroupTable(
            present, snap(self.coefficient), model.family.step_limit, columns, offsets
        )
        return model.append(Step(self.partition, table, self.shifts.index, False, None))

    def turn(self, model: Rounds, terms: range | None = None) -> None:
        """New effects of every term, or of some, each given those of the others."""
        for term in terms or range(EVERYONE, len(self.starts) - 1):
            s, g, variance = self._sums(self.append(model), term)
            if model.family.positive:  # far steps are not Newton's
                g = s * model.family.step(np.divide(g, s, out=np.zeros(s.shape), where=s > 0))
            own = self._columns(term)
            for kind in self._kinds(term):
                self._update(term, kind, s, g, variance)
                new = self._together(term)
                moved, self.coefficient[:, own] = new - self.coefficient[:, own], new
                g = g - s * moved
        if not self.shifts.named:
            self.no_spread = no_spread_among(np.array(list(self.odds.values())))

    def turn_line(self, model: Rounds, score: ScoreStage) -> None:
        """A slope of the score as the groups' shifts leave room for."""
        terms = score.learner.encoder.count
        if terms < 2:
            return
        scale, draft = self.source.scale, PendingStep(self.append(model), EVERYTHING)
        _, gram, cross = self.source.sums(Products(draft, score.index, 1, terms))
        gram_cut, cross_cut = bits_to_cut(scale)
        information = np.multiply(gram[0], scale.weight_step * 2.0 ** (gram_cut - 2 * UNIT_BITS))
        pull = np.multiply(cross[0], scale.response_step * 2.0 ** (cross_cut - UNIT_BITS))
        if information[0, 0] <= 0:
            return
        middle = information[1, 0] / information[0, 0]  # of the column, in its unit
        size = score.column_unit
        around = max(information[1, 1] - middle * information[1, 0], 0.0) * size**2
        pulled = (pull[1] - middle * pull[0]) * size + around * self.rise
        noise = self._noise(model)
        (rise,), _ = Effects(np.array([pulled]) / noise, np.array([around]) / noise).believed()
        self.rise = float(rise)
        around_middle = np.array([-self.rise * score.at(middle)])
        self.line = score.linear(EVERYTHING, around_middle, np.array([self.rise]))

    def _noise(self, model: Rounds) -> float:
        """Variance of a summed response per unit of s."""
        s, _, variance = self._sums(self.append(model), EVERYONE)
        return float(variance.sum() / s.sum())

    def _sums(self, model: Rounds, term: int) -> tuple[Floats, Floats, Floats]:
        """Sums of s and of responses of a term's groups, [level set, group], and their variance."""
        levels, at = self.partition.count, max(term, 0)
        # The step that was taken last has drawn the level sets. Only this term has groups: beside
        # one of a million others would be summed in tables as large.
        columns = np.array([at], np.int32)
        starts = np.zeros(at + 2, np.int64)
        starts[-1] = self.starts[at + 1] - self.starts[at]
        statistic = CellSums(PendingStep(model, None), self.shifts.index, levels, starts, columns)
        together = term == EVERYONE
        _, s, g, variance, noise = statistic.real(self.source, self.shifts.least, together=together)
        if not model.family.known_noise:
            mass = s.sum(axis=1)
            self.noise = float(mass @ noise[:, 0]) / float(mass.sum())
        if together:
            return s, g, variance
        return s[:, 1:], g[:, 1:], variance[:, 1:]

    def _kinds(self, term: int) -> tuple[str, ...]:
        """Kinds of effects that a term has, from few numbers to many."""
        if self.partition.count > 1:
            return "shift", "slope", "free"
        return ("trend", "shift") if term >= 0 and self.trends[term].any() else ("shift",)

    def _columns(self, term: int) -> slice:
        """A term's columns of the coefficients."""
        offsets = self.shifts.encoder.offsets
        return slice(0, 1) if term == EVERYONE else slice(*(offsets[term : term + 2] + 1).tolist())

    def _update(self, term: int, kind: str, s: Floats, g: Floats, variance: Floats) -> None:
        """New effects of one kind, as if they had not been moved yet."""
        across = self._across[:, None]
        if kind == "shift":
            g, s, variance = (each.sum(axis=0) for each in (g, s, variance))
        elif kind == "trend":
            rank = self.trends[term]
            g = (rank * g).sum(keepdims=True)
            s, variance = ((rank**2 * each).sum(keepdims=True) for each in (s, variance))
        elif kind == "slope":
            g = (across * g).sum(axis=0)
            s, variance = ((across**2 * each).sum(axis=0) for each in (s, variance))
        old = self.effects.get((term, kind), np.zeros(g.shape))
        unit = family(self.link).unit(self.noise)
        # A shift d moves g by s d: g / s has the variance of g over s^2.
        each = np.divide(s, variance, out=np.zeros(s.shape), where=variance > 0)
        known = Effects(((g + s * old) * each).ravel(), (s * each).ravel(), unit)
        limit = LIMIT if self.shifts.named and kind == "shift" else None
        found, odds = known.believed(limit, self.no_spread)
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
        one = np.ones_like(across)
        basis = {"shift": one, "slope": across, "free": one, "trend": self.trends[term]}
        known = [basis[kind] * own for (t, kind), own in self.effects.items() if t == term]
        return np.asarray(sum(known[1:], known[0]))


def trend_of(term: BoundTerm) -> Floats:
    """Ranks of the bands or values of a number, [1, group], with mean 0 and mean square 1.

    A missing value is in the middle. Zeros: the groups have no order, or are too few for a trend.
    """
    (factor, *others) = term.factors
    cells = np.array(term.cells)[:, 0]
    known = cells <= factor.count
    if others or not isinstance(factor, BandCells | ValueCells) or known.sum() < LEAST_TREND:
        return np.zeros((1, len(cells)))
    rank = np.where(known, cells - cells[known].mean(), 0.0)
    return np.asarray(rank / np.sqrt(np.mean(rank**2)))[None, :]
