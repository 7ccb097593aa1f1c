"""Base models in a file: as a graph, by reference, or left behind."""

import hashlib
import subprocess
import sys

import numpy as np
import onnx
import pandas as pd
import pytest
from forging import Forgery
from onnx import TensorProto, helper
from settings import fit_with
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import recalibrate as rc
from recalibrate.bases import protocol
from recalibrate.bases.protocol import CallableBase
from recalibrate.bases.wrappers import GraphBase
from recalibrate.files import ModelFileError, to_bytes
from recalibrate.support.onnxfile import read_graph

PLAIN = {"validation": False, "max_rounds": 3}
H = rc.Groups("sex", "age < 40")


def people(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"age": rng.integers(18, 80, n), "sex": rng.choice(["F", "M"], n), "x": rng.normal(size=n)}
    )
    return X, (rng.random(n) < 1 / (1 + np.exp(-X["x"] - 0.5 * (X["sex"] == "F")))) * 1


def make_trees():
    return HistGradientBoostingClassifier(max_iter=10)


def make_text_pipeline():
    return make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["sex"]), (StandardScaler(), ["age", "x"])
        ),
        LogisticRegression(),
    )


BASES = {
    "exact trees": (make_trees, ["age", "x"]),
    "linear": (LogisticRegression, ["x", "age"]),
    "text columns": (make_text_pipeline, ["sex", "age", "x"]),
}


def fit_on(name):
    make, columns = BASES[name]
    X, y = people()
    base = make().fit(X[columns][:600], y[:600])
    return fit_with(base, X[600:], y[600:], H, **PLAIN)


@pytest.fixture(scope="module")
def exact_file(tmp_path_factory):
    return fit_on("exact trees").save(tmp_path_factory.mktemp("exact") / "model.rcal")


# --- graphs -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.adapter
@pytest.mark.parametrize("name", BASES)
def test_a_base_is_saved_as_its_graph(name, tmp_path):
    model = fit_on(name)
    again = rc.load(model.save(tmp_path / "model.rcal"))
    assert isinstance(again.base, GraphBase)
    assert again.base.exact == model.base.exact
    assert again.base.columns() == model.base.columns()
    assert again.summary() == model.summary()
    new, _ = people(500, seed=1)
    new = new.sample(frac=1, random_state=0).assign(more=1)
    new.iloc[:2, new.columns.get_loc("sex")] = "unknown"
    # Scores of these adapters come from the same graph, run in the same way.
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    np.testing.assert_array_equal(again.predict(new[:1]), model.predict(new)[:1])
    assert to_bytes(again)[0] == to_bytes(model)[0]


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.adapter
def test_a_base_without_names_takes_columns_by_position(tmp_path):
    X, y = people()
    numbers = X[["age", "x"]].to_numpy()
    base = make_trees().fit(numbers[:600], y[:600])
    model = fit_with(base, numbers[600:], y[600:], rc.Trees(depth=1), **PLAIN)
    again = rc.load(model.save(tmp_path / "model.rcal"))
    for rows in (numbers, X[["age", "x"]].set_axis(["a", "b"], axis=1)):
        np.testing.assert_array_equal(again.predict(rows), model.predict(numbers))
    with pytest.raises(ValueError, match="3 columns"):
        again.predict(np.zeros((5, 3)))


