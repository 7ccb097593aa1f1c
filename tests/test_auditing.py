from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalibrate.auditing import AuditReport, audit
from recalibrate.simulate import base_scores, census

COLUMNS = [
    "group", "rows", "share", "mean_prediction", "mean_outcome", "gap", "gap_se", "low", "high",
    "ece", "k2",
]  # fmt: skip
BEFORE = [
    "before_mean_prediction", "before_gap", "before_gap_se", "before_low", "before_high",
    "before_ece", "before_k2",
]  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return census(6_000, seed=11, gap=0.1, categorical=True)


def row(report, name):
    return report.table.set_index("group").loc[name]


# --- numbers ------------------------------------------------------------------------------------


def test_first_row_is_all_and_columns_are_fixed(data):
    report = audit(data.scores, data.X, data.y, ["SEX", "AGEP < 25"])
    assert isinstance(report, AuditReport)
    assert report.table["group"].tolist() == ["all", "SEX = female", "SEX = male", "AGEP < 25"]
    assert report.table.columns.tolist() == COLUMNS
    assert (report.n_rows, report.kind) == (6_000, "binary")


def test_numbers_of_a_group_agree_with_a_direct_computation(data):
    group = row(audit(data.scores, data.X, data.y, ["SEX == 'female'"]), "SEX == 'female'")
    mask = (data.X["SEX"] == "female").to_numpy()
    f, y = data.scores[mask], data.y[mask]
    # Tolerances: sums in another order may differ in the last bits.
    assert group["rows"] == mask.sum()
    assert group["share"] == pytest.approx(mask.mean(), rel=1e-12)
    assert group["mean_prediction"] == pytest.approx(f.mean(), rel=1e-12)
    assert group["mean_outcome"] == pytest.approx(y.mean(), rel=1e-12)
    assert group["gap"] == pytest.approx((y - f).mean(), rel=1e-9)
    se = (y - f).std(ddof=1) / np.sqrt(mask.sum())
    assert group["gap_se"] == pytest.approx(se, rel=1e-9)
    assert group["low"] == pytest.approx((y - f).mean() - 1.959964 * se, abs=1e-8)
    assert group["high"] == pytest.approx((y - f).mean() + 1.959964 * se, abs=1e-8)
    bins = np.minimum((f * 10).astype(int), 9)
    ece = sum(abs((y - f)[bins == b].sum()) for b in range(10)) / len(y)
    assert group["ece"] == pytest.approx(ece, rel=1e-9)
    decile = pd.Series(f).rank(method="first").sub(1).mul(10).floordiv(len(f)).to_numpy()
    k2 = sum((decile == b).mean() * (y - f)[decile == b].mean() ** 2 for b in range(10))
    # Ties stay together in the audit and are split by rank here, so only nearly equal.
    assert group["k2"] == pytest.approx(k2, rel=0.1)


def test_planted_gap_is_found_and_its_sign_means_underprediction(data):
    report = audit(data.scores, data.X, data.y, ["SEX"])
    women, men = row(report, "SEX = female"), row(report, "SEX = male")
    assert women["low"] > 0.05
    assert women["gap"] == pytest.approx(women["mean_outcome"] - women["mean_prediction"])
    assert abs(men["gap"]) < 0.04


def test_limits_cover_the_truth_about_95_times_in_100():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        f = rng.uniform(0.2, 0.8, 200)
        y = (rng.random(200) < f).astype(float)
        total = audit(f, None, y).table.iloc[0]
        inside += total["low"] <= 0.0 <= total["high"]
    # 380 expected, standard deviation 4.4; the bounds are about four of them away.
    assert 362 <= inside <= 397


def test_baseline_adds_columns_with_prefix(data):
    report = audit(data.probability, data.X, data.y, ["SEX"], baseline=data.scores)
    alone = audit(data.scores, data.X, data.y, ["SEX"])
    assert report.table.columns.tolist() == COLUMNS + BEFORE
    for name in BEFORE:
        expected = alone.table[name.removeprefix("before_")]
        np.testing.assert_array_equal(report.table[name], expected)
    women = row(report, "SEX = female")
    assert abs(women["gap"]) < abs(women["before_gap"])


