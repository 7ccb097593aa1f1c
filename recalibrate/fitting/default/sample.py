"""Rows of a default fit: all of them to be fitted, and those that its choices are made on.

Folds, numbers of steps and weights come from whole columns of held-out scores. A million rows
say all that can be said about them, so that is where choosing stops; refitting goes over all
rows, wherever they are. What is chosen must hold for both: classes are bound to all rows, and
one scale serves all sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.fixedpoint import Scale, make_scale
from recalibrate.core.learning import FunctionClass, Learner
from recalibrate.core.rounds import Encoder
from recalibrate.core.source import StatsSource
from recalibrate.data.folds import dealing_hash, first_rows, tell_apart
from recalibrate.rows.memory import Rows, rows_in_memory

CHOOSING_ROWS = 1_000_000
"""Most rows that choices are made on.

With so many the standard error of a held-out loss is a thousandth of a row's own spread, far
below any difference that a user would notice; and they fit in any memory.
"""


class Pantry(Protocol):
    """Rows of a default fit, wherever they are."""

    @property
    def sample(self) -> Problem:
        """The rows that choices are made on: all of them, or `CHOOSING_ROWS`."""

    @property
    def numbers(self) -> NDArray[np.intp] | None:
        """Their numbers among the rows of a table in memory; None: all, or there is none."""

    @property
    def scale(self) -> Scale:
        """Fixed point of all sums."""

    def bind(self, H: FunctionClass, index: int) -> Learner:
        """A class on the columns of all rows; its encoder will be number ``index``."""

    def encode(self, encoders: Sequence[Encoder], *, lots: bool = False) -> Rows:
        """The sample as blocks of numbers, one for every encoder.

        With ``lots`` if steps are to draw rows and these are all there are. More rows than
        choices are made on need no drawing: what a tree finds in them is hardly an accident.
        """

    def open(self, encoders: Sequence[Encoder | None]) -> AbstractContextManager[StatsSource]:
        """All rows as a source; of encoders that are None no step will need the block."""

    def beside(
        self, source: StatsSource, count: int
    ) -> AbstractContextManager[Sequence[StatsSource]]:
        """``count`` sources of the same rows, to work on at the same time.

        Where that is impossible or does not pay: the opened ``source`` alone.
        """


class PantryInMemory:
    """A `Pantry` whose rows are in memory.

    Parameters
    ----------
    problem
        All rows.
    seed
        Draws the sample.
    threads, blocks
        How the work is cut; the model is the same for all values.
    """

    def __init__(self, problem: Problem, seed: int, threads: int, blocks: int | None) -> None:
        labels = problem.labels
        self.numbers = sample_numbers(problem, seed)
        self.sample = problem if self.numbers is None else problem.take(self.numbers)
        self.scale = make_scale(problem.n_rows, labels.weight, newton=problem.link == "logit")
        self._problem = problem
        self._seed = seed
        self._table = problem.table.gathered()
        self._weight = self.scale.quantise_weight(labels.weight)
        self._threads = threads
        self._blocks = blocks
        self._rows: Rows | None = None

    def bind(self, H: FunctionClass, index: int) -> Learner:
        return H.bind(self._table, self._weight, threads=self._threads, index=index)

    def encode(self, encoders: Sequence[Encoder], *, lots: bool = False) -> Rows:
        problem = self._problem
        blocks = tuple(encoder.encode(self._table, self._threads) for encoder in encoders)
        del self._table  # from now on the blocks are all that is needed
        self._rows = Rows(blocks, problem.labels.values, problem.base, self._weight)
        if self.numbers is not None:
            return self._rows.take(self.numbers)
        if lots:
            self._rows = replace(self._rows, lots=row_lots(problem, self._seed))
        return self._rows

    def open(self, encoders: Sequence[Encoder | None]) -> AbstractContextManager[StatsSource]:
        return self._source(self._threads)

    @contextmanager
    def beside(self, source: StatsSource, count: int) -> Iterator[Sequence[StatsSource]]:
        large = self.numbers is not None  # each source has scores and sums of its own for all rows
        if large or min(count, self._threads) == 1:
            yield [source]
            return
        threads = max(1, self._threads // count)
        with ExitStack() as opened:
            yield [opened.enter_context(self._source(threads)) for _ in range(count)]

    def _source(self, threads: int) -> AbstractContextManager[StatsSource]:
        if self._rows is None:
            raise RuntimeError("rows have to be encoded before they are opened")
        return rows_in_memory(self._rows, self.scale, blocks=self._blocks, threads=threads)


def row_lots(problem: Problem, seed: int) -> NDArray[np.uint64]:
    """Hashes of what the rows say, equal rows told apart: no order of theirs changes a draw."""
    return tell_apart(_row_hash(problem, seed))


def choosing_rows(n_rows: int) -> int:
    """How many of so many rows choices are made on."""
    return min(n_rows, CHOOSING_ROWS)


def sample_numbers(problem: Problem, seed: int) -> NDArray[np.intp] | None:
    """Numbers of the rows that choices are made on; None: all.

    By what the rows say, so that neither their order nor the way they are cut matters, and in an
    order that follows from it too, because sums of held-out scores are not exact.
    """
    count = choosing_rows(problem.n_rows)
    if count == problem.n_rows:
        return None
    return first_rows(_row_hash(problem, seed), count)


def _row_hash(problem: Problem, seed: int) -> NDArray[np.uint64]:
    labels = problem.labels
    return dealing_hash(problem.table, labels.values, problem.base, labels.weight, seed)
