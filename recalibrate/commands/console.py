"""What a command says: results on standard output, everything else on standard error."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TextIO

from recalibrate.support.notices import printable

# --- Ctrl-C and SIGTERM, also where a framework's own code swallows Python's exception for them -


_DEFAULTS: dict[signal.Signals, Callable[[int, FrameType | None], Any] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}


@dataclass
class _Interrupts:
    """The signal that asked the command to stop, if one did."""

    number: int | None = None

    @property
    def seen(self) -> bool:
        """Whether there was one."""
        return self.number is not None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Remember it, and raise what Python raises for Ctrl-C."""
        self.number = number
        raise KeyboardInterrupt


@contextmanager
def watch_interrupts() -> Iterator[_Interrupts]:
    """Remember Ctrl-C and SIGTERM while the block runs.

    A KeyboardInterrupt inside of a callback from C code is printed and dropped there; the error
    that follows from it is then known to be an interruption. SIGTERM, by which containers are
    stopped, would end Python without cleaning up.
    """
    interrupts = _Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    # Where somebody else, or nobody, is to handle a signal, that stays so.
    ours = [number for number, own in _DEFAULTS.items() if signal.getsignal(number) is own]
    for number in ours:
        signal.signal(number, interrupts.handle)
    try:
        yield interrupts
    finally:
        for number in ours:
            signal.signal(number, _DEFAULTS[number])


@dataclass(frozen=True)
class Console:
    """Where a command talks to the user.

    Attributes
    ----------
    command
        Name of the subcommand, for messages.
    quiet
        Whether only errors, warnings and what was asked for are shown.
    interrupts
        Whether the command was asked to stop.
    lost
        Why output could not be written, see `flush_streams`.
    done
        What happened for good, which an error about lost output must not leave open.
    """

    command: str
    quiet: bool = False
    interrupts: _Interrupts = field(default_factory=_Interrupts)
    lost: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    @property
    def progress(self) -> bool | None:
        """The argument ``progress`` of `recalibrate.fit`: by default a bar on a terminal."""
        return False if self.quiet else None

    def check_interrupts(self) -> None:
        """Stop here if that was asked for: what was going on may have ended early, in silence."""
        if self.interrupts.seen:
            raise KeyboardInterrupt

    def say(self, text: str) -> None:
        """Print a result."""
        if not self.quiet:
            self.answer(text)

    def answer(self, text: str) -> None:
        """Print what the user asked for, quiet or not."""
        _write(sys.stdout, text, self.lost)

    def step(self, text: str) -> None:
        """Say what takes its time, if somebody is looking."""
        if not self.quiet and sys.stderr is not None and sys.stderr.isatty():
            _write(sys.stderr, f"{text} ...", self.lost)

    def fail(self, text: str) -> None:
        """Print why a gate failed."""
        _write(sys.stderr, _in_one_line(text), self.lost)

    def warn(self, text: str) -> None:
        """Print a warning."""
        line = f"recalibrate {self.command}: warning: {_in_one_line(text)}"
        _write(sys.stderr, line, self.lost)

    def error(self, text: str) -> None:
        """Print an error."""
        line = f"recalibrate {self.command}: error: {_in_one_line(text)}"
        _write(sys.stderr, line, self.lost)


def _write(stream: TextIO | None, text: str, lost: list[str]) -> None:
    """A line; characters that the stream cannot or should not show are written as their codes."""
    if stream is None:  # closed before the program began
        return
    text = printable(text)
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except UnicodeEncodeError as error:
        escaped = text.encode(error.encoding, "backslashreplace").decode(error.encoding)
        _write(stream, escaped, lost)
    except (OSError, ValueError) as error:
        _give_up(stream, error, lost)


def flush_streams(lost: list[str]) -> None:
    """Write what is left, or the interpreter would end with an error of its own.

    Why output could not be written is appended to ``lost``. The command itself goes on: a full
    disk under its log must not cost the model that it fits.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except (OSError, ValueError) as error:
                _give_up(stream, error, lost)


def report_lost(lost: list[str], done: Sequence[str] = ()) -> None:
    """Say on standard error, if it can still be written to, which output is incomplete."""
    for why in lost.copy():
        _write(sys.stderr, f"recalibrate: error: {'; '.join([why, *done])}", lost)


def _give_up(stream: TextIO, error: OSError | ValueError, lost: list[str]) -> None:
    _silence(stream)
    if isinstance(error, OSError) and error.errno not in _CLOSED:
        name = "standard error" if stream is sys.stderr else "standard output"
        lost.append(f"cannot write to {name}: {error.strerror or error}; output is incomplete")


# Whoever read the stream (head, for example) has seen enough. Windows says so by EINVAL.
_CLOSED = {errno.EPIPE, *([errno.EINVAL] if os.name == "nt" else [])}


def _silence(stream: TextIO) -> None:
    """Send what is written from now on nowhere: what the program does does not depend on it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _in_one_line(text: str) -> str:
    r"""A message without line breaks.

    Examples
    --------
    >>> _in_one_line("2 groups fail:\n  young\n  old\n")
    '2 groups fail: young; old'
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    joined = ""
    for line in lines:
        joined += (" " if joined.endswith((":", ".", ",", ";")) else "; ") * bool(joined) + line
    return joined


@contextmanager
def shown_warnings(console: Console) -> Iterator[None]:
    """Show warnings as lines of text, without the place in the code that they come from."""

    def show(message: Warning | str, *place: object, **more: object) -> None:
        console.warn(str(message))

    with warnings.catch_warnings():
        # Advice of this library to its users; a program's user must see it, and see it once.
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield
