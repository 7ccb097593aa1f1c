"""What a command says: results on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO

from recalibrate.commands.interrupts import Interrupts
from recalibrate.support.notices import printable


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
        Whether Ctrl-C was pressed.
    """

    command: str
    quiet: bool = False
    interrupts: Interrupts = field(default_factory=Interrupts)

    @property
    def progress(self) -> bool | None:
        """The argument ``progress`` of `recalibrate.fit`: by default a bar on a terminal."""
        return False if self.quiet else None

    def check_interrupts(self) -> None:
        """Stop here if Ctrl-C was pressed: what was going on may have ended early, in silence."""
        if self.interrupts.seen:
            raise KeyboardInterrupt

    def say(self, text: str) -> None:
        """Print a result."""
        if not self.quiet:
            self.answer(text)

    def answer(self, text: str) -> None:
        """Print what the user asked for, quiet or not."""
        _write(sys.stdout, text)

    def step(self, text: str) -> None:
        """Say what takes its time, if somebody is looking."""
        if not self.quiet and sys.stderr is not None and sys.stderr.isatty():
            _write(sys.stderr, f"{text} ...")

    def fail(self, text: str) -> None:
        """Print why a gate failed."""
        _write(sys.stderr, in_one_line(text))

    def warn(self, text: str) -> None:
        """Print a warning."""
        _write(sys.stderr, f"recalibrate {self.command}: warning: {in_one_line(text)}")

    def error(self, text: str) -> None:
        """Print an error."""
        _write(sys.stderr, f"recalibrate {self.command}: error: {in_one_line(text)}")


def _write(stream: TextIO | None, text: str) -> None:
    """A line; characters that the stream cannot or should not show are written as their codes."""
    if stream is None:  # closed before the program began
        return
    text = printable(text)
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except UnicodeEncodeError as error:
        _write(stream, text.encode(error.encoding, "backslashreplace").decode(error.encoding))
    except (OSError, ValueError):  # whoever read it (head, for example) has seen enough
        silence(stream)


def settle() -> None:
    """Write what is left, or the interpreter would end with an error of its own."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except (OSError, ValueError):
                silence(stream)


def silence(stream: TextIO) -> None:
    """Send what is written from now on nowhere: what the program does does not depend on it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def in_one_line(text: str) -> str:
    r"""A message without line breaks.

    Examples
    --------
    >>> in_one_line("2 groups fail:\n  young\n  old\n")
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
