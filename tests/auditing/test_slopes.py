"""Calibration slopes: against other implementations, and their limits against known truth."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.linear_model import LinearRegression, LogisticRegression

from recalibrate.auditing import audit

SETS = 60


def sigmoid(margin):
    return 1.0 / (1.0 + np.exp(-margin))


def draw(rng, n, slope, kind):
    """Rows in three groups, whose slope is 1 in the first and ``slope`` in the others."""
    X = pd.DataFrame({"g": rng.choice(list("abc"), n, p=[0.5, 0.4, 0.1])})
    own = np.where(X["g"] == "a", 1.0, slope)
    if kind == "binary":
        margin = rng.normal(-0.5, 1.0, n)
        return X, sigmoid(margin), (rng.random(n) < sigmoid(own * margin)).astype(float)
    f = rng.uniform(10, 100, n)
    return X, f, 20 + own * f + f * (rng.gamma(2, 0.5, n) - 1)


@pytest.mark.parametrize("weighted", [False, True])
def test_slopes_are_those_of_a_regression(weighted):
    rng = np.random.default_rng(0)
    X, f, y = draw(rng, 3000, 0.6, "binary")
    w = rng.uniform(0.5, 2.0, len(y)) if weighted else None
    report = audit(f, X, y, ["g"], sample_weight=w).full_table.set_index("group")
    mask = (X["g"] == "b").to_numpy()
    logit = np.log(f / (1 - f))[:, None]
    own = None if w is None else w[mask]
    model = LogisticRegression(C=1e10, tol=1e-10).fit(logit[mask], y[mask], sample_weight=own)
    # Rows of a cell count with their mean prediction.
    assert report.loc["g = b", "slope"] == pytest.approx(model.coef_[0, 0], rel=0.02)


def test_slopes_of_numbers_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    X, f, y = draw(rng, 3000, 0.6, "numbers")
    report = audit(f, X, y, ["g"]).full_table.set_index("group")
    mask = (X["g"] == "b").to_numpy()
    model = LinearRegression().fit(f[mask, None], y[mask])
    # Rows of a bin count with their mean prediction.
    assert report.loc["g = b", "slope"] == pytest.approx(model.coef_[0], abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "numbers"])
@pytest.mark.parametrize("slope", [0.5, 1.0, 1.5])
def test_limits_of_slopes_hold_for_all_groups_at_once(kind, slope):
    count = 0
    for seed in range(SETS):
        X, f, y = draw(np.random.default_rng([seed, 11]), 2000, slope, kind)
        table = audit(f, X, y, ["g"]).full_table.set_index("group").drop("all")
        truth = np.where(table.index == "g = a", 1.0, slope)
        assert table["slope"].notna().all()
        count += ((table["slope_low"] <= truth) & (truth <= table["slope_high"])).all()
    # A bound that one in a thousand would break by chance if misses have 5 %.
    assert SETS - count <= binom.isf(0.001, SETS, 0.05)


def test_groups_without_enough_of_either_label_or_equal_predictions_have_no_slope():
    rng = np.random.default_rng(0)
    n = 600
    X = pd.DataFrame({"g": np.repeat(["few", "equal", "many"], 200)})
    f = rng.uniform(0.3, 0.7, n)
    f[200:400] = 0.4
    y = (rng.random(n) < f).astype(float)
    y[:200] = np.arange(200) < 19
    table = audit(f, X, y, ["g"]).full_table.set_index("group")["slope"]
    assert np.isnan(table["g = few"])
    assert np.isnan(table["g = equal"])
    assert np.isfinite(table["g = many"])


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["claims", "lognormal"])
def test_right_predictions_of_skewed_outcomes_have_slopes_of_one(noise):
    """Noise that is skewed and grows with the prediction, in 24 groups of 50 rows and more."""
    alarms = 0
    for seed in range(SETS // 2):
        rng = np.random.default_rng([seed, 12])
        n = 2000
        X = pd.DataFrame({"g": rng.choice(list("abcdef"), n), "h": rng.choice(list("xyz"), n)})
        f = rng.uniform(10, 100, n)
        times = rng.lognormal(-0.5, 1.0, n)
        if noise == "claims":
            times = (rng.random(n) < 0.05) * rng.gamma(1.5, 20 / 1.5, n)
        table = audit(f, X, f * times, ["g", "h", "g*h"]).full_table
        assert table["slope"].notna().sum() >= 24
        alarms += bool(((table["slope_low"] > 1) | (table["slope_high"] < 1)).any())
    assert alarms <= binom.isf(0.001, SETS // 2, 0.05)
