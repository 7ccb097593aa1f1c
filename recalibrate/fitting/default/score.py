r"""A function of the base score alone: unchanged, shifted, a line, or a line that bends.

For 0/1 labels on the log-odds (Platt scaling, and like beta calibration where it bends), otherwise
on the score. Each form has normal priors around no change; each is weighted as far as its evidence
goes (``evidence``), and the score is the mean of what all forms say of it: with few rows a part of
a line, with many all of it. Rows are alike here if they have the same score, so that one pass over
them is enough.

The bend is a softened corner at the median score (slopes differ on its two sides), drawn with
straight lines between levels of the score. It is one step of the model, with linear functions of
the score on level sets of the score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import cast

import numpy as np

from recalibrate.bases.problem import Problem
from recalibrate.classes.linear import UNIT, Linear, LinearLearner, LinearTable, Quantiser
from recalibrate.core.boost import EVERYTHING
from recalibrate.core.family import LEAST_NOISE, family
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import StatsSource
from recalibrate.core.levels import Levels
from recalibrate.core.part import Part, PendingStep, Sums, square_step
from recalibrate.core.rounds import Rounds, Step
from recalibrate.fitting.default.judging import Counts, Floats, laplace
from recalibrate.kernels.rows import label_cells

SQUARED_ERROR = family("identity")
LINE_CLASS = Linear(features=(), base_score=True)
"""Linear functions of the base score alone."""
UNCHANGED = 0.8
"""Prior chance that the score is right as it is.

Draws of 100 calibration rows of 22 pairs, and simulated bases that are right: the mean harm to
those is .07 % of the Brier score (.1 % with .75, .03 % with .85), the mean gain 4.1, 4.2 and 3.9 %.
"""
LEAST_CHANGE = 0.25
"""A change that is less likely than this is none: the base's own numbers come back."""
NARROW, WIDE, SLOPE = 0.5, 2.0, 0.5
"""Standard deviations of a shift (an ordinary one, or one of a base that was trained on other
shares of the classes) and of slopes; shifts and bends are in log-odds."""
OVERCONFIDENT_SLOPE_MEAN, OVERCONFIDENT_SLOPE_SD = -0.4, 0.25
"""Mean and standard deviation of the slope's change in bases that are over-confident.

Over-fitting is by far the commonest reason for a wrong score, and flattens its curve: a prior that
knows this sees it in a hundred rows more often, and is led astray less (same draws: .45 % more gain
at the same harm)."""
Form = tuple[float, tuple[float, float, float], float]
FORMS: tuple[Form, ...] = (
    (OVERCONFIDENT_SLOPE_MEAN, (0.0, OVERCONFIDENT_SLOPE_SD, 0.0), 0.28),
    (OVERCONFIDENT_SLOPE_MEAN, (NARROW, OVERCONFIDENT_SLOPE_SD, 0.0), 0.28),
    (OVERCONFIDENT_SLOPE_MEAN, (NARROW, OVERCONFIDENT_SLOPE_SD, SLOPE), 0.14),
    (0.0, (NARROW, 0.0, 0.0), 0.06),
    (0.0, (0.0, SLOPE, 0.0), 0.06),
    (0.0, (NARROW, SLOPE, 0.0), 0.06),
    (0.0, (WIDE, SLOPE, 0.0), 0.045),
    (0.0, (NARROW, SLOPE, SLOPE), 0.045),
    (0.0, (WIDE, SLOPE, SLOPE), 0.03),
)
"""Of every form the mean of the slope's change, the deviations of shift, slope and bend (0: it has
none), and its share of the chance of a change. Slopes turn log-odds around 0, as over-confidence
does, and other scores around their mean."""
NAMES = {"identity": "linear scaling", "logit": "Platt scaling", "log": "log-linear scaling"}
"""What a function of the score is called in the summary."""
BEND_LEVELS = 16
LEAST_KNOTS = 8
"""Scores of fewer different values are not bent."""
LEAST_BEND = 0.2
"""A bend that is less likely is left out, and the step is a plain line."""


