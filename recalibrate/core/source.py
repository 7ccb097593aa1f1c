"""What the loop sees of the rows, wherever they are: a place to put questions to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from recalibrate.core.fixedpoint import Scale
from recalibrate.core.part import Answer, Part, Question
from recalibrate.core.rounds import Rounds, Scores


class StatsSource(Protocol):
    """Rows in parts, which answer questions by sums."""

    @property
    def n_rows(self) -> int:
        """Rows of all parts."""

    @property
    def scale(self) -> Scale:
        """Fixed point of all answers."""

    @property
    def only_part(self) -> Part | None:
        """The part that has all rows, if there is one: then nothing needs summing."""

    def share_out(self, work: Callable[[int], None], pieces: int) -> None:
        """Do some work on the driver's side in pieces, side by side where that is possible."""

    def sums(self, question: Question) -> Answer:
        """Sum of all parts' answers."""

    def each(self, question: Question) -> Iterable[Answer]:
        """The answer of every part, in the order of the rows."""

    def scores(self, log: Rounds) -> Scores:
        """Scores of the rows, in the order they were given."""


def total(source: StatsSource, question: Question) -> Answer:
    """Sum of all parts' answers."""
    return source.sums(question)
