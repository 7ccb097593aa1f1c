"""examples/monitoring.py finds the planted drift in the right group, and since when."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "monitoring.py"


@pytest.mark.slow
def test_the_drift_is_found_where_it_is(capsys, tmp_path):
    page = tmp_path / "monitor.html"
    monitor = runpy.run_path(str(EXAMPLE))["main"](["--weeks", "35", "--html", str(page)])
    worst = monitor.report().alarms[0]
    assert (worst.group, worst.direction, worst.since) == (
        "SEX = female * AGEP < 35",
        "under",
        "30",
    )
    assert worst.low_since < 0.15 < worst.high_since
    printed = capsys.readouterr().out
    assert "alarm, SEX = female * AGEP < 35" in printed
    before, after = (float(line.split()[-1]) for line in printed.splitlines()[-2:])
    assert abs(after) < abs(before)
    assert "Calibration monitor" in page.read_text()
