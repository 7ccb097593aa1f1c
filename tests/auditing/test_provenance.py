"""Model files, graphs and audits say where they come from, and the same things say the same."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import recalibrate as rc
from recalibrate.data.fingerprints import Mark, add_marks, hash_rows
from recalibrate.data.table import read_table
from recalibrate.simulate import census
from recalibrate.support.provenance import today

SEEN = ["AGEP", "WKHP"]


@pytest.fixture(scope="module")
def data():
    return census(2_000, seed=1, categorical=True)


@pytest.fixture(scope="module")
def base(data):
    return LogisticRegression(max_iter=500).fit(data.X[SEEN], data.y)


@pytest.fixture(scope="module")
def model(data, base):
    return rc.fit(base, data.X, data.y, H=rc.Groups("SEX"), seed=3)


def test_a_model_knows_its_rows_its_base_and_its_seed(data, base, model):
    known = model.provenance
    assert (known.version, known.seed) == (rc.__version__, 3)
    shuffled = np.random.default_rng(0).permutation(2_000)
    again = rc.fit(base, data.X.iloc[shuffled], data.y[shuffled], H=rc.Groups("SEX"), seed=3)
    assert again.provenance == known
    assert again.fingerprint_ == model.fingerprint_


@pytest.mark.slow
def test_other_rows_and_other_bases_have_other_fingerprints(data, base, model):
    y = data.y.copy()
    y[0] = 1 - y[0]
    labels = rc.fit(base, data.X, y, H=rc.Groups("SEX"), seed=3)
    assert labels.provenance.data != model.provenance.data
    X = data.X.assign(SEX=np.where(data.X["SEX"] == "male", "female", "male"))
    assert rc.fit(base, X, data.y, H=rc.Groups("SEX")).provenance.data != model.provenance.data
    other = LogisticRegression(C=0.001).fit(data.X[SEEN], data.y)
    second = rc.fit(other, data.X, data.y, H=rc.Groups("SEX"), seed=3)
    assert second.provenance.data == model.provenance.data
    assert second.provenance.base != model.provenance.base
    assert second.fingerprint_ != model.fingerprint_


@pytest.mark.slow
def test_rows_in_files_have_the_fingerprint_of_rows_in_memory(data, tmp_path):
    X = data.X[["AGEP", "SEX"]].astype({"SEX": str})
    path = tmp_path / "rows.parquet"
    X.assign(y=data.y, score=data.scores).to_parquet(path)
    streamed = rc.fit("score", path, "y", H=rc.Groups("SEX"))
    local = rc.fit(data.scores, X, data.y, H=rc.Groups("SEX"))
    assert streamed.provenance == local.provenance
    assert streamed.fingerprint_ == local.fingerprint_


def test_files_and_graphs_carry_it(model, tmp_path):
    again = rc.load(model.save(tmp_path / "model.rcal"))
    assert again.provenance == model.provenance
    assert again.fingerprint_ == model.fingerprint_
    facts = {each.key: each.value for each in model.to_onnx().metadata_props}
    assert facts["model_fingerprint"] == model.fingerprint_
    assert facts["base_fingerprint"] == model.provenance.base
    assert facts["calibration_data"] == model.provenance.data
    assert (facts["seed"], facts["fitted_date"]) == ("3", model.provenance.date)


@pytest.mark.slow
def test_an_audit_says_what_was_audited(data, model, tmp_path):
    report = rc.audit(model, data.X, data.y, ["SEX"], baseline=True)
    own = report.audited
    assert own.what == "recalibrated model on scikit-learn LogisticRegression"
    assert own.baseline == "its own base, scikit-learn LogisticRegression"
    assert (own.model, own.H, own.seed) == (model.fingerprint_, "Groups('SEX')", 3)
    assert (own.fitted_rows, own.fitted_data) == (2_000, model.provenance.data)
    assert own.base_fingerprint == model.provenance.base
    assert json.loads(report.to_json())["audited"]["model"] == model.fingerprint_
    for view in (report.to_html(), report.to_markdown()):
        for fact in (own.data, own.predictions, own.model, own.fitted_data, own.date):
            assert fact in view
    path = tmp_path / "model.onnx"
    model.to_onnx(path)
    served = rc.audit(rc.load(path), data.X, data.y, ["SEX"]).audited
    assert (served.model, served.data, served.seed) == (own.model, own.data, 3)


@pytest.mark.slow
def test_the_order_of_audited_rows_does_not_matter_but_the_rows_do(data):
    def audited(rows, scores=data.scores, groups=("SEX",)):
        X, y = data.X.iloc[rows], data.y[rows]
        return rc.audit(scores[rows], X, y, list(groups)).audited

    rows = np.arange(2_000)
    known = audited(rows)
    assert audited(rows[::-1]) == known
    assert audited(rows[:-1]).data != known.data
    moved = data.scores.copy()
    moved[7] += 1e-9
    other = audited(rows, scores=moved)
    assert other.data == known.data
    assert other.predictions != known.predictions
    assert known.what == "array of predictions"
    assert known.model is None


def test_pieces_have_the_fingerprint_of_the_whole(data):
    table = read_table(data.X)
    names, n_rows = table.schema.names, table.n_rows
    whole = Mark.of(hash_rows(table, names, [data.y], n_rows))
    parts = []
    for rows in (np.arange(1_500, 2_000), np.arange(1_500)):
        part = read_table(data.X.iloc[rows].astype(str).astype(data.X.dtypes.to_dict()))
        parts.append(Mark.of(hash_rows(part, names, [data.y[rows]], len(rows))))
    assert add_marks(parts).digest("x") == whole.digest("x") != whole.digest("y")


def test_columns_are_told_apart():
    here, there = pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.DataFrame({"a": [2.0], "b": [1.0]})
    one, other = (hash_rows(read_table(X), ["a", "b"], [], 1)[0] for X in (here, there))
    assert one != other


@pytest.mark.slow
def test_the_date_is_that_of_the_build_where_it_is_set(monkeypatch, data, base):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert today() == "2023-11-14"
    assert rc.audit(data.scores, None, data.y).audited.date == "2023-11-14"
    assert rc.fit(base, data.X, data.y, H=rc.Groups("SEX")).provenance.date == "2023-11-14"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(ValueError, match=r"SOURCE_DATE_EPOCH must be a number .* got 'yesterday'"):
        today()
