"""What the loop sees of the rows, wherever they are: a place to put questions to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from recalibrate.core.fixedpoint import Scale
from recalibrate.core.part import Answer, Part, Question
from recalibrate.core.rounds import Rounds, Scores


class StatsSource(Protocol):
    """What the loop sees of the rows: a place to put questions to."""

    @property
    def n_rows(self) -> int:
        """Training rows, over all parts."""

    @property
    def scale(self) -> Scale:
        """Fixed point of all answers."""

    @property
    def has_held_out(self) -> bool:
        """Whether there are rows that only validate."""

    @property
    def only_part(self) -> Part | None:
        """The part that has all training rows, if there is one: then nothing needs summing."""

    def share_out(self, work: Callable[[int], None], pieces: int) -> None:
        """Do some work on the driver's side in pieces, side by side where that is possible."""

    def answers(self, question: Question, *, held_out: bool = False) -> Iterable[Answer]:
        """The answer of every part, in any order."""

    def scores(self, log: Rounds, *, held_out: bool = False) -> Scores:
        """Scores of the rows, in the order they were given."""


def total(source: StatsSource, question: Question, *, held_out: bool = False) -> Answer:
    """Sum of all parts' answers."""
    sums: Answer | None = None
    for answer in source.answers(question, held_out=held_out):
        if sums is None:
            sums = answer
        else:
            for mine, other in zip(sums, answer, strict=True):
                mine += other
    if sums is None:
        raise ValueError("there are no rows to sum over")
    return sums
