"""Rounds on top of rounds: a recalibrated model, or its exported file, as the base."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import recalibrate as rc
from recalibrate.scores import as_base

# Graphs give float32, of which 1e-6 is about eight units in the last place; float64 agrees to 1e-9.

pytestmark = [pytest.mark.adapter, pytest.mark.parity]

COLUMNS = ["age", "hours"]


def sample(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.uniform(18, 80, n), "hours": rng.normal(size=n)})
    X = X.astype(np.float32).assign(sex=rng.choice(["F", "M"], n))
    margin = 0.03 * (X["age"] - 50) + X["hours"] + np.where(X["sex"] == "F", 0.8, -0.4)
    return X, margin.to_numpy(), rng


def binary(seed):
    X, margin, rng = sample(seed=seed)
    return X, (rng.random(len(X)) < 1 / (1 + np.exp(-margin))).astype(float)


def regression(seed):
    X, margin, rng = sample(seed=seed)
    return X, 100 + 10 * margin + rng.normal(size=len(X))


def first_model(task):
    forest = RandomForestClassifier if task is binary else RandomForestRegressor
    X, y = task(0)
    base = forest(20, max_depth=4, random_state=0).fit(X[COLUMNS], y)
    return rc.fit(base, *task(1), H=rc.Groups("sex"))


def run(graph, X):
    import onnxruntime

    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    kinds = {"tensor(float)": np.float32, "tensor(string)": object}
    feeds = {
        i.name: X[i.name].to_numpy().astype(kinds[i.type]).reshape(-1, 1)
        for i in session.get_inputs()
    }
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("task", [binary, regression])
def test_graph_of_a_chain_gives_its_scores(task):
    model = first_model(task)
    base = as_base(model)
    X, _ = sample(seed=2)[:2]
    assert base.why_no_graph == ""
    assert base.columns() == ("age", "hours", "sex")
    found = run(base.graph(), X)["score"]
    if base.exact:
        np.testing.assert_array_equal(found, base.scores(X))
    else:  # a logarithm or division of another library
        np.testing.assert_allclose(found, base.scores(X), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("task", [binary, regression])
def test_rounds_are_appended_to_a_model_and_exported_with_it(task, tmp_path):
    model = first_model(task)
    X, y = task(3)
    again = rc.fit(model, X, y, H=rc.Trees(depth=2), loop=rc.Loop(max_rounds=10))
    assert again.n_rounds_ > 0
    before, after = (np.mean((m.predict(X) - y) ** 2) for m in (model, again))
    assert after < before
    path = tmp_path / "model.onnx"
    again.to_onnx(path, X)
    served = rc.load(path)
    np.testing.assert_allclose(served.predict(X), again.predict(X), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("task", [binary, regression])
def test_exported_file_is_a_base(task, tmp_path):
    model = first_model(task)
    path = tmp_path / "model.onnx"
    X, y = task(3)
    model.to_onnx(path, X)
    base = as_base(path)
    assert base.link == as_base(model).link
    np.testing.assert_allclose(base.scores(X), as_base(model).scores(X), rtol=1e-9)
    again = rc.fit(path, X, y, H=rc.Trees(depth=2), loop=rc.Loop(max_rounds=10))
    direct = rc.fit(model, X, y, H=rc.Trees(depth=2), loop=rc.Loop(max_rounds=10))
    np.testing.assert_allclose(again.predict(X), direct.predict(X), rtol=1e-6)


def test_one_of_several_classes_is_refitted_on_the_classes(tmp_path):
    X, margin, rng = sample()
    k = np.clip((margin + rng.logistic(size=len(X)) + 1.5) // 1.5, 0, 2).astype(int)
    forest = RandomForestClassifier(20, max_depth=4, random_state=0).fit(X[COLUMNS], k)
    model = rc.fit(forest, X, k, H=["sex"], target_class=0)
    for y in (k, k == 0):
        again = model.refit(X, y)
        assert (again.labels.classes, again.labels.chosen) == ((0, 1, 2), 0)
        assert np.corrcoef(again.predict(X), k == 0)[0, 1] > 0.3
    two = k < 2
    with pytest.raises(ValueError, match="1 can mean that a row is of class 0"):
        model.refit(X[two], k[two])
    again.save(tmp_path / "again.rcal")
    given = rc.load(tmp_path / "again.rcal", base=model)
    np.testing.assert_array_equal(given.predict(X), again.predict(X))
