"""ONNX: which output is the score, which columns feed which input, and what is refused."""

import cases_sklearn as models
import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from cases import input_type
from cases_onnx import FOREST, LINEAR, columns, exported
from onnx import TensorProto, helper, numpy_helper
from recalibrate_adapters.onnx import OnnxBase
from recalibrate_adapters.treeops import OLD_OPERATORS
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import recalibrate as rc
from recalibrate.scores import as_base, predicted_mean

# Tolerances of 1e-5: onnxruntime and numpy add up float32 products in another order. Differences of
# logits lose another digit; numbers near zero need an absolute tolerance as well.

pytestmark = pytest.mark.adapter

MATRIX = [("input", FloatTensorType([None, 3]))]
ROWS = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
WEIGHTS = np.array([[0.5, -0.5], [1.0, 0.25], [-2.0, 0.75]], dtype=np.float32)


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, constants=(), opset=18):
    graph = helper.make_graph(list(nodes), "g", inputs, outputs, list(constants))
    versions = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=versions, ir_version=9)


def linear(width, *, after=None, outputs=None, batch="N", opset=18):
    """A graph that computes X @ W, perhaps followed by another operator."""
    name = "y" if after is None else "z"
    nodes = [helper.make_node("MatMul", ["X", "W"], [name])]
    if after is not None:
        nodes.append(helper.make_node(after, ["z"], ["y"]))
    weights = numpy_helper.from_array(WEIGHTS[:, :width], "W")
    shown = outputs or [value("y", [batch, width])]
    return model(nodes, [value("X", [batch, 3])], shown, [weights], opset)


def run(base, X):
    """Scores by the base's own graph."""
    session = onnxruntime.InferenceSession(base.graph().SerializeToString())
    taken = session.get_inputs()[0]
    return session.run(None, {taken.name: np.asarray(X, dtype=input_type(taken))})[0]


# --- which output, and what it means ------------------------------------------------------------


def test_one_number_is_the_prediction():
    base = as_base(linear(1))
    np.testing.assert_allclose(base.scores(ROWS), (ROWS @ WEIGHTS)[:, 0], rtol=1e-5)
    assert base.link == "identity"
    np.testing.assert_array_equal(run(base, ROWS), base.scores(ROWS))


def test_one_number_is_log_odds_if_declared():
    base = as_base(linear(1), link="logit")
    assert base.link == "logit"
    np.testing.assert_allclose(base.scores(ROWS), (ROWS @ WEIGHTS)[:, 0], rtol=1e-5)


def test_a_vector_without_columns():
    flat = model(
        [helper.make_node("ReduceSum", ["X", "axis"], ["y"], keepdims=0)],
        [value("X", ["N", 3])],
        [value("y", ["N"])],
        [numpy_helper.from_array(np.array([1]), "axis")],
    )
    np.testing.assert_allclose(as_base(flat).scores(ROWS), ROWS.sum(axis=1), rtol=1e-5)


