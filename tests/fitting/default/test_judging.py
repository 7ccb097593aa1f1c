"""Held-out scores: errors of folds that belong together, shares, weights."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit as sigmoid

from recalibrate.bases.problem import Reading, read_problem
from recalibrate.bases.protocol import as_base
from recalibrate.fitting.default.judging import (
    HeldOutScores,
    best_weights,
    correction_weight,
    error_of_sum,
    held_out_gain,
    weight_spread,
)


def problem_of(f, y):
    return read_problem(as_base(sigmoid(f)), pd.DataFrame({"x": f}), y, Reading())


def simulate(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    f, more = rng.normal(size=n), rng.normal(size=n)
    y = (rng.random(n) < sigmoid(f + 0.5 * more)) * 1.0
    return problem_of(f, y), f, more


def at(scores):
    return HeldOutScores(np.arange(len(scores)), scores)


def test_the_best_share_of_a_correction_that_goes_too_far():
    problem, f, more = simulate()
    share, errors = correction_weight(at(f), at(f + 2 * more), problem)
    # One Newton step from nothing: about a quarter of a correction that is four times too large.
    assert share == pytest.approx(0.25, abs=0.05)
    assert errors > 5


def test_gains_of_nothing_are_nothing():
    problem, f, _ = simulate()
    assert held_out_gain(at(f), at(f), problem) == (0.0, 0.0)
    assert correction_weight(at(f), at(f), problem) == (0.0, 0.0)


def test_folds_of_rows_that_belong_together_have_the_larger_error():
    rng = np.random.default_rng(0)
    folds = np.repeat(np.arange(5), 200)
    alone = rng.normal(size=1000)
    together = alone + rng.normal(size=5)[folds]
    assert error_of_sum(together, folds) > 3 * error_of_sum(together, None)
    # Two standard errors of five folds are as rare as those of many rows.
    far = []
    for seed in range(2000):
        values = np.random.default_rng(seed).normal(size=5)[folds]
        far.append(abs(values.sum()) > 2 * error_of_sum(values, folds))
    assert np.mean(far) < 0.07


def test_weights_are_those_of_a_regression_where_rows_are_many():
    problem, f, more = simulate(20_000)
    a, b, c = best_weights(problem, at(f + more), [f, more], 1.0)
    error = 1 / np.sqrt(20_000 * 0.2)
    assert (abs(a) < 4 * error, abs(b - 1) < 4 * error, abs(c - 0.5) < 4 * error) == (True,) * 3


def test_weights_stay_near_one_where_rows_are_few():
    problem, f, more = simulate(20)
    _, b, c = best_weights(problem, at(f + more), [f, more], 1.0)
    assert abs(b - 1) < 0.5
    assert abs(c - 1) < 0.5


def test_the_spread_of_weights_does_not_depend_on_their_order():
    weight = np.random.default_rng(0).gamma(1.0, size=1001)
    assert weight_spread(weight) == weight_spread(weight[::-1])
    assert weight_spread(np.full(10, 3.0)) == 3.0
    assert weight_spread(None) == 1.0
