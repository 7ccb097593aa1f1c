"""Actions in the graph are those that Python decides, for every kind of rule."""

import json

import numpy as np
import pandas as pd
import pytest
from settings import fit_with
from treebase import TreeBase, random_ensemble

import recalibrate as rc
from recalibrate.graph import ExportError, ParityError, check_parity, export_model, load_served
from recalibrate.graph.decisions import is_best
from recalibrate.losses import CostMatrix, Formula, Lookup

pytestmark = pytest.mark.parity

N = 800


def rows(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    X["sex"] = rng.choice(["F", "M"], n)
    return X, rng


def binary(**options):
    X, rng = rows()
    base = TreeBase(random_ensemble(rng, 2), ("a", "b"))
    y = rng.random(N) < 0.3 + 0.4 * (X["sex"] == "F")
    options = options or {"levels": 3, "max_rounds": 3, "validation": False}
    return fit_with(base, X, y, rc.Trees(depth=2), **options), X


@pytest.fixture(scope="module")
def fitted():
    return binary()


LOSSES = [
    "squared",
    "absolute",
    "hinge",
    "logistic",
    "pinball(0.9)",
    "asymmetric(5, 1)",
    "cost_matrix(0, 1, 3, 5, 4, 0)",
    "cost_matrix(1, 2)",
]


@pytest.mark.parametrize("loss", LOSSES)
def test_actions_are_those_of_python(fitted, loss):
    model, X = fitted
    graph = export_model(model, decision=model.decide(loss))
    served = load_served(graph.SerializeToString())
    assert served.outputs[-1] == "action"
    expected = model.decide(loss).actions(X).astype(np.float32)
    found = served.run(X)["action"]
    assert found.dtype == np.float32
    assert found.shape == (N,)
    # The runtime's exponential and logarithm may end in another bit, which float32 rarely shows.
    np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-12)
    np.testing.assert_array_equal(served.actions(X), found.astype(np.float64))


def test_a_grid_of_actions_and_a_function(fitted):
    model, X = fitted
    decision = model.decide(lambda y, a: abs(y - a) ** 1.5, between=(0, 1))
    served = load_served(model.to_onnx(decide=decision).SerializeToString())
    expected = decision.actions(X).astype(np.float32)
    np.testing.assert_array_equal(served.run(X)["action"], expected)


@pytest.mark.parametrize("loss", ["logistic", "asymmetric(5, 1)", "pinball(0.9)"])
def test_the_gate_lets_right_actions_pass(fitted, loss):
    model, X = fitted
    decision = model.decide(loss)
    report = check_parity(model, export_model(model, decision=decision), X, decision=decision)
    assert report.exact
    assert report.differing == 0


def test_rounded_models_hit_thresholds_exactly():
    """On the grid k / 10 predictions are at the threshold .3 itself, where the tie goes up."""
    X, rng = rows()
    y = rng.random(N) < 0.3 + 0.4 * (X["sex"] == "F")
    base = rng.random(N)
    options = {"rounded": True, "levels": 10, "max_rounds": 0, "validation": False}
    model = fit_with(base, X, y, rc.Groups("sex"), link="identity", **options)
    decision = model.decide("pinball(0.7)")
    assert decision.rule.thresholds.tolist() == [0.3]
    served = load_served(model.to_onnx(decide=decision).SerializeToString())
    mean = model.predict(X, base=base)
    assert (mean == 0.3).any()
    np.testing.assert_array_equal(served.run(X, base=base)["action"], decision.best(mean))


def test_regressions_choose_the_nearest_action():
    X, rng = rows()
    y = 100.0 + 50.0 * (X["sex"] == "F") + rng.normal(size=N)
    model = rc.fit(np.full(N, 120.0), X, y, rc.Groups("sex"), bounds=(90, 160))
    decision = model.decide("squared", actions=[100, 125, 150])
    served = load_served(model.to_onnx(decide=decision).SerializeToString())
    found = served.actions(X, base=np.full(N, 120.0))
    assert set(found) == {100.0, 150.0}
    np.testing.assert_array_equal(found, decision.actions(X, base=np.full(N, 120.0)))


def test_unchanged_models_decide_too():
    X, rng = rows(40)
    base = TreeBase(random_ensemble(rng, 2), ("a", "b"))
    model = rc.fit(base, X, rng.random(40) < 0.5, rc.Groups("sex"))
    assert model.n_rounds_ == 0
    served = load_served(model.to_onnx(decide="absolute").SerializeToString())
    np.testing.assert_array_equal(served.actions(X), model.decide("absolute").actions(X))


def test_the_metadata_says_what_is_decided(fitted):
    graph = fitted[0].to_onnx(decide="pinball(0.9)")
    facts = json.loads({p.key: p.value for p in graph.metadata_props}["decision"])
    assert facts == {"loss": "Pinball(tau=0.9)", "thresholds": [0.1], "actions": [0.0, 1.0]}


def test_a_column_may_be_called_action():
    X, rng = rows()
    X["action"] = X.pop("sex")
    y = rng.random(N) < 0.3 + 0.4 * (X["action"] == "F")
    model = rc.fit(np.full(N, 0.5), X, y, rc.Groups("action"))
    graph = model.to_onnx(decide="absolute")
    assert [value.name for value in graph.graph.input] == ["base_score", "input_action"]


def test_actions_in_words_are_refused(fitted):
    loss = CostMatrix([[0, 1], [5, 0]], actions=["wait", "treat"])
    with pytest.raises(ExportError, match="'wait', 'treat' are not all numbers"):
        fitted[0].to_onnx(decide=loss)


def test_decisions_of_other_models_are_refused(fitted):
    other, _ = binary(levels=1, max_rounds=1, validation=False)
    with pytest.raises(ValueError, match="decision of another model"):
        fitted[0].to_onnx(decide=other.decide("absolute"))


def test_graphs_without_actions_say_so(fitted):
    served = load_served(fitted[0].to_onnx().SerializeToString())
    with pytest.raises(AttributeError, match="no decision output"):
        served.actions(fitted[1])


def test_the_gate_refuses_wrong_actions(fitted):
    model, X = fitted
    graph = export_model(model, decision=model.decide("pinball(0.9)"))
    with pytest.raises(ParityError, match="disagrees"):
        check_parity(model, graph, X, decision=model.decide("pinball(0.5)"))


@pytest.mark.parametrize(
    "rule",
    [
        Formula("mean"),
        Formula("ratio", over=1.0, under=3.0),
        Formula("log-odds", limit=16.0),
        Lookup(np.array([0.25, 0.5]), np.array([3.0, 1.0, 2.0])),
    ],
)
def test_only_actions_within_the_tolerance_are_best(rule):
    mean = np.array([0.0, 0.1, 0.25, 0.4, 0.75, 1.0])
    action = rule.best(mean).astype(np.float32)
    assert is_best(rule, action, mean, 2.0**-50).all()
    assert not is_best(rule, action + np.float32(1e-3), mean, 2.0**-50).any()
