"""Audits of means that are no probabilities: ratios, deviances, exposure."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_poisson_deviance

import recalibrate as rc
from recalibrate.auditing.measure.law import noise_spread
from recalibrate.auditing.measure.noise import moderate
from recalibrate.auditing.measure.sweep import Nesting
from recalibrate.metrics import decompose


@pytest.fixture(scope="module")
def claims():
    """Claims over an exposure; those of region c are half as many again as predicted."""
    rng = np.random.default_rng(7)
    n = 6_000
    X = pd.DataFrame({"region": rng.choice(list("abc"), n), "age": rng.uniform(18, 80, n)})
    exposure, rate = rng.uniform(0.1, 1.0, n), rng.gamma(4.0, 0.1, n)
    more = 1.0 + 0.5 * (X["region"] == "c").to_numpy()
    return X, rng.poisson(rate * more * exposure), rate, exposure


@pytest.mark.slow
def test_observed_over_expected_has_the_limits_of_the_gap(claims):
    X, y, rate, exposure = claims
    report = rc.audit(rate, X, y, ["region"], exposure=exposure)
    for group, mask in [("all", np.ones(len(y), bool)), ("region = c", X["region"] == "c")]:
        own = next(each.after for each in report.groups if each.name == group)
        assert own.ratio == pytest.approx(y[mask].sum() / (rate * exposure)[mask].sum())
        assert own.ratio_low == pytest.approx(1 + own.low / own.mean_prediction)
        assert own.ratio_high == pytest.approx(1 + own.high / own.mean_prediction)
    assert 1.0 < own.ratio_low < 1.5 < own.ratio_high
    assert "ratio_low" in report.table
    assert "observed / expected" in str(report)


def test_exposure_is_rates_with_weights(claims):
    X, y, rate, exposure = claims
    own = rc.audit(rate, X, y, ["region"], exposure=exposure)
    same = rc.audit(rate, X, y / exposure, ["region"], sample_weight=exposure, loss="poisson")
    # Noise that falls with the exposure is known of rates only, not of weights in general.
    noise = ["low", "high", "ratio_low", "ratio_high", "p", "p_holm", "off", "ecce_sigma"]
    noise += ["ecce_p", "ecce_p_holm", "detectable", "detectable_low", "detectable_high"]
    pd.testing.assert_frame_equal(*(t.full_table.drop(columns=noise) for t in (own, same)))
    assert own.overall.deviance == pytest.approx(
        mean_poisson_deviance(y / exposure, rate, sample_weight=exposure)
    )
    expected = decompose(rate, y / exposure, loss="poisson", sample_weight=exposure)
    squared, poisson = own.overall.decompositions
    assert squared.loss == "squared error"
    assert poisson.miscalibration == pytest.approx(expected.miscalibration)
    assert poisson.uncertainty == pytest.approx(expected.uncertainty)
    whole = rc.audit(rate, X, np.repeat(1, len(y)), exposure=np.full(len(y), 2))
    assert whole.kind == "regression"  # counts of 0 and 1 are no classes
    assert whole.groups[0].mean_outcome == 0.5


@pytest.mark.slow
def test_limits_of_rates_know_that_noise_falls_with_exposure():
    """Against Poisson limits that know the rate: covered, and not much wider."""
    missed, widths = 0, []
    for seed in range(60):
        rng = np.random.default_rng([seed, 3])
        X = pd.DataFrame({"g": rng.choice(list("abcd"), 3000, p=[0.06, 0.14, 0.3, 0.5])})
        exposure = np.exp(rng.uniform(np.log(0.003), 0.0, 3000))
        rate = rng.gamma(4.0, 0.05, 3000)
        report = rc.audit(rate, X, rng.poisson(rate * exposure), ["g"], exposure=exposure)
        table = report.full_table.iloc[1:]
        missed += ((table["low"] > 0) | (table["high"] < 0)).any()
        expected, time = (
            np.array([values[X["g"] == name].sum() for name in "abcd"])
            for values in (rate * exposure, exposure)
        )
        width = 2.0 * report.critical * np.sqrt(expected) / time
        widths.append((table["high"] - table["low"]) / width)
    assert missed <= 7  # 5 % of 60, and two standard errors
    assert np.mean(widths) < 1.25  # 4.4 to 5.4 where rows of all exposures count as equally noisy


@pytest.mark.parametrize("events", [0, 1, 4])
def test_hardly_any_event_says_nothing_about_noise(events):
    """Without limits; those of the predictions' own spread called right predictions wrong."""
    rng = np.random.default_rng(0)
    exposure, rate = rng.uniform(0.1, 1.0, 200), rng.gamma(4.0, 0.005, 200)
    y = (np.arange(200) < events).astype(int)
    report = rc.audit(rate, None, y, exposure=exposure)
    assert np.isnan([report.groups[0].after.low, report.groups[0].after.p_holm]).all()
    assert not report.groups[0].after.off


