"""A function of the score alone: what is believed of it, and the step that it becomes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit as sigmoid
from settings import fit_with

import recalibrate as rc
from recalibrate.bases.problem import InputOptions, read_features, read_problem
from recalibrate.bases.protocol import as_base
from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.rounds import Rounds
from recalibrate.data.columns import Columns
from recalibrate.fitting.default.score import LINE_CLASS, ScoreStage, _around_line
from recalibrate.rows.memory import MemoryStore


def fit_score(base, y, link=None):
    """The stage on an array of scores: problem, source's rows, what was found."""
    X = pd.DataFrame({"x": np.zeros(len(y))})
    problem = read_problem(as_base(base), X, y, InputOptions(link=link))
    stage = ScoreStage(LINE_CLASS.bind(Columns.of(problem.table)), problem)
    start = Rounds(problem.link, None, (stage.learner.encoder,))
    scale = make_scale(len(y), None, newton=problem.link == "logit")
    encoded = MemoryStore(problem).encode(start.encoders, scale.quantise_weight)
    with encoded.open(scale) as source:
        log, found = stage.fit(source, start)
    return log.apply(encoded.rows.blocks, problem.base), problem.base, found


def labels(f, seed=0):
    return (np.random.default_rng(seed).random(len(f)) < sigmoid(f)) * 1.0


def test_an_over_confident_score_is_turned_from_a_few_hundred_rows_on():
    f = np.random.default_rng(1).normal(size=400)
    after, before, found = fit_score(sigmoid(3 * f), labels(f))
    assert found.chance > 0.99
    slope, shift = np.polyfit(before, after, 1)
    error = 1 / np.sqrt(400 * 0.2) / 3
    assert abs(slope - 1 / 3) < 4 * error
    assert abs(shift) < 4 * 3 * error


def test_a_score_that_is_right_stays():
    changed = 0
    for seed in range(20):
        f = np.random.default_rng(seed).normal(size=300)
        after, before, found = fit_score(sigmoid(f), labels(f, seed))
        assert (found.chance < 0.25) == np.array_equal(after, before)
        changed += found.chance >= 0.25
    assert changed <= 2


@pytest.mark.slow
def test_a_hundred_rows_tell_over_confidence_more_often_than_shyness():
    """Over-fitting makes scores too steep: the prior expects that, and asks the other for more."""
    changed = {1.8: 0, 1 / 1.8: 0}
    for seed in range(30):
        f = 1.3 * np.random.default_rng(seed).normal(size=100)
        for steep in changed:
            # Information about the slope is that of the scores the base gives, made the same.
            _, _, found = fit_score(sigmoid(f), labels(f / steep, seed))
            changed[steep] += found.chance >= 0.25
    assert changed[1.8] > changed[1 / 1.8] + 5


def test_a_part_of_a_change_is_taken_where_rows_are_few():
    """Between nothing and all of it; of thousands of rows all."""
    shares = {40: [], 4000: []}
    for n, own in shares.items():
        for seed in range(10):
            f = np.random.default_rng(seed).normal(size=n)
            after, before, _ = fit_score(sigmoid(f), labels(f + 0.8, seed))
            own.append(np.mean(after - before) / 0.8)
    assert 0.1 < np.mean(shares[40]) < 0.9
    assert np.mean(shares[4000]) == pytest.approx(1.0, abs=0.05)


def test_a_score_that_bends_is_bent_and_never_folded():
    f = np.random.default_rng(4).normal(size=20_000)
    truth = np.where(f > 0, 2.0 * f, 0.4 * f)
    after, before, found = fit_score(sigmoid(f), labels(truth, 4))
    assert found.bend > 0.3
    line = np.polyval(np.polyfit(before, truth, 1), before)
    assert np.mean((after - truth) ** 2) < 0.5 * np.mean((line - truth) ** 2)
    # Up to the 2**-15 of its range that the score's column is quantised to.
    assert np.diff(after[np.argsort(before)]).min() > -1e-3


