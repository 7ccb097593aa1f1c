"""benchmarks/few_rows.py draws few calibration rows, and compares simple calibrators on them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit as sigmoid
from scripts import load

pytest.importorskip("lightgbm")


@pytest.mark.slow
def test_few_rows_of_a_simulated_case(capsys):
    few_rows = load("few_rows")
    command = ["--rows", "3000", "--sizes", "100,900", "--draws", "1", "--threads", "1"]
    found = few_rows.main(command)
    assert list(found) == [100]  # 1,000 calibration rows leave none to test 900 on
    methods = found[100]
    assert set(methods) == {"base", "Platt/line", "isotonic", "beta", "lgbmcv", "recalibrate"}
    assert methods["base"][0] == methods["base"][2] == 0.0
    # Isotonic regression of 100 rows is sure of what it cannot know.
    assert methods["isotonic"][0] > methods["recalibrate"][0]
    assert "100 rows: 2 pairs, 1 draws each" in capsys.readouterr().out


def test_drawn_rows_are_calibration_rows_and_none_is_tested_on():
    few_rows, cases = load("few_rows"), load("quality_cases")
    case = cases.simulate_case(3000)
    numbers = np.arange(len(case.y[0])) / 1e4
    case = replace(case, bases={"lr": (numbers, np.full(len(case.y[1]), 9.0))})
    one, two = few_rows.draw(case, 100, 0), few_rows.draw(case, 100, 1)
    cal, test = one.bases["lr"]
    assert len(cal) == 100
    assert not set(cal) & set(test)
    assert {*cal, *test} == set(numbers)
    assert set(cal) != set(two.bases["lr"][0])


def beta_case(log_odds):
    """Scores p and labels drawn from a function of them."""
    few_rows, cases = load("few_rows"), load("quality_cases")
    rng = np.random.default_rng(0)
    p = rng.uniform(0.02, 0.98, 20_000)
    y = (rng.random(20_000) < sigmoid(log_odds(p))) * 1.0
    case = replace(cases.simulate_case(300), y=(y, y), bases={"lr": (p, p)})
    return p, few_rows.fit_beta(case, "lr")


def test_beta_calibration_finds_its_own_curve():
    def curve(p):
        return 0.3 + 0.5 * np.log(p) - 1.5 * np.log1p(-p)

    p, after = beta_case(curve)
    # Three numbers from 20,000 labels: about .005 each, in probabilities.
    assert np.abs(after - sigmoid(curve(p))).max() < 0.03


@pytest.mark.parametrize("b", [-0.5, 0.0])
def test_beta_calibration_never_falls(b):
    p, after = beta_case(lambda p: b * np.log(p / (1 - p)))
    order = np.argsort(p)
    assert (np.diff(after[order]) >= -1e-12).all()
