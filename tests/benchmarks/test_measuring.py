"""benchmarks/measuring.py: seconds, fresh processes and numbers on the command line."""

import argparse
import sys

import pytest
from scripts import load

measuring = load("measuring")


def test_seconds_are_those_of_the_clock_and_of_the_processor():
    one, two = measuring.Seconds(1.0, 5.0), measuring.Seconds(2.0, 3.0)
    assert one.best(two) == measuring.Seconds(1.0, 3.0)
    assert one + two == measuring.Seconds(3.0, 8.0)
    assert two - one == measuring.Seconds(1.0, -2.0)


def test_the_best_of_several_runs_counts():
    runs = []
    found = measuring.best_of(3, lambda: runs.append(1))
    assert len(runs) == 3
    assert found.wall >= 0


def test_memory_is_at_most_its_high_water_mark():
    assert 0 < measuring.held_bytes() <= measuring.peak_bytes()


def test_a_child_answers_with_its_last_line():
    said = "print('a lot of output'); print('[1, 2]')"
    assert measuring.ask_child("counting", [sys.executable, "-c", said]) == [1, 2]


def test_a_child_that_fails_says_why():
    with pytest.raises(RuntimeError, match=r"counting failed:\n(.|\n)*no such thing"):
        measuring.ask_child("counting", [sys.executable, "-c", "raise KeyError('no such thing')"])


@pytest.mark.parametrize(("text", "values"), [("30,10,30", [10, 30]), ("7", [7]), ("", [])])
def test_numbers_are_whole_distinct_and_ascend(text, values):
    assert measuring.numbers(text) == values


def test_numbers_are_positive():
    with pytest.raises(argparse.ArgumentTypeError, match="must be positive, got '3,0'"):
        measuring.numbers("3,0")
