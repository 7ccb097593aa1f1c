"""An exported file, read back: it says what it is and predicts through onnxruntime."""

import numpy as np
import onnx
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from treebase import TreeBase, random_ensemble

import recalibrate as rc
from recalibrate.data.classes import Known
from recalibrate.graph import load_served
from recalibrate.support.checks import ModelFileError

pytestmark = pytest.mark.parity


def sample(n=900):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    X["sex"] = rng.choice(["F", "M"], n)
    base = TreeBase(random_ensemble(rng, 2), ("a", "b"))
    y = rng.random(n) < 0.3 + 0.4 * (X["sex"] == "F")
    return rc.fit(base, X, y, rc.Groups("sex", "a < 0")), X, y


def test_round_trip(tmp_path):
    model, X, _ = sample()
    path = tmp_path / "model.onnx"
    graph = model.to_onnx(path, X, audit={"worst gap": 0.01})
    assert path.read_bytes() == graph.SerializeToString()
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    served = rc.load(path)
    np.testing.assert_array_equal(served.predict(X), model.predict(X).astype(np.float32))
    np.testing.assert_array_equal(served.margins(X), model.margins(X))
    np.testing.assert_array_equal(
        served.predict_proba(X), model.predict_proba(X).astype(np.float32)
    )
    assert served.metadata["audit"] == '{"worst gap": 0.01}'
    assert repr(served).startswith("<ServedModel: random trees, H=Groups('sex', 'a < 0')")
    shuffled = X[["sex", "b", "a"]].assign(extra=1)
    np.testing.assert_array_equal(served.predict(shuffled), served.predict(X))


def test_it_says_what_only_the_class_needs():
    model, X, _ = sample()
    served = load_served(model.to_onnx().SerializeToString())
    described = {port.name: (port.kind, port.shape, port.used_by) for port in served.inputs}
    assert described["X"] == ("float32", ("N", 2), ("base", "H"))
    assert described["sex"] == ("string", ("N", 1), ("H",))
    with pytest.raises(ValueError, match="no column 'sex'"):
        served.predict(X[["a", "b"]])


@pytest.mark.parametrize(
    ("texts", "stand_in"),
    [(["F", "M"], ""), (["", "M"], "missing"), (["", "missing", "missing_"], "missing__")],
)
def test_a_missing_text_is_none_of_the_categories(texts, stand_in):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.choice([*texts, None], 4000)})
    base = np.full(len(X), 0.4)
    rates = dict(zip([*texts, None], (0.2, 0.7, 0.3, 0.6), strict=False))
    y = rng.random(len(X)) < X["g"].map(rates)
    model = rc.fit(base, X, y, rc.Groups("g", "g is missing"))
    served = load_served(model.to_onnx().SerializeToString())
    assert {port.name: port.missing for port in served.inputs}["g"] == stand_in
    one_of_each = pd.DataFrame({"g": [*texts, None, "unknown"]})
    own = np.full(len(one_of_each), 0.4)
    expected = model.predict(one_of_each, base=own)
    assert len(np.unique(expected)) == len(texts) + 1
    np.testing.assert_array_equal(
        served.predict(one_of_each, base=own), expected.astype(np.float32)
    )


def test_audit_takes_it():
    model, X, y = sample()
    served = load_served(model.to_onnx().SerializeToString())
    report = rc.audit(served, X, y, groups=rc.Groups("sex"))
    expected = rc.audit(model, X, y, groups=rc.Groups("sex"))
    assert list(report.table.index) == list(expected.table.index)


def test_scores_only():
    _, X, y = sample()
    scores = np.full(len(X), 0.4)
    served = load_served(rc.fit(scores, X, y, rc.Groups("sex")).to_onnx().SerializeToString())
    assert [port.name for port in served.inputs] == ["base_score", "sex"]
    with pytest.raises(ValueError, match="takes base scores: pass them as base="):
        served.predict(X)
    assert served.predict(X, base=scores).shape == (len(X),)


def test_regressions_have_no_probabilities():
    _, X, _ = sample()
    labels = 3.0 + X["a"] + (X["sex"] == "F")
    scores = np.full(len(X), 3.0)
    model = rc.fit(scores, X, labels, "trees", loop=rc.Loop(max_rounds=5), validation=False)
    served = load_served(model.to_onnx().SerializeToString())
    assert served.outputs == ("score", "score_margin")
    with pytest.raises(AttributeError, match="use predict"):
        served.predict_proba(X, base=scores)


def test_other_files_are_refused(tmp_path):
    model, _, _ = sample()
    with pytest.raises(ModelFileError, match="the file is not an ONNX graph"):
        load_served(b"not a graph")
    foreign = model.base.graph()
    with pytest.raises(ModelFileError, match="not one that recalibrate exported"):
        load_served(foreign.SerializeToString())
    graph = model.to_onnx()
    for entry in graph.metadata_props:
        if entry.key == "inputs":
            entry.value = "[{}]"
    with pytest.raises(ModelFileError, match="damaged metadata"):
        load_served(graph.SerializeToString())
    newer = onnx.ModelProto()
    newer.CopyFrom(graph)
    for entry in newer.metadata_props:
        if entry.key == "recalibrate_format":
            entry.value = "99"
    path = tmp_path / "model.onnx"
    path.write_bytes(newer.SerializeToString())
    with pytest.raises(ModelFileError, match="format version '99'"):
        load_served(path)


