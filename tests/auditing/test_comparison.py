"""Several models on the same rows: each report as by itself, side by side in every view."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import recalibrate as rc
from recalibrate.auditing import AuditComparison
from recalibrate.simulate import census


@pytest.fixture(scope="module")
def data():
    return census(3_000, seed=6, gap=0.12, categorical=True)


@pytest.fixture(scope="module")
def models(data):
    return {"old": data.scores, "new <b>": data.probability}


@pytest.fixture(scope="module")
def comparison(data, models):
    return rc.audit(models, data.X, data.y, ["SEX", "RAC1P"], min_rows=30, thresholds=[0.5])


def test_each_report_is_the_one_of_its_model(data, models, comparison):
    assert isinstance(comparison, AuditComparison)
    assert list(comparison) == ["old", "new <b>"]
    options = {"groups": ["SEX", "RAC1P"], "min_rows": 30, "thresholds": [0.5]}
    alone = rc.audit(models["old"], data.X, data.y, **options)
    assert comparison["old"].to_json() == alone.to_json()
    paired = rc.audit(models["new <b>"], data.X, data.y, baseline=models["old"], **options)
    assert comparison["new <b>"].to_json() == paired.to_json()


def test_tables_have_all_models(comparison):
    table = comparison.table
    assert len(table) == len(comparison["old"].groups)
    np.testing.assert_array_equal(table["gap_old"], comparison["old"].table["gap"])
    np.testing.assert_array_equal(table["off_new <b>"], comparison["new <b>"].table["off"])
    overall = comparison.overall.set_index("model")
    assert overall["mse"]["old"] == comparison["old"].overall.mse
    change = {each.measure: each for each in comparison["new <b>"].groups[0].differences}
    assert overall["change_mse"]["new <b>"] == change["mse"].value
    assert np.isnan(overall["change_mse"]["old"])


def test_views_show_the_models_side_by_side(comparison, tmp_path):
    page = comparison.to_html(tmp_path / "c.html")
    assert (tmp_path / "c.html").read_text("utf-8") == page
    assert "new &lt;b&gt;" in page
    assert "new <b>" not in page + comparison._repr_html_()
    text, markdown = str(comparison), comparison.to_markdown()
    worst = comparison["old"].worst(1)["group"][0]
    for view in (page, text, markdown):
        assert worst in view
    assert "Before:" not in page + text + markdown
    found = json.loads(comparison.to_json())
    assert found["schema"] == "recalibrate.comparison"
    assert list(found["models"]) == ["old", "new <b>"]


def test_the_gate_names_model_and_group(comparison):
    assert comparison.check(max_gap=0.9) is comparison
    with pytest.raises(rc.AuditFailed, match="old, SEX = female") as caught:
        comparison.check(max_gap=0.05)
    assert {each.group.split(",")[0] for each in caught.value.violations} == {"old"}
    assert comparison.violations(max_gap=0.05)["new <b>"] == ()


def test_a_baseline_is_that_of_all(data, models):
    found = rc.audit(models, data.X, data.y, baseline=np.full(3_000, 0.4))
    for report in found.values():
        assert report.groups[0].before.mean_prediction == pytest.approx(0.4)


def test_models_have_names():
    with pytest.raises(TypeError, match="given by their names"):
        rc.audit({1: [0.5, 0.5]}, None, [0, 1])
    with pytest.raises(ValueError, match="there is no model to audit"):
        rc.audit({}, None, [0, 1])


def test_masks_by_name_are_still_groups(data):
    masks = {"young": (data.X["AGEP"] < 30).to_numpy()}
    report = rc.audit(data.scores, data.X, data.y, masks)
    assert isinstance(report.table, pd.DataFrame)


@pytest.fixture(scope="module")
def events():
    """Text labels, a classifier of them, and models about either class."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"u": rng.normal(size=1000), "g": rng.integers(0, 3, 1000)})
    y = np.where(rng.random(1000) < 1 / (1 + np.exp(1 - X["u"])), "admitted", "home")
    base = LogisticRegression().fit(X, y)
    home = rc.fit(base, X, y, H=["g"])
    admitted = rc.fit(base, X, y, H=["g"], positive="admitted")
    return X, y, base, home, admitted


