from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss

import recalibrate as rc
from recalibrate import metrics
from recalibrate.auditing import AuditReport, audit
from recalibrate.simulate import base_scores, census

# approx's own 1e-6 and rtol=1e-9 are for sums of float64 in another order.

SIZES = ["group", "rows", "effective_rows", "clusters", "share"]
NUMBERS = [
    "mean_prediction", "gap", "gap_se", "low", "high", "p", "p_holm", "detectable",
    "detectable_low", "detectable_high", "slope", "slope_low", "slope_high",
    "ratio", "ratio_low", "ratio_high", "mse",
    "log_loss", "ece", "ece_debiased", "k1", "k2", "kinf", "k2_unbiased", "k1_mass", "k2_mass",
    "kinf_mass", "ecce", "ecce_sigma", "ecce_p", "ecce_p_holm", "off",
]  # fmt: skip
COLUMNS = [*SIZES, "mean_prediction", "mean_outcome", *NUMBERS[1:]]
CHANGES = ["gap", "mse", "log_loss"]


@pytest.fixture(scope="module")
def data():
    return census(6_000, seed=11, gap=0.1, categorical=True)


def row(report, name):
    return report.full_table.set_index("group").loc[name]


# --- numbers ------------------------------------------------------------------------------------


def test_first_row_is_all_and_columns_are_fixed(data):
    report = audit(data.scores, data.X, data.y, ["SEX", "AGEP < 25"])
    assert isinstance(report, AuditReport)
    assert report.full_table["group"].tolist() == ["all", "SEX = female", "SEX = male", "AGEP < 25"]
    assert report.full_table.columns.tolist() == COLUMNS
    assert (report.n_rows, report.kind) == (6_000, "binary")


def test_numbers_of_a_group_agree_with_a_direct_computation(data):
    group = row(audit(data.scores, data.X, data.y, ["SEX == 'female'"]), "SEX == 'female'")
    mask = (data.X["SEX"] == "female").to_numpy()
    f, y = data.scores[mask], data.y[mask]
    se = (y - f).std(ddof=1) / np.sqrt(mask.sum())
    expected = {
        "rows": mask.sum(),
        "clusters": mask.sum(),
        "share": mask.mean(),
        "mean_prediction": f.mean(),
        "mean_outcome": y.mean(),
        "gap": (y - f).mean(),
        "gap_se": se,
        "mse": ((y - f) ** 2).mean(),
        "ece": metrics.ece(f, y),
        "ece_debiased": metrics.ece_debiased(f, y),
        "ecce": metrics.ecce(f, y),
        "ecce_sigma": metrics.ecce_sigma(f, y),
        "ecce_p": metrics.ecce_p(f, y),
    }
    for name, value in expected.items():
        # Sums in another order may differ in the last bits.
        assert group[name] == pytest.approx(value, rel=1e-9), name
    assert group["log_loss"] == pytest.approx(log_loss(y, f), rel=1e-6)
    # Two groups that overlap little: between the limits for one and for two independent groups,
    # up to what 2,000 drawn data sets tell of the critical value.
    assert group["gap"] - 2.3 * se < group["low"] < group["gap"] - 1.96 * se
    assert group["gap"] + 1.9 * se < group["high"] < group["gap"] + 2.4 * se


def test_level_set_errors_are_those_of_the_metrics(data):
    report = audit(data.scores, data.X, data.y, ["SEX"], bins=7, sample_weight=data.X["AGEP"])
    f, y, w = data.scores, data.y, data.X["AGEP"].to_numpy(float)
    edges = report.bin_edges
    assert len(edges) == 6
    for name, label in (("all", None), ("SEX = female", "female"), ("SEX = male", "male")):
        found = row(report, name)
        mask = np.ones(len(y), bool) if label is None else (data.X["SEX"] == label).to_numpy()
        inside = {"sample_weight": w[mask], "bins": edges}
        everywhere = {"sample_weight": w, "bins": edges}
        h = mask.astype(float)
        expected = {
            "k1": metrics.k1(f[mask], y[mask], **inside),
            "k2": metrics.group_k2(f, y, mask, **everywhere),
            "kinf": metrics.kinf(f[mask], y[mask], **inside),
            "k2_unbiased": metrics.k2_unbiased(f[mask], y[mask], **inside),
            "k1_mass": metrics.k1(f, y, h, **everywhere),
            "k2_mass": metrics.k2(f, y, h, **everywhere),
            "kinf_mass": metrics.kinf(f, y, h, **everywhere),
        }
        for measure, value in expected.items():
            assert found[measure] == pytest.approx(value, rel=1e-9), (name, measure)