def test_recalibrated_again():
    """An exported model under new rounds: its graph is the base of another one."""
    model, X, y = sample()
    again = rc.fit(model, X, y, rc.Trees(), loop=rc.Loop(levels=3, max_rounds=2), validation=False)
    served = load_served(again.to_onnx(X_sample=X).SerializeToString())
    np.testing.assert_array_equal(served.margins(X), again.margins(X))


def test_bands_of_pandas_cut_are_categories_of_a_served_graph(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.integers(18, 90, 2000)})
    X["band"] = pd.cut(X["age"], [0, 30, 60, 80])  # the oldest are in none
    y = (rng.random(2000) < np.where(X["age"] > 60, 0.8, 0.2)).astype(int)
    scores = np.full(2000, 0.5)
    model = rc.fit(scores, X, y, H=rc.Groups("band"))
    model.to_onnx(tmp_path / "model.onnx", X[:200], base=scores[:200])
    served = rc.load(tmp_path / "model.onnx")
    expected = model.predict(X, base=scores).astype(np.float32)
    assert len(np.unique(expected)) > 1
    np.testing.assert_array_equal(served.predict(X, base=scores), expected)


@pytest.fixture(scope="module")
def of_several():
    """One class of three against the rest, and the labels that name all three."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"u": rng.normal(size=1000), "g": rng.integers(0, 3, 1000)})
    k = np.clip((X["u"] + rng.logistic(size=1000) + 1.5) // 1.5, 0, 2).astype(int).to_numpy()
    model = rc.fit(LogisticRegression().fit(X, k), X, k, H=["g"], target_class=0)
    return model, load_served(model.to_onnx(X_sample=X[:50]).SerializeToString()), X, k


def test_one_of_several_classes_is_known_by_its_label(of_several):
    model, served, X, k = of_several
    assert served.known == Known((0, 1, 2), 1, 0)
    truth = (k == 0).mean() - model.predict(X).mean()
    for y in (k, k == 0):
        assert rc.audit(served, X, y).table["gap"][0] == pytest.approx(truth, abs=1e-6)
        monitor = rc.Monitor(served, groups=["g"])
        monitor.update(X, y)
        assert monitor.table["gap"][0] == pytest.approx(truth, abs=1e-6)
    with pytest.raises(ValueError, match="1 can mean that a row is of class 0"):
        rc.audit(served, X, (k == 0).astype(int))


def test_a_graph_that_does_not_say_which_class_is_one_of_two(of_several):
    """Files of early versions do not name the classes."""
    model, _, X, k = of_several
    graph = model.to_onnx(X_sample=X[:50])
    for entry in graph.metadata_props:
        if entry.key == "labels":
            entry.value = '{"kind": "binary", "low": 0.0, "high": 1.0}'
    served = load_served(graph.SerializeToString())
    assert rc.audit(served, X, k == 0).n_rows == len(X)
    with pytest.raises(ValueError, match="not classes of the base model: 2"):
        rc.audit(served, X, k)


def test_a_served_class_of_several_is_recalibrated_again(of_several, tmp_path):
    model, served, X, k = of_several
    model.to_onnx(tmp_path / "t.onnx", X[:50])
    for base in (served, tmp_path / "t.onnx"):
        again = rc.fit(base, X, k, H=["g"])
        assert again.labels.chosen == 0
        assert np.corrcoef(again.predict(X), model.predict(X))[0, 1] > 0.9
    again.save(tmp_path / "again.rcal", base=tmp_path / "t.onnx")
    loaded = rc.load(tmp_path / "again.rcal")
    np.testing.assert_allclose(loaded.predict(X), again.predict(X), atol=1e-6)  # float32 graphs


@pytest.mark.parametrize("pair", [(1, 2), (-1, 1)])
def test_labels_of_a_graph_without_class_names_are_0_and_1(pair):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.integers(0, 3, 500)})
    p = rng.uniform(0.1, 0.9, 500)
    y = (rng.random(500) < p).astype(int)
    model = rc.fit(p, X, y, H=["g"])
    served = load_served(model.to_onnx().SerializeToString())
    for each in (model, served):
        with pytest.raises(ValueError, match="Its classes are 0, 1"):
            rc.audit(each, X, np.array(pair)[1 - y], base=p)
        assert rc.audit(each, X, y, base=p).n_rows == 500


def test_rates_of_a_graph_are_watched_and_recalibrated_again():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"u": rng.normal(size=900), "g": rng.integers(0, 2, 900)})
    exposure = rng.uniform(0.5, 2, 900)
    y = rng.poisson(np.exp(1 + 0.3 * X["u"]) * exposure)
    base = PoissonRegressor().fit(X, y / exposure, sample_weight=exposure)
    model = rc.fit(base, X, y, H=["g"], exposure=exposure)
    served = load_served(model.to_onnx(X_sample=X[:50]).SerializeToString())
    reports = []
    for each in (model, served):
        monitor = rc.Monitor(each, groups=["g"])
        with pytest.raises(ValueError, match="exposure="):
            monitor.update(X, y)
        monitor.update(X, y, exposure=exposure)
        reports.append(monitor.table["gap"])
    np.testing.assert_allclose(*reports, atol=1e-5)  # float32 graphs
    again = rc.fit(served, X, y, H=["g"], exposure=exposure)
    assert again.predicts_rates
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=0.1)
