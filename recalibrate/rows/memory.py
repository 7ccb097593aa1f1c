"""Rows in memory: a store of one piece, cut into parts that threads work on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem, by_column
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.learning import is_score
from recalibrate.core.part import Part, Rows, Statistic, Sums
from recalibrate.core.rounds import Encoder, Rounds, Scores
from recalibrate.data.columns import Columns
from recalibrate.data.fingerprints import Mark, add_marks, hash_rows
from recalibrate.data.folds import first_rows
from recalibrate.data.table import Table
from recalibrate.rows.store import Selection, Size, Store, Weigh, encode_blocks, size_of
from recalibrate.support.hashing import combine
from recalibrate.support.threads import Pool, cut, map_ahead

# --- Parts of rows in this process, as a source of sums for the loop ----------------------------


T = TypeVar("T")
R = TypeVar("R")


class _LocalPart(Protocol):
    """A part whose arrays are in memory, or get there when they are needed."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def sums(self, statistic: Statistic) -> Sums:
        """The part's share of the sums."""

    def scores(self, model: Rounds) -> Scores:
        """Scores after the last step of ``model``."""


class LocalSource:
    """A :class:`~recalibrate.core.learning.StatsSource` over parts in this process.

    Parameters
    ----------
    parts
        Blocks of rows.
    scale
        Fixed point shared by all parts.
    threads
        Parts that are worked on at a time; with 1 everything runs in the calling thread.
    """

    def __init__(self, parts: Sequence[_LocalPart], scale: Scale, *, threads: int = 1) -> None:
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

    def scores(self, model: Rounds) -> Scores:
        return np.concatenate([part.scores(model) for part in self.parts])

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


@dataclass(frozen=True, eq=False)
class MemoryStore:
    """The rows of a problem in memory.

    Attributes
    ----------
    problem
        All rows.
    threads, blocks
        How the work is cut (``blocks`` None: one part per thread where it pays); does not change
        a result.
    """

    problem: Problem
    threads: int = 1
    blocks: int | None = None

    @property
    def size(self) -> Size:
        return size_of(self.problem)

    @cached_property
    def table(self) -> Table:
        """The table, every column in one piece: it is read again and again until encoded."""
        return self.problem.table.gathered(self.threads)

    def map(self, work: Callable[[Problem], T]) -> Iterator[T]:
        yield work(replace(self.problem, table=self.table))

    def columns(self, scale: Scale) -> Columns:
        weight = scale.quantise_for_columns(self.problem.labels.weight)
        return Columns.of(self.table, weight, threads=self.threads)

    def take(self, rows: Selection) -> MemoryStore:
        return MemoryStore(self.problem.take(rows.of(0)), self.threads, self.blocks)

    def sample(self, count: int, seed: int) -> tuple[Problem, NDArray[np.intp] | None]:
        numbers = first_rows(self.problem.hashes(seed), count)
        return self.problem.take(numbers), numbers

    def in_memory(self) -> MemoryStore:
        return self

    def encode(self, encoders: Sequence[Encoder | None], weigh: Weigh) -> EncodedInMemory:
        labels, base = self.problem.labels, self.problem.base
        blocks = encode_blocks(encoders, self.table, self.threads)
        rows = Rows(blocks, labels.values, base, weigh(labels.weight))
        return EncodedInMemory(rows, self.threads, self.blocks)

    def drop(self) -> None:
        vars(self)["table"] = self.problem.table


@dataclass(frozen=True, eq=False)
class EncodedInMemory:
    """Encoded rows in memory; ``threads`` and ``blocks`` as in `MemoryStore`."""

    rows: Rows
    threads: int = 1
    blocks: int | None = None

    side_by_side = True

    def open(
        self, scale: Scale, *, threads: int | None = None
    ) -> AbstractContextManager[LocalSource]:
        threads = self.threads if threads is None else threads
        return rows_in_memory(self.rows, scale, blocks=self.blocks, threads=threads)

    def take(self, rows: Selection) -> EncodedInMemory:
        return replace(self, rows=self.rows.take(rows.of(0)))

    def labels(self) -> Scores:
        return np.asarray(self.rows.y)

    def weights(self) -> NDArray[np.int64]:
        return np.asarray(self.rows.weight)

    def reweighted(self, weight: NDArray[np.int64]) -> EncodedInMemory:
        return replace(self, rows=replace(self.rows, weight=weight))

    def drop(self) -> None:
        """Nothing to do: the arrays go when nobody refers to them any more."""


def rows_in_memory(
    rows: Rows, scale: Scale, *, blocks: int | None = None, threads: int = 1
) -> AbstractContextManager[LocalSource]:
    """Arrays as a source, cut into ``blocks`` parts (None: one per thread where it pays)."""
    parts = [Part(rows.take(at), scale) for at in cut(len(rows), blocks, threads)]
    return closing(LocalSource(parts, scale, threads=threads))


# --- Fingerprints of a store's rows and of the base model's scores for them ---------------------


def _marks_of(threads: int, piece: Problem) -> tuple[Mark, Mark]:
    """Work: marks of a piece's rows, and of their base scores."""
    names = [name for name in piece.table.schema.names if not is_score(name)]
    numbers = by_column(piece.labels.values)
    weight = piece.labels.weight
    if weight is not None:
        numbers = [*numbers, weight]
    rows = hash_rows(piece.table, names, numbers, piece.n_rows, threads)
    scores = hash_rows(None, (), by_column(piece.base), piece.n_rows)
    return Mark.of(rows), Mark.of(combine(rows, scores))


def fingerprints(store: Store) -> tuple[str, str]:
    """Of the rows (columns, labels, weights), and of the base model by its scores for them."""
    threads = store.threads if isinstance(store, MemoryStore) else 1  # others map side by side
    found = list(store.map(partial(_marks_of, threads)))
    rows, scores = (add_marks(each[side] for each in found) for side in (0, 1))
    labels = store.problem.labels
    names = [name for name in store.problem.table.schema.names if not is_score(name)]
    about = json.dumps({"columns": names, "labels": [labels.kind, labels.low, labels.high]})
    return rows.digest(about), scores.digest("base")