def test_a_regression_is_a_line_shrunken_to_the_score():
    rng = np.random.default_rng(5)
    base = rng.uniform(0.2, 0.8, 2000)
    y = np.clip(0.1 + 0.8 * base + 0.1 * rng.normal(size=2000), 0, 1)
    after, _, _ = fit_score(base, y, "identity")
    expected = np.polyval(np.polyfit(base, y, 1), base)
    # Priors of .5 hold back next to nothing of what 2,000 rows say.
    assert np.max(np.abs(after - expected)) < 0.01


def test_uneven_noise_is_no_reason_to_turn_a_regression():
    """Rows of large scores have most of the noise, as of incomes: their slope says little."""
    turned = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        score = rng.gamma(2.0, 1.0, 100)
        y = score + rng.normal(size=100) * 0.3 * score**2
        _, _, found = fit_score(score, y, "identity")
        turned.append(found.chance > 0.5)
    # With one noise for all rows more than a third of these bases, which are right, are turned.
    assert np.mean(turned) <= 0.1


def test_the_noise_of_a_slope_is_that_of_white():
    rng = np.random.default_rng(0)
    score = np.sort(rng.gamma(2.0, 1.0, 500))
    y = score + rng.normal(size=500) * score
    design = np.column_stack([np.ones(500), score])
    inverse = np.linalg.inv(design.T @ design)
    left = y - score - design @ (inverse @ design.T @ (y - score))
    white = inverse @ (design.T * left**2) @ design @ inverse
    around, slanted = _around_line(np.ones(500), y, score, float(np.sum((y - score) ** 2)))
    assert around == pytest.approx(np.mean(left**2))
    assert slanted * inverse[1, 1] == pytest.approx(white[1, 1])
    # Cells of several rows have the same variance of their sums.
    cells = 2 * np.floor(score / 2 * 20) / 20
    places, at = np.unique(cells, return_inverse=True)
    weight, label = np.bincount(at), np.bincount(at, y - score + cells)
    _, pooled = _around_line(weight, label, places, float(np.sum((y - score) ** 2)))
    assert pooled == pytest.approx(slanted, rel=0.5)  # of tens of cells instead of 500 rows


def test_a_constant_score_is_shifted():
    y = (np.arange(1000) < 300) * 1.0
    after, _, _ = fit_score(np.full(1000, 0.5), y)
    assert sigmoid(after[0]) == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("levels", [1, 5])
def test_weights_fold_into_the_steps(levels):
    """Scores a + b * l + c * (f - l), l the score after the stage; one weight with level sets."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.choice(list("abc"), 3000)})
    f = rng.normal(size=3000)
    y = labels(0.5 * f + 0.5 * (X["g"] == "a").to_numpy())
    problem = read_problem(as_base(sigmoid(f)), X, y, InputOptions())
    stage = ScoreStage(LINE_CLASS.bind(Columns.of(problem.table)), problem)
    loop = {"levels": levels, "max_rounds": 3, "validation": False}
    model = fit_with(sigmoid(f), X, y, rc.Groups("g"), **loop)
    encoders = (stage.learner.encoder, *model.rounds.encoders)
    steps = tuple(replace(step, encoder=1) for step in model.rounds.steps)
    log = Rounds("logit", None, encoders, steps)
    names = tuple(dict.fromkeys(name for encoder in encoders for name in encoder.names))
    table = read_features(model.schema, names, X, problem.base, problem.labels)
    blocks = [encoder.encode(table) for encoder in encoders]
    added = log.apply(blocks, problem.base) - problem.base
    rest = 0.7 if levels == 1 else 0.9
    after = stage.reweighted(log, 0.1, 0.9, rest).apply(blocks, problem.base)
    expected = 0.1 + 0.9 * problem.base + rest * added
    # The score's column is quantised to 2**-15 of its range, so a rare row changes its level.
    assert np.mean(np.abs(after - expected) > 1e-3) < 0.002