@dataclass(frozen=True, eq=False)
class _LabelCells:
    """Statistic: weights and labels by the value of the score's column."""

    encoder: int
    model: Rounds

    def of(self, part: Part) -> Sums:
        block, out = part.blocks[self.encoder], np.zeros((2 * UNIT + 1, 2), np.int64)
        column = block[:, 1] if block.shape[1] > 1 else np.zeros(len(block), np.int32)
        label_scale = 2.0**part.scale.response_bits
        label_cells(column, part.labels(), part.weight, label_scale, out)
        together = np.zeros(part.n_rows, np.int32)
        if self.model.family.positive:
            return (out, part.squares(PendingStep(self.model, EVERYTHING), together, 1))
        return (out, part.losses(part.base, SQUARED_ERROR, together, 1))


@dataclass(frozen=True)
class _ScoreFunction:
    """A fitted function of the score: name, probability of a change, shift, slope and bend."""

    name: str
    chance: float
    shift: float = 0.0
    slope: float = 0.0
    bend: float = 0.0

    @property
    def note(self) -> str:
        """In words."""
        if self.chance < LEAST_CHANGE:
            return f"{self.name}: no significant gain"
        bent = f", curvature {self.bend:+.2g}" if self.bend else ""
        said = f"slope {1 + self.slope:.3g}, intercept {self.shift:+.2g}{bent}"
        return f"{self.name}: applied, {said}"


