"""Ctrl-C and SIGTERM, also where a framework's own code swallows Python's exception for them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

_DEFAULTS: dict[signal.Signals, Callable[[int, FrameType | None], Any] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}


@dataclass
class Interrupts:
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
def watch_interrupts() -> Iterator[Interrupts]:
    """Remember Ctrl-C and SIGTERM while the block runs.

    A KeyboardInterrupt inside of a callback from C code is printed and dropped there; the error
    that follows from it is then known to be an interruption. SIGTERM, by which containers are
    stopped, would end Python without cleaning up.
    """
    interrupts = Interrupts()
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
