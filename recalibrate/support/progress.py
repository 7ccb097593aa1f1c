"""A one-line progress display for the boosting loop; silent unless someone is looking."""

import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

_SECONDS_BETWEEN_UPDATES = 0.1  # faster than the eye can read only costs time


class Progress:
    """Show the state of a loop on one line of the terminal.

    Parameters
    ----------
    total : int or None
        The largest number of rounds, or None if unknown.
    enabled : bool or None
        True always writes, False never does, None (default) writes only if the stream is a
        terminal, so that logs and notebooks stay clean.
    stream : text stream or None
        Where to write; standard error (looked up when the display starts) by default.
    clock : callable
        Returns seconds; a parameter for tests.

    Notes
    -----
    Updates are throttled to about ten a second. When the block ends, also by an exception, the
    last state given stays on a line of its own. If no update was given nothing is written.

    Examples
    --------
    >>> import sys
    >>> from recalibrate.support.progress import Progress
    >>> with Progress(2, enabled=False) as bar:
    ...     bar.update(round=1, error=0.25)
    ...     bar.update(round=2, error=0.20, validation=0.21)
    """

    def __init__(
        self,
        total: int | None = None,
        enabled: bool | None = None,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self.enabled = enabled
        self.stream = stream
        self.clock = clock
        self._out: TextIO | None = None  # None = silent
        self._state: tuple[int, float | None, float | None] | None = None
        self._started = 0.0
        self._written_at = float("-inf")
        self._width = 0

    def __enter__(self) -> Self:
        stream = sys.stderr if self.stream is None else self.stream
        self._out = stream if self._wanted(stream) else None
        self._started = self.clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._out is not None and self._state is not None:
            self._write(self.clock(), end="\n")
        self._out = None

    def update(
        self, *, round: int, error: float | None = None, validation: float | None = None
    ) -> None:
        """Record the state of the loop and show it if the last display is old enough.

        Parameters
        ----------
        round : int
            Rounds finished.
        error, validation : float or None
            Loss on the fitted rows and on the held-out rows.
        """
        if self._out is None:
            return
        self._state = (round, error, validation)
        now = self.clock()
        if now - self._written_at >= _SECONDS_BETWEEN_UPDATES:
            self._write(now, end="")

    def _wanted(self, stream: TextIO | None) -> bool:
        if stream is None:  # sys.stderr is None under pythonw and some services
            return False
        if self.enabled is not None:
            return self.enabled
        return not stream.closed and stream.isatty()

    def _write(self, now: float, end: str) -> None:
        if self._out is None:
            return
        # A line as wide as the terminal would wrap, and "\r" only returns to its last part.
        text = self._line(now)[: max(shutil.get_terminal_size().columns - 1, 20)]
        # Blanks erase what a longer line left behind; unlike escape codes they work everywhere.
        self._out.write("\r" + text.ljust(self._width) + end)
        self._out.flush()
        self._width = len(text)
        self._written_at = now

    def _line(self, now: float) -> str:
        if self._state is None:
            return ""
        number, error, validation = self._state
        parts = [f"round {number}" if self.total is None else f"round {number}/{self.total}"]
        if error is not None:
            parts.append(f"error {error:.6g}")
        if validation is not None:
            parts.append(f"validation {validation:.6g}")
        parts.append(f"{now - self._started:.1f} s")
        return "  ".join(parts)