def test_reliability_curves_have_the_means_of_their_bins(data):
    report = audit(data.scores, data.X, data.y, ["SEX"], bins=5)
    mask = (data.X["SEX"] == "female").to_numpy()
    f, y = data.scores[mask], data.y[mask]
    place = np.searchsorted(report.bin_edges, f, side="right")
    curve = report.groups[1].after.curve
    assert curve.rows == tuple(np.bincount(place))
    np.testing.assert_allclose(curve.prediction, [f[place == b].mean() for b in range(5)])
    np.testing.assert_allclose(curve.outcome, [y[place == b].mean() for b in range(5)])
    np.testing.assert_allclose(curve.share, np.bincount(place) / len(f))
    assert (np.array(curve.low) < curve.outcome).all()
    assert (np.array(curve.high) > curve.outcome).all()


def test_overall_names_the_worst(data):
    report = audit(data.scores, data.X, data.y, ["SEX", "MAR"])
    table, overall = report.full_table, report.overall
    worst = table.loc[table["ecce_sigma"].idxmax()]
    assert overall.worst_group == worst["group"]
    assert overall.mce_sigma == worst["ecce_sigma"]
    assert overall.worst_ecce == worst["ecce"]
    everybody = table.iloc[0]
    scale = everybody["ecce"] / everybody["ecce_sigma"]
    assert overall.multicalibration_error == pytest.approx(worst["ecce_sigma"] * scale)
    assert overall.msce == everybody["k2"] == everybody["k2_mass"]
    assert overall.mse == everybody["mse"]
    off = table[(table["low"] > 0) | (table["high"] < 0)]
    assert overall.n_off == len(off) > 0
    assert overall.largest_gap == off.loc[off["gap"].abs().idxmax(), "gap"]


def test_nothing_is_off_where_predictions_are_right(data):
    report = audit(data.probability, data.X, data.y, ["SEX", "MAR"])
    assert report.overall.n_off == 0
    assert np.isnan(report.overall.largest_gap)
    assert report.overall.largest_gap_group == ""
    assert report.verdict.startswith("None of 8 groups are off by more than noise")


def test_planted_gap_is_found_and_its_sign_means_underprediction(data):
    report = audit(data.scores, data.X, data.y, ["SEX"])
    women, men = row(report, "SEX = female"), row(report, "SEX = male")
    assert women["low"] > 0.05
    assert women["gap"] == pytest.approx(women["mean_outcome"] - women["mean_prediction"])
    assert abs(men["gap"]) < 0.04


@pytest.mark.slow
def test_baseline_adds_columns_with_prefix(data):
    report = audit(data.probability, data.X, data.y, ["SEX"], baseline=data.scores)
    alone = audit(data.scores, data.X, data.y, ["SEX"])
    changes = [f"change_{name}{end}" for name in CHANGES for end in ("", "_se")]
    before = [f"before_{name}" for name in NUMBERS]
    assert report.full_table.columns.tolist() == [*COLUMNS, *before, *changes]
    for name in NUMBERS:
        # Correlations of groups, and so the width of limits, are those of the predictions after.
        close = 0.02 if name in ("low", "high") or name.startswith("detectable") else 0
        np.testing.assert_allclose(
            report.full_table[f"before_{name}"], alone.full_table[name], rtol=close
        )
    for name in CHANGES:
        after, old = report.full_table[name], report.full_table[f"before_{name}"]
        np.testing.assert_allclose(report.full_table[f"change_{name}"], after - old, atol=1e-12)
        assert (report.full_table[f"change_{name}_se"] > 0).all()
    women = row(report, "SEX = female")
    assert abs(women["gap"]) < abs(women["before_gap"])


