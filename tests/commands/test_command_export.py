"""recalibrate export and inspect."""

import json
from pathlib import Path

import numpy as np
import pytest

import recalibrate as rc
from recalibrate.commands import main

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def exported(folder):
    path = folder / "exported.onnx"
    args = ["export", str(folder / "model.rcal"), "-o", str(path), "--decide", "absolute"]
    args += ["--data", str(folder / "rows.csv"), "--score-column", "p", "--quiet"]
    assert main(args) == 0
    return path


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
    assert "no audit" in refused(
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


def test_inspect_saved(run, folder):
    code, out, err = run("inspect", folder / "model.rcal")
    assert (code, err) == (0, "")
    assert "Groups('sex', 'zip')" in out
    assert "zip (categorical): '01234', '02345', '10000'" in out
    assert "1,200 rows" in out
    code, out, _ = run("inspect", folder / "model.rcal", "--json")
    facts = json.loads(out)
    assert (facts["kind"], facts["rows"], facts["used_by_H"]) == (
        "saved model",
        1200,
        ["sex", "zip"],
    )
    assert facts["columns"][1] == {"name": "age", "kind": "numeric"}


def test_inspect_exported(run, exported):
    code, out, err = run("inspect", exported)
    assert (code, err) == (0, "")
    assert "base_score float64 [N], for base" in out
    assert "sex string [N, 1], for H" in out
    facts = json.loads(run("inspect", exported, "--json")[1])
    assert facts["decision"]["loss"] == "Absolute()"
    assert facts["outputs"] == ["label", "probabilities", "score", "score_margin", "action"]
    assert [port["name"] for port in facts["inputs"]] == ["base_score", "sex", "zip"]


def test_inspect_refuses_what_is_not_ours(refused, folder, tmp_path):
    assert "no file" in refused("inspect", "none.rcal")
    assert "no recalibrated model" in refused("inspect", folder / "rows.csv")
    (tmp_path / "cut.rcal").write_bytes((folder / "model.rcal").read_bytes()[:-10])
    refused("inspect", "cut.rcal")
