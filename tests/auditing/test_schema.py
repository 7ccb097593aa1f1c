"""The JSON Schema of a report: a real validator accepts every kind of report, and can refuse."""

from __future__ import annotations

import copy
import json
from dataclasses import fields

import numpy as np
import pytest
from jsonschema import Draft202012Validator, ValidationError

import recalibrate as rc
from recalibrate.auditing.records import Calibration
from recalibrate.simulate import census


@pytest.fixture(scope="module")
def validator():
    schema = rc.AuditReport.json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.fixture(scope="module")
def data():
    return census(1_500, seed=2, gap=0.1, categorical=True)


def everything(data):
    return rc.audit(
        data.scores, data.X, data.y, ["SEX", "SEX*MAR"], baseline=data.probability, min_rows=30,
        thresholds=[0.5], H=rc.Trees(depth=1, features=["SEX"]), cluster=np.arange(1_500) // 2,
    )  # fmt: skip


REPORTS = {
    "everything": everything,
    "slices": lambda data: rc.audit(
        data.scores, data.X, data.y, ["SEX"], by=np.arange(1_500) // 500
    ),
    "no groups": lambda data: rc.audit(data.scores, None, data.y),
    "one row": lambda data: rc.audit([2.5], None, [7.0]),
    "soft labels": lambda data: rc.audit(data.scores, data.X, data.probability, ["SEX"]),
    "numbers": lambda data: rc.audit(
        data.scores * 100, data.X, data.probability * 90, ["SEX"], thresholds=[50]
    ),
    "a label is missing": lambda data: rc.audit(
        data.scores, None, data.y, {"ones": data.y == 1}, thresholds=[0.99]
    ),
    "a recalibrated model": lambda data: rc.audit(
        rc.fit(data.scores, data.X, data.y, H=rc.Groups("SEX")), data.X, data.y, base=data.scores
    ),
}


@pytest.mark.parametrize("make", REPORTS.values(), ids=REPORTS.keys())
def test_reports_keep_to_the_schema(data, validator, make):
    validator.validate(json.loads(make(data).to_json()))


def test_the_schema_refuses_what_is_not_a_report(data, validator):
    good = json.loads(rc.audit(data.scores, data.X, data.y, ["SEX"]).to_json())
    for change in (
        lambda r: r.pop("groups"),
        lambda r: r.update(schema_version=2),
        lambda r: r["groups"][0].update(rows="many"),
        lambda r: r["groups"][1]["after"].pop("gap"),
        lambda r: r["rates"]["rates"][0]["after"].update(value="high"),
        lambda r: r["notes"][0].update(text=None),
    ):
        bad = copy.deepcopy(good)
        change(bad)
        with pytest.raises(ValidationError):
            validator.validate(bad)


def test_every_number_has_a_meaning():
    schema = rc.AuditReport.json_schema()
    calibration = schema["$defs"]["Calibration"]["properties"]
    assert list(calibration) == [each.name for each in fields(Calibration)]
    assert calibration["gap"]["description"].startswith("Mean outcome minus mean prediction")
    assert schema["properties"]["alpha"]["description"]


def test_keys_may_be_added(data, validator):
    found = json.loads(rc.audit(data.scores, None, data.y).to_json())
    found["something new"] = found["groups"][0]["something new"] = 1
    validator.validate(found)
