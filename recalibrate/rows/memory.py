"""Rows in memory: a store of one piece, cut into parts that threads work on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.part import Part, Rows
from recalibrate.core.rounds import Encoder, Scores
from recalibrate.data.columns import Columns
from recalibrate.data.folds import first_rows
from recalibrate.data.table import Table
from recalibrate.rows.local import LocalSource
from recalibrate.rows.store import Selection, Size, Weigh, encode_blocks, size_of
from recalibrate.support.threads import cut

T = TypeVar("T")


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
