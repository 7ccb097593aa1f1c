"""Numbers that float32 cannot hold: bases score, export and load as their framework compares.

Rounded to float32, epoch seconds fall on the same few numbers, and decimals on the other side of
splits between them: a third of the rows would get another score.
"""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from catboost import CatBoostClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler

import recalibrate as rc
from recalibrate.scores import as_base, predicted_mean

pytestmark = pytest.mark.adapter

ROWS = 3000


def decimals(seed):
    """One decimal, and labels that change every few units."""
    rng = np.random.default_rng(seed)
    value = np.round(rng.uniform(0, 100, ROWS), 1)
    label = rng.random(ROWS) < np.where(np.sin(value / 7) > 0, 0.75, 0.25)
    return pd.DataFrame({"v": value, "b": rng.normal(size=ROWS)}), label.astype(int)


def seconds(seed):
    """Seconds since 1970, and labels that change every five minutes."""
    rng = np.random.default_rng(seed)
    time = 1.7e9 + rng.integers(0, 3600, ROWS)
    label = rng.random(ROWS) < np.where(time % 600 < 300, 0.8, 0.2)
    return pd.DataFrame({"v": time, "b": rng.normal(size=ROWS)}), label.astype(int)


def boosting():
    return lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1)


MODELS = {
    "histogram": (lambda: HistGradientBoostingClassifier(max_iter=20), "float64"),
    "lightgbm": (boosting, "float64"),
    "xgboost": (lambda: xgboost.XGBClassifier(n_estimators=20, n_jobs=1), "float32"),
    "catboost": (
        lambda: CatBoostClassifier(
            iterations=20, verbose=0, allow_writing_files=False, thread_count=1
        ),
        "float32",
    ),
    "forest": (lambda: RandomForestClassifier(10, random_state=0), "float32"),
    "boosting": (lambda: GradientBoostingClassifier(n_estimators=10), "float32"),
    "bins": (
        lambda: make_pipeline(KBinsDiscretizer(8, encode="onehot-dense"), LogisticRegression()),
        "float64",
    ),
    "scaled": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), "float64"),
    "scaled lightgbm": (lambda: make_pipeline(StandardScaler(), boosting()), "float64"),
    "calibrated": (
        lambda: CalibratedClassifierCV(HistGradientBoostingClassifier(max_iter=5), cv=2),
        "float64",
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*quantile_method")  # scikit-learn is about to change it
@pytest.mark.parametrize("data", [decimals, seconds])
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_the_framework(name, data, tmp_path):
    make, kind = MODELS[name]
    model = make().fit(*data(0))
    X, y = data(1)
    native = model.predict_proba(X)[:, 1]
    # The frameworks' own sums are float32; a row on a wrong side is off by .01 and more.
    np.testing.assert_allclose(predicted_mean(as_base(model), X), native, atol=1e-6)

    fitted = rc.fit(model, X, y, H=rc.Groups("b < 0"))
    fitted.to_onnx(tmp_path / "model.onnx", X[:200])
    served = rc.load(tmp_path / "model.onnx")
    assert {p.name: p.kind for p in served.inputs}["X"] == kind
    expected = fitted.predict(X)
    # The graph's output is float32.
    np.testing.assert_allclose(served.predict(X), expected, rtol=0, atol=6e-8)
    fitted.save(tmp_path / "model.rcal")
    loaded = rc.load(tmp_path / "model.rcal")
    np.testing.assert_allclose(loaded.predict(X), expected, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_h_reads_float32_beside_a_base_that_reads_float64(tmp_path):
    X, y = seconds(0)
    model = boosting().fit(X, y)
    X, y = seconds(1)
    fitted = rc.fit(model, X, y, H=rc.Trees(depth=2), loop=rc.Loop(max_rounds=5))
    for style in ("matrix", "columns"):
        fitted.to_onnx(tmp_path / "model.onnx", X[:300], inputs=style)
        served = rc.load(tmp_path / "model.onnx")
        assert {port.kind for port in served.inputs} == {"float64"}
        np.testing.assert_array_equal(served.margins(X), fitted.margins(X))


def test_whole_numbers_beyond_float32_are_taken_by_a_base_that_reads_float64():
    X, y = seconds(0)
    model = boosting().fit(X.astype({"v": np.int64}), y)
    whole = X.astype({"v": np.int64})
    np.testing.assert_array_equal(as_base(model).scores(whole), as_base(model).scores(X))
    with pytest.raises(ValueError, match="'v' holds integers that float64 cannot hold"):
        as_base(model).scores(whole.assign(v=2**53 + 1))


@pytest.mark.slow
def test_categories_of_decimals():
    X, y = decimals(0)
    X = X.assign(v=(X["v"] // 10) / 10)
    model = HistGradientBoostingClassifier(max_iter=10, categorical_features=["v"]).fit(X, y)
    base = as_base(model)
    np.testing.assert_allclose(predicted_mean(base, X), model.predict_proba(X)[:, 1], atol=1e-9)
    fitted = rc.fit(base, X, y, H=rc.Groups("b < 0"), loop=rc.Loop(levels=2, max_rounds=2))
    assert fitted.to_onnx(None, X[:100]) is not None
