"""Rows in the partitions of a Dask DataFrame: read, checked and encoded on the workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.bases.protocol import Base
from recalibrate.bases.wrappers import select_columns
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.levels import Link
from recalibrate.core.rounds import Encoder, Scores
from recalibrate.core.source import StatsSource
from recalibrate.data.growing import GrowingColumn, growing, recode
from recalibrate.data.table import Table
from recalibrate.rows.dask.shipping import Parcel, pack
from recalibrate.rows.dask.workers import rows_on_workers
from recalibrate.rows.memory import Rows
from recalibrate.rows.pieces import (
    Encoded,
    Pieces,
    Size,
    chosen,
    encode_blocks,
    size_of,
    sum_sizes,
)
from recalibrate.rows.reading import (
    Facts,
    Finish,
    RawRows,
    Reading,
    Roles,
    assign_roles,
    read_base,
    read_raw,
    settle,
    warn_by_sample,
)

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
Weighing = Callable[[Scores | None], NDArray[np.int64]]


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
    frame: pd.DataFrame, roles: Roles, parcel: Parcel | None, reading: Reading
) -> Partition:
    """Task: check and score the rows of a partition."""
    columns = growing(roles.features, reading.categorical)
    if not len(frame):
        return Partition(None, columns, "")
    base = None if parcel is None else parcel.open()
    rows = read_raw(frame, roles, base, columns)
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
    columns = []
    # The schema has the base score as one more column.
    schema = problem.table.schema.columns[: len(rows.columns)]
    for own, values, column in zip(partition.columns, rows.columns, schema, strict=True):
        lookup = own.lookup(column)
        columns.append(values if lookup is None else recode(values, lookup))
    base = finish.scores(rows.score)
    table = Table(problem.table.schema, [*columns, base], len(base))
    weight = None if problem.labels.weight is None else rows.weight
    labels = replace(problem.labels, values=finish.labels(rows.y), weight=weight)
    return replace(problem, table=table, labels=labels, base=base)


def work_on(work: Callable[[Problem], T], piece: Problem) -> T:
    """Task: what ``work`` finds in a piece."""
    return work(piece)


def take_piece(piece: Problem, mask: NDArray[np.bool_]) -> Problem:
    """Task: some rows of a piece."""
    return piece.take(np.flatnonzero(mask))


def encode_piece(piece: Problem, encoders: Sequence[Encoder | None], weigh: Weighing) -> Rows:
    """Task: a piece as blocks of numbers."""
    labels = piece.labels
    blocks = encode_blocks(encoders, piece.table)
    return Rows(blocks, labels.values, piece.base, weigh(labels.weight))


def take_rows(rows: Rows, mask: NDArray[np.bool_]) -> Rows:
    """Task: some encoded rows."""
    return rows.take(np.flatnonzero(mask))


def labels_of(rows: Rows) -> Scores:
    """Task: labels of encoded rows."""
    return rows.y


def weights_of(rows: Rows) -> NDArray[np.int64]:
    """Task: quantised weights of encoded rows."""
    return rows.weight


def weigh_again(rows: Rows, weight: NDArray[np.int64]) -> Rows:
    """Task: encoded rows with other weights."""
    return replace(rows, weight=weight)


# ---- on the driver


@dataclass(frozen=True, eq=False)
class DaskPieces:
    """Pieces of a problem that are results of Dask tasks.

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
    """

    problem: Problem
    client: Any
    pieces: tuple[Any, ...]
    sizes: tuple[Size, ...]

    @property
    def size(self) -> Size:
        """Number and weights of all rows."""
        return sum_sizes(self.sizes)

    def map(self, work: Callable[[Problem], T]) -> Iterator[T]:
        """What ``work`` finds in every piece, in their order."""
        submit = self.client.submit
        yield from self.client.gather([submit(work_on, work, p, pure=False) for p in self.pieces])

    def take(self, folds: Sequence[NDArray[np.uint8]], k: int, *, inside: bool) -> Pieces:
        """Rows inside, or outside, of fold k."""
        pairs = zip(self.pieces, folds, strict=True)
        masks = [(piece, chosen(fold, k, inside)) for piece, fold in pairs]
        taken = [
            self.client.submit(take_piece, piece, mask, pure=False)
            for piece, mask in masks
            if mask.any()
        ]
        sizes = self.client.gather([self.client.submit(size_of, piece) for piece in taken])
        return replace(self, pieces=tuple(taken), sizes=tuple(sizes))

    def encode(self, encoders: Sequence[Encoder | None], weigh: Weighing) -> EncodedOnWorkers:
        """All rows as blocks of numbers, where they are."""
        rows = tuple(
            self.client.submit(encode_piece, piece, encoders, weigh, pure=False)
            for piece in self.pieces
        )
        return EncodedOnWorkers(self.client, rows, tuple(size.n_rows for size in self.sizes))

    def drop(self) -> None:
        """Let the workers forget the pieces; Dask makes them again if encoded rows are lost."""
        for piece in self.pieces:
            piece.release()


@dataclass(frozen=True, eq=False)
class EncodedOnWorkers:
    """Encoded rows that are results of Dask tasks."""

    client: Any
    rows: tuple[Any, ...]
    counts: tuple[int, ...]

    def open(self, scale: Scale) -> AbstractContextManager[StatsSource]:
        """The rows as a source."""
        return rows_on_workers(self.client, self.rows, sum(self.counts), scale)

    def take(self, folds: Sequence[NDArray[np.uint8]], k: int, *, inside: bool) -> Encoded:
        """Rows inside, or outside, of fold k."""
        masks = [chosen(fold, k, inside) for fold in folds]
        pairs = [(own, mask) for own, mask in zip(self.rows, masks, strict=True) if mask.any()]
        rows = tuple(self.client.submit(take_rows, own, mask, pure=False) for own, mask in pairs)
        return EncodedOnWorkers(self.client, rows, tuple(int(mask.sum()) for _, mask in pairs))

    def drop(self) -> None:
        """Let the rows go: Dask does when nobody refers to them any more."""

    def labels(self) -> Scores:
        """Labels of the rows, in their order."""
        tasks = [self.client.submit(labels_of, own, pure=False) for own in self.rows]
        return np.concatenate(self.client.gather(tasks))

    def weights(self) -> NDArray[np.int64]:
        """Quantised weights of the rows; empty: each one."""
        tasks = [self.client.submit(weights_of, own, pure=False) for own in self.rows]
        return np.concatenate(self.client.gather(tasks))

    def reweighted(self, weight: NDArray[np.int64]) -> Encoded:
        """The same rows with other weights."""
        cuts = np.cumsum(self.counts)[:-1]
        parts = np.split(weight, cuts) if len(weight) else [weight] * len(self.rows)
        rows = tuple(
            self.client.submit(weigh_again, own, part, pure=False)
            for own, part in zip(self.rows, parts, strict=True)
        )
        return replace(self, rows=rows)


def read_collection(
    client: Any,
    X: Any,
    base_model: Any,
    y: Any,
    reading: Reading,
    *,
    clip: bool,
    identity: bool,
) -> tuple[Base, DaskPieces]:
    """Read all partitions of a Dask DataFrame on the workers."""
    roles = assign_roles([str(name) for name in X.columns], base_model, y, reading)
    base = read_base(base_model, roles, reading, select_columns(X._meta, roles.features))
    parcel = None
    if roles.score is None:
        parcel = client.submit(_hold, pack(base), pure=False)
    frames = client.compute(X.to_delayed())
    partitions = [
        client.submit(read_partition, frame, roles, parcel, reading, pure=False) for frame in frames
    ]
    del frames  # Dask reads them again if it has to
    told = client.gather([client.submit(describe, each, pure=False) for each in partitions])
    if all(facts is None for facts, _, _ in told):
        raise ValueError("There are no rows: pass at least one row with its label.")
    columns = growing(roles.features, reading.categorical)
    for _, own, _ in told:
        for column, seen in zip(columns, own, strict=True):
            column.merge(seen)
    together = reduce(or_, [facts for facts, _, _ in told if facts is not None])
    link: Link | None = "identity" if identity else reading.link
    problem = settle(together, columns, base, roles, reading.bounds, link)
    finish = Finish(problem, base.link, together.seen, reading.bounds, clip)
    pieces, sizes = [], []
    for partition, (facts, _, checksum) in zip(partitions, told, strict=True):
        if facts is not None and facts.size.n_rows:
            piece = client.submit(finish_partition, partition, checksum, finish, pure=False)
            pieces.append(piece)
            sizes.append(facts.size)
    read = DaskPieces(problem, client, tuple(pieces), tuple(sizes))
    warn_by_sample(read)
    return base, read


def _hold(parcel: Parcel) -> Parcel:
    """Task: keeps a base on the cluster."""
    return parcel
