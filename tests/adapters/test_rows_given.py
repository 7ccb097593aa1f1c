"""Rows as people have them: each kind is read as it is meant, or refused with what to do."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

import recalibrate as rc

pytestmark = pytest.mark.adapter

ROWS = 800
QUICK = {"loop": rc.Loop(levels=2, max_rounds=2)}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=ROWS),
            "b": rng.normal(size=ROWS),
            "sex": rng.choice(list("FM"), ROWS),
        }
    )
    y = rng.random(ROWS) < 1 / (1 + np.exp(-X["a"] - (X["b"] > 0) - (X["sex"] == "F")))
    return X, y.astype(int)


@pytest.fixture(scope="module")
def base(data):
    X, y = data
    return LogisticRegression().fit(X[["a", "b"]], y)


def test_codes_in_the_place_of_text_are_refused(data, base, tmp_path):
    X, y = data
    model = rc.fit(base, X, y, H=rc.Groups("sex"), **QUICK)
    codes = X.assign(sex=X["sex"].map({"F": 0, "M": 1}))
    model.to_onnx(tmp_path / "model.onnx")
    for one in (model, rc.load(tmp_path / "model.onnx")):
        with pytest.raises(
            ValueError, match=r"Column 'sex' holds .*Pass the categories themselves"
        ):
            one.predict(codes)
    # Unknown texts and missing values are what they were: unknown and missing.
    assert np.isfinite(model.predict(X.assign(sex="other"))).all()
    assert np.isfinite(model.predict(X.assign(sex=None))).all()


def test_text_in_the_place_of_numbers_that_are_categories(data, base):
    X, y = data
    X = X.assign(zone=np.arange(ROWS) % 3)
    model = rc.fit(base, X, y, H=rc.Groups("zone"), categorical=["zone"], **QUICK)
    with pytest.raises(ValueError, match=r"holds text such as '0', but .* categories of numbers"):
        model.predict(X.assign(zone=X["zone"].astype(str)))


def test_an_array_and_then_a_table_in_another_order(data, base, tmp_path):
    X, y = data
    own = X[["a", "b"]]
    model = rc.fit(base, own.to_numpy(), y, H=rc.Groups("x0 < 0"), **QUICK)
    expected = model.predict(own.to_numpy())
    model.save(tmp_path / "model.rcal")
    model.to_onnx(tmp_path / "model.onnx", own.to_numpy()[:20])
    served = rc.load(tmp_path / "model.onnx")
    for rows in (own, X[["sex", "b", "a"]]):
        np.testing.assert_array_equal(model.predict(rows), expected)
        np.testing.assert_array_equal(rc.load(tmp_path / "model.rcal").predict(rows), expected)
        # The graph's output is float32.
        np.testing.assert_allclose(served.predict(rows), expected, rtol=0, atol=6e-8)


def test_columns_that_nobody_uses_may_hold_anything(data, base):
    X, y = data
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(ROWS), unit="D")
    wide = X.assign(date=dates, account=2**40 + 2 * np.arange(ROWS) + 1, path=[object()] * ROWS)
    model = rc.fit(base, wide, y, H=rc.Groups("sex"), **QUICK)
    np.testing.assert_array_equal(model.predict(wide), model.predict(X))
    with pytest.raises(ValueError, match="Column 'date' holds"):
        rc.fit(base, wide, y, H=rc.Groups("date"), **QUICK)
    with pytest.raises(ValueError, match="Column 'date' holds"):
        rc.fit(base, wide[["a", "b", "date"]], y, H=rc.Trees(depth=1), **QUICK)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        lambda X: X.to_dict("list"),
        lambda X: X.to_dict("records"),
        lambda X: X.to_records(index=False).view(np.ndarray),
    ],
    ids=["columns", "records", "structured"],
)
def test_tables_without_a_library(data, base, given):
    X, y = data
    expected = rc.fit(base, X, y, H=rc.Groups("sex"), **QUICK).predict(X)
    model = rc.fit(base, given(X), y, H=rc.Groups("sex"), **QUICK)
    np.testing.assert_array_equal(model.predict(given(X)), expected)


def test_what_cannot_be_read_says_so(data, base):
    X, y = data
    for rows in (xgboost.DMatrix(X[["a"]], y), lightgbm.Dataset(X[["a"]], y)):
        with pytest.raises(TypeError, match="Pass the table or array that it was made from"):
            rc.fit(base, rows, y)
    with pytest.raises(TypeError, match="X is None"):
        rc.fit(base, None, y)


def test_a_saved_model_is_a_base(data, base, tmp_path):
    X, y = data
    first = rc.fit(base, X, y, H=rc.Groups("sex"), **QUICK)
    path = first.save(tmp_path / "model.rcal")
    again = rc.fit(str(path), X, y, H=rc.Groups("b < 0"), **QUICK)
    expected = rc.fit(first, X, y, H=rc.Groups("b < 0"), **QUICK)
    np.testing.assert_array_equal(again.predict(X), expected.predict(X))


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_graphs_take_sparse_rows_as_the_framework_does(data, kind, tmp_path):
    X, y = data
    S = csr_matrix(np.where(X[["a", "b"]] > 0.5, X[["a", "b"]], 0.0))
    make = {"xgboost": xgboost.XGBClassifier, "lightgbm": lightgbm.LGBMClassifier}[kind]
    quiet = {"verbose": -1} if kind == "lightgbm" else {}
    own = make(n_estimators=5, n_jobs=1, **quiet).fit(S, y)
    model = rc.fit(own, S, y, Z=X[["sex"]], H=rc.Groups("sex"), exportable=True, **QUICK)
    model.save(tmp_path / "model.rcal")
    model.to_onnx(tmp_path / "model.onnx", S[:20], Z=X[["sex"]][:20])
    expected = model.predict(S, Z=X[["sex"]])
    loaded = rc.load(tmp_path / "model.rcal").predict(S, Z=X[["sex"]])
    np.testing.assert_array_equal(loaded, expected)
    served = rc.load(tmp_path / "model.onnx").predict(S, Z=X[["sex"]])
    np.testing.assert_array_equal(served, expected.astype(np.float32))


def test_exportable_is_a_promise(data):
    """A graph that disagrees is found by fit, not by whoever exports the model later."""
    X, y = data

    class Wrong:
        link, name, why_no_graph, exact = "identity", "wrong", "", False

        def columns(self):
            return ("a", "b")

        def scores(self, rows):
            return np.full(len(rows), 0.5)

        def graph(self):
            from recalibrate.support.onnxgraph import GraphBuilder, value_info

            builder = GraphBuilder()
            wrong = builder.op("Sigmoid", builder.columns("X", [0]))
            return builder.score_model([value_info("X", "float64", ["N", 2])], wrong)

    assert rc.fit(Wrong(), X, y, H=rc.Groups("sex"), **QUICK).n_rounds_ >= 0
    with pytest.raises(ValueError, match="the graph disagrees with the model"):
        rc.fit(Wrong(), X, y, H=rc.Groups("sex"), exportable=True, **QUICK)