def test_models_about_different_events_are_compared_on_one(events):
    X, y, base, home, admitted = events
    truth = (y == "admitted").mean() - base.predict_proba(X)[:, 0].mean()
    table = rc.audit(admitted, X, y, baseline=base).table
    assert table["before_gap"][0] == pytest.approx(truth)
    assert table["mean_outcome"][0] == pytest.approx((y == "admitted").mean())
    both = rc.audit({"home": home, "admitted": admitted}, X, y, groups=["g"])
    # One model is fitted to the log-odds of the other's negated, which are rounded.
    np.testing.assert_allclose(both.table["gap_home"], both.table["gap_admitted"], atol=1e-6)
    assert abs(both.overall["change_mse"][1]) < 1e-6
    turned = rc.audit({"home": home, "admitted": admitted}, X, y, ["g"], positive="admitted")
    np.testing.assert_allclose(turned.table["gap_home"], -both.table["gap_home"], atol=1e-6)


def test_an_array_that_comes_first_is_about_the_larger_label(events):
    X, y, base, _, admitted = events
    both = rc.audit({"p": base.predict_proba(X)[:, 1], "m": admitted}, X, y, groups=["g"])
    assert both.table["mean_outcome"][0] == pytest.approx((y == "home").mean())
    expected = (y == "home").mean() - 1 + admitted.predict(X).mean()
    assert both.table["gap_m"][0] == pytest.approx(expected)


def test_events_that_cannot_be_matched_are_refused(events):
    X, y, base, _, admitted = events
    numbers = LogisticRegression().fit(X, y == "home")
    for given in (admitted, {"a": admitted, "b": numbers}):
        with pytest.raises(ValueError, match="not classes of the base model: 'admitted', 'home'"):
            rc.audit(given, X, y, baseline=numbers)
    assert rc.audit(base, X, y == "home", baseline=numbers).n_rows == len(X)
    k = np.arange(1000) % 3
    several = LogisticRegression().fit(X, k)
    of_0, of_1 = (rc.fit(several, X, k, H=["g"], target_class=c) for c in (0, 1))
    with pytest.raises(ValueError, match="baseline are about 1 of the classes 0, 1, 2, but"):
        rc.audit(of_0, X, k, baseline=of_1)
    whether = LogisticRegression().fit(X, k == 0)
    gap = (k == 0).mean() - whether.predict_proba(X)[:, 1].mean()
    table = rc.audit(of_0, X, k, baseline=whether).table
    assert table["before_gap"][0] == pytest.approx(gap, abs=1e-9)


def test_without_groups_all_have_those_of_the_first_model_that_has_any(events):
    X, y, base, home, _ = events
    table = rc.audit({"base": base, "m": home}, X, y).table
    assert table["group"].tolist() == ["all", "g = 0", "g = 1", "g = 2"]
    assert rc.audit({"a": base, "b": base}, X, y).table["group"].tolist() == ["all"]


def test_a_file_is_about_the_class_that_was_asked_for(tmp_path):
    """By its name, a path, as model, as baseline and beside others."""
    from xgboost import XGBClassifier

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=1000), "g": rng.integers(0, 2, 1000)})
    y = (rng.random(1000) < 1 / (1 + np.exp(-X["a"] - 1))).astype(int)
    wrapper = XGBClassifier(n_estimators=5).fit(X, y)
    wrapper.save_model(tmp_path / "x.json")
    file = str(tmp_path / "x.json")
    gap = float(np.mean((y == 0) - wrapper.predict_proba(X)[:, 0]))
    reports = {
        "text": rc.audit(file, X, y, positive=0).groups[0].after,
        "path": rc.audit(tmp_path / "x.json", X, y, positive=0).groups[0].after,
        "baseline": rc.audit(wrapper, X, y, positive=0, baseline=file).groups[0].before,
        "first": rc.audit({"file": file, "own": wrapper}, X, y, positive=0)["file"].groups[0].after,
    }
    assert {name: own.gap for name, own in reports.items()} == pytest.approx(
        dict.fromkeys(reports, gap), abs=1e-6
    )


def test_a_baseline_that_tells_its_classes_by_its_columns():
    class Scorer:
        def predict_proba(self, X):
            return np.column_stack([1.0 - X["p"], X["p"]])

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"p": rng.uniform(0.5, 0.9, 1000)})
    y = (rng.random(1000) < X["p"]).astype(int).to_numpy()
    model = LogisticRegression().fit(X, y)
    report = rc.audit(model, X, y, positive=0, baseline=Scorer())
    assert report.groups[0].before.gap == pytest.approx(float(np.mean(X["p"] - y)))