class ScoreStage:
    """Functions of the base score, bound to a problem's.

    Parameters
    ----------
    learner
        `LINE_CLASS` on the base scores of all rows.
    problem
        Some rows at least: their link, and the score where all have the same.
    spread
        The variance that weights add, see ``judging.weight_spread``.
    index
        Number of the encoder.
    """

    def __init__(
        self, learner: LinearLearner, problem: Problem, spread: float = 1.0, index: int = 0
    ) -> None:
        self.learner = learner
        self.link = problem.link
        self.least = problem.family.least_noise(problem.labels.values, problem.labels.weight)
        self.name = NAMES[problem.family.link]
        self.size = problem.labels.span if problem.family.link == "identity" else 1.0
        self.spread = spread
        self.index = index
        terms = cast(Quantiser, learner.encoder).terms
        self._value = terms[1] if len(terms) > 1 else None
        self._centre = float(problem.base[0]) if self._value is None else self._value.centre
        self._factor = inf if self._value is None else self._value.factor

    @property
    def column_unit(self) -> float:
        """What one unit of the encoded column (2**15 of its steps) is in scores."""
        return UNIT / self._factor

    def at(self, column: float) -> float:
        """The score where the encoded column has a value, in its unit."""
        return self._centre + column * self.column_unit

    def fit(self, source: StatsSource, model: Rounds) -> tuple[Rounds, _ScoreFunction]:
        """``model``, which has no step yet, with one if the labels speak for it."""
        counts = self._count(source, model)
        middle = 0.0
        if not model.family.known_noise:
            middle = float(np.sum(counts.weight * counts.score) / np.sum(counts.weight))
        knots = self._knots(counts)
        bend = _Bend.at(knots)
        design = np.column_stack(
            [np.ones(len(counts.score)), counts.score - middle, bend.values(counts.score)]
        )
        found, values = self._believe(counts, design, len(knots) >= LEAST_KNOTS)
        if found.chance < LEAST_CHANGE:
            return model, found
        return model.append(self._step(values, middle, bend)), found

    def _count(self, source: StatsSource, model: Rounds) -> Counts:
        """Rows of the same score together."""
        cells, squares = source.sums(_LabelCells(self.index, model))
        scale, own = source.scale, model.family
        used = np.flatnonzero(cells[:, 0])
        weight = cells[used, 0] / scale.weight_factor
        label = cells[used, 1] * scale.response_step
        score = self._centre + (used - UNIT) / self._factor
        if own.positive:
            around = float(squares[0]) * square_step(scale)
            counts = Counts(score, weight, label, self.link)
            return _around_curve(counts, around, self.spread, self.least)
        noise = 1.0
        if not own.known_noise:
            # Around the best line, not the base: much of a base that is off is no noise.
            around, slanted = _around_line(
                weight, label, score, float(squares[0]) * scale.loss_step
            )
            rows = float(np.sum(weight)) / self.spread
            # Two rows are always on a line, and say nothing about noise.
            noise = max(around, slanted / self.spread) * rows / (rows - 2.0) if rows > 2.0 else 1.0
            noise = max(noise, LEAST_NOISE)
        return Counts(score, weight, label, self.link, noise, self.spread)

    @staticmethod
    def _knots(counts: Counts) -> Floats:
        """Scores between levels of equal weight."""
        reached = np.cumsum(counts.weight)
        wanted = reached[-1] * np.arange(1, BEND_LEVELS) / BEND_LEVELS
        at = np.searchsorted(reached, wanted)
        return np.unique(counts.score[np.minimum(at, len(reached) - 1)])

    def _believe(
        self, counts: Counts, design: Floats, bends: bool
    ) -> tuple[_ScoreFunction, Floats]:
        """Means of all forms' parameters by their evidence."""
        unit = family(self.link).unit(counts.noise)
        chances = [np.log(UNCHANGED) - counts.loss(counts.score)]
        values = [np.zeros(3)]
        for centre, deviations, share in FORMS:
            has = np.flatnonzero(deviations)
            if (has[-1] > 0 and len(counts.score) == 1) or (has[-1] == 2 and not bends):
                continue
            widths = np.array(deviations) * [unit, 1.0, 1.0]
            own = np.array([0.0, centre, 0.0])
            expected = replace(counts, score=counts.score + centre * design[:, 1])
            more, log_evidence = laplace(expected, design[:, has], widths[has])
            own[has] += more
            if (1.0 + own[1] - own[2]) * (1.0 + own[1] + own[2]) <= 0 and own[2]:
                continue  # it would fold the scores
            values.append(own)
            chances.append(np.log((1.0 - UNCHANGED) * share) + log_evidence)
        weight = np.exp(np.array(chances) - max(chances))
        bent = np.array([bool(own[2]) for own in values])
        if weight[bent].sum() < LEAST_BEND * weight.sum():
            weight[bent] = 0.0
        weight = weight / weight.sum()
        mean = np.sum(weight[:, None] * np.array(values), axis=0)
        shift, slope, corner = (float(value) for value in mean)
        return _ScoreFunction(
            self.name, 1.0 - float(weight[0]), shift * self.size, slope, corner
        ), mean

    def _step(self, values: Floats, middle: float, bend: _Bend) -> Step:
        """The step that adds shift, slope and bend to the score."""
        shift, slope, corner = values
        constant = np.array([shift - slope * middle])
        rise = np.array([slope])
        partition = EVERYTHING
        if corner:
            partition = Levels(bend.knots)
            constant, rise = constant + corner * bend.constant, rise + corner * bend.rise
        return self.linear(partition, constant, rise)

    def linear(self, partition: Levels, constant: Floats, rise: Floats) -> Step:
        """A step that adds ``constant + rise * score`` on every level set."""
        coefficient = np.zeros((len(constant), self.learner.encoder.count))
        coefficient[:, 0] = (constant + rise * self._centre) / UNIT
        if self._value is not None:
            coefficient[:, 1] = rise / self._factor
        table = LinearTable(np.ones(len(constant), np.bool_), snap(coefficient), inf)
        return Step(partition, table, self.index, False, None)

    def adjusted(self, model: Rounds, constant: float, rise: float) -> Rounds:
        """``model`` with a first step that adds so much more."""
        more = self.linear(EVERYTHING, np.array([constant]), np.array([rise]))
        steps = model.steps
        if steps and steps[0].encoder == self.index:
            first = cast(LinearTable, steps[0].table)
            added = first.coefficient + cast(LinearTable, more.table).coefficient
            more = replace(steps[0], table=replace(first, coefficient=snap(added)))
            steps = steps[1:]
        return replace(model, steps=(more, *steps))

    def reweighted(self, model: Rounds, intercept: float, line: float, rest: float) -> Rounds:
        """``model`` with scores ``intercept + line * l + rest * (f - l)`` instead of f.

        l is the score after this stage. The stage's own step takes its part and every other step is
        scaled: the model has no more steps than before, or one. Two different weights need steps
        that have a single level set.
        """
        own = model.steps and model.steps[0].encoder == self.index
        scaled = [replace(model.steps[0], table=model.steps[0].table.scaled(line))] if own else []
        others = model.steps[1:] if own else model.steps
        steps = (*scaled, *(step.along(rest, intercept) for step in others))
        return self.adjusted(replace(model, steps=steps), intercept, line - 1.0)


