"""Rows on disk: blocks of files that are mapped into memory one at a time.

A block's codes, labels and base scores are written once. What a part works out (scores, level
sets, packed statistics) is written back after every question, so that memory holds one block
per thread, whatever the number of rows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.fixedpoint import Scale
from recalibrate.core.part import Answer, Memo, Part, Question
from recalibrate.core.rounds import Rounds, Scores, State

Array = NDArray[Any]


@dataclass(frozen=True)
class Stored:
    """An array in a file, from the byte ``offset`` on."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int = 0

    def open(self, *, in_place: bool = False) -> Array:
        """The array, mapped into memory; changes reach the file only ``in_place``.

        Otherwise pages are copied when written to: kernels are compiled for arrays that can be.
        """
        if 0 in self.shape:  # nothing to map
            return np.empty(self.shape, self.dtype)
        mode: Literal["r+", "c"] = "r+" if in_place else "c"
        mapped = np.memmap(self.path, self.dtype, mode, self.offset, self.shape)
        return mapped.view(np.ndarray)

    def part(self, rows: slice) -> Stored:
        """Some of the rows, in the same file."""
        start, stop, _ = rows.indices(self.shape[0])
        width = np.dtype(self.dtype).itemsize * prod(self.shape[1:])
        shape = (stop - start, *self.shape[1:])
        return replace(self, shape=shape, offset=self.offset + start * width)


class Shelf:
    """A folder of arrays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = count()

    def reserve(self) -> Path:
        """The path of a file that is not there yet."""
        return self.folder / f"{next(self._numbers)}.bin"

    def put(self, array: Array) -> Stored:
        """Write an array to a file of its own."""
        path = self.reserve()
        np.ascontiguousarray(array).tofile(path)
        return Stored(path, array.dtype.str, array.shape)

    def drop(self, stored: Stored) -> None:
        """Remove an array's file."""
        stored.path.unlink(missing_ok=True)


@contextmanager
def temporary_shelf(folder: str | os.PathLike[str] | None = None) -> Iterator[Shelf]:
    """A shelf inside ``folder`` (None: the system's folder), removed at the end in any case."""
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix="recalibrate-", dir=folder))
    try:
        yield Shelf(own)
    finally:
        shutil.rmtree(own, ignore_errors=True)


@dataclass(frozen=True)
class StoredRows:
    """Encoded rows in files; like ``rows.memory.Rows``, block by block."""

    blocks: tuple[Stored, ...]
    y: Stored
    base: Stored
    weight: Stored

    def __len__(self) -> int:
        return self.y.shape[0]

    def part(self, scale: Scale) -> Part:
        """The rows as a part that has seen no step."""
        blocks = tuple(block.open() for block in self.blocks)
        return Part(blocks, self.y.open(), self.base.open(), self.weight.open(), scale)

    def take(self, chosen: NDArray[np.bool_], shelf: Shelf) -> StoredRows:
        """Some of the rows, copied to a shelf."""

        def some(stored: Stored) -> Stored:
            return shelf.put(stored.open()[chosen]) if stored.shape[0] else stored

        blocks = tuple(some(block) for block in self.blocks)
        return StoredRows(blocks, some(self.y), some(self.base), some(self.weight))

    def drop(self, shelf: Shelf) -> None:
        """Remove the rows' files."""
        for stored in (*self.blocks, self.y, self.base, self.weight):
            shelf.drop(stored)


def store_rows(
    shelf: Shelf,
    blocks: Sequence[Array],
    y: NDArray[np.float64],
    base: Scores,
    weight: NDArray[np.int64],
) -> StoredRows:
    """Write encoded rows to a shelf."""
    return StoredRows(
        tuple(shelf.put(block) for block in blocks),
        shelf.put(y),
        shelf.put(base),
        shelf.put(weight),
    )


