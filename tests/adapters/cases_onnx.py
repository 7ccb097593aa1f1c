"""ONNX models for the contract suite: graphs as scikit-learn's exporter writes them."""

from pathlib import Path

import cases_sklearn as models
import numpy as np
import onnxruntime
import pandas as pd
from cases import Case
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import (
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

# What an exporter of some years ago wrote; the newest that skl2onnx knows is another.
OLD, NEW = {"": 12, "ai.onnx.ml": 1}, {"": 20, "ai.onnx.ml": 3}


def exported(build, types, opset=NEW, **options):
    def convert():
        model = build()
        chosen = {id(model): options} if options else None
        return convert_sklearn(model, initial_types=types, target_opset=opset, options=chosen)

    return convert


def columns(**types) -> list:
    return [(name, kind([None, 1])) for name, kind in types.items()]


def native(build):
    """The prediction of the model that was exported, on the rows that its graph sees."""
    trained = {}

    def predict(_, frame: pd.DataFrame) -> np.ndarray:
        model = trained.setdefault("model", build())
        rows = frame if hasattr(model, "feature_names_in_") else frame.to_numpy(dtype=np.float32)
        if hasattr(model, "predict_proba"):
            return model.predict_proba(rows)[:, 1]
        return model.predict(rows)

    return predict


def by_onnxruntime(model, frame: pd.DataFrame) -> np.ndarray:
    """The prediction of the graph as it was given: its trees treat missing values in a way."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = session.run(None, {"input": frame.to_numpy(dtype=np.float32)})[1]
    return np.array([row[1] for row in found])


def save(model, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def state(model) -> bytes:
    return model.SerializeToString(deterministic=True)


def scaled():
    return make_pipeline(StandardScaler(), LogisticRegression())


LINEAR = models.fitted(scaled, names=False)
FOREST = models.fitted(lambda: RandomForestClassifier(5, random_state=0), names=False)
RIDGE = models.fitted(Ridge, kind="numbers", names=False)
TEXTS = models.fitted(models.one_hot_regression, models.mixed)

CASES = [
    Case(
        name="onnx classifier with a map",
        build=exported(LINEAR, [("input", FloatTensorType([None, 3]))]),
        frame=models.numbers,
        native=native(LINEAR),
        exact=False,
        has_graph=True,
        missing=False,
        named=False,
        large=True,
        alone=True,
        save=save,
        state=state,
    ),
    Case(
        name="onnx classifier with a tensor of doubles",
        build=exported(LINEAR, [("input", DoubleTensorType([None, 3]))], zipmap=False),
        frame=models.numbers,
        native=native(LINEAR),
        exact=False,
        has_graph=True,
        rounds=False,
        missing=False,
        named=False,
        state=state,
    ),
    Case(
        name="onnx trees of old operators",
        build=exported(FOREST, [("input", FloatTensorType([None, 3]))], OLD),
        frame=models.numbers,
        native=by_onnxruntime,
        exact=False,
        has_graph=True,
        named=False,
        state=state,
    ),
    Case(
        name="onnx regressor",
        build=exported(RIDGE, [("input", FloatTensorType([None, 3]))]),
        frame=models.numbers,
        native=native(RIDGE),
        exact=False,
        has_graph=True,
        missing=False,
        named=False,
        state=state,
    ),
    Case(
        name="onnx columns with texts and integers",
        build=exported(
            TEXTS,
            columns(
                age=FloatTensorType,
                rooms=Int64TensorType,
                share=FloatTensorType,
                town=StringTensorType,
            ),
        ),
        frame=models.mixed,
        native=native(TEXTS),
        exact=False,
        has_graph=True,
        rounds=False,
        missing=False,
        save=save,
        state=state,
    ),
]
