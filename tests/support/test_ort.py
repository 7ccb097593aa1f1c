"""onnxruntime sessions are opened in one way."""

from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from recalibrate.support.ort import GraphRunner


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
    assert opens == ["ort.py"]
