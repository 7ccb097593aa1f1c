"""Rows read once, piece by piece, and kept as columns in files.

A one-shot iterable can be read only once, so its rows are written down while they are checked:
float32 columns, labels, base scores and weights, each in a file of its own. A piece is a range
of rows of these files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.rounds import Encoder, Scores
from recalibrate.core.source import StatsSource
from recalibrate.data.table import Table
from recalibrate.rows.disk import (
    Shelf,
    Stored,
    StoredRows,
    rows_on_disk,
)
from recalibrate.rows.pieces import Encoded, Size, chosen, encode_blocks, size_of, sum_sizes

T = TypeVar("T")


@dataclass(frozen=True)
class SpooledFiles:
    """The columns of a finished spool."""

    columns: tuple[Stored, ...]
    y: Stored
    score: Stored
    weight: Stored | None


class Spool:
    """Columns that grow at the end, each in a file.

    Parameters
    ----------
    shelf
        Where the files are.
    features
        Number of float32 columns beside labels, scores and (if ``weighted``) weights.
    """

    def __init__(self, shelf: Shelf, features: int, *, weighted: bool) -> None:
        self._features = features
        self._types = ["<f4"] * features + ["<f8"] * (3 if weighted else 2)
        self._paths = [shelf.reserve() for _ in self._types]
        self._stack = ExitStack()
        self._files = [self._stack.enter_context(path.open("wb")) for path in self._paths]
        self.n_rows = 0

    def append(
        self,
        columns: Sequence[NDArray[np.float32]],
        y: Scores,
        score: Scores,
        weight: Scores | None,
    ) -> None:
        """Add rows."""
        vectors = [y, score] if weight is None else [y, score, weight]
        for file, type_, values in zip(self._files, self._types, [*columns, *vectors], strict=True):
            file.write(np.ascontiguousarray(values, type_).data)
        self.n_rows += len(y)

    def close(self) -> SpooledFiles:
        """The files."""
        self._stack.close()
        stored = [
            Stored(path, type_, (self.n_rows,))
            for path, type_ in zip(self._paths, self._types, strict=True)
        ]
        y, score, *weight = stored[self._features :]
        columns = tuple(stored[: self._features])
        return SpooledFiles(columns, y, score, weight[0] if weight else None)


@dataclass(frozen=True, eq=False)
class SpooledPieces:
    """Pieces of a problem in files.

    Attributes
    ----------
    problem
        Everything but the rows.
    columns
        The columns of the table but the base score, in order.
    y, base, weight
        Labels scaled to [0, 1], base scores on the link's scale, weights if rows have any.
    ranges
        First and last row of every piece.
    shelf
        Where files are.
    threads
        Pieces in memory at a time.
    kept
        Per piece the rows that count; None: all.
    """

    problem: Problem
    columns: tuple[Stored, ...]
    y: Stored
    base: Stored
    weight: Stored | None
    ranges: tuple[slice, ...]
    shelf: Shelf
    threads: int
    size: Size
    kept: tuple[NDArray[np.bool_], ...] | None = None

    def whole(self) -> Problem:
        """All rows as one problem: columns stay files, vectors are read."""
        problem = self._problem(slice(0, self.y.shape[0]))
        weight = problem.labels.weight
        labels = replace(
            problem.labels,
            values=np.array(problem.labels.values),
            weight=None if weight is None else np.array(weight),
        )
        given = replace(problem.given, labels=labels.values)
        return replace(problem, labels=labels, base=np.array(problem.base), given=given)

    def map(self, work: Callable[[Problem], T]) -> Iterator[T]:
        """What ``work`` finds in every piece that has rows, in their order."""
        return self._each(lambda k: work(self._piece(k)))

    def _each(self, work: Callable[[int], T]) -> Iterator[T]:
        """What ``work`` finds in every piece that has rows, by its number."""
        filled = [k for k in range(len(self.ranges)) if self.kept is None or self.kept[k].any()]
        with ThreadPoolExecutor(self.threads) as pool:
            yield from pool.map(work, filled)

    def take(self, folds: Sequence[NDArray[np.uint8]], k: int, *, inside: bool) -> SpooledPieces:
        """Rows inside, or outside, of fold k."""
        kept = tuple(chosen(fold, k, inside) for fold in folds)
        subset = replace(self, kept=kept)
        return replace(subset, size=sum_sizes(list(subset.map(size_of))))

    def encode(
        self,
        encoders: Sequence[Encoder | None],
        weigh: Callable[[Scores | None], NDArray[np.int64]],
    ) -> EncodedOnDisk:
        """All rows as blocks of codes in files."""

        def store(k: int) -> StoredRows:
            piece, put = self._piece(k), self.shelf.put
            blocks = tuple(put(block) for block in encode_blocks(encoders, piece.table))
            weight = put(weigh(piece.labels.weight))
            if self.kept is None:  # labels and scores are there already
                rows = self.ranges[k]
                return StoredRows(blocks, self.y.part(rows), self.base.part(rows), weight)
            return StoredRows(blocks, put(piece.labels.values), put(piece.base), weight)

        return EncodedOnDisk(tuple(self._each(store)), self.shelf, self.threads)

    def drop(self) -> None:
        """Remove the columns, which encoded rows do not need: less for the disk to keep."""
        for column in self.columns:
            self.shelf.drop(column)

    def _piece(self, k: int) -> Problem:
        problem = self._problem(self.ranges[k])
        if self.kept is None:
            return problem
        return problem.take(np.flatnonzero(self.kept[k]))

    def _problem(self, rows: slice) -> Problem:
        problem = self.problem
        weight = None if self.weight is None else self.weight.open()[rows]
        y, base = self.y.open()[rows], self.base.open()[rows]
        sources = [column.open()[rows] for column in self.columns]
        table = Table(problem.table.schema, [*sources, base], len(y))
        labels = replace(problem.labels, values=y, weight=weight)
        return replace(problem, table=table, labels=labels, base=base)


@dataclass(frozen=True, eq=False)
class EncodedOnDisk:
    """Encoded rows in files, block by block."""

    blocks: tuple[StoredRows, ...]
    shelf: Shelf
    threads: int

    def open(self, scale: Scale) -> AbstractContextManager[StatsSource]:
        """The rows as a source."""
        return rows_on_disk(self.blocks, scale, self.shelf, threads=self.threads)

    def take(self, folds: Sequence[NDArray[np.uint8]], k: int, *, inside: bool) -> Encoded:
        """Rows inside, or outside, of fold k."""
        masks = [chosen(fold, k, inside) for fold in folds]
        pairs = zip(self.blocks, masks, strict=True)
        return replace(self, blocks=tuple(rows.take(mask, self.shelf) for rows, mask in pairs))

    def drop(self) -> None:
        """Remove the files."""
        for rows in self.blocks:
            rows.drop(self.shelf)

    def labels(self) -> Scores:
        """Labels of the rows, in their order."""
        return np.concatenate([rows.y.open() for rows in self.blocks])

    def weights(self) -> NDArray[np.int64]:
        """Quantised weights of the rows; empty: each one."""
        return np.concatenate([rows.weight.open() for rows in self.blocks])

    def reweighted(self, weight: NDArray[np.int64]) -> Encoded:
        """The same rows with other weights."""
        if not len(weight):
            pieces = [weight] * len(self.blocks)
        else:
            pieces = np.split(weight, np.cumsum([len(rows) for rows in self.blocks])[:-1])
        blocks = tuple(
            replace(rows, weight=self.shelf.put(own))
            for rows, own in zip(self.blocks, pieces, strict=True)
        )
        return replace(self, blocks=blocks)