def test_regression_is_reported_in_units_of_the_label():
    data = census(3_000, seed=2, task="income")
    # Bounds are observed; 0..1 must be seen for the two reports to share the equal-width bins.
    y, f = np.append(data.y, [0.0, 1.0]), np.append(data.scores, [0.5, 0.5])
    mask = {"women": np.append(data.X["SEX"].to_numpy() == 2, [True, False])}
    unit = audit(f, None, y, mask).table
    money = audit(5 + 1000 * f, None, 5 + 1000 * y, mask)
    assert money.kind == "regression"
    # Scaling there and back rounds, and a prediction at the edge of a bin could change sides.
    for name in ("gap", "gap_se", "low", "high", "ece"):
        np.testing.assert_allclose(money.table[name], 1000 * unit[name], rtol=1e-6)
    np.testing.assert_allclose(money.table["k2"], 1000**2 * unit["k2"], rtol=1e-6)
    for name in ("mean_prediction", "mean_outcome"):
        np.testing.assert_allclose(money.table[name], 5 + 1000 * unit[name], rtol=1e-9)


def test_regression_predictions_may_leave_the_range_of_labels():
    report = audit([-5.0, 3.0, 20.0], None, [1.0, 2.0, 3.0])
    assert report.kind == "regression"
    assert report.table["gap"][0] == pytest.approx(2 - 6)


@given(st.integers(0, 2**32 - 1))
def test_a_row_of_weight_two_is_the_row_twice_except_for_the_standard_error(seed):
    rng = np.random.default_rng(seed)
    f, y = rng.random(30), rng.integers(0, 2, 30).astype(float)
    weight = rng.integers(1, 4, 30)
    mask = {"half": np.arange(30) < 15}
    weighted = audit(f, None, y, mask, sample_weight=weight).table
    again = np.repeat(np.arange(30), weight)
    repeated = audit(f[again], None, y[again], {"half": mask["half"][again]}).table
    for name in ("share", "mean_prediction", "mean_outcome", "gap", "ece", "k2"):
        # Sums of other lengths round differently.
        np.testing.assert_allclose(weighted[name], repeated[name], rtol=1e-9, atol=1e-12)


def test_equal_weights_change_nothing(data):
    plain = audit(data.scores, data.X, data.y, ["SEX"]).table
    threes = audit(data.scores, data.X, data.y, ["SEX"], sample_weight=np.full(6_000, 3.0)).table
    # Weighted sums round differently from plain ones.
    pd.testing.assert_frame_equal(plain, threes, rtol=1e-9)


def test_one_row_has_no_standard_error():
    only = audit([0.25], None, [1]).table.iloc[0]
    assert only["gap"] == 0.75
    assert np.isnan([only["gap_se"], only["low"], only["high"]]).all()
    weighted = audit([0.25, 0.5], None, [1, 0], sample_weight=[0.1, 0.0]).table.iloc[0]
    assert np.isnan(weighted["gap_se"])


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
    assert report.table["mean_prediction"].tolist() == pytest.approx([0.25] * 3)


def test_groups_speak_of_z_where_given(data):
    images = np.zeros((6_000, 4, 4))
    report = audit(data.scores, images, data.y, ["SEX"], Z=data.X)
    expected = audit(data.scores, data.X, data.y, ["SEX"])
    pd.testing.assert_frame_equal(report.table, expected.table)


def test_callable_and_score_array_agree(data):
    by_function = audit(lambda X: base_scores(X, gap=0.1), data.X, data.y)
    pd.testing.assert_frame_equal(by_function.table, audit(data.scores, data.X, data.y).table)


def test_base_on_the_logit_scale_is_read_as_probability(data):
    from recalibrate.scores import CallableBase

    margins = CallableBase(lambda X: np.zeros(len(X)), link="logit")
    assert audit(margins, data.X, data.y).table["mean_prediction"][0] == pytest.approx(0.5)


def test_a_classifier_without_adapter_is_refused_rather_than_read_as_classes(data):
    classifier = SimpleNamespace(predict=lambda X: np.ones(len(X)))
    with pytest.raises(TypeError, match="No installed adapter knows"):
        audit(classifier, data.X, data.y)


