"""Parts of rows in this process, as a source of sums for the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from recalibrate.core.fixedpoint import Scale
from recalibrate.core.part import Part, Statistic, Sums
from recalibrate.core.rounds import Rounds, Scores
from recalibrate.support.pool import Pool
from recalibrate.support.threads import map_ahead

T = TypeVar("T")
R = TypeVar("R")


class LocalPart(Protocol):
    """A part whose arrays are in memory, or get there when they are needed."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def sums(self, statistic: Statistic) -> Sums:
        """The part's share of the sums."""

    def scores(self, log: Rounds) -> Scores:
        """Scores after the last step of ``log``."""


class LocalSource:
    """A :class:`~recalibrate.core.source.StatsSource` over parts in this process.

    Parameters
    ----------
    parts
        Blocks of rows.
    scale
        Fixed point shared by all parts.
    threads
        Parts that are worked on at a time; with 1 everything runs in the calling thread.
    """

    def __init__(self, parts: Sequence[LocalPart], scale: Scale, *, threads: int = 1) -> None:
        self.parts = tuple(parts)
        self.scale = scale
        threads = max(1, min(threads, len(self.parts)))
        self._pool = Pool(threads) if threads > 1 else None
        self._shares = [self.parts[k::threads] for k in range(threads)]

    @property
    def n_rows(self) -> int:
        return sum(part.n_rows for part in self.parts)

    @property
    def only_part(self) -> Part | None:
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Part) else None

    def share_out(self, work: Callable[[int], None], pieces: int) -> None:
        if self._pool is None or pieces == 1:
            for piece in range(pieces):
                work(piece)
        else:
            list(map_ahead(self._pool, work, range(pieces), pieces))

    def sums(self, statistic: Statistic) -> Sums:
        # One sum per thread: those of many parts at once would fill the memory.
        return add_up(
            self._map(lambda parts: add_up(p.sums(statistic) for p in parts), self._shares)
        )

    def each(self, statistic: Statistic) -> Iterable[Sums]:
        return self._map(lambda part: part.sums(statistic), self.parts)

    def scores(self, log: Rounds) -> Scores:
        return np.concatenate([part.scores(log) for part in self.parts])

    def _map(self, work: Callable[[T], R], items: Iterable[T]) -> Iterable[R]:
        if self._pool is None:
            return map(work, items)
        return map_ahead(self._pool, work, items, len(self._shares))

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.finish()


def add_up(found: Iterable[Sums]) -> Sums:
    """Sums added up into the first of them; none is needed any more."""
    parts = iter(found)
    sums = next(parts, None)
    if sums is None:
        raise ValueError("there are no rows to sum over")
    for others in parts:
        for mine, other in zip(sums, others, strict=True):
            mine += other
    return sums
