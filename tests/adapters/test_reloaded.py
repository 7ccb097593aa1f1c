"""A base model that a saved model gets back scores the same class on the same scale."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostClassifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import recalibrate as rc

pytestmark = pytest.mark.adapter

ROWS = 2000


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=ROWS), "c": rng.choice(list("xyz"), ROWS)})
    return X, (rng.random(ROWS) < 1 / (1 + np.exp(-2 * X["a"]))).astype(int)


def boosted(X, y):
    return lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(X[["a"]], y)


@pytest.mark.slow
def test_a_file_beside_the_model_keeps_its_class(data, tmp_path):
    X, y = data
    boosted(X, y).booster_.save_model(tmp_path / "base.txt")
    model = rc.fit(tmp_path / "base.txt", X, y, target_class=0, H=rc.Groups("a < 0"))
    model.save(tmp_path / "model.rcal", base=tmp_path / "base.txt")
    expected = model.predict(X)
    np.testing.assert_array_equal(rc.load(tmp_path / "model.rcal").predict(X), expected)
    again = rc.load(tmp_path / "model.rcal")
    again.save(tmp_path / "again.rcal")
    np.testing.assert_array_equal(rc.load(tmp_path / "again.rcal").predict(X), expected)


def test_a_model_that_is_brought_along_scores_the_same_class(data, tmp_path):
    X, y = data
    base = boosted(X, y)
    model = rc.fit(base, X, y, target_class=0, H=rc.Groups("a < 0"))
    model.save(tmp_path / "model.rcal")
    loaded = rc.load(tmp_path / "model.rcal", base=base)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_several_classes_without_a_graph(data, tmp_path):
    X, y = data
    three = np.clip(y + (X["a"] > 1), 0, 2)
    base = CatBoostClassifier(
        iterations=10, verbose=0, allow_writing_files=False, cat_features=["c"], thread_count=1
    ).fit(X, three)
    model = rc.fit(base, X, (three == 1).astype(int), target_class=1, H=rc.Groups("c"))
    with pytest.warns(UserWarning, match="cannot be saved inside"):
        model.save(tmp_path / "model.rcal")
    loaded = rc.load(tmp_path / "model.rcal", base=base)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_link_that_had_to_be_declared(data, tmp_path, torch):
    class Branching(torch.nn.Module):
        """No exporter can follow its control flow, and its scale cannot be recognised."""

        def __init__(self):
            super().__init__()
            self.line = torch.nn.Linear(1, 1)

        def forward(self, x):
            return self.line(x) + (1.0 if float(x.max()) > 99 else 0.0)

    X, y = data
    torch.manual_seed(0)
    base, rows = Branching(), X[["a"]].to_numpy()
    model = rc.fit(base, rows, y, base_link="logit")
    with pytest.warns(UserWarning, match="cannot be saved inside"):
        model.save(tmp_path / "model.rcal")
    loaded = rc.load(tmp_path / "model.rcal", base=base)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))


@pytest.mark.slow
def test_a_link_that_was_declared_though_there_is_another(data, tmp_path):
    X, y = data
    base = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[["a"]], y)
    model = rc.fit(base, X, y, base_link="logit", H=rc.Groups("c"))
    model.save(tmp_path / "model.rcal")
    loaded = rc.load(tmp_path / "model.rcal", base=base)
    assert loaded.base.link == "logit"
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_loaded_model_refuses_what_the_model_refuses(data, tmp_path, odd):
    X, y = data
    base = GradientBoostingClassifier(n_estimators=5).fit(X[["a"]], y)
    model = rc.fit(base, X, y, H=rc.Groups("c"), loop=rc.Loop(levels=2, max_rounds=2))
    model.save(tmp_path / "model.rcal")
    model.to_onnx(tmp_path / "model.onnx", X[:50])
    rows = X[:3].assign(a=[0.0, odd, 1.0])
    for one in (model, rc.load(tmp_path / "model.rcal"), rc.load(tmp_path / "model.onnx")):
        with pytest.raises(ValueError, match=r"does not take missing .* values, .* in: 'a'"):
            one.predict(rows)
        one.predict(rows[:1])


def test_a_loaded_model_refuses_a_category_that_the_model_refuses(data, tmp_path):
    X, y = data
    encoder = make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough")
    base = make_pipeline(encoder, LogisticRegression()).fit(X, y)
    model = rc.fit(base, X, y, H=rc.Groups("a < 0"), loop=rc.Loop(levels=2, max_rounds=2))
    model.save(tmp_path / "model.rcal")
    for one in (model, rc.load(tmp_path / "model.rcal")):
        with pytest.raises(ValueError, match=r"(?i)unknown categor|does not know"):
            one.predict(X[:3].assign(c="another"))
