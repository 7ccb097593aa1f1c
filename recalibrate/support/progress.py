"""A one-line progress display for the boosting loop; silent unless someone is looking."""

import shutil
import sys
from time import monotonic
from typing import Self, TextIO

_SECONDS_BETWEEN_UPDATES = 0.1  # faster than the eye can read only costs time


class Progress:
    """Show the state of a loop on one line of standard error.

    Parameters
    ----------
    total : int
        The largest number of rounds.
    enabled : bool or None
        True always writes, False never does, None (default) writes only to a terminal, so that
        logs and notebooks stay clean.

    Notes
    -----
    Updates are throttled to about ten a second. When the block ends, also by an exception, the
    last state given stays on a line of its own. If no update was given nothing is written.

    Examples
    --------
    >>> from recalibrate.support.progress import Progress
    >>> with Progress(2, enabled=False) as bar:
    ...     bar.update(round=1, error=0.25)
    ...     bar.update(round=2, error=0.20, validation=0.21)
    """

    def __init__(self, total: int, enabled: bool | None = None) -> None:
        self.total = total
        self.enabled = enabled
        self._out: TextIO | None = None  # None = silent
        self._state = ""
        self._started = 0.0
        self._written_at = float("-inf")
        self._width = 0

    def __enter__(self) -> Self:
        self._out = sys.stderr if self._wanted(sys.stderr) else None
        self._started = monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        if self._out is not None and self._state:
            self._write(self._out, end="\n")
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
        self._state = f"round {round}/{self.total}"
        if error is not None:
            self._state += f"  error {error:.6g}"
        if validation is not None:
            self._state += f"  validation {validation:.6g}"
        if monotonic() - self._written_at >= _SECONDS_BETWEEN_UPDATES:
            self._write(self._out, end="")

    def _wanted(self, stream: TextIO | None) -> bool:
        if stream is None:  # under pythonw and some services
            return False
        if self.enabled is not None:
            return self.enabled
        return not stream.closed and stream.isatty()

    def _write(self, out: TextIO, end: str) -> None:
        self._written_at = monotonic()
        text = f"{self._state}  {self._written_at - self._started:.1f} s"
        # A line as wide as the terminal would wrap, and "\r" only returns to its last part.
        text = text[: max(shutil.get_terminal_size().columns - 1, 20)]
        # Blanks erase what a longer line left behind; unlike escape codes they work everywhere.
        out.write("\r" + text.ljust(self._width) + end)
        out.flush()
        self._width = len(text)
