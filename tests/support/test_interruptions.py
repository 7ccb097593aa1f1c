"""Exceptions of signal handlers get through where those of frameworks are handled."""

import ast
import signal
import sys
from enum import Enum
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import recalibrate_adapters
from sklearn.linear_model import LogisticRegression

import recalibrate as rc
from recalibrate.support.threads import ignoring_failures, reraise_interruption

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGALRM")


class TimeLimitError(Exception):
    pass


def limit(number, frame):
    raise TimeLimitError


class Limit:
    def __call__(self, number, frame):
        limit(number, frame)

    def method(self, number, frame):
        limit(number, frame)


@pytest.fixture(autouse=True)
def _restore():
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)


HANDLERS = [limit, Limit(), Limit().method, partial(limit), lambda *a: limit(*a)]


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_exception_of_a_handler_is_raised_again(handler, wrapped):
    signal.signal(signal.SIGALRM, handler)
    try:
        try:
            signal.raise_signal(signal.SIGALRM)
        except TimeLimitError:
            if wrapped:
                raise RuntimeError("the framework wraps whatever it meets") from None
            raise
    except Exception as error:
        with pytest.raises(TimeLimitError):
            reraise_interruption(error)


class Colour(Enum):
    RED = 1


def test_other_errors_pass():
    """Also one that was raised inside of an enumeration, as SIG_DFL is one."""
    signal.signal(signal.SIGALRM, limit)
    for refuse in (lambda: Colour(2), lambda: int("x"), lambda: Path("no").stat()):
        try:
            refuse()
        except (ValueError, OSError) as error:
            reraise_interruption(error)
        with ignoring_failures():
            refuse()


def test_only_failures_are_ignored():
    signal.signal(signal.SIGALRM, limit)
    with pytest.raises(TimeLimitError), ignoring_failures():
        signal.raise_signal(signal.SIGALRM)
    with pytest.raises(KeyboardInterrupt), ignoring_failures():
        raise KeyboardInterrupt


def test_a_time_limit_inside_of_a_conversion_ends_the_fit(monkeypatch):
    """It was taken for a reason not to have a graph, and the fit went on."""
    from recalibrate_adapters import sklearn_writer

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    y = (rng.random(400) < 0.5).astype(int)
    base = LogisticRegression().fit(X, y)
    signal.signal(signal.SIGALRM, limit)
    monkeypatch.setattr(
        sklearn_writer, "_convert", lambda *a, **k: signal.raise_signal(signal.SIGALRM)
    )
    monkeypatch.setattr(sklearn_writer, "_count_outputs", sklearn_writer._convert)
    with pytest.raises(TimeLimitError):
        rc.fit(base, X, y)


REPORTS_IT_ANYWAY = {"entry.py"}
"""The last resort of the command line."""


def test_whoever_handles_everything_lets_interruptions_pass():
    """A module that swallows every exception would swallow a time limit."""
    folders = (rc.__path__[0], recalibrate_adapters.__path__[0])
    files = [path for folder in folders for path in Path(folder).rglob("*.py")]
    wrong = []
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.ExceptHandler)
                and ast.unparse(node.type or node) == "Exception"
            ):
                first = ast.unparse(node.body[0])
                if "reraise_interruption" not in first and path.name not in REPORTS_IT_ANYWAY:
                    wrong.append(f"{path.name}:{node.lineno}")
            elif isinstance(node, ast.Call) and ast.unparse(node) == "suppress(Exception)":
                wrong.append(f"{path.name}:{node.lineno}")
    assert wrong == []