@dataclass(frozen=True, eq=False)
class _Bend:
    """A softened corner: straight lines through its values at ``knots``, beyond them tangents.

    On level set k it is ``constant[k] + rise[k] * score``.
    """

    knots: Floats
    constant: Floats
    rise: Floats

    @classmethod
    def at(cls, knots: Floats) -> _Bend:
        """The corner at the middle knot, as soft as the knots are far apart."""
        middle = float(knots[len(knots) // 2])
        width = max(float(knots[-1] - knots[0]) / 3.0, np.finfo(float).tiny)
        z = (knots - middle) / width
        values = width * (np.logaddexp(z, -z) - np.log(2.0))
        between = np.diff(values) / np.diff(knots)
        rise = np.concatenate([np.tanh(z[:1]), between, np.tanh(z[-1:])])
        anchor = np.concatenate([knots[:1], knots])
        constant = np.concatenate([values[:1], values]) - rise * anchor
        return cls(knots, constant, rise)

    def values(self, score: Floats) -> Floats:
        level = np.searchsorted(self.knots, score, side="right")
        return np.asarray(self.constant[level] + self.rise[level] * score)


def _around_curve(counts: Counts, squares: float, spread: float, least: float) -> Counts:
    """The same with the noise around the best power of the mean, times a factor.

    ``squares`` sums the squared responses of the scores as they are; what a base is off is no
    noise, and taken off. Weights are in the noise, as they are in the squares.
    """
    own = family(counts.link)
    away = counts.score - np.sum(counts.weight * counts.score) / np.sum(counts.weight)
    line = np.column_stack([np.ones(len(away)), away])
    found, _ = laplace(counts, line, np.array([WIDE, SLOPE]))
    label = counts.label / counts.weight
    before = own.from_margin(counts.score)
    after = own.from_margin(counts.score + np.sum(line * found, axis=1))
    factor = counts.weight * before ** (2.0 - 2.0 * own.power)
    explained = spread * np.sum(factor * ((label - before) ** 2 - (label - after) ** 2))
    size = float(np.sum(factor * after**own.power))
    noise = max(squares - float(explained), squares / 10.0) / size
    return replace(counts, noise=max(noise, least))


def _around_line(
    weight: Floats, label: Floats, score: Floats, squares: float
) -> tuple[float, float]:
    """Mean squared residual around the best line, and that which its slope has to fear.

    ``squares`` sums the squared residuals of the scores. Where rows with extreme scores have more
    noise than others (incomes, prices), a slope is less certain than the mean residual says: by
    White's estimate of its variance, in which every residual counts by its own distance.
    """
    total = float(np.sum(weight))
    residual = label - weight * score  # summed over the rows of a cell
    mean = float(np.sum(residual)) / total
    away = score - float(np.sum(weight * score)) / total
    size = float(np.sum(weight * away**2))
    if size <= 0:
        return (squares - total * mean**2) / total, 0.0
    slope = float(np.sum(residual * away)) / size
    left = residual - weight * (mean + slope * away)
    around = (squares - total * mean**2 - slope**2 * size) / total
    return around, float(np.sum((left * away) ** 2)) / size