def test_regression_is_reported_in_units_of_the_label():
    data = census(3_000, seed=2, task="income")
    # Bounds are observed; 0..1 must be seen for the two reports to share the equal-width bins.
    y, f = np.append(data.y, [0.0, 1.0]), np.append(data.scores, [0.5, 0.5])
    mask = {"women": np.append(data.X["SEX"].to_numpy() == 2, [True, False])}
    unit = audit(f, None, y, mask).full_table
    money = audit(5 + 1000 * f, None, 5 + 1000 * y, mask)
    assert money.kind == "regression"
    # Scaling there and back rounds, and a prediction at the edge of a bin could change sides.
    for name in ("gap", "gap_se", "ece", "ece_debiased", "k1", "kinf", "kinf_mass", "ecce"):
        np.testing.assert_allclose(money.full_table[name], 1000 * unit[name], rtol=1e-6)
    for name in ("mse", "k2", "k2_unbiased", "k2_mass"):
        np.testing.assert_allclose(money.full_table[name], 1000**2 * unit[name], rtol=1e-6)
    for name in ("p", "ecce_sigma", "ecce_p"):
        np.testing.assert_allclose(money.full_table[name], unit[name], rtol=1e-6)
    assert "log_loss" not in money.full_table
    curves = [report.groups[1].after.curve for report in (audit(f, None, y, mask), money)]
    np.testing.assert_allclose(curves[1].outcome, 5 + 1000 * np.array(curves[0].outcome))
    for name in ("mean_prediction", "mean_outcome"):
        np.testing.assert_allclose(money.full_table[name], 5 + 1000 * unit[name], rtol=1e-9)


def test_regression_predictions_may_leave_the_range_of_labels():
    report = audit([-5.0, 3.0, 20.0], None, [1.0, 2.0, 3.0])
    assert report.kind == "regression"
    assert report.full_table["gap"][0] == pytest.approx(2 - 6)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_a_row_of_weight_two_is_the_row_twice_except_for_the_standard_error(seed):
    rng = np.random.default_rng(seed)
    f, y = rng.random(30), rng.integers(0, 2, 30).astype(float)
    weight = rng.integers(1, 4, 30)
    mask = {"half": np.arange(30) < 15}
    weighted = audit(f, None, y, mask, sample_weight=weight).full_table
    again = np.repeat(np.arange(30), weight)
    repeated = audit(f[again], None, y[again], {"half": mask["half"][again]}).full_table
    same = ["share", "mean_prediction", "mean_outcome", "gap", "mse", "ece", "k1", "k2", "ecce"]
    for name in same:
        # Sums of other lengths round differently.
        np.testing.assert_allclose(weighted[name], repeated[name], rtol=1e-9, atol=1e-12)


def test_equal_weights_change_nothing(data):
    plain = audit(data.scores, data.X, data.y, ["SEX"]).full_table
    threes = audit(
        data.scores, data.X, data.y, ["SEX"], sample_weight=np.full(6_000, 3.0)
    ).full_table
    # Weighted sums round differently from plain ones.
    pd.testing.assert_frame_equal(plain, threes, rtol=1e-9)


def test_fewer_than_five_rows_get_no_limits():
    report = audit([0.25] * 4, None, [1, 0, 0, 1])
    only = report.full_table.iloc[0]
    assert only["gap"] == 0.25
    assert np.isnan([only["low"], only["high"]]).all()
    assert only["p"] > 0.1  # labels of 0 and 1 can be tested all the same
    assert "Too few rows for limits: 1 of 1." in report.verdict
    assert "too few rows" in str(report)
    assert "too few rows" in report.to_markdown()
    assert "too few rows" in report.to_html()
    five = audit([0.25] * 5, None, [1, 0, 0, 1, 1]).full_table.iloc[0]
    assert five["low"] < 0 < five["high"]
    # Five rows of which one has nearly all weight are hardly one.
    uneven = audit([0.25] * 5, None, [1, 0, 0, 1, 1], sample_weight=[100, 1, 1, 1, 1])
    assert np.isnan(uneven.full_table["low"][0])


