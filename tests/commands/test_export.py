"""recalibrate export: the graph gives what the model gives."""

import json
from pathlib import Path

import numpy as np
import pytest

import recalibrate as rc

pytestmark = pytest.mark.parity


def test_the_graph_gives_what_the_model_gives(folder, exported, frame):
    model, served = rc.load(folder / "model.rcal"), rc.load(exported)
    expected = model.predict(frame, base=frame["p"]).astype(np.float32)
    np.testing.assert_array_equal(served.predict(frame, base=frame["p"]), expected)
    assert served.outputs[-1] == "action"


def test_an_audit_goes_into_the_metadata(run, refused, folder):
    rows = folder / "rows.csv"
    audit = ["audit", rows, "--label", "y", "--score-column", "p", "--groups", "sex"]
    assert run(*audit, "--json", "a.json", "--quiet")[0] == 0
    code, _, _ = run("export", folder / "model.rcal", "-o", "m.onnx", "--audit", "a.json")
    assert code == 0
    assert json.loads(rc.load("m.onnx").metadata["audit"])["rows"] == 1200
    Path("b.json").write_text("[1, 2]")
    assert "is not an audit" in refused(
        "export", folder / "model.rcal", "-o", "n.onnx", "--audit", "b.json"
    )


def test_what_is_wrong_is_said(refused, folder, exported):
    rcal = folder / "model.rcal"
    assert "must end in .onnx" in refused("export", rcal, "-o", "m.rcal")
    assert "needs the saved model" in refused("export", exported, "-o", "m.onnx")
    assert "no loss 'huber'" in refused("export", rcal, "-o", "m.onnx", "--decide", "huber")
    assert "hold text" in refused("export", rcal, "-o", "m.onnx", "--inputs", "matrix")
    assert "--force" in refused("export", rcal, "-o", exported)
    data = ["--data", folder / "rows.csv"]
    assert "--score-column" in refused("export", rcal, "-o", "m.onnx", *data)
