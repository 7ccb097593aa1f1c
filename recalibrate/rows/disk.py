"""Rows in files: pieces that are mapped into memory one at a time per thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem, by_column
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.part import NO_KEYS, Memo, Part, Rows, Statistic, Sums
from recalibrate.core.rounds import Encoder, Rounds, Scores
from recalibrate.core.state import State
from recalibrate.data.columns import Columns
from recalibrate.data.table import Table
from recalibrate.rows.files import Array, Scratch, Stored
from recalibrate.rows.local import LocalSource
from recalibrate.rows.memory import MemoryStore
from recalibrate.rows.pieces import columns_of, gather, sample_pieces
from recalibrate.rows.spool import SpooledFiles
from recalibrate.rows.store import Selection, Size, Weigh, encode_blocks, size_of, sum_sizes
from recalibrate.support.pool import Pool
from recalibrate.support.threads import map_ahead

T = TypeVar("T")
WORKED_OUT = 64
"""Bytes a row for scores and level sets, statistics, and the order of rows by node."""


@dataclass(frozen=True, eq=False)
class DiskStore:
    """Rows of a problem in files, cut into pieces.

    Attributes
    ----------
    problem
        Everything but the rows.
    files
        Columns of the table but the base score, in order; labels scaled to [0, 1], base scores
        on the link's scale, and weights as they were given.
    ranges
        First and last row of every piece.
    scratch
        Where files are.
    threads
        Pieces in memory at a time.
    size
        Number and weights of the rows.
    kept
        The rows that count; None: all.
    """

    problem: Problem
    files: SpooledFiles
    ranges: tuple[slice, ...]
    scratch: Scratch
    threads: int
    size: Size
    kept: Selection | None = None

    def map(self, work: Callable[[Problem], T]) -> Iterator[T]:
        return (found for _, found in self._each(lambda k, piece: work(piece)))

    def columns(self, scale: Scale) -> Columns:
        return columns_of(self, scale)

    def take(self, rows: Selection) -> DiskStore:
        subset = replace(self, kept=rows)
        return replace(subset, size=sum_sizes(list(subset.map(size_of))))

    def sample(self, count: int, seed: int) -> tuple[Problem, NDArray[np.intp] | None]:
        return sample_pieces(self, count, seed), None

    def in_memory(self) -> MemoryStore:
        return MemoryStore(gather(self), self.threads)

    def encode(self, encoders: Sequence[Encoder | None], weigh: Weigh) -> EncodedOnDisk:
        def encode_piece(k: int, piece: Problem) -> Rows:
            put, labels = self.scratch.put, piece.labels
            blocks = tuple(map(put, encode_blocks(encoders, piece.table)))
            weight, no_keys = put(weigh(labels.weight)), put(NO_KEYS)
            if self.kept is None:  # labels and scores are there already
                y, base = (file.part(self.ranges[k]) for file in (self.files.y, self.files.score))
                return Rows(blocks, y, base, weight, no_keys)
            return Rows(blocks, put(labels.values), put(piece.base), weight, no_keys)

        pieces = dict(self._each(encode_piece))
        return EncodedOnDisk(pieces, self.scratch, self.threads)

    def drop(self) -> None:
        """Remove the columns, which encoded rows do not need: less for the disk to keep."""
        for column in self.files.columns:
            self.scratch.drop(column)

    def _each(self, work: Callable[[int, Problem], T]) -> Iterator[tuple[int, T]]:
        """What ``work`` finds in every piece that has rows, with its number."""

        def on_piece(k: int) -> tuple[int, T] | None:
            piece = self._piece(k)
            return (k, work(k, piece)) if piece.n_rows else None

        with Pool(self.threads) as pool:
            pieces = range(len(self.ranges))
            yield from filter(None, map_ahead(pool, on_piece, pieces, self.threads))

    def _piece(self, k: int) -> Problem:
        rows, problem, files = self.ranges[k], self.problem, self.files
        weight = None
        if files.weight is not None and problem.labels.weight is not None:
            weight = files.weight.open()[rows]
        y, base = files.y.open()[rows], files.score.open()[rows]
        sources = [column.open()[rows] for column in files.columns]
        table = Table(problem.table.schema, [*sources, *by_column(base)], len(y))
        labels = replace(problem.labels, values=y, weight=weight)
        cut = None if files.cut is None else files.cut.open()[rows]
        piece = replace(problem, table=table, labels=labels, base=base, cut=cut)
        return piece if self.kept is None else piece.take(self.kept.of(k))


@dataclass(frozen=True, eq=False)
class EncodedOnDisk:
    """Encoded rows in files, by the number of their piece."""

    pieces: dict[int, Rows]
    scratch: Scratch
    threads: int

    side_by_side = False

    @contextmanager
    def open(self, scale: Scale, *, threads: int | None = None) -> Iterator[LocalSource]:
        scratch, held, parts = self.scratch, 0, list[Part | PartOnDisk]()
        for own in self.pieces.values():
            needed = bytes_in_memory(own)
            if not len(own):
                continue
            if needed <= scratch.memory:
                scratch.memory -= needed
                held += needed
                parts.append(Part(own.map(lambda stored: np.array(stored.open())), scale))
            else:
                parts.append(PartOnDisk(own, scale, scratch))
        source = LocalSource(parts, scale, threads=self.threads if threads is None else threads)
        try:
            yield source
        finally:
            source.close()
            scratch.memory += held
            for part in parts:
                if isinstance(part, PartOnDisk):
                    part.forget()

    def take(self, rows: Selection) -> EncodedOnDisk:
        def some(k: int, own: Rows) -> Rows:
            at = rows.of(k)
            return own.map(lambda file: self.scratch.put(file.open()[at]) if len(file) else file)

        return replace(self, pieces={k: some(k, own) for k, own in self.pieces.items()})

    def drop(self) -> None:
        for own in self.pieces.values():
            own.map(self.scratch.drop)

    def labels(self) -> Scores:
        return np.concatenate([own.y.open() for own in self.pieces.values()])

    def weights(self) -> NDArray[np.int64]:
        return np.concatenate([own.weight.open() for own in self.pieces.values()])

    def reweighted(self, weight: NDArray[np.int64]) -> EncodedOnDisk:
        cuts = np.cumsum([len(own) for own in self.pieces.values()])[:-1]
        parts = np.split(weight, cuts) if len(weight) else [weight] * len(self.pieces)
        pieces = {
            k: replace(own, weight=self.scratch.put(part))
            for (k, own), part in zip(self.pieces.items(), parts, strict=True)
        }
        return replace(self, pieces=pieces)


def bytes_in_memory(rows: Rows) -> int:
    """What a part of these rows takes with all that it works out (measured), at most."""
    arrays = [*rows.blocks, rows.y, rows.base, rows.weight, rows.keys]
    return 2 * sum(int(stored.nbytes) for stored in arrays) + WORKED_OUT * len(rows)


class PartOnDisk:
    """A part whose arrays are in files between statistics.

    What it works out (scores, level sets, packed words) is written back after every statistic,
    so that memory holds one block per thread, whatever the number of rows.
    """

    def __init__(self, rows: Rows, scale: Scale, scratch: Scratch) -> None:
        self.rows = rows
        self.scale = scale
        self.scratch = scratch
        self._memo: Memo | None = None
        self._files: dict[str, Stored] = {}

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    def sums(self, statistic: Statistic) -> Sums:
        """The part's share of the sums."""
        with self._opened() as part:
            return statistic.of(part)

    def scores(self, log: Rounds) -> Scores:
        """Scores after the last step of ``log``, in memory."""
        with self._opened() as part:
            return np.array(part.scores(log))

    def forget(self) -> None:
        """Remove everything but the rows."""
        for stored in set(self._files.values()) - {self.rows.base}:
            self.scratch.drop(stored)
        self._memo, self._files = None, {}

    @contextmanager
    def _opened(self) -> Iterator[Part]:
        part = Part(self.rows.map(Stored.open), self.scale)
        known: list[tuple[Array, Stored]] = [(part.base, self.rows.base)]
        if self._memo is not None:
            part.recall(self._open_memo(self._memo, known))
        try:
            yield part
        except BaseException:
            if self._memo is not None:  # words may be half written
                self._memo = replace(self._memo, words_of=None)
            raise
        self._keep(part.memo(), known)

    def _open_memo(self, memo: Memo, known: list[tuple[Array, Stored]]) -> Memo:
        """A memo with arrays in the places of their files."""

        def opened(name: str) -> Any:
            stored = self._files.get(name)
            if stored is None:
                return None
            for array, own in known:  # two names may share a file
                if own == stored:
                    return array
            array = stored.open(in_place=name == "words")
            known.append((array, stored))
            return array

        def state(name: str, like: State) -> State:
            kept = None
            if like.kept is not None:
                kept = tuple(opened(f"{name} scores {k}") for k in range(len(like.kept)))
            return replace(like, kept=kept, level=opened(f"{name} level"))

        before = None if memo.before is None else state("before", memo.before)
        return replace(memo, state=state("state", memo.state), before=before, words=opened("words"))

    def _keep(self, memo: Memo, known: list[tuple[Array, Stored]]) -> None:
        """Write what is new, and forget what is not needed any more."""
        states = {"state": memo.state, "before": memo.before}
        arrays: dict[str, Array | None] = {"words": memo.words}
        for name, state in states.items():
            if state is not None:
                arrays[f"{name} level"] = state.level
                for k, column in enumerate(state.kept or ()):
                    arrays[f"{name} scores {k}"] = column
        files: dict[str, Stored] = {}
        for name, array in arrays.items():
            if array is None:
                continue
            stored = next((own for mapped, own in known if mapped is array), None)
            if stored is None:
                stored = self.scratch.put(array)
                known.append((array, stored))
            files[name] = stored
        old, self._files = self._files, files
        bare = replace(memo, state=_bare(memo.state), words=None)
        self._memo = replace(bare, before=None if memo.before is None else _bare(memo.before))
        for gone in set(old.values()) - set(files.values()) - {self.rows.base}:
            self.scratch.drop(gone)


def _bare(state: State) -> State:
    """A state without its arrays."""
    kept = None if state.kept is None else (np.empty(0),) * len(state.kept)
    return replace(state, kept=kept, level=None)
