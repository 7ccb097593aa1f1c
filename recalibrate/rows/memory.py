"""Rows in memory, cut into blocks that a thread pool works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.fixedpoint import Scale
from recalibrate.core.part import NO_LOTS, Answer, Part, Question
from recalibrate.core.rounds import Block, Rounds, Scores
from recalibrate.core.source import StatsSource
from recalibrate.support.threads import cut


class InMemory:
    """A :class:`StatsSource` over parts in this process.

    Parameters
    ----------
    parts
        Blocks of training rows.
    held_out
        Blocks of rows that are only scored.
    scale
        Fixed point shared by all parts.
    threads
        Size of the thread pool; with 1 everything runs in the calling thread.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        scale: Scale,
        *,
        held_out: Sequence[Part] = (),
        threads: int = 1,
    ) -> None:
        self.parts = tuple(parts)
        self.held_out = tuple(held_out)
        self.scale = scale
        self._pool = ThreadPoolExecutor(threads) if threads > 1 and len(parts) > 1 else None

    @property
    def n_rows(self) -> int:
        return sum(part.n_rows for part in self.parts)

    @property
    def has_held_out(self) -> bool:
        return bool(self.held_out)

    @property
    def only_part(self) -> Part | None:
        return self.parts[0] if len(self.parts) == 1 else None

    def share_out(self, work: Callable[[int], None], pieces: int) -> None:
        if self._pool is None or pieces == 1:
            for piece in range(pieces):
                work(piece)
        else:
            list(self._pool.map(work, range(pieces)))

    def answers(self, question: Question, *, held_out: bool = False) -> Iterable[Answer]:
        parts = self.held_out if held_out else self.parts
        if self._pool is None:
            return [question.ask(part) for part in parts]
        return list(self._pool.map(question.ask, parts))

    def scores(self, log: Rounds, *, held_out: bool = False) -> Scores:
        parts = self.held_out if held_out else self.parts
        return np.concatenate([part.scores(log) for part in parts])

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()


class Sided:
    """A source whose held-out rows live elsewhere than its training rows.

    Parameters
    ----------
    train
        The training rows.
    aside
        The held-out rows, as the training rows of a source of their own.
    """

    has_held_out = True

    def __init__(self, train: StatsSource, aside: StatsSource) -> None:
        self.train = train
        self.aside = aside

    @property
    def n_rows(self) -> int:
        return self.train.n_rows

    @property
    def scale(self) -> Scale:
        return self.train.scale

    @property
    def only_part(self) -> Part | None:
        return self.train.only_part

    def share_out(self, work: Callable[[int], None], pieces: int) -> None:
        self.train.share_out(work, pieces)

    def answers(self, question: Question, *, held_out: bool = False) -> Iterable[Answer]:
        return (self.aside if held_out else self.train).answers(question)

    def scores(self, log: Rounds, *, held_out: bool = False) -> Scores:
        return (self.aside if held_out else self.train).scores(log)


@dataclass(frozen=True, eq=False)
class Rows:
    """Encoded rows with their labels, base scores and quantised weights (empty: each one).

    ``lots`` are hashes that steps draw rows by (empty: every step takes all rows).
    """

    blocks: tuple[Block, ...]
    y: NDArray[np.float64]
    base: Scores
    weight: NDArray[np.int64]
    lots: NDArray[np.uint64] = field(default_factory=lambda: NO_LOTS)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, at: slice | NDArray[np.intp]) -> Rows:
        """Some of the rows; a slice copies nothing."""
        weight = self.weight[at] if len(self.weight) else self.weight
        lots = self.lots[at] if len(self.lots) else self.lots
        blocks = tuple(block[at] for block in self.blocks)
        return Rows(blocks, self.y[at], self.base[at], weight, lots)


@contextmanager
def rows_in_memory(
    rows: Rows,
    scale: Scale,
    *,
    held_out: Rows | None = None,
    blocks: int | None = None,
    threads: int = 1,
) -> Iterator[InMemory]:
    """An engine over arrays, cut into ``blocks`` parts (None: one per thread where it pays)."""

    def parts_of(some: Rows | None) -> list[Part]:
        if some is None or not len(some):
            return []
        pieces = [some.take(at) for at in cut(len(some), blocks, threads)]
        return [
            Part(each.blocks, each.y, each.base, each.weight, scale, each.lots) for each in pieces
        ]

    source = InMemory(parts_of(rows), scale, held_out=parts_of(held_out), threads=threads)
    try:
        yield source
    finally:
        source.close()
