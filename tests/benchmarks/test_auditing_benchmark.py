"""The audit's benchmark runs and prints what it says; its times are not judged here."""

from pathlib import Path

import numpy as np
import pytest
from scripts import load


@pytest.fixture(autouse=True)
def beside_its_kinds(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")


@pytest.mark.slow
def test_coverage_has_a_line_per_kind(capsys):
    found = load("audit").main(["coverage", "--runs", "2", "--kinds", "small", "small noisy"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 data sets of a kind from seed 0; 95 % limits")
    assert list(found) == ["small", "small noisy"]
    assert len(lines) == 4
    assert all(0 <= kind["covered"] <= 1 for kind in found.values())
    assert np.isnan(found["small noisy"]["off"])  # its gaps are real


@pytest.mark.slow
def test_speed_measures_a_fresh_process(capsys):
    (measured,) = load("audit").main(["speed", "--rows", "6000"])
    assert measured.groups == 1 + 11 * 3 + 55 * 9
    assert measured.cpu > 0
    assert measured.peak_mb >= measured.input_mb > 0
    assert "529 groups" in capsys.readouterr().out


def test_a_child_that_fails_is_named():
    with pytest.raises(RuntimeError, match="mcgrad failed"):
        load("audit").in_child("/bin/false", "mcgrad", 10)
