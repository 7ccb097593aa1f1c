"""The audit's benchmark runs and prints what it says; its times are not judged here."""

import pytest
from scripts import load


def test_coverage_has_a_line_per_case(capsys):
    found = load("audit").main(
        ["coverage", "--runs", "2", "--rows", "200", "--cases", "rare", "clusters", "soft"]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 calibrated data sets of 200 rows; 95 % limits")
    assert [line.split()[0] for line in lines[1:]] == list(found) == ["rare", "clusters", "soft"]
    assert all(0 <= case["covered"] <= 1 for case in found.values())


def test_speed_measures_a_fresh_process(capsys):
    (measured,) = load("audit").main(["speed", "--rows", "6000"])
    assert measured.groups == 1 + 11 * 3 + 55 * 9
    assert measured.cpu > 0
    assert measured.peak_mb >= measured.input_mb > 0
    assert "529 groups" in capsys.readouterr().out


def test_a_child_that_fails_is_named():
    with pytest.raises(RuntimeError, match="mcgrad failed"):
        load("audit").in_child("/bin/false", "mcgrad", 10)