@pytest.mark.parity
@pytest.mark.adapter
def test_a_missing_column_is_named(exact_file):
    new, _ = people(5)
    with pytest.raises(ValueError, match="no column 'age'"):
        rc.load(exact_file).predict(new[["x", "sex"]])


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.adapter
def test_loading_runs_nothing(exact_file):
    """No session is opened before scores are asked for."""
    code = (
        "import sys, recalibrate as rc; "
        f"model = rc.load({str(exact_file)!r}); "
        "print(model.base.name, 'onnxruntime' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split()[-1] == "False"


def tensor_graph(node, *, initializers=(), domain="", opsets=(("", 18),)):
    X = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", 2])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["N"])
    graph = helper.make_graph([node], "g", [X], [score], list(initializers))
    imports = [helper.make_opsetid(name, version) for name, version in opsets]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


REDUCE = helper.make_node("ReduceMax", ["X"], ["score"], keepdims=0)


def test_a_plain_graph_is_let_in():
    read_graph(tensor_graph(REDUCE).SerializeToString(), "the base model")


@pytest.mark.parametrize("content", [b"", b"\x08\x09", b"\xff" * 50, b"text"])
def test_bytes_that_are_no_graph(content):
    with pytest.raises(ModelFileError, match="not an ONNX graph"):
        read_graph(content, "the base model")


def external_tensor(location):
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    return tensor


@pytest.mark.parametrize("location", ["/etc/passwd", "../secret.bin", "weights.bin"])
def test_graphs_may_not_refer_to_files(location):
    model = tensor_graph(REDUCE, initializers=[external_tensor(location)])
    with pytest.raises(ModelFileError, match="in another file"):
        read_graph(model.SerializeToString(), "the base model")
    inside = helper.make_node("Constant", [], ["w"], value=external_tensor(location))
    body = helper.make_graph([inside], "body", [], [])
    hidden = helper.make_node("If", ["X"], ["score"], then_branch=body, else_branch=body)
    with pytest.raises(ModelFileError, match="in another file"):
        read_graph(tensor_graph(hidden).SerializeToString(), "the base model")


def test_operators_of_other_libraries_are_refused():
    node = helper.make_node("Run", ["X"], ["score"], domain="evil.ops")
    model = tensor_graph(node, opsets=(("", 18), ("evil.ops", 1)))
    with pytest.raises(ModelFileError, match=r"unknown domain 'evil\.ops'"):
        read_graph(model.SerializeToString(), "the base model")


@pytest.mark.parity
@pytest.mark.adapter
def test_a_forged_graph_that_does_not_run_is_a_clear_error(exact_file, tmp_path):
    forged = Forgery(exact_file.read_bytes())
    good = onnx.ModelProto.FromString(forged.array("base", "graph").tobytes())
    good.graph.node[0].op_type = "NoSuchOperator"
    forged.set_array(np.frombuffer(good.SerializeToString(), np.uint8), "base", "graph")
    path = tmp_path / "forged.rcal"
    path.write_bytes(forged.seal())
    model = rc.load(path)
    with pytest.raises(ModelFileError, match="does not run"):
        model.predict(people(5)[0])
    base = np.full(5, 0.3)
    assert np.isfinite(model.predict(people(5)[0], base=base)).all()


# --- references ---------------------------------------------------------------------------------


@pytest.fixture
def file_adapter(monkeypatch):
    """Files called *.weight hold one number, the weight of the column x."""

    def read(model, **options):
        if not str(model).endswith(".weight"):
            return AS_BASE(model, **options)
        weight = float(model.read_text())
        return CallableBase(lambda X: weight * X["x"].to_numpy(), "logit", "weight", "no graph")

    monkeypatch.setattr(protocol, "as_base", read)
    return read


AS_BASE = protocol.as_base


def test_a_base_by_reference(file_adapter, tmp_path):
    X, y = people()
    file = tmp_path / "base.weight"
    file.write_text("0.5")
    model = fit_with(file_adapter(file), X, y, H, **PLAIN)
    path = model.save(tmp_path / "model.rcal", base=file)
    content = path.read_bytes()
    assert hashlib.sha256(b"0.5").hexdigest().encode() in content
    assert str(tmp_path).encode() not in content, "a name, not a path"
    again = rc.load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    shuffled = X[["x", "sex", "age"]]
    np.testing.assert_array_equal(again.predict(shuffled), model.predict(X))
    assert to_bytes(again)[0] == content


def test_a_reference_is_checked_when_it_is_needed(file_adapter, tmp_path):
    X, y = people()
    file = tmp_path / "base.weight"
    file.write_text("0.5")
    model = fit_with(file_adapter(file), X, y, H, **PLAIN)
    expected = model.predict(X)
    path = model.save(tmp_path / "model.rcal", base=file)
    file.write_text("0.6")
    again = rc.load(path)
    with pytest.raises(ModelFileError, match="checksum differs"):
        again.predict(X)
    np.testing.assert_array_equal(again.predict(X, base=0.5 * X["x"]), expected)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"'base\.weight', which is not in"):
        rc.load(path).predict(X)
    elsewhere = tmp_path / "other.weight"
    elsewhere.write_text("0.5")
    np.testing.assert_array_equal(rc.load(path, base=elsewhere).predict(X), expected)
    elsewhere.write_text("0.7")
    with pytest.raises(ModelFileError, match="checksum differs"):
        rc.load(path, base=elsewhere)


def test_a_reference_must_exist_and_fit(file_adapter, tmp_path):
    X, y = people()
    file = tmp_path / "base.weight"
    file.write_text("0.5")
    model = fit_with(np.full(len(X), 0.4), X, y, H, **PLAIN)
    with pytest.raises(ValueError, match="logit scale, but this model was fitted on"):
        model.save(tmp_path / "model.rcal", base=file)
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "model.rcal", base=tmp_path / "none.weight")
    assert not (tmp_path / "model.rcal").exists()


def test_saving_asks_before_it_overwrites(tmp_path):
    X, y = people(200)
    model = fit_with(np.full(len(X), 0.4), X, y, H, **PLAIN)
    path = model.save(tmp_path / "model.rcal")
    before = path.read_bytes()
    model.save(path)
    with pytest.raises(FileExistsError):
        model.save(path, overwrite=False)
    assert path.read_bytes() == before
    with pytest.raises(FileNotFoundError, match="create it first"):
        model.save(tmp_path / "no" / "model.rcal")


@pytest.mark.parity
@pytest.mark.adapter
def test_a_loaded_model_is_exported_and_served(exact_file, tmp_path):
    model = rc.load(exact_file)
    path = tmp_path / "served.rcal"  # what the file holds decides, not its name
    model.to_onnx(path)
    served = rc.load(path)
    assert type(served).__name__ == "ServedModel"
    new, _ = people(300, seed=2)
    np.testing.assert_array_equal(
        served.predict(new).astype(np.float32), model.predict(new).astype(np.float32)
    )


def test_the_content_decides_not_the_name(tmp_path):
    X, y = people(200)
    model = fit_with(np.full(len(X), 0.4), X, y, H, **PLAIN)
    path = model.save(tmp_path / "model.onnx")
    assert isinstance(rc.load(path), rc.Recalibrated)
    (tmp_path / "model.rcal").write_bytes(tensor_graph(REDUCE).SerializeToString())
    with pytest.raises(ValueError, match="not one that recalibrate exported"):
        rc.load(tmp_path / "model.rcal")
    with pytest.raises(ValueError, match="leave base= out"):
        rc.load(tmp_path / "model.rcal", base=np.zeros(3))
