"""What the loop sees of the rows, wherever they are: sums of statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from recalibrate.core.fixedpoint import Scale
from recalibrate.core.part import Part, Statistic, Sums
from recalibrate.core.rounds import Rounds, Scores


class StatsSource(Protocol):
    """Rows in parts, whose statistics are summed."""

    @property
    def n_rows(self) -> int:
        """Rows of all parts."""

    @property
    def scale(self) -> Scale:
        """Fixed point of all sums."""

    @property
    def only_part(self) -> Part | None:
        """The part that has all rows, if there is one: then nothing needs summing."""

    def share_out(self, work: Callable[[int], None], pieces: int) -> None:
        """Do some work on the driver's side in pieces, side by side where that is possible."""

    def sums(self, statistic: Statistic) -> Sums:
        """A statistic of all parts together."""

    def each(self, statistic: Statistic) -> Iterable[Sums]:
        """The statistic of every part, in the order of the rows."""

    def scores(self, log: Rounds) -> Scores:
        """Scores of the rows, in the order they were given."""
