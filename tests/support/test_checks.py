"""Single numbers and flags: what passes, and what the refusal says."""

import re

import numpy as np
import pytest

from recalibrate.support.checks import check_flag, check_number, check_whole


@pytest.mark.parametrize("value", [None, 1, 0.5, np.float32(0.5), np.int8(1)])
def test_numbers_inside_the_limits_pass(value):
    check_number("step", value, above=0.0, least=0.5, most=1.0)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "step must be above 0, got 0"),
        (1.5, "step must be at most 1, got 1.5"),
        (np.nan, "step must be a finite number, got nan"),
        (np.inf, "step must be a finite number, got inf"),
        ("1", "step must be a finite number, got '1'"),
        (True, "step must be a finite number, got True"),
        ([1], "step must be a finite number, got [1]"),
    ],
    ids=repr,
)
def test_numbers_outside(value, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        check_number("step", value, above=0.0, most=1.0)


@pytest.mark.parametrize("value", [None, 1, 7, np.int64(3), np.uint8(2), 10**30])
def test_whole_numbers_pass(value):
    check_whole("levels", value, least=1)


@pytest.mark.parametrize("value", [0, -1, 2.0, "2", True, np.nan], ids=repr)
def test_what_is_no_whole_number(value):
    with pytest.raises(ValueError, match=r"levels must be a whole number of at least 1, got "):
        check_whole("levels", value, least=1)


def test_whole_numbers_that_are_too_large():
    check_whole("levels", 9, least=1, most=9)
    with pytest.raises(ValueError, match="levels must be at most 9, got 10"):
        check_whole("levels", 10, least=1, most=9)


def test_flags():
    for value in (None, True, False, np.True_):
        check_flag("rounded", value)
    for value in (0, 1, "yes", []):
        with pytest.raises(ValueError, match="rounded must be True or False, got"):
            check_flag("rounded", value)
