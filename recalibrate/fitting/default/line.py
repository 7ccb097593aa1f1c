"""A line through the base score: Platt scaling for log-odds, least squares otherwise.

Newton's method started at an over-confident base can run away, so under the logit link it
starts where log-odds are all zero. Its steps are linear in the same column and add up to one.
Weights of the final scores are folded into the steps that led to them.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import cast

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.classes.linear.spec import UNIT, Linear, LinearLearner, LinearTable
from recalibrate.core.boost import Settings, boost
from recalibrate.core.fixedpoint import snap
from recalibrate.core.learning import Penalty
from recalibrate.core.levels import MARGIN_LIMIT, Levels
from recalibrate.core.rounds import Rounds, Step
from recalibrate.core.source import StatsSource
from recalibrate.core.statistics import mean_loss

NEWTON_STEPS = 8
LINE_CLASS = Linear(features=(), base_score=True)
"""Linear functions of the base score alone."""


class Line:
    """The line, bound to a problem's base score.

    Parameters
    ----------
    learner
        `LINE_CLASS` on the base scores of all rows.
    problem
        Some rows at least: their link, and the score where all have the same.
    """

    def __init__(self, learner: LinearLearner, problem: Problem) -> None:
        self.learner = learner
        self.link = problem.link
        self._constant_score = float(problem.base[0])

    def fit(self, source: StatsSource, log: Rounds) -> Rounds:
        """``log`` with one more step, if it lowers the training loss."""
        begun, steps = log, 1
        if self.link == "logit":
            begun, steps = log.append(self._step(self._to_zero())), NEWTON_STEPS
        settings = Settings(
            link=self.link,
            levels=1,
            tables_per_round=steps,
            # From zero to certain scores and back is a long way for one step.
            penalty=Penalty(step_limit=4 * MARGIN_LIMIT),
            max_rounds=1,
        )
        found = boost(
            source, self.learner, settings, begun, progress=False, keep_if_interrupted=False
        ).log
        tables = [step.table for step in found.steps[len(log.steps) :]]
        total = sum(cast(LinearTable, table).coefficient for table in tables)
        fitted = log.append(self._step(np.asarray(total)))
        return fitted if mean_loss(source, fitted) < mean_loss(source, log) else log

    def reweighted(self, log: Rounds, intercept: float, line: float, rest: float) -> Rounds:
        """``log`` with scores ``intercept + line * l + rest * (f - l)`` instead of f.

        l is the score on the line through the base. The line's own step takes its part and
        every other step is scaled: the model has no more steps than before, or one. Two different
        weights need steps that have a single level set.
        """
        coefficient = (1.0 - line) * self._to_zero()
        coefficient[0, 0] += intercept / UNIT
        steps = log.steps
        if steps and steps[0].encoder == 0:
            coefficient += line * cast(LinearTable, steps[0].table).coefficient
            steps = steps[1:]
        first = self._step(snap(coefficient))
        return replace(log, steps=(first, *(step.along(rest, intercept) for step in steps)))

    def _to_zero(self) -> NDArray[np.float64]:
        """Coefficients that take the base score off itself."""
        terms = self.learner.encoder.terms
        coefficient = np.zeros((1, len(terms)))
        coefficient[0, 0] = -self._constant_score / UNIT
        for j, term in enumerate(terms):
            if term.kind == "value":
                coefficient[0, 0] = -term.centre / UNIT
                coefficient[0, j] = -1.0 / term.factor
        return snap(coefficient)

    @staticmethod
    def _step(coefficient: NDArray[np.float64]) -> Step:
        table = LinearTable(np.ones(1, np.bool_), coefficient, inf)
        return Step(Levels.single(), table, 0, False, None)
