"""The model card: a head that machines read, and the sections that people ask for."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

import recalibrate as rc
from recalibrate.auditing.views.markdown import NOT_STATED
from recalibrate.simulate import census


@pytest.fixture(scope="module")
def report():
    data = census(2_000, seed=4, gap=0.1, categorical=True)
    return rc.audit(
        data.scores, data.X, data.y, ["SEX", "SEX*MAR"], baseline=data.probability, min_rows=40,
        thresholds=[0.5],
    )  # fmt: skip


def head_of(card):
    start, head, body = card.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(head), body


def test_the_head_has_what_the_hub_reads(report):
    head, _ = head_of(report.to_model_card(name='A "b": c', license="mit", tags=["loans"]))
    assert head["license"] == "mit"
    assert head["library_name"] == "recalibrate"
    assert head["pipeline_tag"] == "tabular-classification"
    assert head["tags"] == ["calibration", "multicalibration", "fairness", "loans"]
    (model,) = head["model-index"]
    (result,) = model["results"]
    assert model["name"] == 'A "b": c'
    assert set(result) == {"task", "dataset", "metrics"}
    metrics = {each["type"]: each["value"] for each in result["metrics"]}
    assert metrics["brier_score"] == pytest.approx(report.overall.mse, abs=1e-6)  # six decimals
    assert metrics["groups_off"] == report.overall.n_off
    assert metrics["roc_auc"] == pytest.approx(report.rates.of("auc")[0].after.value, abs=1e-6)


def test_the_sections_are_those_that_people_ask_for(report, tmp_path):
    path = tmp_path / "README.md"
    card = report.to_model_card(path, intended_use="Rank loans.", data="Banks, 2024.")
    assert path.read_text("utf-8") == card
    titles = [line[3:] for line in card.splitlines() if line.startswith("## ")]
    assert titles == [
        "Intended use", "Out of scope", "Data", "Groups", "Results", "Limits",
        "How the numbers are made", "Where this comes from",
    ]  # fmt: skip
    assert "Rank loans." in card
    assert "Banks, 2024." in card
    assert card.count(NOT_STATED) == 1
    assert report.verdict in card
    assert report.audited.data in card
    assert "No group is dropped in silence" in card
    assert "impact ratio" in card


def test_names_of_users_are_text():
    masks = {"<script> | `x`": np.arange(60) < 30}
    report = rc.audit(np.full(60, 0.5), None, np.arange(60) % 2, masks)
    card = report.to_model_card(name="<img src=x>")
    head, body = head_of(card)
    assert head["model-index"][0]["name"] == "<img src=x>"
    assert "<script>" not in body
    assert "<img" not in body


def test_a_card_of_numbers():
    head, _ = head_of(rc.audit([1.0, 2.0, 4.0], None, [1.5, 2.5, 3.0]).to_model_card())
    assert head["pipeline_tag"] == "tabular-regression"
    assert "license" not in head
    kinds = [each["type"] for each in head["model-index"][0]["results"][0]["metrics"]]
    assert kinds == ["mse", "groups_off", "groups", "multicalibration_error"]