def test_every_view_shows_deviance_and_its_parts(claims):
    X, y, rate, exposure = claims
    flat = np.full(len(y), (y.sum() / exposure.sum()))
    report = rc.audit(rate, X, y, ["region"], exposure=exposure, baseline=flat)
    assert "change_deviance_se" in report.full_table
    for text in (report.to_markdown(), report.to_html()):
        assert "Poisson deviance after" in text
        assert "miscalibration" in text
        assert "Score decomposition" in text
    found = json.loads(report.to_json())
    assert found["overall"]["after"]["decompositions"][1]["loss"] == "Poisson deviance"
    assert found["groups"][0]["after"]["ratio"] == pytest.approx(report.groups[0].after.ratio)
    slices = rc.audit(rate, X, y, ["region"], exposure=exposure, by=np.arange(len(y)) % 2).slices
    assert slices.reports[0].overall.deviance > 0


def test_labels_that_may_be_negative_have_no_ratio():
    rng = np.random.default_rng(0)
    f = rng.normal(size=500)
    report = rc.audit(f, None, f + rng.normal(size=500))
    assert np.isnan(report.groups[0].after.ratio)
    assert "ratio" not in report.table
    assert [each.loss for each in report.overall.decompositions] == ["squared error"]


@pytest.mark.slow
def test_a_log_loss_and_a_brier_score_are_taken_apart():
    rng = np.random.default_rng(1)
    f = rng.uniform(0.1, 0.9, 800)
    report = rc.audit(f, None, rng.random(800) < f)
    brier, entropy = report.overall.decompositions
    assert brier.score == pytest.approx(report.overall.mse)
    assert entropy.score == pytest.approx(report.overall.log_loss)
    assert np.isnan(report.overall.deviance)


def test_what_does_not_go_together_is_refused(claims):
    X, y, rate, exposure = claims
    with pytest.raises(ValueError, match=r"exposure must be above zero.*row 1 "):
        rc.audit(rate, X, y, exposure=np.where(np.arange(len(y)) == 1, 0.0, exposure))
    with pytest.raises(ValueError, match="predictions above 0"):
        rc.audit(rate - 1.0, X, y, exposure=exposure)
    shares = np.full((6, 3), 1 / 3)
    with pytest.raises(ValueError, match="these labels are classes"):
        rc.audit(shares, None, list("abcabc"), loss="poisson")


def test_noise_of_small_groups_follows_the_groups_around_them():
    # All rows, two values of a column of which one has 8 times the noise, and a part of that one
    # in which no large outcome has shown yet.
    own, count = np.array([1.0, 8.0, 0.1, 0.2]), np.array([2000.0, 200.0, 1800.0, 20.0])
    none = np.arange(0)
    nesting = Nesting([np.array([1, 2]), np.array([3])], [none, none, none, np.array([1])])
    relative, share = moderate(own, nesting, np.full(4, 90.0), count)
    assert relative[1] > 7.0
    assert relative[3] > 6.0
    assert share[3] < 0.05
    alike, _ = moderate(np.array([1.0, 1.4, 0.9, 0.2]), nesting, np.full(4, 90.0), count)
    assert 0.9 < alike[3] < 1.2


def test_groups_of_the_same_noise_do_not_differ():
    rng = np.random.default_rng(3)
    count = np.full(10, 200.0)
    draws = [rng.chisquare(200, 10) / 200 for _ in range(200)]
    spreads = [noise_spread(draw, count, 2000.0, 3.0) for draw in draws]
    assert np.mean(np.array(spreads) > 0.1) < 0.01  # sampling alone is sqrt(2 / 200) = .1
    unequal = np.repeat([0.1, 1.9], 5)
    assert noise_spread(unequal, count, 2000.0, 3.0) == pytest.approx(0.81 / 0.9, rel=0.05)
