"""Rows in the partitions of a Dask DataFrame: read, checked and encoded on the workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import reduce
from operator import attrgetter, or_
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem, Reading, by_column, known_classes
from recalibrate.bases.protocol import Base, base_outputs
from recalibrate.bases.wrappers import select_columns
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.part import Rows
from recalibrate.core.rounds import Encoder, Scores
from recalibrate.core.source import StatsSource
from recalibrate.data.classes import Known
from recalibrate.data.columns import Columns
from recalibrate.data.growing import GrowingColumn, growing
from recalibrate.data.table import Table
from recalibrate.rows.dask.shipping import Packed, pack
from recalibrate.rows.dask.workers import OnWorkers, collect
from recalibrate.rows.memory import MemoryStore
from recalibrate.rows.pieces import columns_of, gather, sample_pieces
from recalibrate.rows.reading import (
    Facts,
    Finish,
    RawRows,
    Roles,
    assign_roles,
    known_outputs,
    leave_unread,
    read_base,
    read_raw,
    settle,
    warn_by_sample,
)
from recalibrate.rows.store import Selection, Size, Weigh, encode_blocks, size_of, sum_sizes

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


class RowsChangedError(RuntimeError):
    """Rows that were read again, because a worker was lost, are not what they were."""


# ---- on a worker


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows of a partition as they were read.

    Attributes
    ----------
    rows
        The rows that count; None if there are none.
    columns
        Kinds and categories of their columns.
    checksum
        Of everything that a fit sees of them.
    """

    rows: RawRows | None
    columns: list[GrowingColumn]
    checksum: str


def read_partition(
    frame: pd.DataFrame, roles: Roles, packed: Packed | None, reading: Reading, known: Known
) -> Partition:
    """Task: check and score the rows of a partition."""
    columns = growing(roles.columns, reading.categorical)
    if not len(frame):
        return Partition(None, columns, "")
    base = None if packed is None else packed.open()
    rows = read_raw(frame, roles, base, columns, known)
    digest = hashlib.blake2b(digest_size=16)
    weight = [] if rows.weight is None else [rows.weight]
    for values in (*rows.columns, rows.y, rows.score, *weight):
        digest.update(np.ascontiguousarray(values).data)
    for column in columns:
        digest.update(repr(column).encode())
    return Partition(rows, columns, digest.hexdigest())


def describe(partition: Partition) -> tuple[Facts | None, list[GrowingColumn], str]:
    """Task: what the driver has to know of a partition."""
    rows = partition.rows
    return None if rows is None else rows.facts, partition.columns, partition.checksum


def finish_partition(partition: Partition, expected: str, finish: Finish) -> Problem:
    """Task: a partition as a piece of the problem; refused if it is not what it was."""
    if partition.checksum != expected or partition.rows is None:
        raise RowsChangedError(
            "a partition had to be read again (a Dask worker was lost, or memory ran short) and "
            "its rows, or their base scores, are not what they were. Fit on rows that stay the "
            "same: Parquet files that nobody rewrites, or a persisted table."
        )
    rows, problem = partition.rows, finish.problem
    features = problem.table.schema.columns[: len(rows.columns)]  # the others are base scores
    triples = zip(partition.columns, rows.columns, features, strict=True)
    columns = [own.recode(values, column) for own, values, column in triples]
    base = finish.scores(rows.score)
    table = Table(problem.table.schema, [*columns, *by_column(base)], len(base))
    weight = None if problem.labels.weight is None else rows.weight
    labels = replace(problem.labels, values=finish.labels(rows.y), weight=weight)
    cut = finish.cut(rows.score, labels.values, base)
    return replace(problem, table=table, labels=labels, base=base, cut=cut)


def encode_piece(piece: Problem, encoders: Sequence[Encoder | None], weigh: Weigh) -> Rows:
    """Task: a piece as blocks of numbers."""
    labels = piece.labels
    blocks = encode_blocks(encoders, piece.table)
    return Rows(blocks, labels.values, piece.base, weigh(labels.weight))


def apply(work: Callable[[Any], T], piece: Any) -> T:
    """Task: what ``work``, which Dask could not name, finds in a piece."""
    return work(piece)


# ---- on the driver


