"""Audits of means that are no probabilities: ratios, deviances, exposure."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_poisson_deviance

import recalibrate as rc
from recalibrate.auditing.measure.limits import judge_sums
from recalibrate.auditing.measure.noise import find_kurtosis, moderate
from recalibrate.auditing.measure.segments import read_segments
from recalibrate.auditing.measure.sweep import (
    Nesting,
    find_nesting,
    noise_score,
    noise_spread,
    overlaps,
    sum_groups,
    take_sample,
)
from recalibrate.data.labels import read_labels
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
    noise += ["slope_low", "slope_high"]
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


def unequal_noise(seed, rows=2_000):
    """Right predictions; normal noise, eight times as large in three small cells."""
    rng = np.random.default_rng([seed, 11])
    X = pd.DataFrame(
        {
            "race": rng.choice(list("abcde"), rows, p=[0.6, 0.25, 0.1, 0.04, 0.01]),
            "age": rng.choice(["young", "middle", "old", "eldest"], rows),
        }
    )
    noisy = (X["race"] + X["age"]).isin(["dyoung", "dold", "emiddle"]).to_numpy()
    f = rng.uniform(10, 100, rows)
    return X, f, f + np.where(noisy, 40.0, 5.0) * rng.normal(size=rows)


@pytest.mark.parametrize("weighted", [False, True])
def test_unequal_noise_of_groups_is_not_kurtosis(weighted):
    X, f, y = unequal_noise(0)
    weight = np.random.default_rng(1).uniform(0.5, 1.5, len(y)) if weighted else None
    labels = read_labels(y, n_rows=len(y), sample_weight=weight)
    segments, *_ = read_segments(
        True, X, n_rows=len(y), weight=labels.weight, depth=2, min_rows=None, bands=4
    )
    sample, scaled = take_sample(labels, None), labels.scale(f)
    sums = sum_groups(segments, sample, scaled, 10)
    nesting = find_nesting(segments, overlaps(segments, sample, scaled))
    kurtosis = dict(zip(segments.names, find_kurtosis(sums, nesting), strict=True))
    assert sums.law.kurtosis > 20.0  # of all rows together
    assert kurtosis["all"] == sums.law.kurtosis
    assert kurtosis["race = b * age = old"] < (4.5 if weighted else 3.5)
    # A group of the other column is a mixture of noises: its tails are heavy.
    assert kurtosis["age = eldest"] > 15.0


@pytest.mark.slow
def test_noisy_cells_leave_the_limits_of_quiet_groups_alone():
    missed, widths = 0, []
    for seed in range(40):
        X, f, y = unequal_noise(seed)
        report = rc.audit(f, X, y, groups=True, depth=2)
        table = report.full_table.set_index("group")
        missed += ((table["low"] > 0) | (table["high"] < 0)).any()
        for race in "abc":
            for age in ("young", "middle", "old", "eldest"):
                own = table.loc[f"race = {race} * age = {age}"]
                oracle = 2.0 * report.critical * 5.0 / np.sqrt(own["rows"])
                widths.append((own["high"] - own["low"]) / oracle)
    assert missed <= 5  # 5 % of 40, and two standard errors
    assert np.mean(widths) < 1.15  # 1.9 with the kurtosis of all rows together


def test_a_quiet_cell_of_a_noisy_group_follows_its_other_group():
    # All rows, a noisy and an ordinary group, and the cell that is in both.
    own, count = np.array([1.0, 13.0, 0.8, 0.4]), np.array([2000.0, 80.0, 500.0, 20.0])
    none = np.arange(0)
    nesting = Nesting(
        [np.array([1]), np.array([2]), np.array([3])], [none, none, none, np.array([1, 2])]
    )
    light, _ = moderate(own, nesting, np.full(4, 3.0), count)
    assert 0.3 < light[3] < 1.0
    heavy, _ = moderate(own, nesting, np.full(4, 50.0), count)
    assert heavy[3] > 6.0  # tails may not have shown in 20 rows


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_little_noise_is_no_more_surprising_than_tails_that_have_not_shown(share):
    """Against residuals that are all but 0, except in a share of rows."""
    rng = np.random.default_rng(2)
    kurtosis = 1.0 / share
    for rows in (10, 40):
        relative = (rng.random((20_000, rows)) < share).mean(axis=1) / share
        score = noise_score(relative, np.full(20_000, rows), np.full(20_000, kurtosis))
        # 0.00135 of normal scores, and three standard errors of the share of draws.
        assert np.mean(score < -3.0) <= 0.00135 + 3.0 * np.sqrt(0.00135 / 20_000)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_limits_of_skewed_sums_by_how_much_the_variance_is_their_own(share):
    """Means of 200 exponential residuals, whose variance is known, their own, or half of each."""
    rng = np.random.default_rng(4)
    draws, n, cut = 20_000, 200, 2.3263
    values = rng.exponential(size=(draws, n)).astype(np.float32) - 1.0
    total = values.sum(axis=1).astype(float)
    own = n * values.var(axis=1, ddof=1).astype(float)
    moderated = share * own + (1.0 - share) * n
    g, count = np.full(draws, 2.0 / np.sqrt(n)), np.full(draws, float(n))
    _, low, high = judge_sums(
        total, np.zeros(draws), moderated, np.full(draws, share), g, count, cut
    )
    missed = np.array([np.mean(low > 0.0), np.mean(high < 0.0)])
    heavy = int(share > 1 / 3)
    assert 0.007 < missed[heavy] < 0.015  # 1 % each; 2 % at a share of 1 if not turned
    assert missed[1 - heavy] < 0.01
