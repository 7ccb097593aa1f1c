"""onnxruntime sessions are opened in one way."""

import threading
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from recalibrate.support import onnxfile
from recalibrate.support.onnxfile import GraphRunner, open_session, run_session


def negated():
    X = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", 1])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["N", 1])
    graph = helper.make_graph([helper.make_node("Neg", ["X"], ["score"])], "g", [X], [score])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_telemetry_is_off_before_the_first_session(monkeypatch):
    calls = []
    session = onnxruntime.InferenceSession
    monkeypatch.setattr(onnxruntime, "disable_telemetry_events", lambda: calls.append("off"))
    monkeypatch.setattr(
        onnxruntime, "InferenceSession", lambda *a, **k: calls.append("open") or session(*a, **k)
    )
    rows = np.ones((2, 1), dtype=np.float32)
    np.testing.assert_array_equal(GraphRunner(negated()).run({"X": rows}), [-1.0, -1.0])
    assert calls == ["off", "open"]


def test_no_other_module_opens_sessions():
    import recalibrate_adapters

    import recalibrate

    folders = [recalibrate.__path__[0], recalibrate_adapters.__path__[0]]
    opens = [
        path.name
        for folder in map(Path, folders)
        for path in folder.rglob("*.py")
        if "InferenceSession(" in path.read_text()
    ]
    assert opens == ["onnxfile.py"]


TEXTS = ["", "a", " b ", "a\0b", "a\0", "\0", "\N{GRINNING FACE}", "e\u0301", "\ufeff"]


def same_text():
    x, y = (helper.make_tensor_value_info(n, TensorProto.STRING, ["N", 1]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return open_session(model.SerializeToString())


@pytest.mark.parametrize("most", [0, onnxfile.MOST_CHARACTERS])
@pytest.mark.parametrize("texts", [[text] for text in TEXTS] + [TEXTS, ["", ""]])
def test_texts_reach_the_runtime_as_they_are(monkeypatch, texts, most):
    monkeypatch.setattr(onnxfile, "MOST_CHARACTERS", most)
    column = np.array(texts, dtype=object).reshape(-1, 1)
    assert run_session(same_text(), {"x": column})[0].tolist() == [[text] for text in texts]


@pytest.mark.parametrize("texts", [["a", "bc"], ["a", "b\0c"]])
def test_the_main_thread_hands_over_no_objects(texts):
    """The runtime asks Python for them, and crashes if a signal handler raises there."""

    class Session:
        def run(self, names, feed):
            objects = any(values.dtype == object for values in feed.values())
            return [objects and threading.current_thread() is threading.main_thread()]

    column = np.array(texts, dtype=object).reshape(-1, 1)
    assert run_session(Session(), {"x": column}) == [False]
