"""benchmarks/parity.py runs at a small size, and counts rows that differ."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.parity, pytest.mark.adapter]

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "parity.py"
SMALL = ["--rows", "1500", "--fit-rows", "1500", "--case", "scores, linear"]


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_parity", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_no_row_differs(benchmark, capsys):
    assert benchmark.main(SMALL) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  threads 1, batch         1: 0 of 1,500 rows differ"
    assert len(lines) == 2 + 2 * 5
    assert lines[-1] == "0 rows differ"


def test_rows_that_differ_are_counted(benchmark, monkeypatch, capsys):
    draw = benchmark.draw_rows

    def wrong(*arguments):
        rows = draw(*arguments)
        rows.expected["score"][[3, 1400]] += 1e-6
        rows.expected["score_margin"][3] = float("nan")
        return rows

    monkeypatch.setattr(benchmark, "draw_rows", wrong)
    assert benchmark.main(SMALL) == 2 * 5 * 2
    assert "batch     1,000: 2 of 1,500 rows differ" in capsys.readouterr().out
