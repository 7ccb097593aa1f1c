"""The one table of times has every line, and says its ratios; times are not judged here."""

from __future__ import annotations

import json

import pytest
from scripts import load

pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")
speed = load("speed")

SMALL = ["--rows", "3000", "--repeats", "1", "--threads", "1", "--paper-rows", "3000"]
SMALL += ["--scale-rows", "3000", "--serving-rows", "2000", "--categories", "500"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "peers"),
    [
        ("default,paper", ["lgbmcv", "scikit-learn trees", "scikit-learn trees"]),
        ("pieces,categories", ["rows in memory", "10 categories", "10 categories"]),
        ("serving", ["its base"] * 11),
    ],
)
def test_a_line_for_everything(parts, peers, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "LEARNERS", 100)
    monkeypatch.setattr(speed, "BATCHES", {1: 3, 1000: 2})
    path = tmp_path / "out.json"
    lines = speed.main(["--quick", "--only", parts, *SMALL, "--json", str(path)])
    printed = capsys.readouterr().out
    assert [line.peer for line in lines] == peers
    for line in lines:
        assert min(line.ratios) > 0
        assert speed.show(line) in printed
    written = json.loads(path.read_text())
    assert [each["ours"]["cpu"] for each in written] == [line.ours.cpu for line in lines]


def test_ratios_are_shown_beside_what_is_aimed_at():
    ours, peer = speed.Seconds(0.02, 0.05), speed.Seconds(2.0, 2.5)
    shown = speed.show(speed.Line("a fit", "another", ours, peer, 1 / 60)).split()
    assert shown == ["a", "fit", "another", "20", "ms", "2", "s", "0.01", "0.02", "0.0167"]
