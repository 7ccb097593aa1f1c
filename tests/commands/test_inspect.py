"""recalibrate inspect: what a saved or exported model holds."""

import json

import pytest

pytestmark = pytest.mark.parity


def test_saved(run, folder):
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


def test_exported(run, exported):
    code, out, err = run("inspect", exported)
    assert (code, err) == (0, "")
    assert "base_score float64 [N], for base" in out
    assert "sex string [N, 1], for H" in out
    facts = json.loads(run("inspect", exported, "--json")[1])
    assert facts["decision"]["loss"] == "Absolute()"
    assert facts["outputs"] == ["label", "probabilities", "score", "score_margin", "action"]
    assert [port["name"] for port in facts["inputs"]] == ["base_score", "sex", "zip"]


def test_it_refuses_what_is_not_ours(refused, folder, tmp_path):
    assert "no file" in refused("inspect", "none.rcal")
    assert "not a recalibrated model" in refused("inspect", folder / "rows.csv")
    (tmp_path / "cut.rcal").write_bytes((folder / "model.rcal").read_bytes()[:-10])
    refused("inspect", "cut.rcal")
