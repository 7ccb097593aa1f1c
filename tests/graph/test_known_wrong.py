"""Models that other converters get wrong, mostly without saying so: ours are right, or refuse.

onnxmltools gives no sigmoid for xgboost's logistic regressors, other answers for lightgbm's
missing values, zeros as missing, forests and linear trees, and fails on named columns, dart,
cross-entropy and many categories; skl2onnx is wrong about forests trained with missing values,
isotonic calibration and categories of histogram boosting.
"""

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from exported import TREES, outcomes, people
from settings import fit_with
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from treebase import expected_outputs

import recalibrate as rc
from recalibrate.bases.protocol import predicted_mean
from recalibrate.graph import ExportError, ServedModel, load_served
from recalibrate.graph.parity import Kinds, RowMaker, model_thresholds

pytestmark = [pytest.mark.parity, pytest.mark.adapter]

NUMBERS = ["age", "debt"]
H = rc.Trees(depth=2, features=["age", "sex"])
RUN = {"levels": 3, "max_rounds": 2, "validation": False}


def rows(seed: int, n: int = 1500) -> tuple[pd.DataFrame, np.ndarray]:
    X, margin = people(seed, n)
    X["village"] = np.random.default_rng(seed).integers(0, 200, n).astype(str)
    return X, outcomes(margin + 0.8 * (X["village"].astype(int) % 3 == 0), seed)


def own_columns(X: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """The columns of a model: text as the training's categories."""
    own = X[names].copy()
    for name in set(names) - set(NUMBERS):
        known = sorted(set(rows(0)[0][name]))
        own[name] = pd.Categorical(own[name].where(own[name].isin(known)), categories=known)
    return own


def gbm(**settings: Any) -> lightgbm.LGBMModel:
    more = {"verbose": -1, "min_data_per_group": 5, "cat_smooth": 1.0, **settings}
    return lightgbm.LGBMClassifier(**TREES, **more)


FOREST = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
EXACT: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "xgboost reg:logistic": (
        lambda: xgboost.XGBRegressor(objective="reg:logistic", max_depth=3, **TREES),
        NUMBERS,
    ),
    "xgboost regressor binary:logistic": (
        lambda: xgboost.XGBRegressor(objective="binary:logistic", max_depth=3, **TREES),
        NUMBERS,
    ),
    "xgboost dart": (
        lambda: xgboost.XGBClassifier(booster="dart", rate_drop=0.3, max_depth=3, **TREES),
        NUMBERS,
    ),
    "lightgbm, missing values": (gbm, NUMBERS),
    "lightgbm, zeros are missing": (lambda: gbm(zero_as_missing=True), NUMBERS),
    "lightgbm forest": (lambda: gbm(**FOREST), NUMBERS),
    "lightgbm dart": (lambda: gbm(boosting_type="dart"), NUMBERS),
    "lightgbm cross-entropy": (
        lambda: lightgbm.LGBMRegressor(objective="cross_entropy", verbose=-1, **TREES),
        NUMBERS,
    ),
    "lightgbm, 200 categories": (gbm, [*NUMBERS, "village"]),
    "forest with missing values": (lambda: RandomForestClassifier(10, random_state=0), NUMBERS),
    "histogram boosting with categories": (
        lambda: HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype"),
        [*NUMBERS, "town"],
    ),
}


def native(model: Any, X: pd.DataFrame) -> np.ndarray:
    return model.predict_proba(X)[:, 1] if hasattr(model, "predict_proba") else model.predict(X)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_exact_ones(name):
    make, names = EXACT[name]
    X, y = rows(0)
    base = make().fit(own_columns(X, names), y)
    calibration, labels = rows(1)
    model = fit_with(base, calibration, labels, H, exportable=True, **RUN)
    assert model.base.exact
    served = load_served(model.to_onnx(X_sample=calibration[:100]).SerializeToString())
    special = made_rows(model, served)
    # Equal up to the float32 sums of the framework; a row on a wrong side is far off.
    found = predicted_mean(model.base, special)
    np.testing.assert_allclose(found, native(base, own_columns(special, names)), atol=1e-5)
    answer = served.run(special)
    for output, values in expected_outputs(model, special).items():
        np.testing.assert_array_equal(answer[output], values, err_msg=output)


def made_rows(model: rc.Recalibrated, served: ServedModel) -> pd.DataFrame:
    """Rows on all thresholds and beside, with missing values and unknown categories."""
    return RowMaker(model, served.inputs, model_thresholds(model)).make(Kinds(infinite=False)).X


@pytest.mark.slow
def test_isotonic_calibration():
    """Steps between numbers of a linear model, which no runtime gives to the last bit."""
    X, y = rows(0)
    base = CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=3)
    base.fit(X[NUMBERS].fillna(40), y)
    calibration, labels = rows(1)
    calibration["age"] = calibration["age"].fillna(40)
    model = fit_with(base, calibration, labels, H, exportable=True, **RUN)
    scores = native(base, own_columns(calibration, NUMBERS))
    # Frameworks add up float32, we float64.
    np.testing.assert_allclose(predicted_mean(model.base, calibration), scores, rtol=1e-5)
    served = load_served(model.to_onnx(X_sample=calibration).SerializeToString())
    expected = model.predict(calibration)
    assert np.sum(np.abs(served.predict(calibration) - expected) > 1e-6) == 0


def test_linear_trees_are_refused(tmp_path):
    X, y = rows(0)
    base = gbm(linear_tree=True).fit(X[NUMBERS], y)
    calibration, labels = rows(1)
    model = fit_with(base, calibration, labels, H, **RUN)
    scores = native(base, own_columns(calibration, NUMBERS))
    np.testing.assert_allclose(predicted_mean(model.base, calibration), scores, rtol=1e-5)
    with pytest.raises(ExportError, match="linear"):
        model.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ExportError, match="linear"):
        rc.fit(base, calibration, labels, H, exportable=True)
