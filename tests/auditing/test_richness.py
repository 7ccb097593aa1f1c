"""The weak-learning check: what is left on the level sets, held out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from recalibrate import Engine, Estimator, Groups, Linear, Trees, fit
from recalibrate.auditing.richness import richness
from recalibrate.data.labels import read_labels
from recalibrate.data.table import read_table
from recalibrate.simulate import census


def check(scores, X, y, sample_weight=None, **options):
    labels = read_labels(y, n_rows=len(scores), sample_weight=sample_weight)
    return richness(np.asarray(scores, float), read_table(X), labels, **options)


def exclusive_or(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n_rows, 2)), columns=["a", "b"])
    y = rng.random(n_rows) < np.where(X["a"] == X["b"], 0.5, 0.3)
    return X, y


@pytest.mark.slow
def test_a_class_that_is_too_weak_is_told_from_one_that_is_not():
    X, y = exclusive_or(6000)
    found = check(np.full(6000, 0.4), X, y, H=Linear(), richer=Trees(depth=2))
    assert not found.H.beats
    assert found.richer.beats
    # The best function gains the variance of the truth, .1 squared.
    assert found.richer.gain == pytest.approx(0.01, abs=3 * found.richer.gain_se)
    assert "too weak" in found.verdict


@pytest.mark.slow
def test_right_predictions_are_rarely_beaten():
    """At a rate of 2.5 % more than 8 of 150 have a chance of 1.4 %."""
    beaten = 0
    for seed in range(150):
        rng = np.random.default_rng([9, seed])
        X = pd.DataFrame(rng.normal(size=(2000, 3)), columns=list("abc"))
        p = 1 / (1 + np.exp(-X["a"].to_numpy()))
        found = check(p, X, rng.random(2000) < p, seed=seed)
        beaten += "rich enough" not in found.verdict
    assert beaten <= 8


@pytest.mark.slow
def test_a_default_fit_leaves_nothing_to_trees_of_depth_2():
    cal, test = census(6000, seed=1, gap=0.1), census(6000, seed=2, gap=0.1)
    assert check(test.scores, test.X, test.y).H.beats
    model = fit(cal.scores, cal.X, cal.y, engine=Engine(threads=1))
    after = model.predict(test.X, base=test.scores)
    assert not check(after, test.X, test.y).H.beats


def test_constants_gain_where_scores_are_plainly_miscalibrated():
    data = census(4000, seed=3)
    found = check(np.clip(data.probability + 0.1, 0, 1), data.X, data.y)
    # The estimate's own standard errors.
    assert found.constant_gain == pytest.approx(0.01, abs=3 * found.constant_gain_se)
    assert found.H.beats, "constants belong to every class"
    assert found.H.gain == pytest.approx(found.constant_gain, abs=3 * found.H.gain_se)
    assert "not calibrated on their own level sets" in found.verdict


def test_a_small_group_is_found_on_all_level_sets_together():
    """7 % of the rows off by .06: too few on each of ten level sets, enough on all of them."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"g": rng.random(20_000) < 0.07, "noise": rng.random(20_000)})
    p = rng.uniform(0.2, 0.8, 20_000)
    y = rng.random(20_000) < np.where(X["g"], p + 0.06, p)
    found = check(p, X, y)
    assert found.H.beats
    assert "rich enough" not in found.verdict


def test_the_witness_is_what_the_covariance_is_made_of():
    X, y = exclusive_or(3000)
    weight = np.where(np.arange(3000) < 2500, 2.0, 0.0)
    found = check(np.full(3000, 0.4), X, y, sample_weight=weight)
    witness = found.H.witness
    assert np.isnan(witness[2500:]).all()
    product = witness[:2500] * (y[:2500] - 0.4)
    assert product.mean() == pytest.approx(found.H.covariance)
    assert found.H.beats is bool(found.H.covariance > 3 * found.H.covariance_se)
    # The sign says where labels are above the predictions.
    assert witness[:2500][(X["a"] == X["b"])[:2500]].mean() > 0


def test_groups_of_the_audit_that_are_off_are_in_the_verdict():
    data = census(3000, seed=5)
    found = check(data.probability, data.X, data.y)
    assert not found.H.beats
    said = found.beside(["SEX = 1", "b", "c", "d"]).verdict
    assert "off by more than noise (SEX = 1, b, c and 1 more)" in said
    assert found.beside([]) is found


def test_levels_add_up_to_the_whole():
    X, y = exclusive_or(6000)
    scores = np.clip(0.4 + np.random.default_rng(1).normal(0, 0.05, 6000), 0, 1)
    found = check(scores, X, y, levels=4)
    for each in found.classes:
        assert sum(level.rows for level in each.levels) == 6000
        # approx's own 1e-6: the same sums in another order, here and below.
        assert sum(level.share * level.gain for level in each.levels) == pytest.approx(each.gain)
        assert each.levels[0].low is None
        assert each.levels[-1].high is None
        assert [a.high for a in each.levels[:-1]] == [b.low for b in each.levels[1:]]
    assert len(found.table) == 8
    assert "gains" in str(found)


def test_regression_gains_are_in_squared_units():
    X, y = exclusive_or(4000)
    money = 100.0 * y + 1000.0
    plain = check(np.full(4000, 0.4), X, y, H=Trees(depth=2))
    scaled = check(np.full(4000, 1040.0), X, money, H=Trees(depth=2))
    assert scaled.H.gain == pytest.approx(1e4 * plain.H.gain)
    assert scaled.mse == pytest.approx(1e4 * plain.mse)


def test_weights_count_rows_and_zero_weights_do_not():
    X, y = exclusive_or(4000)
    weight = np.where(np.arange(4000) < 3000, 1.0, 0.0)
    weighted = check(np.full(4000, 0.4), X, y, sample_weight=weight)
    fewer = check(np.full(3000, 0.4), X[:3000], y[:3000])
    assert weighted.H.gain == pytest.approx(fewer.H.gain)


def test_clusters_widen_the_standard_errors():
    X, y = exclusive_or(1000)
    X, y = pd.concat([X] * 5, ignore_index=True), np.tile(y, 5)
    cluster = np.tile(np.arange(1000), 5)
    naive = check(np.full(5000, 0.4), X, y, H=Trees(depth=2))
    honest = check(np.full(5000, 0.4), X, y, H=Trees(depth=2), cluster=cluster)
    assert honest.H.gain_se > 1.8 * naive.H.gain_se


@pytest.mark.parametrize("H", [Groups("a * b"), "linear", "trees"])
def test_every_class_can_be_checked(H):
    X, y = exclusive_or(2000)
    found = check(np.full(2000, 0.4), X, y, H=H)
    assert np.isfinite(found.H.gain_se)


def test_any_regressor_can_be_the_richer_class():
    from sklearn.tree import DecisionTreeRegressor

    X, y = exclusive_or(2000)
    richer = Estimator(DecisionTreeRegressor(max_depth=2))
    found = check(np.full(2000, 0.4), X, y, H=Linear(), richer=richer)
    assert found.richer.beats


def test_too_few_rows_and_bad_levels_are_refused():
    with pytest.raises(ValueError, match="4 rows are too few for 5 folds"):
        check(np.full(4, 0.4), np.zeros((4, 1)), [0, 1, 0, 1])
    X, y = exclusive_or(100)
    with pytest.raises(ValueError, match="levels must be a whole number of at least 1"):
        check(np.full(100, 0.4), X, y, levels=0)
