"""recalibrate demo, on few rows."""

import json

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.commands import demo, main

FILES = ["before_after.csv", "model.onnx", "model.rcal", "numbers.json", "report.html", "rows.csv"]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "made"
    assert main(["demo", str(folder), "--rows", "2500"]) == 0
    return folder


pytestmark = [pytest.mark.adapter, pytest.mark.parity]


def test_all_files_are_there(done):
    assert sorted(path.name for path in done.iterdir()) == FILES
    assert [path.name for path in done.parent.iterdir()] == ["made"]


def test_the_planted_fault_is_found_and_put_right(done):
    facts = json.loads((done / "numbers.json").read_text())
    assert facts["simulated"] is True
    assert facts["base_model"] == "xgboost"
    assert facts["planted_group"]["gap_before"] > 0.08
    # So few rows leave much noise, and xgboost's versions differ in the base.
    assert abs(facts["planted_group"]["gap_after"]) < 0.6 * facts["planted_group"]["gap_before"]
    assert facts["groups_off"]["after"] < facts["groups_off"]["before"]
    assert facts["log_loss"]["after"] < facts["log_loss"]["before"]
    assert facts["parity"] == {"rows": 2500, "differing": 0, "largest": 0.0}


def test_models_and_table_are_of_the_same_run(done):
    rows = pd.read_csv(done / "rows.csv")
    saved, served = rc.load(done / "model.rcal"), rc.load(done / "model.onnx")
    np.testing.assert_array_equal(served.predict(rows), saved.predict(rows).astype(np.float32))
    table = pd.read_csv(done / "before_after.csv").set_index("group")
    # The table is written with all digits; the mean adds up in another order.
    assert table.loc["all", "predicted after"] == pytest.approx(saved.predict(rows).mean())
    assert demo.PLANTED in table.index
    assert "<html" in (done / "report.html").read_text()


def test_a_full_folder_is_left_alone(done, refused):
    before = (done / "numbers.json").read_bytes()
    assert "is not empty" in refused("demo", done, "--rows", "1000")
    assert (done / "numbers.json").read_bytes() == before


def test_wrong_arguments(refused, tmp_path):
    assert "at least 1000" in refused("demo", "new", "--rows", "10")
    assert "--seed" in refused("demo", "new", "--seed", "-1")
    assert "does not exist" in refused("demo", "no/such/folder")
    (tmp_path / "file").write_text("")
    assert "is a file" in refused("demo", "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_without_xgboost_scikit_learn_serves(monkeypatch):
    found = demo.importlib.util.find_spec
    monkeypatch.setattr(
        demo.importlib.util,
        "find_spec",
        lambda name: None if name == "xgboost" else found(name),
    )
    base, name = demo.train_base(demo.simulate(1000, 0))
    assert type(base).__name__ == "HistGradientBoostingClassifier"
    assert name == "scikit-learn's HistGradientBoostingClassifier"
