"""A line folded into the steps of a model gives the scores on the line."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.bases.problem import Reading, read_features, read_problem
from recalibrate.bases.protocol import as_base
from recalibrate.core.rounds import Rounds
from recalibrate.data.columns import Columns
from recalibrate.fitting.default.line import LINE_CLASS, Line


def _problem(link):
    rng = np.random.default_rng(0)
    n = 3000
    X = pd.DataFrame({"g": rng.choice(list("abc"), n), "x": rng.normal(size=n)})
    base = rng.uniform(0.05, 0.95, n)
    y = (rng.random(n) < np.clip(base + 0.1 * (X["g"] == "a") - 0.05 * (X["x"] > 0), 0, 1)) * 1.0
    return read_problem(as_base(base), X, y, Reading(link=link)), X, base, y


@pytest.mark.parametrize("link", ["identity", "logit"])
@pytest.mark.parametrize(
    "H",
    [rc.Trees(depth=2), rc.Groups("g", "x > 0"), rc.Linear()],
    ids=["Trees", "Groups", "Linear"],
)
@pytest.mark.parametrize("levels", [1, 5])
def test_every_score_lands_on_the_line(link, H, levels):
    problem, X, base, y = _problem(link)
    model = rc.fit(
        base,
        X,
        y,
        H=H,
        link=link,
        loop=rc.Loop(levels=levels, step=0.5, max_rounds=3),
        validation=False,
    )
    line = Line(LINE_CLASS.bind(Columns.of(problem.table)), problem)
    old = model.rounds
    encoders = (line.learner.encoder, *old.encoders)
    steps = tuple(replace(step, encoder=step.encoder + 1) for step in old.steps)
    log = Rounds(link, None, encoders, steps)
    names = tuple(dict.fromkeys(name for encoder in encoders for name in encoder.names))
    table = read_features(model.schema, names, X, problem.base)
    blocks = [encoder.encode(table) for encoder in encoders]
    before = log.apply(blocks, problem.base)
    once = line.reweighted(log, 0.1, 0.8, 0.8)
    after = once.apply(blocks, problem.base)
    assert _on_the_line(after, 0.1 + 0.8 * before)
    twice = line.reweighted(once, -0.2, 1.1, 1.1)
    assert len(twice.steps) == len(once.steps) == len(log.steps) + 1
    expected = -0.2 + 1.1 * (0.1 + 0.8 * before)
    assert _on_the_line(twice.apply(blocks, problem.base), expected)


def _on_the_line(scores, expected):
    """The line's column is quantised to 2**-15 of its range, so a rare row changes its level."""
    return np.mean(np.abs(scores - expected) > 1e-3) < 0.002


def test_the_line_and_the_rest_may_have_weights_of_their_own():
    problem, X, base, y = _problem("logit")
    line = Line(LINE_CLASS.bind(Columns.of(problem.table)), problem)
    model = rc.fit(base, X, y, H=rc.Trees(), loop=rc.Loop(levels=1, max_rounds=3), validation=False)
    encoders = (line.learner.encoder, *model.rounds.encoders)
    steps = tuple(replace(step, encoder=1) for step in model.rounds.steps)
    log = Rounds("logit", None, encoders, steps)
    names = tuple(dict.fromkeys(name for encoder in encoders for name in encoder.names))
    table = read_features(model.schema, names, X, problem.base)
    blocks = [encoder.encode(table) for encoder in encoders]
    added = log.apply(blocks, problem.base) - problem.base
    after = line.reweighted(log, 0.1, 0.9, 0.7).apply(blocks, problem.base)
    assert _on_the_line(after, 0.1 + 0.9 * problem.base + 0.7 * added)


def test_rounded_steps_cannot_be_scaled():
    _, X, base, y = _problem("identity")
    model = rc.fit(base, X, y, H=rc.Groups("g"), alpha=0.02)
    with pytest.raises(ValueError, match="unrounded"):
        model.rounds.steps[0].along(0.5)