def test_two_numbers_of_unknown_meaning_must_be_declared():
    with pytest.raises(ValueError, match="probabilities or logits"):
        as_base(linear(2))
    logits = ROWS @ WEIGHTS
    base = as_base(linear(2), link="logit")
    np.testing.assert_allclose(base.scores(ROWS), logits[:, 1] - logits[:, 0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(run(base, ROWS), base.scores(ROWS))
    first = as_base(linear(2), link="logit", target_class=0)
    np.testing.assert_allclose(first.scores(ROWS), -base.scores(ROWS))


def test_a_softmax_gives_probabilities():
    base = as_base(linear(2, after="Softmax"))
    logits = (ROWS @ WEIGHTS).astype(float)
    expected = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
    np.testing.assert_allclose(base.scores(ROWS), expected, rtol=1e-5)
    assert base.link == "identity"
    with pytest.raises(ValueError, match="comes from a softmax"):
        as_base(linear(2, after="Softmax"), link="logit")


def test_numbers_that_are_no_probabilities_are_noticed():
    base = as_base(linear(2), link="identity")
    with pytest.raises(ValueError, match="should hold probabilities"):
        base.scores(ROWS)


def test_one_of_several_classes():
    three = exported(models.fitted(GaussianNB, kind="three", names=False), MATRIX)()
    frame = models.numbers(50, 1)
    total = sum(as_base(three, target_class=c).scores(frame) for c in ("high", "low", "middle"))
    np.testing.assert_allclose(total, 1.0, rtol=1e-5)


def test_several_outputs_are_never_guessed():
    both = linear(1, after="Sigmoid", outputs=[value("z", ["N", 1]), value("y", ["N", 1])])
    with pytest.raises(ValueError, match=r"'z'.*'y'.*OnnxBase\(model, output=\.\.\.\)"):
        as_base(both)
    chosen = OnnxBase(both, output="z", link="logit")
    np.testing.assert_allclose(
        predicted_mean(chosen, ROWS), OnnxBase(both, output="y").scores(ROWS), rtol=1e-5
    )
    with pytest.raises(ValueError, match="no output 'x'"):
        OnnxBase(both, output="x")


def test_probabilities_are_found_by_their_name():
    outputs = [value("raw", ["N", 1]), value("probability", ["N", 1])]
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["raw"]),
        helper.make_node("Sigmoid", ["raw"], ["probability"]),
    ]
    weights = numpy_helper.from_array(WEIGHTS[:, :1], "W")
    base = as_base(model(nodes, [value("X", ["N", 3])], outputs, [weights]))
    assert 0 <= base.scores(ROWS).min() <= base.scores(ROWS).max() <= 1


def test_labels_alone_are_no_scores():
    nodes = [helper.make_node("ArgMax", ["X"], ["label"], axis=1)]
    labels = model(nodes, [value("X", ["N", 3])], [value("label", ["N", 1], TensorProto.INT64)])
    with pytest.raises(ValueError, match="only labels"):
        as_base(labels)


# --- which columns ------------------------------------------------------------------------------


def test_columns_can_be_named():
    frame = models.numbers(50, 1)
    graph = exported(LINEAR, MATRIX)()
    named = OnnxBase(graph, columns=["age", "rooms", "share"])
    assert named.columns() == ("age", "rooms", "share")
    shuffled = frame[["share", "age", "rooms"]].assign(sex="F")
    np.testing.assert_array_equal(named.scores(shuffled), as_base(graph).scores(frame))
    with pytest.raises(ValueError, match="3 columns once"):
        OnnxBase(graph, columns=["age", "rooms"])