class StoredPart:
    """A part whose arrays are in files between questions."""

    def __init__(self, rows: StoredRows, scale: Scale, shelf: Shelf) -> None:
        self.rows = rows
        self.scale = scale
        self.shelf = shelf
        self._memo: Memo | None = None
        self._files: dict[str, Stored] = {}

    def ask(self, question: Question) -> Answer:
        """The part's share of the sums."""
        with self._opened() as part:
            return question.ask(part)

    def scores(self, log: Rounds) -> Scores:
        """Scores after the last step of ``log``, in memory."""
        with self._opened() as part:
            return np.array(part.scores(log))

    def forget(self) -> None:
        """Remove everything but the rows."""
        for stored in set(self._files.values()) - {self.rows.base}:
            self.shelf.drop(stored)
        self._memo, self._files = None, {}

    @contextmanager
    def _opened(self) -> Iterator[Part]:
        part = self.rows.part(self.scale)
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
            return State(opened(f"{name} scores"), opened(f"{name} level"), like.partition)

        before = None if memo.before is None else state("before", memo.before)
        return replace(memo, state=state("state", memo.state), before=before, words=opened("words"))

    def _keep(self, memo: Memo, known: list[tuple[Array, Stored]]) -> None:
        """Write what is new, and forget what is not needed any more."""
        arrays: dict[str, Array | None] = {
            "state scores": memo.state.kept,
            "state level": memo.state.level,
            "words": memo.words,
        }
        if memo.before is not None:
            arrays["before scores"] = memo.before.kept
            arrays["before level"] = memo.before.level
        files: dict[str, Stored] = {}
        for name, array in arrays.items():
            if array is None:
                continue
            stored = next((own for mapped, own in known if mapped is array), None)
            if stored is None:
                stored = self.shelf.put(array)
                known.append((array, stored))
            files[name] = stored
        old, self._files = self._files, files
        bare = replace(memo, state=_bare(memo.state), words=None)
        self._memo = replace(bare, before=None if memo.before is None else _bare(memo.before))
        for gone in set(old.values()) - set(files.values()) - {self.rows.base}:
            self.shelf.drop(gone)


def _bare(state: State) -> State:
    """A state without its arrays."""
    return State(None, None, state.partition)


class OnDisk:
    """A :class:`~recalibrate.rows.memory.StatsSource` over rows in files.

    Parameters
    ----------
    rows
        Blocks of training rows.
    scale
        Fixed point shared by all blocks.
    shelf
        Where parts keep what they work out.
    threads
        Blocks in memory at a time.
    """

    has_held_out = False  # see rows.memory.Sided
    only_part = None

    def __init__(
        self,
        rows: Sequence[StoredRows],
        scale: Scale,
        shelf: Shelf,
        *,
        threads: int = 1,
    ) -> None:
        self.parts = [StoredPart(each, scale, shelf) for each in rows if len(each)]
        self.scale = scale
        self._pool = ThreadPoolExecutor(threads)
        self._threads = threads

    @property
    def n_rows(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    def share_out(self, work: Callable[[int], None], pieces: int) -> None:
        list(self._pool.map(work, range(pieces)))

    def answers(self, question: Question, *, held_out: bool = False) -> Iterable[Answer]:
        """One sum per thread: answers of all parts at once would fill the memory."""
        shares = [self.parts[k :: self._threads] for k in range(self._threads)]
        return list(self._pool.map(partial(_summed, question), filter(None, shares)))

    def scores(self, log: Rounds, *, held_out: bool = False) -> Scores:
        return np.concatenate([part.scores(log) for part in self.parts])

    def close(self) -> None:
        """Let the threads go, and remove what parts worked out; rows stay on the shelf."""
        self._pool.shutdown()
        for part in self.parts:
            part.forget()


def _summed(question: Question, parts: Sequence[StoredPart]) -> Answer:
    first, *others = parts
    sums = first.ask(question)
    for part in others:
        for mine, other in zip(sums, part.ask(question), strict=True):
            mine += other
    return sums


@contextmanager
def rows_on_disk(
    rows: Sequence[StoredRows],
    scale: Scale,
    shelf: Shelf,
    *,
    threads: int = 1,
) -> Iterator[OnDisk]:
    """An engine over blocks in files."""
    source = OnDisk(rows, scale, shelf, threads=threads)
    try:
        yield source
    finally:
        source.close()
