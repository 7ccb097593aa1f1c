"""The report: frozen data, its views, and the gate."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from recalibrate.auditing import AuditFailed, audit
from recalibrate.simulate import census

TOP = {
    "schema", "schema_version", "kind", "rows", "clusters", "alpha", "critical", "bin_edges",
    "before_bin_edges", "verdict", "overall", "groups", "left_out", "notes", "discoveries",
    "richness", "changes", "rates", "coverage", "audited", "slices",
}  # fmt: skip
GROUP = {
    "name", "rows", "clusters", "share", "mean_outcome", "after", "before", "differences", "term",
    "parts", "effective_rows",
}  # fmt: skip
CALIBRATION = {
    "mean_prediction", "gap", "gap_se", "low", "high", "p", "p_holm", "detectable",
    "detectable_low", "detectable_high", "slope", "slope_low", "slope_high",
    "ratio", "ratio_low", "ratio_high", "mse", "deviance",
    "log_loss", "ece", "ece_debiased", "k1", "k2", "kinf", "k2_unbiased", "k1_mass", "k2_mass",
    "kinf_mass", "ecce", "ecce_sigma", "ecce_p", "ecce_p_holm", "off", "curve",
}  # fmt: skip
OVERALL = {
    "mse", "log_loss", "msce", "msce_unbiased", "multicalibration_error", "mce_sigma", "mce_p",
    "deviance", "decompositions", "worst_group", "worst_ecce", "n_off", "largest_gap",
    "largest_gap_group",
}  # fmt: skip
CURVE = {"prediction", "outcome", "low", "high", "rows", "share"}


@pytest.fixture(scope="module")
def data():
    return census(6_000, seed=11, gap=0.1, categorical=True)


@pytest.fixture(scope="module")
def report(data):
    return audit(
        data.scores, data.X, data.y, ["SEX", "RAC1P"], baseline=data.probability, thresholds=[0.5]
    )


def no_constant(text):
    raise AssertionError(f"JSON has no {text}")


# --- JSON ---------------------------------------------------------------------------------------


def test_the_schema_of_the_json_is_pinned(report):
    """Keys may be added; changing or removing one asks for a new schema_version."""
    found = json.loads(report.to_json(), parse_constant=no_constant)
    assert set(found) == TOP
    assert (found["schema"], found["schema_version"]) == ("recalibrate.audit", 1)
    assert [group["name"] for group in found["groups"]] == report.table["group"].tolist()
    for group in found["groups"]:
        assert set(group) == GROUP
        for side in ("after", "before"):
            assert set(group[side]) == CALIBRATION
            assert set(group[side]["curve"]) == CURVE
        assert set(group["differences"]["mse"]) == {"value", "se"}
    assert set(found["overall"]) == {"after", "before", "differences"}
    assert set(found["overall"]["after"]) == set(found["overall"]["before"]) == OVERALL
    assert found["changes"]["flips"][0]["threshold"] == 0.5
    assert {"title", "text", "formula"} == set(found["notes"][0])


def test_json_holds_the_numbers_of_the_table(report):
    groups = json.loads(report.to_json())["groups"]
    for name in CALIBRATION - {"curve", "deviance"}:  # 0/1 labels have a log loss instead
        told = [np.nan if g["after"][name] is None else g["after"][name] for g in groups]
        np.testing.assert_array_equal(told, report.full_table[name])


def test_what_rows_cannot_tell_is_null():
    text = audit([2.5], None, [7.0]).to_json()
    after = json.loads(text, parse_constant=no_constant)["groups"][0]["after"]
    assert after["gap"] == 4.5
    for name in ("gap_se", "low", "high", "p", "p_holm", "log_loss"):
        assert after[name] is None


def test_json_is_deterministic(data, report):
    again = audit(
        data.scores, data.X, data.y, ["SEX", "RAC1P"], baseline=data.probability, thresholds=[0.5]
    )
    assert again.to_json() == report.to_json()


def test_views_are_written_where_a_path_is_given(report, tmp_path):
    assert (tmp_path / "a.json").exists() is False
    text = report.to_json(tmp_path / "a.json", indent=None)
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == text
    assert "\n" not in text
    assert report.to_markdown(str(tmp_path / "a.md")) == (tmp_path / "a.md").read_text("utf-8")


# --- text ---------------------------------------------------------------------------------------


def test_markdown_has_a_row_per_group_and_escapes_names(data):
    name = "a | b\nc"
    report = audit(data.scores, None, data.y, {name: np.arange(6_000) < 3_000})
    lines = report.to_markdown().splitlines()
    start = lines.index("## Groups")
    stop = lines.index("## Errors beyond the mean")
    rows = [line for line in lines[start:stop] if line.startswith("| ")]
    assert len(rows) == 4  # header, rule, all, the group
    assert rows[3].startswith("| a \\| b c | 3,000 | 0.")
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1


def test_markdown_with_a_baseline_shows_differences(report):
    text = report.to_markdown()
    assert "| measure | before | after | difference |" in text
    assert "gap before" in text
    assert "Brier score" in text
    assert "nan" not in text.lower()


def test_text_is_compact(report):
    lines = str(report).splitlines()
    assert lines[0] == "Audit of 6,000 rows (binary labels), 95 % limits over all groups at once"
    assert "groups are off by more than noise" in lines[1]
    start = next(k for k, line in enumerate(lines) if line.startswith("all "))
    assert lines[start + len(report.groups)] == ""  # then what changed
    assert repr(report) == str(report)


@pytest.mark.slow
def test_text_of_many_groups_fits_a_screen_worst_first(data):
    masks = {f"g{k}" + " and so on" * 9: np.arange(6_000) % 80 == k for k in range(80)}
    masks["worst"] = np.arange(6_000) % 80 > 40
    scores = np.where(masks["worst"], 0.9 * data.scores, data.scores)
    report = audit(scores, None, data.y, masks, baseline=data.scores)
    lines = str(report).splitlines()
    assert len(lines) <= 26
    assert max(map(len, lines)) < 120
    start = next(k for k, line in enumerate(lines) if line.startswith("all "))
    worst = report.worst(11)["group"].tolist()
    assert [line[:4] for line in lines[start + 1 : start + 12]] == [name[:4] for name in worst]
    assert lines[start + 12].startswith("and 70 more groups: report.table has them")


def test_worst_groups_are_rows_of_the_table(report):
    found = report.worst(3)
    assert len(found) == 3
    assert found["off"].tolist() == [True] * 3
    assert found["gap"].abs().is_monotonic_decreasing
    assert "all" not in found["group"].tolist()
    assert len(report.worst(100)) == len(report.groups) - 1
    assert list(audit([0.5, 0.5], None, [0, 1]).worst().columns) == list(
        audit([0.5, 0.5], None, [0, 1]).table.columns
    )


def test_tables_have_a_short_and_a_full_form(report):
    assert list(report.table) == [
        "group", "rows", "mean_prediction", "mean_outcome", "gap", "gap_se", "low", "high",
        "p_holm", "detectable", "off", "before_gap", "before_off",
    ]  # fmt: skip
    assert set(report.table) < set(report.full_table)
    assert {"k2_unbiased", "before_ecce", "change_mse_se"} < set(report.full_table)


def test_a_number_has_one_name_and_estimates_below_zero_are_shown_as_zero():
    """Rows that are better calibrated than chance allows have estimates below zero."""
    f, y = np.full(400, 0.5), np.arange(400) % 2
    report = audit(f, None, y)
    own = report.groups[0].after
    assert own.ece_debiased < 0
    assert own.k2_unbiased < 0
    text, page = report.to_markdown(), report.to_html()
    for view in (text, page):
        assert "ECE, bias removed" in view
        assert "K2, bias removed" in view
        assert "MSCE, bias removed" in view
        assert "shown as 0" in view
    row = text[text.index("## Errors beyond the mean") :].splitlines()[4]
    assert [cell.strip() for cell in row.split("|")][4:6] == ["0.000", "0"]


def test_verdict_names_the_worst_and_the_confidence(data):
    verdict = audit(data.scores, data.X, data.y, ["SEX"], alpha=0.005).verdict
    assert verdict.startswith("2 of 3 groups are off by more than noise; the largest such gap is")
    assert "for SEX = female (limits hold for all groups at once with 99.5 % confidence)" in verdict


def test_notes_tell_the_method(data, report):
    titles = [note.title for note in report.notes]
    assert titles[:4] == ["Small groups", "Method, and why this one", "Gap", "Limits of gaps"]
    assert "Differences" in titles
    assert "Clusters" not in titles
    clustered = audit(data.scores, None, data.y, cluster=np.arange(6_000) // 2)
    assert "Clusters" in [note.title for note in clustered.notes]


def test_table_is_a_fresh_frame(report):
    frame = report.table
    frame["gap"] = 0.0
    assert report.table["gap"][0] != 0.0


def test_report_is_frozen(report):
    with pytest.raises(AttributeError, match="cannot assign"):
        report.n_rows = 3
    with pytest.raises(AttributeError, match="cannot assign"):
        report.groups[0].after.gap = 0.0


# --- the gate -----------------------------------------------------------------------------------


def test_check_returns_the_report_or_names_the_groups(report):
    assert report.check(max_gap=0.3, min_rows=100) is report
    with pytest.raises(AuditFailed, match=r"of 12 groups fail:\n  .*SEX = female") as caught:
        report.check(max_gap=0.05, min_rows=2_000)
    failed = caught.value.violations
    assert "SEX = female" in [violation.group for violation in failed]
    assert all(violation.rows >= 2_000 for violation in failed)


def test_rules_of_the_gate_are_ordered(report):
    """What is certain is estimated so; what is estimated so is not proven to be fine."""
    by_rule = {
        rule: {v.group for v in report.violations(max_gap=0.04, rule=rule)}
        for rule in ("certain", "estimate", "proven")
    }
    assert by_rule["certain"] < by_rule["estimate"] < by_rule["proven"]
    table = report.table.set_index("group")
    for name in by_rule["certain"]:
        assert table["low"][name] > 0.04 or table["high"][name] < -0.04
    assert by_rule["estimate"] == set(table.index[table["gap"].abs() > 0.04])


def test_gaps_of_numbers_have_no_largest_size():
    assert audit([2.5, 3.0], None, [7.0, 3.0]).check(max_gap=5.0).kind == "regression"


def test_limits_that_do_not_exist_prove_nothing():
    report = audit([2.5], None, [2.5 + 1e-9])
    assert report.violations(max_gap=1.0) == ()
    assert math.isnan(report.violations(max_gap=1.0, rule="proven")[0].low)


def test_alpha_fails_what_is_more_than_noise(data, report):
    failed = {violation.group for violation in report.violations(alpha=0.05)}
    assert {"all", "SEX = female"} <= failed
    assert audit(data.probability, data.X, data.y, ["SEX", "RAC1P"]).violations(alpha=0.05) == ()


def test_the_verdict_and_the_gate_count_the_same_groups(data):
    report = audit(data.scores, data.X, data.y, ["SEX", "RAC1P", "SEX*RAC1P", "AGEP < 25"])
    named = {group.name for group in report.groups if group.after.off}
    assert 0 < len(named) < len(report.groups)
    assert report.overall.n_off == len(named)
    for tolerance in ({"max_gap": 0.0}, {"alpha": report.alpha}):
        assert {each.group for each in report.violations(**tolerance)} == named


def test_a_slope_is_a_sentence_and_a_column_of_its_own():
    rng = np.random.default_rng(1)
    group = rng.choice(["right", "wrong"], 20_000)
    margin = rng.normal(0, 1, 20_000)
    f = 1 / (1 + np.exp(-np.where(group == "wrong", 2.0, 1.0) * margin))
    y = (rng.random(20_000) < 1 / (1 + np.exp(-margin))).astype(float)
    report = audit(f, pd.DataFrame({"g": group}), y, ["g"])
    table = report.full_table.set_index("group")
    assert table.loc["g = wrong", "slope_low"] < 0.5 < table.loc["g = wrong", "slope_high"] < 0.6
    assert table.loc["g = right", "slope_low"] < 1 < table.loc["g = right", "slope_high"]
    assert not table["off"].any()  # the mean is right everywhere
    assert report.verdict.startswith("None of 3 groups are off by more than noise")
    assert "Within 2 groups predictions are too extreme, most clearly in g = wrong (cal" in (
        report.verdict
    )
    assert "too moderate" not in report.verdict
    assert f"{table.loc['g = wrong', 'slope']:.2f} (" in report.to_html()


def test_ecce_alpha_sees_errors_that_cancel_in_the_mean():
    rng = np.random.default_rng(0)
    f = rng.uniform(0.2, 0.6, 20_000)
    y = (rng.random(20_000) < 0.4 + 1.5 * (f - 0.4)).astype(float)
    report = audit(f, None, y)
    assert report.violations(alpha=0.01) == ()
    violation = report.violations(ecce_alpha=0.01)[0]
    assert "cumulative error" in violation.why
    assert abs(violation.gap) < 0.01


def test_many_failures_are_cut_in_the_message(data):
    masks = {f"g{k}": np.arange(6_000) % 15 == k for k in range(15)}
    with pytest.raises(AuditFailed, match="16 of 16 groups fail") as caught:
        audit(data.scores, None, data.y, masks).check(max_gap=0.0, rule="estimate")
    assert str(caught.value).endswith("and 6 more")
    assert len(caught.value.violations) == 16


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "check needs a tolerance"),
        ({"max_gap": -0.1}, "max_gap must be at least 0"),
        ({"max_gap": 5}, r"max_gap=5 can never fail: labels are in \[0, 1\]"),
        ({"max_gap": 1.0}, "max_gap=1 can never fail"),
        ({"alpha": 0}, "alpha must be above 0"),
        ({"alpha": 2}, "alpha must be at most 1"),
        ({"max_gap": 0.1, "min_rows": 0}, "min_rows must be a whole number"),
        ({"max_gap": 0.1, "rule": "maybe"}, "rule must be .* got 'maybe'"),
    ],
)
def test_bad_tolerances(report, options, words):
    with pytest.raises(ValueError, match=words):
        report.check(**options)


def test_frames_of_regression_leave_the_log_loss_out():
    frame = audit([1.0, 2.0, 4.0], None, [1.5, 2.5, 3.0], baseline=[1.0, 1.0, 1.0]).full_table
    assert not [name for name in frame if "log_loss" in name]
    assert isinstance(frame, pd.DataFrame)


@pytest.mark.slow
def test_what_a_search_finds_can_fail_the_gate():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"g": rng.choice(list("abcde"), 6000), "x": rng.normal(size=6000)})
    f = rng.uniform(0.2, 0.6, 6000)
    found = audit(f, X, rng.random(6000) < f + 0.25 * (X["g"] == "b"), ["x > 0"], H=True)
    assert not [v for v in found.violations(max_gap=0.1) if "g ==" in v.group]
    for tolerance in ({"max_gap": 0.1}, {"alpha": 0.05}):
        (violation,) = [v for v in found.violations(**tolerance, search=True) if "g ==" in v.group]
        assert violation.group == "found by searching: g == 'b'"
        first = found.discoveries.subgroups[0]
        assert (violation.gap, violation.low) == (first.corrected_gap, first.low)
    with pytest.raises(AuditFailed, match="found by searching"):
        found.check(max_gap=0.1, search=True)
    with pytest.raises(ValueError, match="audit with H="):
        audit(f, X, f > 0.4, ["x > 0"]).check(alpha=0.05, search=True)
