"""ONNX files: what reaches beyond them, or would not end, is refused before a runtime sees it."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from sklearn.ensemble import GradientBoostingRegressor

from recalibrate.bases.protocol import as_base
from recalibrate.ensemble import Tree, join_trees
from recalibrate.support.checks import ModelFileError
from recalibrate.support.onnxfile import read_graph
from recalibrate.support.onnxgraph import GraphBuilder, value_info

WEIGHTS = np.array([[1.0], [2.0]], dtype=np.float32)


def refused(model, message, folder=None):
    with pytest.raises(ModelFileError, match=message):
        read_graph(model.SerializeToString(), "the file", folder)


# --- weights in other files ---------------------------------------------------------------------


def external(location, **more):
    tensor = TensorProto(name="W", data_type=TensorProto.FLOAT, dims=[2, 1])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def linear(weights):
    nodes = [helper.make_node("MatMul", ["X", "W"], ["score"])]
    return wrap(nodes, [weights])


def hidden(weights):
    """The same with the weights inside of a subgraph."""
    inner = helper.make_node("Constant", [], ["W"], value=weights)
    product = helper.make_node("MatMul", ["X", "W"], ["found"])
    result = helper.make_tensor_value_info("found", TensorProto.FLOAT, None)
    body = helper.make_graph([inner, product], "body", [], [result])
    choose = helper.make_node("If", ["yes"], ["score"], then_branch=body, else_branch=body)
    yes = numpy_helper.from_array(np.array(True), "yes")
    return wrap([choose], [yes])


def wrap(nodes, initializers):
    X = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", 2])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["N", 1])
    graph = helper.make_graph(nodes, "g", [X], [score], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.fixture
def folder(tmp_path):
    own = tmp_path / "own"
    (own / "inner").mkdir(parents=True)
    for place in (tmp_path, own, own / "inner"):
        (place / "weights").write_bytes(WEIGHTS.tobytes() + b"more")
    os.symlink(tmp_path / "weights", own / "link")
    return own


@pytest.mark.parametrize("build", [linear, hidden])
def test_weights_come_from_the_models_own_folder(build, folder, monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "weights").write_bytes(bytes(8))
    for location in ("weights", "inner/weights", "inner/../weights"):
        path = folder / "model.onnx"
        path.write_bytes(build(external(location, length=8)).SerializeToString())
        rows = np.array([[1.0, 10.0]], dtype=np.float32)
        assert as_base(path).scores(rows).tolist() == [21.0]


@pytest.mark.parametrize("build", [linear, hidden])
@pytest.mark.parametrize(
    "location", ["../weights", "link", "/etc/passwd", "", "missing", "inner", ".", "a\0b"], ids=str
)
def test_and_from_nowhere_else(build, location, folder):
    refused(build(external(location)), "none in the model's own folder", folder)
    refused(build(external(location)), "Pass the path of the model's own file")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"length": 9999}, "not as long"),
        ({"offset": 9999, "length": 8}, "not as long"),
        ({"offset": -1}, "no place in it"),
        ({"length": "x"}, "no place in it"),
        ({"length": 4}, "but with 1 numbers"),
        ({}, "but with 3 numbers"),
    ],
    ids=str,
)
def test_places_in_the_file(more, message, folder):
    refused(linear(external("weights", **more)), message, folder)


# --- tensors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ([2, 2], "but with 2 numbers"),
        ([-2, -1], "which is none"),
        ([2**40, 2**40], "which is none"),
    ],
)
def test_tensors_have_the_numbers_of_their_shape(dims, message):
    tensor = numpy_helper.from_array(WEIGHTS, "W")
    del tensor.dims[:]
    tensor.dims.extend(dims)
    refused(linear(tensor), message)


def test_names_are_text():
    content = linear(numpy_helper.from_array(WEIGHTS, "W")).SerializeToString()
    assert content.count(b"MatMul") == 1
    with pytest.raises(ModelFileError, match="not an ONNX graph"):
        read_graph(content.replace(b"MatMul", b"MatM\x80l"), "the file")


@pytest.mark.parametrize("width", [2**31 - 1, 200_000])
def test_inputs_of_a_size_that_no_table_has(width):
    """Looking at the columns one by one would not end."""
    model = linear(numpy_helper.from_array(WEIGHTS, "W"))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = width
    with pytest.raises(ValueError, match=r"more than|refuses"):
        as_base(model)


# --- trees --------------------------------------------------------------------------------------


def joined():
    """Trees of the newest operator, as exported rounds have them."""
    tree = Tree(
        feature=[0, 1, -1, -1, -1], threshold=[0.5, 0.5, 0, 0, 0], missing_left=[True] * 5,
        left=[1, 2, 0, 0, 0], right=[4, 3, 0, 0, 0], value=[0.0, 0.0, 1.0, 2.0, 3.0],
    )  # fmt: skip
    builder = GraphBuilder()
    score = builder.trees(join_trees(2, [tree, tree]), builder.cast("X", "float64"))
    return builder.score_model([value_info("X", "float32", ["N", 2])], builder.flat(score))


def apart():
    """Trees of the older operators, as other exporters have them."""
    from skl2onnx import to_onnx

    X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    model = GradientBoostingRegressor(n_estimators=2, max_depth=2).fit(X, X[:, 0])
    return to_onnx(model, X[:1])


def ints(model, name):
    lists = [
        own.ints
        for node in model.graph.node
        for own in node.attribute
        if own.name == name and own.ints
    ]
    return lists[0]


@pytest.mark.parametrize("build", [joined, apart])
@pytest.mark.parametrize("child", [0, 999, -1])
def test_trees_have_an_end(build, child):
    model = build()
    read_graph(model.SerializeToString(), "the file")
    ids = ints(model, "nodes_truenodeids")
    inner = next(k for k, at in enumerate(ids) if at > 0)
    ids[inner] = child
    refused(model, "does not hold trees")


def test_lists_of_nodes_are_of_one_length():
    model = joined()
    ints(model, "nodes_falseleafs").pop()
    refused(model, "does not hold trees")
    model = apart()
    ints(model, "nodes_nodeids")[1] = 0
    refused(model, "does not hold trees")


def test_functions_of_the_file_itself_are_let_in():
    body = helper.make_node("Neg", ["a"], ["b"])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "Minus", ["a"], ["b"], [body], opsets[:1])
    model = wrap([helper.make_node("Minus", ["X"], ["score"], domain="own")], [])
    model.opset_import.append(opsets[1])
    refused(model, "unknown domain 'own'")
    model.functions.append(function)
    assert isinstance(read_graph(model.SerializeToString(), "the file"), onnx.ModelProto)
