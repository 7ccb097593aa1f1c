"""Audits of several classes: every class in every group, limits that hold at once."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.core.levels import softmax

NAMES = ("red", "green", "blue")


def make(n, seed, shift=0.0):
    """Probabilities that are right, but for red in group u if there is a shift."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"g": rng.choice(list("uvw"), n), "s": rng.choice(["F", "M"], n)})
    z = rng.normal(size=(n, 3))
    truth = softmax(z + shift * np.outer(X["g"] == "u", [1, 0, 0]))
    y = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return X, softmax(z), np.array(NAMES)[y]


@pytest.fixture(scope="module")
def wrong():
    X, p, y = make(6000, 0, shift=1.0)
    model = rc.fit(p, X, y, classes=NAMES, H=rc.Groups("g"), loop=rc.Loop(levels=1))
    fresh, q, outcome = make(6000, 1, shift=1.0)
    before = rc.audit(model, fresh, outcome, groups=["g", "s"], base=q, baseline=True)
    return before, fresh, q, outcome


@pytest.mark.slow
def test_the_class_and_group_that_are_off_come_first(wrong):
    _, X, p, y = wrong
    report = rc.audit(p, X, np.array([NAMES.index(v) for v in y]), groups=["g", "s"])
    first = report.table.iloc[0]
    assert (first["class"], first["group"]) == (0, "g = u")
    assert first["off"]
    assert report.n_off >= 2
    own = report[0].table.set_index("group").loc["g = u"]
    rows = (X["g"] == "u").to_numpy()
    assert own["gap"] == pytest.approx(np.mean(y[rows] == "red") - p[rows, 0].mean())
    with pytest.raises(rc.AuditFailed, match="0 in g = u"):
        report.check(max_gap=0.05)


def test_a_recalibrated_model_is_compared_with_its_base(wrong):
    report = wrong[0]
    assert report.classes == tuple(sorted(NAMES))
    assert sum(each.overall_before.n_off for each in report.reports) > 2
    assert report.n_off == 0
    assert "Before: " in report.verdict
    measures = report.measures.set_index("class")
    assert measures.loc["red", "ece"] < measures.loc["red", "before_ece"]
    assert report.check(max_gap=0.1) is report
    top = report.top.groups[0]
    assert top.after.mean_prediction == pytest.approx(top.mean_outcome, abs=0.03)


@pytest.mark.slow
def test_limits_hold_for_all_classes_and_groups_at_once():
    """With probability .95: of 12 audits of right predictions at most 3 flag anything."""
    flagged = 0
    for seed in range(12):
        X, p, y = make(600, seed + 100)
        report = rc.audit(p, X, np.array([NAMES.index(v) for v in y]), groups=["g", "s"])
        flagged += (report.n_off + report.top.overall.n_off) > 0
    assert flagged <= 3


def test_views_are_readable(wrong, tmp_path):
    report = wrong[0]
    text = str(report)
    assert text.startswith("Audit of 6,000 rows, 3 classes")
    assert len(text.splitlines()) < 20
    page = report.to_html(tmp_path / "audit.html")
    assert page.startswith("<!DOCTYPE html>")
    for part in ("Gaps by class and group", "most probable label", "red", "g = u"):
        assert part in page
    assert (tmp_path / "audit.html").read_text() == page
    found = json.loads(report.to_json())
    assert [each["class"] for each in found["classes"]] == sorted(NAMES)
    assert found["top_label"]["rows"] == 6000
    assert "<style>" in report._repr_html_()
    assert "| red | all |" in report.to_markdown().replace("'", "")


@pytest.mark.slow
def test_many_classes_and_groups_stay_readable():
    rng = np.random.default_rng(0)
    n, count = 3000, 10
    X = pd.DataFrame({"town": rng.integers(0, 40, n).astype(str)})
    p = softmax(rng.normal(size=(n, count)))
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    report = rc.audit(p, X, y, groups=["town"])
    assert len(report.table) == 41 * 11
    # Where no gap is more than noise, those that come closest stand first.
    even = report.table[~report.table["off"] & (report.table["p_holm"] == 1.0)]
    widths = even["gap"].abs() / (even["high"] - even["low"])
    assert len(even) > 300
    assert widths.is_monotonic_decreasing
    assert len(str(report).splitlines()) < 20
    assert report.to_html().count('<th scope="row"') < 400