# --- groups -------------------------------------------------------------------------------------


def test_all_forms_of_groups_agree(data):
    women, young = (data.X["SEX"] == "female").to_numpy(), (data.X["AGEP"] < 25).to_numpy()
    frame = pd.DataFrame({"w": women, "y": young}, index=range(100, 6_100))
    forms = [
        ["SEX == 'female'", "AGEP < 25"],
        ("SEX == 'female'", "AGEP < 25"),
        SimpleNamespace(terms=("SEX == 'female'", "AGEP < 25")),
        {"w": women, "y": list(young)},
        {"w": pd.Series(women, dtype="boolean"), "y": young},
        frame,
    ]
    tables = [audit(data.scores, data.X, data.y, g).table.drop(columns="group") for g in forms]
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])


def test_a_single_expression(data):
    report = audit(data.scores, data.X, data.y, "SEX")
    assert len(report.table) == 3


def test_no_groups_means_all_rows_only(data):
    assert audit(data.scores, data.X, data.y).table["group"].tolist() == ["all"]


@pytest.mark.parametrize("groups", [[], {}, (), SimpleNamespace(terms=()), pd.DataFrame()])
def test_empty_groups(data, groups):
    with pytest.raises(ValueError, match="groups is empty"):
        audit(data.scores, data.X, data.y, groups)


def test_unknown_column(data):
    with pytest.raises(ValueError, match="SEX") as caught:
        audit(data.scores, data.X, data.y, ["SEKS"])
    assert "SEKS" in str(caught.value)


def test_groups_of_another_kind(data):
    with pytest.raises(TypeError, match="masks by name; got int"):
        audit(data.scores, data.X, data.y, 3)


def test_mask_of_numbers(data):
    with pytest.raises(TypeError, match=r"'ones' has dtype int\d+, not bool"):
        audit(data.scores, data.X, data.y, {"ones": np.ones(6_000, dtype=int)})


def test_mask_with_missing_values(data):
    mask = pd.Series([True, None] * 3_000, dtype="boolean")
    with pytest.raises(TypeError, match="'holes' has dtype object, not bool"):
        audit(data.scores, data.X, data.y, {"holes": mask})


def test_mask_of_another_length(data):
    with pytest.raises(ValueError, match=r"'short' has shape \(2,\), but there are 6000 rows"):
        audit(data.scores, data.X, data.y, {"short": [True, False]})


def test_names_twice(data):
    frame = pd.DataFrame(np.ones((6_000, 2), dtype=bool), columns=["a", "a"])
    with pytest.raises(ValueError, match="more than once"):
        audit(data.scores, data.X, data.y, frame)


def test_group_without_rows_is_left_out_with_a_warning():
    masks = {"none": np.zeros(4, dtype=bool), "some": np.array([True, False, False, True])}
    with pytest.warns(UserWarning, match="'none' has no rows with weight"):
        report = audit([0.1, 0.2, 0.3, 0.4], None, [0, 1, 0, 1], masks)
    assert report.table["group"].tolist() == ["all", "some"]


def test_group_without_weight_is_left_out_with_a_warning():
    masks = {"light": np.array([True, False]), "heavy": np.array([False, True])}
    with pytest.warns(UserWarning, match="'light' has no rows with weight"):
        report = audit([0.1, 0.2], None, [0, 1], masks, sample_weight=[0.0, 1.0])
    assert report.table["group"].tolist() == ["all", "heavy"]


def test_only_empty_groups_are_an_error():
    with (
        pytest.warns(UserWarning, match="no rows with weight"),
        pytest.raises(ValueError, match="No group has any rows"),
    ):
        audit([0.1, 0.2], None, [0, 1], {"none": np.zeros(2, dtype=bool)})


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


def test_report_prints_a_compact_table(data):
    report = audit(data.probability, data.X, data.y, ["SEX"], baseline=data.scores)
    lines = str(report).splitlines()
    assert lines[0] == "Audit of 6,000 rows (binary labels), 95 % limits per group"
    assert len(lines) == 5
    assert "SEX = female" in lines[3]
    assert "gap_se" not in lines[1]
    assert repr(report) == str(report)
