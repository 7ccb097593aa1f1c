"""The monitor's benchmark runs and prints what it says; its times are not judged here."""

import pytest
from scripts import load


@pytest.mark.slow
def test_false_alarms_are_counted(capsys):
    (rate,) = load("monitoring").main(
        ["false-alarms", "--runs", "2", "--rows", "200", "--tolerance", "0"]
    )
    assert (rate.runs, rate.tolerance) == (2, 0.0)
    assert 0 <= rate.alarms <= 2
    assert rate.limit > 0.05
    assert "of 2 calibrated streams" in capsys.readouterr().out


@pytest.mark.slow
def test_a_planted_gap_is_found_after_its_day(capsys):
    found = load("monitoring").main(["power", "--runs", "1", "--rows", "2000"])
    assert found.found == 1
    assert found.delays[0] >= found.known[0] >= 0
    assert "test that knows the day" in capsys.readouterr().out


@pytest.mark.slow
def test_rare_events_are_found_and_calibrated_ones_are_not(capsys):
    results = load("monitoring").main(["rare", "--runs", "2", "--tolerance", "0"])
    assert {each.alarms for each in results if each.gap == 0} == {0}
    assert {each.found for each in results if each.gap == 0.05} == {2}
    assert "found in 2 of 2 streams" in capsys.readouterr().out


@pytest.mark.slow
def test_the_state_stops_growing():
    found = load("monitoring").main(["speed", "--batches", "80", "--rows", "400"])
    assert (found.rows, found.groups) == (32_000, 100)
    assert found.grown_kb < 0.1 * found.state_kb