@dataclass(frozen=True, eq=False)
class DaskStore:
    """Rows of a problem that are results of Dask tasks.

    Attributes
    ----------
    problem
        Everything but the rows.
    client
        A ``distributed.Client``.
    pieces
        Futures of problems, none of them without rows.
    sizes
        Of each piece.
    threads
        For work in this process; does not change a result.
    """

    problem: Problem
    client: Any
    pieces: tuple[Any, ...]
    sizes: tuple[Size, ...]
    threads: int

    @property
    def size(self) -> Size:
        return sum_sizes(self.sizes)

    def map(self, work: Callable[[Problem], T]) -> Iterator[T]:
        yield from collect(self.client, [self._submit(apply, work, own) for own in self.pieces])

    def columns(self, scale: Scale) -> Columns:
        return columns_of(self, scale)

    def take(self, rows: Selection) -> DaskStore:
        chosen = [(piece, rows.of(k)) for k, piece in enumerate(self.pieces)]
        taken = tuple(self._submit(Problem.take, piece, own) for piece, own in chosen if len(own))
        found = replace(self, pieces=taken)
        return replace(found, sizes=tuple(found.map(size_of)))

    def sample(self, count: int, seed: int) -> tuple[Problem, NDArray[np.intp] | None]:
        return sample_pieces(self, count, seed), None

    def in_memory(self) -> MemoryStore:
        return MemoryStore(gather(self), self.threads)

    def encode(self, encoders: Sequence[Encoder | None], weigh: Weigh) -> EncodedOnWorkers:
        rows = tuple(self._submit(encode_piece, piece, encoders, weigh) for piece in self.pieces)
        return EncodedOnWorkers(self.client, rows, tuple(size.n_rows for size in self.sizes))

    def drop(self) -> None:
        """Let the workers forget the pieces; Dask makes them again if encoded rows are lost."""
        for piece in self.pieces:
            piece.release()

    def _submit(self, task: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(task, *arguments, pure=False)


@dataclass(frozen=True, eq=False)
class EncodedOnWorkers:
    """Encoded rows that are results of Dask tasks, and how many each has."""

    client: Any
    rows: tuple[Any, ...]
    counts: tuple[int, ...]

    side_by_side = False

    def open(
        self, scale: Scale, *, threads: int | None = None
    ) -> AbstractContextManager[StatsSource]:
        return closing(OnWorkers(self.client, self.rows, sum(self.counts), scale))

    def take(self, rows: Selection) -> EncodedOnWorkers:
        chosen = [(own, rows.of(k)) for k, own in enumerate(self.rows)]
        chosen = [(own, numbers) for own, numbers in chosen if len(numbers)]
        taken = tuple(self._submit(Rows.take, own, numbers) for own, numbers in chosen)
        return replace(self, rows=taken, counts=tuple(len(numbers) for _, numbers in chosen))

    def drop(self) -> None:
        """Nothing to do: Dask lets rows go when nobody refers to them any more."""

    def labels(self) -> Scores:
        return np.concatenate(self._gather(attrgetter("y")))

    def weights(self) -> NDArray[np.int64]:
        return np.concatenate(self._gather(attrgetter("weight")))

    def reweighted(self, weight: NDArray[np.int64]) -> EncodedOnWorkers:
        cuts = np.cumsum(self.counts)[:-1]
        parts = np.split(weight, cuts) if len(weight) else [weight] * len(self.rows)
        pairs = zip(self.rows, parts, strict=True)
        return replace(
            self, rows=tuple(self._submit(replace, own, weight=part) for own, part in pairs)
        )

    def _gather(self, task: Callable[[Rows], Any]) -> list[Any]:
        return collect(self.client, [self._submit(apply, task, own) for own in self.rows])

    def _submit(self, task: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return self.client.submit(task, *arguments, pure=False, **named)


def read_collection(
    client: Any,
    X: Any,
    base_model: Any,
    y: Any,
    reading: Reading,
    *,
    threads: int,
) -> tuple[Base, DaskStore]:
    """Read all partitions of a Dask DataFrame on the workers."""
    roles = assign_roles([str(name) for name in X.columns], base_model, y, reading)
    base = read_base(base_model, roles, reading, select_columns(X._meta, roles.features))
    outputs = base_outputs(base)
    if outputs is None:
        outputs = known_outputs(base, select_columns(X.head(1, npartitions=-1), roles.features))
    known = known_classes(base, reading, outputs)
    roles = leave_unread(roles, base, reading, X._meta_nonempty)
    packed = None
    if not roles.scores:
        packed = client.submit(_hold, pack(base), pure=False)
    frames = client.compute(X.to_delayed())
    partitions = [
        client.submit(read_partition, frame, roles, packed, reading, known, pure=False)
        for frame in frames
    ]
    del frames  # Dask reads them again if it has to
    told = collect(client, [client.submit(describe, each, pure=False) for each in partitions])
    if all(facts is None for facts, _, _ in told):
        raise ValueError("There are no rows: pass at least one row with its label.")
    columns = growing(roles.columns, reading.categorical)
    for _, own, _ in told:
        for column, seen in zip(columns, own, strict=True):
            column.merge(seen)
    together = reduce(or_, [facts for facts, _, _ in told if facts is not None])
    problem = settle(together, columns, base, reading, known)
    finish = Finish(problem, base.link, together.seen, reading, known)
    pieces, sizes = [], []
    for partition, (facts, _, checksum) in zip(partitions, told, strict=True):
        if facts is not None and facts.size.n_rows:
            piece = client.submit(finish_partition, partition, checksum, finish, pure=False)
            pieces.append(piece)
            sizes.append(facts.size)
    store = DaskStore(problem, client, tuple(pieces), tuple(sizes), threads)
    warn_by_sample(store)
    return base, store


def _hold(packed: Packed) -> Packed:
    """Task: keeps a base on the cluster."""
    return packed
