"""Warnings point at the user's own line, however deep they come from."""

import inspect

import numpy as np
import pytest

from recalibrate import LSBoostClassifier, Trees, fit
from recalibrate.support.checks import ModelFileError
from recalibrate.support.notices import printable, warn_user

X = np.arange(200.0)[:, None]
Y = np.arange(200) % 2


def test_called_from_outside():
    with pytest.warns(UserWarning, match="take care") as caught:
        warn_user("take care")
    assert caught[0].filename == __file__


def by_function():
    return fit(np.full(200, 0.5), X, Y, Trees(depth=1), alpha=1.0)


def by_estimator():
    return LSBoostClassifier(Trees(depth=1), alpha=1.0).fit(X, Y)


@pytest.mark.parametrize("call", [by_function, by_estimator])
def test_called_from_deep_inside(call):
    with pytest.warns(UserWarning, match="just the rounded base") as caught:
        call()
    assert caught[0].filename == __file__
    assert caught[0].lineno == inspect.getsourcelines(call)[1] + 1


def test_texts_do_not_steer_the_terminal():
    evil = "\x1b]0;title\x07\r\x9b31m \u202e \ud800"
    assert printable(evil) == r"\x1b]0;title\x07\x0d\x9b31m \u202e \ud800"
    assert printable("two\nlines\tand \u00e9\u4e2d") == "two\nlines\tand \u00e9\u4e2d"
    assert str(ModelFileError("no \x1b[31mred")) == r"no \x1b[31mred"
