"""Base scores that look as if the base had been trained on the calibration rows."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from recalibrate.bases.problem import InputOptions, read_problem
from recalibrate.scores import as_base, sigmoid


def sample(n=1000, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    margin = scale * (X["a"] + X["b"] * X["c"])
    return X, (rng.random(n) < sigmoid(margin.to_numpy())).astype(float), margin.to_numpy()


def warned(scores, X, y, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_problem(as_base(scores), X, y, InputOptions(**options))
    return any("almost perfectly" in str(warning.message) for warning in caught)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(random_state=0),
        RandomForestClassifier(50, random_state=0),
        HistGradientBoostingClassifier(random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("scale", [1.0, 20.0], ids=["noisy", "easy"])
def test_training_rows_are_noticed_and_new_rows_are_not(model, scale):
    X, y, _ = sample(scale=scale)
    model.fit(X, y)
    new, new_y, _ = sample(scale=scale, seed=1)
    assert warned(model.predict_proba(X)[:, 1], X, y)
    assert not warned(model.predict_proba(new)[:, 1], new, new_y)


@pytest.mark.parametrize("seed", range(5))
def test_an_honest_model_of_an_easy_task_is_not_suspected(seed):
    X, y, margin = sample(scale=200.0, seed=seed)
    p = sigmoid(margin)  # the truth itself, almost never wrong
    assert np.mean((p > 0.5) == y) > 0.99
    assert not warned(p, X, y)


def test_simple_model_on_its_training_rows_is_no_matter():
    X, y, _ = sample()
    assert not warned(LogisticRegression().fit(X, y).predict_proba(X)[:, 1], X, y)


def test_few_rows_say_nothing():
    X, y, _ = sample(15)
    assert not warned(y, X, y)


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_regression(link):
    X, _, signal = sample()
    rng = np.random.default_rng(1)
    y = 50 + 10 * signal + rng.normal(0, 0.5, len(X))  # leaves .0012 of the variance
    assert not warned(50 + 10 * signal, X, y, link=link, bounds=(-300, 400))
    tree = DecisionTreeRegressor(random_state=0).fit(X, y)
    assert warned(tree.predict(X), X, y, link=link, bounds=(-300, 400))


def test_rows_of_weight_zero_are_not_looked_at():
    X, y, _ = sample(200)
    honest = np.full(200, y.mean())
    half = np.arange(200) < 100
    assert warned(np.where(half, 0.1 + 0.8 * y, honest), X, y, sample_weight=half.astype(float))
