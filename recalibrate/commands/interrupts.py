"""Ctrl-C, also where a framework's own code swallows Python's exception for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Interrupts:
    """Whether Ctrl-C was pressed."""

    seen: bool = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Remember it, and raise what Python raises."""
        self.seen = True
        raise KeyboardInterrupt


@contextmanager
def watch_interrupts() -> Iterator[Interrupts]:
    """Remember Ctrl-C while the block runs.

    A KeyboardInterrupt inside of a callback from C code is printed and dropped there; the error
    that follows from it is then known to be an interruption.
    """
    interrupts = Interrupts()
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupts  # somebody else, or nobody, is to handle it
        return
    signal.signal(signal.SIGINT, interrupts.handle)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
