"""The benchmark beside LightGBM runs and prints what it measured; times are not judged here."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from scripts import load

pytest.importorskip("lightgbm")

simulate_case = load("quality_cases").simulate_case

# One thread: OpenMP's threads wait actively for each other, which busy machines punish.
QUICK = ["--rows", "6000", "--threads", "1", "--repeats", "1"]


@pytest.fixture(scope="module")
def lgbmcv() -> ModuleType:
    return load("lgbmcv")


@pytest.mark.slow
def test_a_line_per_base_with_ratios(lgbmcv, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(lgbmcv, "PREDICTED_ROWS", 3000)
    lines = lgbmcv.main([*QUICK, "--json", str(tmp_path / "out.json")])
    printed = capsys.readouterr().out
    assert [(line.case, line.base) for line in lines] == [
        ("simulated census", "lr"),
        ("simulated census", "tree"),
    ]
    for line in lines:
        assert lgbmcv.show(line) in printed
        assert min(line.ours.wall, line.theirs.cpu, line.predict.wall) > 0
        assert min(line.trees) > 0
    assert "2 pairs; slower than lgbmcv on" in printed
    written = json.loads((tmp_path / "out.json").read_text())
    assert [each["fit"]["cpu"] for each in written] == [line.ours.cpu for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_lgbmcv_starts_at_the_base_score_and_lowers_the_loss(lgbmcv, task):
    case = simulate_case(6000)
    if task == "regression":
        case = replace(case, task=task, y=case.bases["tree"])
    booster, trees = lgbmcv.fit_lgbmcv(case, "lr", threads=1)
    assert 1 <= trees == booster.num_trees()
    scores, y = case.bases["lr"][1], case.y[1]
    p = lgbmcv.predict_lgbmcv(case, "lr", booster)
    assert np.mean((y - p) ** 2) < np.mean((y - scores) ** 2)


MCGRAD_STUB = """
import numpy as np

class MCGrad:
    def fit(self, rows, score, label, *, categorical_feature_column_names, **columns):
        assert 0 < rows[score].min() and rows[score].max() < 1 and len(rows) == len(rows[label])
        self.columns = [*categorical_feature_column_names, *columns.popitem()[1]]

    def predict(self, many, score, **columns):
        return many[self.columns + [score]].to_numpy(object)

RegressionMCGrad = None
"""


@pytest.mark.slow
def test_mcgrad_is_timed_in_another_environment(lgbmcv, capsys, tmp_path, monkeypatch):
    (tmp_path / "mcgrad").mkdir()
    (tmp_path / "mcgrad" / "methods.py").write_text(MCGRAD_STUB)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(lgbmcv, "PREDICTED_ROWS", 3000)
    (line,) = lgbmcv.main([*QUICK, "--bases", "tree", "--mcgrad", sys.executable])
    assert min(line.mcgrad[0].wall, line.mcgrad[1].cpu) > 0
    assert line.record()["mcgrad"]["fit"] == vars(line.mcgrad[0])
    assert f"MCGrad fit {line.mcgrad[0].wall:.2f} s" in capsys.readouterr().out


def test_an_environment_without_mcgrad_says_so(lgbmcv):
    case = simulate_case(3000)
    rows = case.X[1][:50], case.bases["tree"][1][:50]
    with pytest.raises(RuntimeError, match="mcgrad failed"):
        lgbmcv.ask_mcgrad("/bin/false", case, "tree", list(case.X[0].columns), rows)