def test_one_row_of_a_regression_says_nothing_about_noise():
    only = audit([2.5], None, [7.0]).full_table.iloc[0]
    assert only["gap"] == 4.5
    assert np.isnan([only["gap_se"], only["low"], only["high"], only["p"]]).all()


def test_a_few_rows_that_look_alike_borrow_the_variance_of_all():
    rng = np.random.default_rng(0)
    f = rng.normal(size=200)
    y = f + rng.normal(size=200)
    y[:6] = f[:6] + 0.01 * rng.normal(size=6)
    six = row(audit(f, None, y, {"six": np.arange(200) < 6}), "six")
    assert six["low"] < six["gap"] - 0.5
    assert six["high"] > six["gap"] + 0.5


def test_a_tiny_group_does_not_widen_the_limits_of_others():
    rng = np.random.default_rng(0)
    f = rng.uniform(0.2, 0.8, 2000)
    f[:3] = 1e-7, 1 - 1e-7, 1e-7
    y = (rng.random(2000) < f).astype(float)
    masks = {"half": np.arange(2000) % 2 == 0, "others": np.arange(2000) % 2 == 1}
    without = audit(f, None, y, masks)
    tiny = audit(f, None, y, {**masks, "tiny": np.arange(2000) < 3})
    # The random numbers are others: their critical value has a standard error of 1 %.
    assert tiny.critical == pytest.approx(without.critical, rel=0.03)
    assert row(tiny, "tiny")["p"] > 0.01


def test_claims_have_finite_limits_and_no_false_alarms():
    """Mostly zero, heavy-tailed: limits were infinite, and JSON could not be written."""
    rng = np.random.default_rng(0)
    f = rng.uniform(10, 100, 2000)
    y = np.where(rng.random(2000) < 0.05, 20 * f * rng.gamma(1.5, 1 / 1.5, 2000), 0.0)
    X = pd.DataFrame({"a": rng.choice(list("abcdefghijklmnopqr"), 2000)})
    report = audit(f, X, y, ["a"])
    assert np.isfinite(report.full_table[["low", "high"]]).all().all()
    assert report.violations(max_gap=1e9) == ()
    assert '"critical"' in report.to_json()


def test_too_few_clusters_are_said():
    rng = np.random.default_rng(0)
    f = rng.uniform(0.2, 0.8, 100)
    y = (rng.random(100) < f).astype(float)
    for count in (1, 2, 4):
        report = audit(f, None, y, cluster=np.arange(100) % count)
        assert np.isnan(report.full_table["low"][0])
        assert "Too few clusters for limits: 1 of 1." in report.verdict
    assert np.isfinite(audit(f, None, y, cluster=np.arange(100) % 10).full_table["low"][0])


def test_equal_residuals_say_nothing_about_noise():
    found = audit(
        np.arange(50.0), None, np.arange(50.0) + 1, {"half": np.arange(50) < 25}
    ).full_table
    assert (found["gap"] == 1).all()
    assert found[["low", "high", "p", "detectable"]].isna().all().all()


def test_labels_as_predictions_and_labels_of_one_class_are_told():
    with pytest.warns(UserWarning, match="all predictions of model_or_scores are exactly 0 or 1"):
        audit([0.0, 1.0, 1.0] * 9, None, [0, 1, 0] * 9)
    with pytest.warns(UserWarning, match="all 27 labels are 1, of one class only"):
        audit([0.4, 0.6, 0.7] * 9, None, [1] * 27)


