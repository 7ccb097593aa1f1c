"""Exceptions of signal handlers, told from those of the code that they interrupted."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from traceback import walk_tb
from types import CodeType, TracebackType


def reraise_interruption(error: BaseException) -> None:
    """Raise the exception of a signal handler that an error is, or that led to it.

    Whoever handles every exception of a framework calls this first. A time limit that raises a
    TimeoutError, for instance, would otherwise be taken for the framework's opinion on a model.

    Parameters
    ----------
    error
        What was caught.

    Examples
    --------
    >>> reraise_interruption(ValueError("of the framework"))
    """
    handlers = set(_handler_codes())
    for each in _chain(error):
        frames = (frame for frame, _ in walk_tb(each.__traceback__))
        if any(frame.f_code in handlers for frame in frames):
            raise each


class ignoring_failures:  # noqa: N801 - used like contextlib.suppress
    """Like ``suppress(Exception)``, except for exceptions of signal handlers."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        reraise_interruption(error)
        return True


def _handler_codes() -> Iterator[CodeType]:
    """Code of the signal handlers that are installed now and written in Python."""
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if not callable(handler):  # SIG_DFL and SIG_IGN, whose class is an enumeration
            continue
        for owner in (handler, getattr(handler, "func", None), type(handler).__call__):
            code = getattr(owner, "__code__", None)
            if isinstance(code, CodeType):
                yield code


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those during whose handling it was raised, the last first."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            todo += [each.__context__, each.__cause__]