def two_matrices():
    nodes = [
        helper.make_node("Cast", ["counts"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["sizes", "numbers"], ["all"], axis=1),
        helper.make_node("MatMul", ["all", "W"], ["y"]),
    ]
    inputs = [value("sizes", ["N", 2]), value("counts", ["N", 1], TensorProto.INT64)]
    weights = numpy_helper.from_array(WEIGHTS[:, :1], "W")
    return model(nodes, inputs, [value("y", ["N", 1])], [weights])


def test_several_matrices_take_columns_by_position():
    base = as_base(two_matrices())
    rows = ROWS.copy()
    rows[:, 2] = np.arange(len(rows)) % 4
    assert base.columns() is None
    np.testing.assert_allclose(base.scores(rows), (rows @ WEIGHTS)[:, 0], rtol=1e-5)
    np.testing.assert_allclose(run(base, rows), base.scores(rows))


def test_no_rows():
    with pytest.raises(ValueError, match="X is empty"):
        as_base(linear(1)).scores(ROWS[:0])


def test_fractions_in_a_column_of_integers():
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    with pytest.raises(ValueError, match="whole numbers in column"):
        as_base(two_matrices()).scores(frame)


def test_one_input_per_column_is_found_by_name():
    build = models.fitted(lambda: make_pipeline(StandardScaler(), LogisticRegression()))
    kinds = columns(age=FloatTensorType, rooms=Int64TensorType, share=FloatTensorType)
    graph = exported(build, kinds)()
    base = as_base(graph)
    frame = models.numbers(50, 1)
    assert base.columns() == ("age", "rooms", "share")
    expected = build().predict_proba(frame)[:, 1]
    np.testing.assert_allclose(base.scores(frame.iloc[:, ::-1]), expected, rtol=1e-4)
    assert base.graph() is not None


def test_images():
    nodes = [
        helper.make_node("GlobalAveragePool", ["X"], ["pooled"]),
        helper.make_node("Reshape", ["pooled", "shape"], ["flat"]),
        helper.make_node("Sigmoid", ["flat"], ["y"]),
    ]
    shape = numpy_helper.from_array(np.array([-1, 1]), "shape")
    images = np.random.default_rng(0).normal(size=(10, 1, 4, 4)).astype(np.float32)
    base = as_base(model(nodes, [value("X", ["N", 1, 4, 4])], [value("y", ["N", 1])], [shape]))
    expected = 1 / (1 + np.exp(-images.mean(axis=(1, 2, 3))))
    np.testing.assert_allclose(base.scores(images), expected, rtol=1e-5)
    assert base.graph() is not None
    with pytest.raises(ValueError, match="4 dimensions"):
        base.scores(ROWS)


def test_a_matrix_of_any_width():
    nodes = [helper.make_node("ReduceMean", ["X"], ["y"], axes=[1], keepdims=1)]
    base = as_base(model(nodes, [value("X", ["N", None])], [value("y", ["N", 1])], opset=13))
    np.testing.assert_allclose(base.scores(ROWS), ROWS.mean(axis=1), rtol=1e-5, atol=1e-7)
    assert base.graph() is not None


# --- batches and versions -----------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7])
def test_a_fixed_batch_becomes_free(batch):
    base = as_base(linear(1, batch=batch))
    np.testing.assert_allclose(base.scores(ROWS), (ROWS @ WEIGHTS)[:, 0], rtol=1e-5)
    assert run(base, ROWS).shape == (len(ROWS),)


def test_a_batch_that_is_built_in_is_run_in_turn():
    nodes = [
        helper.make_node("Reshape", ["X", "shape"], ["one"]),
        helper.make_node("ReduceSum", ["one"], ["y"], keepdims=1),
    ]
    shape = numpy_helper.from_array(np.array([1, 3]), "shape")
    base = as_base(model(nodes, [value("X", [1, 3])], [value("y", [1, 1])], [shape]))
    np.testing.assert_allclose(base.scores(ROWS), ROWS.sum(axis=1), rtol=1e-5, atol=1e-6)
    assert base.graph() is None
    assert base.why_no_graph


@pytest.mark.parametrize("opset", [11, 15, 21])
def test_operators_of_other_versions_are_converted(opset):
    base = as_base(linear(2, after="Softmax", opset=opset))
    base.scores(ROWS)
    assert {e.domain: e.version for e in base.graph().opset_import}[""] == 18
    np.testing.assert_allclose(run(base, ROWS), base.scores(ROWS))


TREES = {
    "classes": FOREST,
    "margin": models.fitted(lambda: GradientBoostingClassifier(n_estimators=5), names=False),
    "votes": models.fitted(lambda: AdaBoostClassifier(n_estimators=4), names=False),
    "numbers": models.fitted(
        lambda: GradientBoostingRegressor(n_estimators=5), kind="numbers", names=False
    ),
    "means": models.fitted(
        lambda: RandomForestRegressor(4, max_depth=4), kind="numbers", names=False
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", TREES)
def test_old_tree_operators_are_rewritten(name):
    graph = exported(TREES[name], MATRIX)()
    assert any(node.op_type in OLD_OPERATORS for node in graph.graph.node)
    base = as_base(graph)
    frame = models.numbers(500, 1)
    frame.loc[::6, "age"] = np.nan
    scores = base.scores(frame)
    assert not any(node.op_type in OLD_OPERATORS for node in base.graph().graph.node)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    found = session.run(None, {"input": frame.to_numpy(dtype=np.float32)})[-1]
    expected = [row[1] for row in found] if isinstance(found, list) else found[:, 0]
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)


def test_tree_splits_of_every_kind():
    rng = np.random.default_rng(0)
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]
    node = helper.make_node(
        "TreeEnsembleRegressor", ["X"], ["y"], domain="ai.onnx.ml", n_targets=1,
        nodes_treeids=np.repeat(range(8), 3).tolist(), nodes_nodeids=[0, 1, 2] * 8,
        nodes_featureids=[0, 0, 0] * 8, nodes_values=[1.0, 0.0, 0.0] * 8,
        nodes_modes=[m for mode in modes * 2 for m in (mode, "LEAF", "LEAF")],
        nodes_truenodeids=[1, 0, 0] * 8, nodes_falsenodeids=[2, 0, 0] * 8,
        nodes_missing_value_tracks_true=[1, 0, 0] * 4 + [0, 0, 0] * 4,
        target_treeids=np.repeat(range(8), 2).tolist(), target_nodeids=[1, 2] * 8,
        target_ids=[0] * 16, target_weights=rng.normal(size=16).tolist(), base_values=[0.25],
    )  # fmt: skip
    graph = model([node], [value("X", ["N", 1])], [value("y", ["N", 1])])
    graph.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    rows = np.array([[1.0], [0.999], [1.001], [np.nan], [np.inf]], dtype=np.float32)
    base = as_base(graph)
    expected = onnxruntime.InferenceSession(graph.SerializeToString()).run(None, {"X": rows})[0]
    np.testing.assert_allclose(base.scores(rows), expected[:, 0], rtol=1e-6)
    assert base.graph() is not None


def test_trees_that_cannot_be_rewritten_are_still_scored():
    graph = exported(TREES["means"], MATRIX)()
    node = next(n for n in graph.graph.node if n.op_type in OLD_OPERATORS)
    helper.set_model_props(graph, {})
    node.attribute.append(helper.make_attribute("aggregate_function", "MAX"))
    kept = [a for a in node.attribute if a.name != "aggregate_function" or a.s == b"MAX"]
    del node.attribute[:]
    node.attribute.extend(kept)
    base = as_base(graph)
    assert np.isfinite(base.scores(models.numbers(20, 1))).all()
    assert "MAX" in base.why_no_graph


# --- where the model comes from -----------------------------------------------------------------


@pytest.mark.slow
def test_path_bytes_and_model_score_alike(tmp_path):
    graph = exported(LINEAR, MATRIX)()
    path = tmp_path / "model.onnx"
    path.write_bytes(graph.SerializeToString())
    frame = models.numbers(50, 1)
    expected = as_base(graph).scores(frame)
    for given in (path, str(path), path.read_bytes()):
        np.testing.assert_array_equal(as_base(given).scores(frame), expected)


def test_weights_in_a_file_of_their_own(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(linear(1), path, save_as_external_data=True, size_threshold=0, location="weights")
    assert (tmp_path / "weights").exists()
    base = as_base(path)
    np.testing.assert_allclose(base.scores(ROWS), (ROWS @ WEIGHTS)[:, 0], rtol=1e-5)
    np.testing.assert_array_equal(run(base, ROWS), base.scores(ROWS))
    with pytest.raises(ValueError, match="Pass the path"):
        as_base(path.read_bytes())


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x07\x12\x04oops"])
def test_what_is_no_model(content, tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.onnx.*(is not an ONNX graph|has 0 bytes)"):
        as_base(path)


def test_a_graph_that_onnxruntime_refuses():
    nodes = [helper.make_node("NoSuchOperator", ["X"], ["y"])]
    with pytest.raises(ValueError, match="onnxruntime refuses"):
        as_base(model(nodes, [value("X", ["N", 3])], [value("y", ["N", 1])]))


# --- our own files ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "numbers"])
def test_an_exported_file_of_ours_is_recalibrated_again(kind, tmp_path):
    frame = models.mixed(1500, 1)
    y = models.outcome(frame, kind)
    low = y.min() - 1
    bounds = None if kind == "binary" else (low, y.max() + 1)
    built = models.fitted(FOREST_OF[kind], kind=kind)()
    fitted = rc.fit(
        built, frame, y, H=rc.Trees(depth=2), loop=rc.Loop(levels=2, max_rounds=3), bounds=bounds
    )
    path = tmp_path / "ours.onnx"
    fitted.to_onnx(path, frame)
    base = as_base(path)
    assert base.link == ("logit" if kind == "binary" else "identity")
    np.testing.assert_allclose(predicted_mean(base, frame), fitted.predict(frame), rtol=1e-9)
    again = rc.fit(
        base, frame, y, H=rc.Groups("town"), loop=rc.Loop(levels=2, max_rounds=2), bounds=bounds
    )
    assert again.predict(frame).shape == (1500,)
    assert base.graph() is not None
    with pytest.raises(ValueError, match="the file says"):
        as_base(path, link="identity" if kind == "binary" else "logit")


FOREST_OF = {
    "binary": lambda: GradientBoostingClassifier(n_estimators=5, random_state=0),
    "numbers": lambda: RandomForestRegressor(5, max_depth=4, random_state=0),
}


@pytest.mark.slow
def test_an_exported_file_that_wants_scores_is_refused(tmp_path):
    frame = models.mixed(500, 1)
    y = models.outcome(frame, "binary")
    fitted = rc.fit(
        np.full(500, 0.4), frame, y, H=rc.Groups("town"), loop=rc.Loop(levels=2, max_rounds=2)
    )
    path = tmp_path / "scores.onnx"
    fitted.to_onnx(path)
    with pytest.raises(ValueError, match="base_score"):
        as_base(path)


def test_local_functions_are_part_of_a_saved_model(tmp_path):
    squash = helper.make_function(
        "mine", "Squash", ["a"], ["b"], [helper.make_node("Sigmoid", ["a"], ["b"])],
        [helper.make_opsetid("", 18)],
    )  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("Squash", ["X"], ["p"], domain="mine")],
        "g",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor_value_info("p", TensorProto.FLOAT, ["n", 1])],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    model = helper.make_model(graph, functions=[squash], opset_imports=opsets, ir_version=10)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 1))
    y = (rng.random(500) < 0.5).astype(int)
    fitted = rc.fit(model, X, y, H=rc.Groups("x0 < 0"), loop=rc.Loop(levels=2, max_rounds=2))
    fitted.save(tmp_path / "model.rcal")
    loaded = rc.load(tmp_path / "model.rcal")
    # The runtime's float32 sigmoid depends on the size of the batch.
    np.testing.assert_allclose(loaded.predict(X), fitted.predict(X), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("kind", ["binary", "three"])
def test_raw_scores_of_skl2onnx_can_be_declared(kind, zipmap):
    """They are called probabilities, and of two classes they are the log-odds with either sign."""
    model = models.fitted(lambda: LogisticRegression(max_iter=1000), kind=kind, names=False)()
    frame = models.numbers(200, 1)
    options = {id(model): {"raw_scores": True, "zipmap": zipmap}}
    content = to_onnx(
        model, frame.to_numpy(np.float32)[:1], options=options, target_opset=18
    ).SerializeToString()
    rows = frame.to_numpy()
    with pytest.raises(ValueError, match=r"raw scores.*base_link of fit"):
        as_base(content).scores(rows)
    base = as_base(content, link="logit")
    scores, expected = base.scores(rows), model.decision_function(rows)
    if kind == "binary":
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
        first = as_base(content, link="logit", target_class=model.classes_[0])
        np.testing.assert_allclose(first.scores(rows), -expected, rtol=1e-4, atol=1e-5)
    means, own = predicted_mean(base, rows), model.predict_proba(rows)
    np.testing.assert_allclose(means, own[:, 1] if kind == "binary" else own, rtol=1e-4, atol=1e-6)
    plain = to_onnx(model, frame.to_numpy(np.float32)[:1], target_opset=18).SerializeToString()
    with pytest.raises(ValueError, match=r"holds probabilities.*Leave the link out"):
        as_base(plain, link="logit").scores(rows)


def test_logits_beside_labels_are_not_taken_for_raw_scores():
    """Without biases logits are zero for a row of zeros, as raw scores would be."""
    weights = np.array([[1.0, 2.0], [0.5, -1.0]], dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["X", "W"], ["scores"]),
            helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
        ],
        "g",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", 2])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["N"]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 2]),
        ],
        [numpy_helper.from_array(weights, "W")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    rows = np.random.default_rng(0).normal(size=(50, 2))
    logits = rows @ weights
    base = as_base(model, link="logit")
    np.testing.assert_allclose(base.scores(rows), logits[:, 1] - logits[:, 0], rtol=1e-4, atol=1e-5)
