"""What cannot be used as it is says why, and the advice works."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from settings import fit_with
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import recalibrate as rc
from recalibrate.scores import as_base, predicted_mean

pytestmark = pytest.mark.adapter

ROWS = 1500
RUN = {"levels": 2, "max_rounds": 2}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"my age": rng.integers(18, 90, ROWS), "sex": rng.choice(["F", "M"], ROWS)})
    y = rng.random(ROWS) < np.where(X["my age"] > 50, 0.6, 0.2) + 0.15 * (X["sex"] == "F")
    return X, y.astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("categories", [False, True])
def test_names_with_spaces_in_files_and_graphs(data, tmp_path, categories):
    X, y = data
    X = X.assign(sex=X["sex"].astype("category"))
    own = ["my age", "sex"] if categories else ["my age"]
    base = lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1).fit(X[own], y)
    model = fit_with(base, X, y, H=rc.Groups("sex"), **RUN)
    expected = model.predict(X)
    model.to_onnx(tmp_path / "model.onnx", X[:50])
    served = rc.load(tmp_path / "model.onnx").predict(X)
    np.testing.assert_array_equal(served, expected.astype(np.float32))
    model.save(tmp_path / "model.rcal")
    np.testing.assert_array_equal(rc.load(tmp_path / "model.rcal").predict(X), expected)
    renamed = X.rename(columns={"my age": "my_age"})
    np.testing.assert_array_equal(model.base.scores(renamed), model.base.scores(X))


@pytest.mark.slow
def test_a_booster_with_an_objective_of_its_own(data):
    X, y = data

    def objective(margin, rows):
        p = 1 / (1 + np.exp(-margin))
        return p - rows.get_label(), p * (1 - p)

    rows = xgboost.DMatrix(X[["my age"]], y)
    booster = xgboost.train({"base_score": 0.0, "nthread": 1}, rows, 10, obj=objective)
    with pytest.raises(ValueError, match='base_link="logit"'):
        rc.fit(booster, X, y)
    model = fit_with(booster, X, y, base_link="logit", H=rc.Groups("sex"), **RUN)
    native = 1 / (1 + np.exp(-booster.predict(rows, output_margin=True).astype(float)))
    np.testing.assert_allclose(predicted_mean(model.base, X), native, atol=1e-6)


class Rate(ClassifierMixin, BaseEstimator):
    """What it learns does not end in an underscore."""

    classes_ = np.array([0, 1])

    def fit(self, X, y):
        self.rate = float(np.mean(y))
        return self

    def predict_proba(self, X):
        return np.tile([1 - self.rate, self.rate], (len(X), 1))

    def predict(self, X):
        return self.predict_proba(X)[:, 1] > 0.5


def test_fitted_models_without_underscores_are_fitted(data):
    X, y = data
    with pytest.raises(ValueError, match="is not fitted"):
        rc.fit(Rate(), X[["my age"]], y)
    model = Rate().fit(X[["my age"]], y)
    fit_with(model, X[["my age"]], y, H=rc.Groups("`my age` < 40"), **RUN)
    np.testing.assert_array_equal(as_base(model).scores(X[["my age"]]), y.mean())


def test_a_regressor_on_labels_of_two_kinds(data):
    X, y = data
    X = X[["my age"]].assign(far=10.0 * X["my age"].to_numpy())
    model = Ridge().fit(X, 3 * y - 1)
    with pytest.raises(ValueError, match=r"numpy\.clip\(model\.predict\(X\), 0, 1\)"):
        rc.fit(model, X, y)
    cut = fit_with(lambda X: np.clip(model.predict(X), 0, 1), X, y, H=rc.Groups("far < 400"), **RUN)
    assert np.isfinite(cut.predict(X)).all()


def test_several_boosters_at_once(data):
    X, y = data
    rows = lightgbm.Dataset(X[["my age"]], y)
    found = lightgbm.cv(
        {"objective": "binary", "verbose": -1, "num_threads": 1},
        rows, 3, nfold=2, return_cvbooster=True,
    )["cvbooster"]  # fmt: skip
    with pytest.raises(ValueError, match=r"one model per fold.*model\.boosters\[0\]"):
        rc.fit(found, X, y)
    fit_with(found.boosters[0], X, y, H=rc.Groups("sex"), **RUN)


@pytest.mark.slow
@pytest.mark.parity
def test_the_gate_makes_rows_that_an_encoder_takes(data, tmp_path):
    X, y = data
    encoder = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    base = make_pipeline(encoder, LogisticRegression(max_iter=1000)).fit(X, y)
    model = fit_with(base, X, y, H=rc.Groups("sex"), exportable=True, **RUN)
    model.to_onnx(tmp_path / "model.onnx", X[:50])
    served = rc.load(tmp_path / "model.onnx")
    # The graph's output is float32.
    np.testing.assert_allclose(served.predict(X), model.predict(X), rtol=0, atol=6e-8)


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize("make", [PoissonRegressor, GammaRegressor, TweedieRegressor])
def test_the_gate_makes_rows_whose_exponential_is_finite(make, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=ROWS)})
    y = 1.0 + np.minimum(rng.poisson(np.exp(0.5 * X["a"])), 9)
    model = fit_with(make().fit(X, y), X, y, H=rc.Groups("a < 0"), exportable=True, **RUN)
    model.to_onnx(tmp_path / "model.onnx", X[:50])
    served = rc.load(tmp_path / "model.onnx")
    # The graph's output is float32.
    np.testing.assert_allclose(served.predict(X), model.predict(X), rtol=1e-6)
