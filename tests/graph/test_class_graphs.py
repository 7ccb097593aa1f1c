"""Graphs of several classes: one file, all probabilities, labels in their own type."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import xgboost
from lightgbm import LGBMClassifier
from sklearn.tree import DecisionTreeClassifier

import recalibrate as rc

RNG = np.random.default_rng(1)
N = 1500
X = pd.DataFrame(
    {
        "a": RNG.normal(size=N).astype(np.float32),
        "b": RNG.normal(size=N).astype(np.float32),
        "g": RNG.choice(list("uvw"), N),
    }
)
LATENT = X["a"] + (X["g"] == "u") + RNG.normal(size=N)
Y = np.clip(np.rint(LATENT), -1, 1).astype(int).to_numpy() + 1
NAMES = np.array(["low", "middle", "upper"])
SCORES = np.exp(RNG.normal(size=(N, 3)))
SCORES /= SCORES.sum(axis=1, keepdims=True)

WAYS = {
    "default": {},
    "groups": {"H": rc.Groups("g"), "loop": rc.Loop(levels=3, max_rounds=9)},
    "linear": {"H": rc.Linear(), "loop": rc.Loop(levels=2, max_rounds=4)},
    "trees": {"H": rc.Trees(depth=2), "loop": rc.Loop(levels=3, max_rounds=6)},
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_graph_gives_the_same_margins(way, tmp_path):
    model = rc.fit(SCORES, X, NAMES[Y], classes=NAMES.tolist(), **WAYS[way])
    assert model.rounds.steps
    model.to_onnx(tmp_path / "model.onnx", X[:200], base=SCORES[:200])
    served = rc.load(tmp_path / "model.onnx")
    answer = served.run(X, SCORES)
    p = model.predict(X, base=SCORES)
    # float32 of the same float64 numbers.
    np.testing.assert_allclose(answer["probabilities"], p, atol=6e-8)
    # Exponentials of another library, rounded to 2**-24 before level sets are drawn.
    np.testing.assert_array_equal(answer["score_margin"], model.margins(X, base=SCORES))
    np.testing.assert_array_equal(answer["label"], NAMES[p.argmax(axis=1)])
    assert served.classes_.tolist() == NAMES.tolist()
    np.testing.assert_array_equal(served.predict_proba(X, SCORES), answer["probabilities"])


@pytest.mark.parametrize("threads", [1, 2])
def test_base_and_corrections_are_one_file(threads, tmp_path):
    base = xgboost.XGBClassifier(n_estimators=6, n_jobs=1).fit(X[["a", "b"]], Y)
    model = rc.fit(base, X, Y, H=rc.Groups("g"), loop=rc.Loop(levels=2, max_rounds=6))
    model.to_onnx(tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options)
    shapes = {value.name: value.shape for value in session.get_outputs()}
    assert shapes == {"label": ["N"], "probabilities": ["N", 3], "score_margin": ["N", 3]}
    served = rc.load(tmp_path / "model.onnx")
    np.testing.assert_array_equal(served.margins(X), model.margins(X))
    assert served.run(X)["label"].dtype == np.int64


def test_an_unchanged_model_serves_the_base_itself(tmp_path):
    base = LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(X[["a", "b"]], NAMES[Y])
    model = rc.fit(base, X[:2], NAMES[Y][:2], H=rc.Groups("g"), cv=2, loop=rc.Loop(max_rounds=0))
    model.to_onnx(tmp_path / "model.onnx")
    served = rc.load(tmp_path / "model.onnx")
    expected = base.predict_proba(X[["a", "b"]])
    np.testing.assert_allclose(served.predict_proba(X), expected, atol=6e-8)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-12)


@pytest.mark.parametrize("pair", [("no", "yes"), (1, 2), (False, True), (1.0, 2.0)])
def test_labels_of_two_classes_are_their_own(pair, tmp_path):
    y = np.array(pair)[(Y == 2).astype(int)]
    model = rc.fit(SCORES[:, 2], X, y, H=rc.Groups("g"), loop=rc.Loop(levels=1, max_rounds=3))
    model.to_onnx(tmp_path / "model.onnx", X[:50], base=SCORES[:50, 2])
    label = rc.load(tmp_path / "model.onnx").run(X, SCORES[:, 2])["label"]
    above = (model.predict(X, base=SCORES[:, 2]) > 0.5).astype(int)
    np.testing.assert_array_equal(label, np.array(pair)[above])
    assert label.dtype == (object if isinstance(pair[0], str) else np.int64)


@pytest.mark.parametrize("pair", [(0.0, 1.0), (1.0, 2.0)])
def test_whole_numbers_are_integers_whatever_their_type(pair, tmp_path):
    """Labels read from a file are often floats; a signature for serving should not be."""
    y = np.array(pair)[(Y == 2).astype(int)]
    base = DecisionTreeClassifier(max_depth=2).fit(X[["a", "b"]], y)
    model = rc.fit(base, X, y, H=rc.Groups("g"), loop=rc.Loop(levels=1, max_rounds=3))
    model.to_onnx(tmp_path / "model.onnx", X[:50])
    label = rc.load(tmp_path / "model.onnx").run(X)["label"]
    np.testing.assert_array_equal(label, model.classes_[model.predict_proba(X).argmax(axis=1)])
    assert label.dtype == np.int64


def test_the_label_of_booleans_is_that_of_the_class_and_not_of_the_event(tmp_path):
    y = Y == 2
    model = rc.fit(
        SCORES[:, 2], X, y, H=rc.Groups("g"), positive=False, loop=rc.Loop(levels=1, max_rounds=3)
    )
    model.to_onnx(tmp_path / "model.onnx", X[:50], base=SCORES[:50, 2])
    label = rc.load(tmp_path / "model.onnx").run(X, SCORES[:, 2])["label"]
    both = model.predict_proba(X, base=SCORES[:, 2])
    np.testing.assert_array_equal(label, model.classes_[both.argmax(axis=1)])