@pytest.mark.filterwarnings("ignore:all .* are exactly 0 or 1", "ignore:all .* of one class only")
def test_sure_predictions():
    right = audit([0.0, 1.0] * 3, None, [0, 1] * 3).full_table.iloc[0]
    assert right["p"] > 0.99
    assert right["ecce_p"] == 1.0
    assert right["low"] < 0 < right["high"]
    wrong = audit([0.0] * 20, None, [1] * 20).full_table.iloc[0]
    assert wrong["low"] > 0.8
    assert wrong["p"] < 1e-9


def test_constant_predictions_have_one_bin():
    rng = np.random.default_rng(0)
    y = (rng.random(500) < 0.3).astype(float)
    report = audit(np.full(500, 0.3), None, y)
    assert report.bin_edges == ()
    only = report.full_table.iloc[0]
    assert only["k1"] == only["ecce"] == pytest.approx(abs(only["gap"]))
    assert len(report.groups[0].after.curve.rows) == 1


def test_the_order_of_tied_rows_does_not_matter():
    rng = np.random.default_rng(0)
    f = rng.choice([0.1, 0.3, 0.7], 300)
    y = (rng.random(300) < f).astype(float)
    order = np.argsort(y)
    first, second = audit(f, None, y).full_table, audit(f[order], None, y[order]).full_table
    pd.testing.assert_frame_equal(first, second, rtol=1e-9)


# --- where predictions come from ----------------------------------------------------------------


class Calibrated:
    """Has our predict; remembers what it was given."""

    def predict(self, X, base=None, Z=None):
        self.seen = (X, base, Z)
        return np.full(len(X), 0.25)


def test_model_gets_base_and_z(data):
    model = Calibrated()
    Z = data.X[["SEX"]]
    report = audit(model, data.X, data.y, ["SEX"], base=data.scores, Z=Z)
    assert model.seen[0] is data.X
    assert model.seen[1] is data.scores
    assert model.seen[2] is Z
    assert report.full_table["mean_prediction"].tolist() == pytest.approx([0.25] * 3)


def test_groups_speak_of_z_where_given(data):
    images = np.zeros((6_000, 4, 4))
    report = audit(data.scores, images, data.y, ["SEX"], Z=data.X)
    expected = audit(data.scores, data.X, data.y, ["SEX"])
    pd.testing.assert_frame_equal(report.full_table, expected.full_table)


def test_callable_and_score_array_agree(data):
    by_function = audit(lambda X: base_scores(X, gap=0.1), data.X, data.y)
    pd.testing.assert_frame_equal(
        by_function.full_table, audit(data.scores, data.X, data.y).full_table
    )


def test_base_on_the_logit_scale_is_read_as_probability(data):
    from recalibrate.bases.protocol import CallableBase

    margins = CallableBase(lambda X: np.zeros(len(X)), link="logit")
    assert audit(margins, data.X, data.y).full_table["mean_prediction"][0] == pytest.approx(0.5)


def test_a_classifier_without_adapter_is_refused_rather_than_read_as_classes(data):
    classifier = SimpleNamespace(predict=lambda X: np.ones(len(X)))
    with pytest.raises(TypeError, match="No installed adapter knows"):
        audit(classifier, data.X, data.y)


# --- other bad input ----------------------------------------------------------------------------


def test_lengths_that_differ(data):
    with pytest.raises(ValueError, match="y has 5999 entries, but X has 6000 rows"):
        audit(data.scores, data.X, data.y[:-1])
    with pytest.raises(ValueError, match=r"model_or_scores.* 5999 .* 6000"):
        audit(data.scores[:-1], data.X, data.y)
    with pytest.raises(ValueError, match=r"baseline.* 5999 .* 6000"):
        audit(data.scores, data.X, data.y, baseline=data.scores[:-1])
    with pytest.raises(ValueError, match="table has 5999 rows, but there are 6000"):
        audit(data.scores, data.X, data.y, ["SEX"], Z=data.X.iloc[1:])


