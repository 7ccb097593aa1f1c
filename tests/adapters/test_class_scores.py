"""Models of several classes: all of their scores, exactly as their framework gives them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xgboost
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from skl2onnx import to_onnx
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import recalibrate as rc
from recalibrate.core.levels import from_margin
from recalibrate.scores import as_base

RNG = np.random.default_rng(0)
N = 400
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)}).astype(np.float32)
Y = np.clip(np.rint(X["a"] + X["b"] + RNG.normal(size=N)), -1, 1).astype(int).to_numpy() + 1
NAMES = np.array(["low", "middle", "upper"])[Y]
NEW = pd.DataFrame(RNG.normal(size=(200, 2)), columns=["a", "b"]).astype(np.float32)
LIGHT = {"n_estimators": 8, "verbose": -1, "n_jobs": 1}

MODELS = {
    "logistic": lambda: LogisticRegression().fit(X, NAMES),
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(X, NAMES),
    "forest": lambda: RandomForestClassifier(8, max_depth=4, random_state=0).fit(X, NAMES),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=5).fit(X, NAMES),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=8).fit(X, NAMES),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=8, n_jobs=1).fit(X, Y),
    "lightgbm": lambda: LGBMClassifier(**LIGHT).fit(X, NAMES),
    "one against all": lambda: LGBMClassifier(objective="multiclassova", **LIGHT).fit(X, NAMES),
    "catboost": lambda: CatBoostClassifier(
        iterations=8, verbose=0, allow_writing_files=False, thread_count=1
    ).fit(X, NAMES),
    "xgboost in a pipeline": lambda: make_pipeline(
        StandardScaler(), xgboost.XGBClassifier(n_estimators=8, n_jobs=1)
    ).fit(X, Y),
}
EXACT = {"forest", "boosting", "histogram", "xgboost", "lightgbm", "catboost"}


@pytest.fixture(scope="module")
def fitted():
    made = {}

    def get(name):
        if name not in made:
            made[name] = MODELS[name]()
        return made[name]

    return get


def own(model):
    """Probabilities by the framework, which sum to one."""
    p = np.asarray(model.predict_proba(NEW), dtype=np.float64)
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_the_framework(name, fitted):
    model = fitted(name)
    base = as_base(model)
    scores = base.scores(NEW)
    assert scores.shape == (200, 3)
    assert base.exact == (name in EXACT)
    # xgboost computes in float32.
    np.testing.assert_allclose(from_margin(scores, base.link), own(model), atol=2e-7)
    assert list(base.classes) == list(model.classes_)
    assert base.graph() is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_knows_the_classes(name, fitted):
    model = fitted(name)
    labels = Y if name.startswith("xgboost") else NAMES
    made = rc.fit(model, X, labels, rc.Groups("a < 0"), loop=rc.Loop(levels=1, max_rounds=2))
    assert made.classes_.tolist() == list(model.classes_)
    assert made.predict_proba(NEW).shape == (200, 3)


@pytest.mark.slow
def test_a_booster_numbers_its_classes():
    data = xgboost.DMatrix(X, Y)
    booster = xgboost.train({"objective": "multi:softmax", "num_class": 3}, data, 5)
    base = as_base(booster)
    assert base.classes == range(3)
    margin = booster.predict(xgboost.DMatrix(NEW), output_margin=True)
    np.testing.assert_allclose(base.scores(NEW), margin, atol=1e-6)
    how = {"H": rc.Groups("a < 0"), "loop": rc.Loop(levels=1, max_rounds=1)}
    with pytest.raises(ValueError, match=r"y holds text, 'low', 'middle', 'upper'.*classes="):
        rc.fit(booster, X, NAMES, **how)
    made = rc.fit(booster, X, NAMES, classes=["low", "middle", "upper"], **how)
    assert made.classes_.tolist() == ["low", "middle", "upper"]


@pytest.mark.parametrize("zipmap", [True, False])
def test_a_foreign_graph(zipmap, fitted):
    model = fitted("logistic")
    graph = to_onnx(
        model, X.to_numpy()[:1], options={id(model): {"zipmap": zipmap}}, target_opset=15
    )
    base = as_base(graph)
    np.testing.assert_allclose(base.scores(NEW.to_numpy()), own(model), atol=1e-6)


@pytest.mark.parametrize("link", ["logit", "identity"])
def test_a_network(link, torch):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(2, 5), torch.nn.ReLU(), torch.nn.Linear(5, 4)]
    net = torch.nn.Sequential(*layers, *([torch.nn.Softmax(dim=1)] if link == "identity" else []))
    base = as_base(net, link="logit" if link == "logit" else None)
    with torch.no_grad():
        expected = net(torch.tensor(NEW.to_numpy())).numpy()
    np.testing.assert_allclose(base.scores(NEW.to_numpy()), expected, atol=1e-6)
    assert base.link == link
    y = RNG.integers(0, 4, 200)
    made = rc.fit(net, NEW.to_numpy(), y, base_link="logit" if link == "logit" else None)
    assert made.predict_proba(NEW.to_numpy()).shape == (200, 4)


@pytest.mark.slow
def test_a_function():
    def shares(rows):
        e = np.exp(np.column_stack([rows["a"], rows["b"], 0 * rows["a"]]).astype(np.float64))
        return e / e.sum(axis=1, keepdims=True)

    how = {"H": rc.Groups("a < 0"), "loop": rc.Loop(levels=1, max_rounds=1)}
    with pytest.raises(ValueError, match=r"nothing says which of the 3 columns.*classes="):
        rc.fit(shares, X, NAMES, **how)
    made = rc.fit(shares, X, NAMES, classes=["low", "middle", "upper"], **how)
    assert made.classes_.tolist() == ["low", "middle", "upper"]
    assert made.predict(NEW).shape == (200, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["histogram", "lightgbm", "logistic"])
def test_a_saved_model_brings_its_base(name, fitted, tmp_path):
    model = fitted(name)
    made = rc.fit(model, X, NAMES, rc.Groups("a < 0"), loop=rc.Loop(levels=1, max_rounds=2))
    again = rc.load(made.save(tmp_path / "model.rcal"))
    np.testing.assert_allclose(again.predict(NEW), made.predict(NEW), atol=1e-12)


def two_numbers(kind, folder):
    """A model of two classes that it only numbers."""
    y = (Y > 0).astype(int)
    if kind.startswith("xgboost"):
        model = xgboost.XGBClassifier(n_estimators=8, n_jobs=1).fit(X, y)
        model.get_booster().save_model(folder / "x.json")
        return model.get_booster() if kind == "xgboost" else folder / "x.json"
    model = LGBMClassifier(**LIGHT).fit(X, y)
    model.booster_.save_model(folder / "l.txt")
    return model.booster_ if kind == "lightgbm" else folder / "l.txt"


@pytest.mark.parametrize("kind", ["xgboost", "xgboost file", "lightgbm", "lightgbm file"])
def test_positive_chooses_the_first_of_two_numbered_classes(kind, tmp_path):
    base = two_numbers(kind, tmp_path)
    y = (Y > 0).astype(int)
    words = np.array(["low", "other"])[y]
    second = from_margin(as_base(base).scores(X), "logit")
    options = {"H": rc.Groups("a < 0"), "validation": False, "loop": rc.Loop(levels=1)}
    for labels, first, more in ((y, 0, {}), (words, "low", {"classes": ["low", "other"]})):
        model = rc.fit(base, X, labels, positive=first, **more, **options)
        assert model.labels.classes[1] == first
        scores = from_margin(model.base.scores(X), "logit")
        np.testing.assert_allclose(scores, 1 - second, atol=1e-9)
        assert np.corrcoef(model.predict(X), labels == first)[0, 1] > 0.5
        table = rc.audit(base, X, labels, positive=first, **more).table
        assert table["gap"][0] == pytest.approx((labels == first).mean() - 1 + second.mean())
    with pytest.raises(ValueError, match="predicts the probability of 1 and keeps doing so"):
        rc.fit(as_base(base), X, y, positive=0, **options)
    with pytest.raises(ValueError, match="does not say which of its outputs 0 is"):
        rc.fit(base, X, 2 * y, positive=0, **options)


def test_positive_without_names_of_the_outputs_is_what_the_score_is_about(tmp_path):
    base = two_numbers("xgboost", tmp_path)
    words = np.array(["b", "a"])[(Y > 0).astype(int)]
    model = rc.fit(base, X, words, positive="a", H=rc.Groups("a < 0"), validation=False)
    np.testing.assert_array_equal(model.base.scores(X), as_base(base).scores(X))
    p = from_margin(as_base(base).scores(X), "logit")
    with pytest.raises(ValueError, match="the scores are about 'a', by positive='b'"):
        rc.fit(p, X, words, classes=["b", "a"], positive="b")
