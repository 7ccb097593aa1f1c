"""Held-out scores: errors of folds that belong together, shares, weights."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit as sigmoid

from recalibrate.bases.problem import InputOptions, read_problem
from recalibrate.bases.protocol import as_base
from recalibrate.fitting.default.judging import (
    HeldOutScores,
    best_weights,
    correction_weight,
    effective_rows,
    error_of_sum,
    held_out_gain,
    is_informed,
    is_taken,
    weight_spread,
)


def problem_of(f, y):
    return read_problem(as_base(sigmoid(f)), pd.DataFrame({"x": f}), y, InputOptions())


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


@pytest.mark.filterwarnings("ignore:all 200 labels are 0:UserWarning")
def test_rows_without_a_rare_event_do_not_make_a_gain_certain():
    """No event among 200 rows where four are expected: the sample scatters by nothing."""
    f = np.full(200, np.log(0.02 / 0.98))
    f[0] += 1e-5  # a base that says the same of all rows need not be protected, see below
    problem = problem_of(f, np.zeros(200))
    gain, error = held_out_gain(at(f), at(f - 1.0), problem)
    assert gain > 0
    assert error == pytest.approx(np.sqrt(0.02 * 0.98 / 200), rel=1e-6)
    assert not is_taken(gain, error, evidence=False, least=3.0)
    share, errors = correction_weight(at(f), at(f - 1.0), problem)
    assert share == pytest.approx(1 / 0.98, rel=1e-6)
    assert errors == pytest.approx(np.sqrt(200 * 0.02 / 0.98), rel=1e-6)


@pytest.mark.filterwarnings("ignore:all 200 labels are 0:UserWarning")
def test_a_constant_base_is_not_taken_for_right():
    f = np.full(200, np.log(0.02 / 0.98))
    problem = problem_of(f, np.zeros(200))
    assert not is_informed(problem)
    gain, error = held_out_gain(at(f), at(f - 1.0), problem)
    assert gain > 0
    assert error == pytest.approx(0.0, abs=1e-12)


def test_soft_labels_scatter_as_they_do():
    """Shares are not drawn: their variance is not p (1 - p)."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=500)
    y = np.round(sigmoid(f + 0.1 * rng.normal(size=500)), 3)
    problem = problem_of(f, y)
    gain = problem.family.losses(y, problem.base) - problem.family.losses(y, 1.1 * problem.base)
    _, error = held_out_gain(at(problem.base), at(1.1 * problem.base), problem)
    assert error == pytest.approx(np.std(gain) / np.sqrt(500), rel=1e-6)


def test_effective_rows_are_fewer_where_few_rows_decide():
    rng = np.random.default_rng(0)
    even, rare = np.zeros(5000), np.full(5000, np.log(0.05 / 0.95))
    assert effective_rows(problem_of(even, (rng.random(5000) < 0.5) * 1.0)) == 5000
    # Of residuals of -p and 1 - p the kurtosis is (p^3 + q^3) / (p q), here 18.
    known = effective_rows(problem_of(rare, (rng.random(5000) < 0.05) * 1.0)) / 5000
    assert known == pytest.approx(3 / 18.05, rel=0.15)


def test_one_rule_for_all_stages():
    assert is_taken(0.0, 0.0, evidence=True)  # no fold had anything to say
    assert not is_taken(0.0, 0.0, evidence=False)
    assert not is_taken(-0.000081, 0.000067, evidence=True)
    assert is_taken(0.0025, 0.001, evidence=False)
    assert not is_taken(0.0025, 0.001, evidence=False, least=3.0)