def test_margins_for_binary_labels(data):
    with pytest.raises(ValueError, match=r"model_or_scores must be probabilities .* 1 of 6000"):
        audit(np.append(data.scores[:-1], 1.5), data.X, data.y)


def test_expressions_without_a_table():
    with pytest.raises(ValueError, match="need a table"):
        audit([0.1, 0.2], None, [0, 1], ["SEX"])


def test_y_that_is_no_array():
    with pytest.raises(TypeError, match="one label per row, got int"):
        audit([0.1], None, 1)


# --- the report ---------------------------------------------------------------------------------


def test_report_is_frozen(data):
    report = audit(data.scores, data.X, data.y)
    with pytest.raises(AttributeError, match="cannot assign"):
        report.n_rows = 3


# --- with a baseline ----------------------------------------------------------------------------


@pytest.mark.slow
def test_baseline_true_is_the_model_s_own_base(data):
    model = rc.fit(lambda X: base_scores(X, gap=0.1), data.X, data.y, H=rc.Groups("SEX"))
    own = audit(model, data.X, data.y, ["SEX"], baseline=True).full_table
    given = audit(model, data.X, data.y, ["SEX"], baseline=data.scores).full_table
    pd.testing.assert_frame_equal(own, given)


@pytest.mark.slow
def test_baseline_true_for_a_model_on_scores(data):
    margins = np.log(data.probability / (1 - data.probability))
    model = rc.fit(margins, data.X, data.y, H=rc.Groups("SEX"), base_link="logit")
    table = audit(model, data.X, data.y, base=margins, baseline=True).full_table
    assert table["before_mean_prediction"][0] == pytest.approx(data.probability.mean())


def test_baseline_true_needs_a_model(data):
    with pytest.raises(TypeError, match="baseline=True compares a recalibrated model"):
        audit(data.scores, data.X, data.y, baseline=True)


def test_changes_and_flips_come_with_a_baseline(data):
    report = audit(
        data.probability, data.X, data.y, ["SEX"], baseline=data.scores, thresholds=[0.5]
    )
    assert report.changes is not None
    flips = {(flip.group, flip.threshold): flip for flip in report.changes.flips}
    women = (data.X["SEX"] == "female").to_numpy()
    up = (data.probability >= 0.5) & (data.scores < 0.5) & women
    assert flips["SEX = female", 0.5].up == up.sum() > 0
    assert audit(data.scores, data.X, data.y).changes is None


# --- searching ----------------------------------------------------------------------------------


def test_h_asks_for_a_search():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.integers(0, 5, 9000), "b": rng.integers(0, 5, 9000)})
    y = rng.random(9000) < np.where((X["a"] < 2) & (X["b"] == 4), 0.5, 0.3)
    plain = audit(np.full(9000, 0.3), X, y)
    assert plain.discoveries is plain.richness is None
    report = audit(np.full(9000, 0.3), X, y, H=True)
    assert [found.rule for found in report.discoveries.subgroups] == ["a <= 1 and b > 3"]
    assert report.richness.H.beats
    assert "a <= 1 and b > 3" in str(report)


def test_a_search_needs_a_table_of_the_same_length(data):
    with pytest.raises(ValueError, match="H= searches the columns of a table"):
        audit(data.scores, None, data.y, H=True)
    with pytest.raises(ValueError, match="table of H has 5999 rows"):
        audit(data.scores, data.X, data.y, H=True, Z=data.X.iloc[1:])


# --- weights and clusters -----------------------------------------------------------------------


@pytest.mark.slow
def test_the_scale_of_weights_does_not_matter(data):
    weight = data.X["AGEP"].to_numpy(float)
    first = audit(data.scores, data.X, data.y, ["SEX"], sample_weight=weight).full_table
    for scale in (1e-200, 3.0, 1e200):
        other = audit(data.scores, data.X, data.y, ["SEX"], sample_weight=scale * weight).full_table
        # Weights that were scaled are rounded, which variances of few rows show most.
        pd.testing.assert_frame_equal(first, other, rtol=1e-6)


