"""Estimators of all frameworks with scikit-learn's interface, given before they are fitted."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

import recalibrate as rc
from recalibrate.fitting.crossfit import is_unfitted

pytestmark = pytest.mark.adapter


def pipeline():
    columns = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    return make_pipeline(columns, LogisticRegression())


def boosting():
    return HistGradientBoostingClassifier(max_iter=20, random_state=0)


def xgboost_classifier():
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=20, n_jobs=1)


def lightgbm_classifier():
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1)


def catboost_classifier():
    return pytest.importorskip("catboost").CatBoostClassifier(
        iterations=20, verbose=False, allow_writing_files=False, thread_count=1
    )


BUILDERS = [pipeline, boosting, xgboost_classifier, lightgbm_classifier, catboost_classifier]


def sample(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"sex": rng.integers(0, 2, n), "z": rng.normal(size=n)})
    y = (rng.random(n) < 1 / (1 + np.exp(-X["z"] - X["sex"]))).astype(int)
    return X, y


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDERS)
def test_cross_fitted_base_is_trained_on_all_rows(build):
    X, y = sample()
    estimator = build()
    assert is_unfitted(estimator)
    model = rc.fit(
        estimator, X, y, H=rc.Groups("sex"), cv=3, sample_weight=np.linspace(1, 2, len(X))
    )
    assert is_unfitted(estimator)
    new, _ = sample(seed=1)
    alone = build().fit(X, y, **_weights(estimator, np.linspace(1, 2, len(X))))
    assert not is_unfitted(alone)
    scores = model.base.scores(new)
    mean = 1 / (1 + np.exp(-scores)) if model.base.link == "logit" else scores
    # Features are float32 here and float64 there, and so are the model's iterations.
    np.testing.assert_allclose(mean, alone.predict_proba(new)[:, 1], rtol=1e-4)


def _weights(estimator, weight):
    if hasattr(estimator, "steps"):
        return {f"{estimator.steps[-1][0]}__sample_weight": weight}
    return {"sample_weight": weight}


@pytest.mark.slow
def test_regressor():
    X, _ = sample()
    y = 30 + 5 * X["z"] + 2 * X["sex"] + np.random.default_rng(1).normal(size=len(X))
    model = rc.fit(Ridge(), X, y, H=rc.Groups("sex"), cv=3)
    assert model.base.link == "identity"
    # Features are float32 here and float64 there.
    np.testing.assert_allclose(model.base.scores(X), Ridge().fit(X, y).predict(X), rtol=1e-5)


@pytest.mark.parametrize("kind", ["fit", "probabilities", "margins"])
def test_the_base_can_be_exported_and_saved_right_after_the_fit(kind, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 2)), columns=["group", "x"])
    y = (rng.random(400) < 1 / (1 + np.exp(-X["x"]))).astype(int)
    if kind == "fit":
        model = rc.fit(LogisticRegression(), X, y, H=rc.Groups("group > 0"), cv=3, exportable=True)
    elif kind == "probabilities":
        model = (
            rc.RecalibratedClassifier(LogisticRegression(), H=rc.Groups("group > 0"), cv=3)
            .fit(X, y)
            .model_
        )
    else:
        estimator = rc.RecalibratedClassifier(
            LinearSVC(), H=rc.Groups("group > 0"), cv=3, base_link="logit"
        )
        model = estimator.fit(X, y).model_
    assert model.base.why_no_graph == ""
    model.to_onnx(tmp_path / "model.onnx", X[:50])
    model.save(tmp_path / "model.rcal")
    expected = model.predict(X)
    np.testing.assert_array_equal(rc.load(tmp_path / "model.rcal").predict(X), expected)
    # What graphs give out is float32.
    served = rc.load(tmp_path / "model.onnx").predict(X)
    np.testing.assert_allclose(served, expected, atol=1e-7)
