"""benchmarks/parity.py runs at a small size, and counts rows that differ."""

import pytest
from scripts import load

pytestmark = [pytest.mark.parity, pytest.mark.adapter]

SMALL = ["--rows", "1500", "--fit-rows", "1500", "--case", "scores, linear"]


@pytest.fixture(scope="module")
def benchmark():
    return load("parity")


@pytest.mark.slow
def test_no_row_differs(benchmark, capsys):
    assert benchmark.main(SMALL) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  threads 1, batch         1: 0 of 1,500 rows differ"
    assert len(lines) == 2 + 2 * 5
    assert lines[-1] == "0 rows differ"


@pytest.mark.slow
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