def test_rows_of_weight_zero_are_not_there(data):
    weight = (np.arange(6_000) < 3_000).astype(float)
    cluster = np.arange(6_000) // 2
    first = audit(
        data.scores, data.X, data.y, ["SEX"], sample_weight=weight, cluster=cluster
    ).full_table
    half = audit(
        data.scores[:3_000], data.X[:3_000], data.y[:3_000], ["SEX"], cluster=cluster[:3_000]
    ).full_table
    pd.testing.assert_frame_equal(first, half, rtol=1e-9)


@pytest.mark.parametrize("labels", [lambda y: y, lambda y: 5 * y])
def test_a_single_cluster_tells_nothing_about_noise(data, labels):
    report = audit(data.scores, None, labels(data.y), cluster=["one"] * 6_000)
    assert report.n_clusters == 1
    assert report.full_table[["gap_se", "low", "high", "p"]].isna().all().all()


def test_clusters_may_be_of_any_kind(data):
    numbers = np.arange(6_000) // 3
    first = audit(data.scores, None, data.y, cluster=numbers).full_table
    for kind in ([f"person {k}" for k in numbers], pd.Series(numbers, index=range(9, 6_009))):
        pd.testing.assert_frame_equal(
            audit(data.scores, None, data.y, cluster=kind).full_table, first
        )
    assert first["clusters"][0] == 2_000


def test_bad_clusters(data):
    with pytest.raises(ValueError, match=r"cluster has shape \(2,\), but there are 6000 rows"):
        audit(data.scores, None, data.y, cluster=[1, 2])
    holes = pd.Series([None, "a", "b"] * 2_000)
    with pytest.raises(ValueError, match="cluster is missing for 2000 rows, the first is row 0"):
        audit(data.scores, None, data.y, cluster=holes)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"alpha": 0}, "alpha must be above 0"),
        ({"alpha": 0.9}, "alpha must be at most 0.5"),
        ({"bins": 0}, "bins must be a whole number of at least 1"),
        ({"depth": 0}, "depth must be a whole number of at least 1"),
        ({"bands": 1}, "bands must be a whole number of at least 2"),
        ({"min_rows": 0}, "min_rows must be a whole number of at least 1"),
    ],
)
def test_bad_options(data, option, words):
    with pytest.raises(ValueError, match=words):
        audit(data.scores, data.X, data.y, ["SEX"], **option)


class Scorer:
    """A model that no adapter knows: a frame or an array of probabilities, columns in any order."""

    def __init__(self, p, order, *, named):
        self.p, self.order, self.named = p, order, named

    def predict_proba(self, X):
        both = pd.DataFrame({0: 1.0 - self.p, 1: self.p})
        return both[self.order] if self.named else both[self.order].to_numpy()


@pytest.mark.parametrize("positive", [None, 0])
@pytest.mark.parametrize(("order", "named"), [([1, 0], True), ([0, 1], True), ([0, 1], False)])
def test_classes_that_only_predictions_tell(order, named, positive):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 0.9, 2000)
    y = (rng.random(2000) < p).astype(int)
    X = pd.DataFrame({"g": rng.choice(["a", "b"], 2000)})
    model = Scorer(p, order, named=named)
    about_1 = positive is None
    fitted = rc.fit(model, X, y, H=["g"], positive=positive)
    np.testing.assert_allclose(fitted.base.scores(X), p if about_1 else 1.0 - p)
    own = rc.audit(model, X, y, groups=["g"], positive=positive).groups[0]
    assert own.mean_outcome == pytest.approx(y.mean() if about_1 else 1.0 - y.mean())
    assert own.after.gap == pytest.approx((y - p).mean() * (1 if about_1 else -1))
    other = rc.audit({"scorer": model, "fitted": fitted}, X, y, groups=["g"], positive=positive)
    assert other["scorer"].groups[0].after.gap == pytest.approx(own.after.gap)
    assert other["fitted"].groups[0].before.gap == pytest.approx(own.after.gap)
