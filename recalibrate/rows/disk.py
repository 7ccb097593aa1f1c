"""Rows in files: pieces that are mapped into memory one at a time per thread."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import prod
from pathlib import Path
from types import FrameType
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem, by_column
from recalibrate.core.fixedpoint import Scale
from recalibrate.core.part import NO_KEYS, Memo, Part, Rows, Statistic, Sums
from recalibrate.core.rounds import Encoder, Rounds, Scores, State
from recalibrate.data.columns import Columns, Piece
from recalibrate.data.folds import occurrence_index, salted
from recalibrate.data.table import Table
from recalibrate.rows.memory import LocalSource, MemoryStore
from recalibrate.rows.store import Selection, Size, Store, Weigh, encode_blocks, size_of, sum_sizes
from recalibrate.support.threads import Pool, map_ahead

# --- Arrays in files of a temporary folder, mapped into memory when they are needed -------------


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

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Size of the array."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def part(self, rows: slice) -> Stored:
        """Some of the rows, in the same file."""
        start, stop, _ = rows.indices(self.shape[0])
        width = np.dtype(self.dtype).itemsize * prod(self.shape[1:])
        shape = (stop - start, *self.shape[1:])
        return replace(self, shape=shape, offset=self.offset + start * width)


class Scratch:
    """A temporary folder of arrays, each in a file.

    ``memory`` is how many bytes of them may stay in memory as well.
    """

    def __init__(self, folder: Path, memory: int = 0) -> None:
        self.folder = folder
        self.memory = memory
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
def scratch_folder(
    folder: str | os.PathLike[str] | None = None, memory: int = 0
) -> Iterator[Scratch]:
    """A temporary folder inside ``folder`` (None: the system's), removed at the end in any case.

    Also by SIGTERM, which stops containers and would end Python here and now: unless the program
    handles it itself, the folder is removed before the signal takes its course.
    """
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    parent = tempfile.gettempdir() if folder is None else os.path.abspath(folder)
    own = Path(parent, f"recalibrate-{secrets.token_hex(8)}")
    _IN_USE[own] = os.getpid()
    try:
        if ours:
            signal.signal(signal.SIGTERM, _terminate)
        own.mkdir(mode=0o700)  # here, so that no interruption comes between it and its removal
        yield Scratch(own, memory)
    finally:
        _remove(own)
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _remove(folder: Path) -> None:
    """Remove a folder, also if an exception of a signal handler (Ctrl-C) comes between."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        _IN_USE.pop(folder, None)


_IN_USE: dict[Path, int] = {}
"""Folders that are there now, by the process that made them: its forks do not remove them."""


def _terminate(number: int, frame: FrameType | None) -> None:
    for folder, owner in list(_IN_USE.items()):
        if owner == os.getpid():
            for _ in range(3):  # threads that go on may write another file meanwhile
                shutil.rmtree(folder, ignore_errors=True)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


# --- Rows written down while they are read: each column at the end of a file of its own ---------
#
# A one-shot iterable can be read only once, so its rows are kept: float32 columns, labels, base
# scores and weights.


@dataclass(frozen=True)
class SpooledFiles:
    """The columns of a finished spool; ``cut`` see `recalibrate.bases.problem.cut_losses`."""

    columns: tuple[Stored, ...]
    y: Stored
    score: Stored
    weight: Stored | None
    cut: Stored | None = None


class Spool:
    """Columns that grow at the end, each in a file.

    Parameters
    ----------
    scratch
        Where the files are.
    features
        Number of float32 columns beside labels, scores and (if ``weighted``) weights.
    outputs
        Scores of a row.
    """

    def __init__(self, scratch: Scratch, features: int, outputs: int, *, weighted: bool) -> None:
        self._features, self._outputs = features, outputs
        self._types = ["<f4"] * features + ["<f8"] * (3 if weighted else 2)
        self._paths = [scratch.reserve() for _ in self._types]
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
        if self._outputs > 1:
            score = replace(score, shape=(self.n_rows, self._outputs))
        columns = tuple(stored[: self._features])
        return SpooledFiles(columns, y, score, weight[0] if weight else None)


# --- Rows in pieces brought together: statistics of columns, all rows, or a sample of them ------
#
# The sample is the same however rows are cut: those with the smallest hashes, equal rows told
# apart. Hashes are collected first, which says how many copies of which rows are wanted; copies
# are interchangeable, so every piece then hands over its own until there are enough.


T = TypeVar("T")
HASHES_AT_ONCE = 1 << 26
"""Hashes that are looked at together (512 MiB); of more rows a share at a time."""

Hashes = NDArray[np.uint64]


def _on_columns(work: Callable[[Piece], T], scale: Scale, piece: Problem) -> T:
    """Work on the columns of a piece and the quantised weights of its rows."""
    return work(Piece(piece.table, scale.quantise_for_columns(piece.labels.weight)))


def columns_of(store: Store, scale: Scale) -> Columns:
    """Statistics of the columns of all pieces."""
    schema = store.problem.table.schema
    return Columns(schema, lambda work: store.map(partial(_on_columns, work, scale)))


def gather(store: Store) -> Problem:
    """All rows, in their order."""
    return _join(store.problem, list(store.map(_itself)))


def sample_pieces(store: Store, count: int, seed: int) -> Problem:
    """The ``count`` rows with the smallest hashes, in the order of these."""
    key = _smallest(store, count, seed)
    wanted, copies = np.unique(key, return_counts=True)
    found = list(store.map(partial(_rows_with, seed, wanted, copies)))
    together = _join(store.problem, [rows for rows, _ in found])
    own = np.concatenate([keys for _, keys in found])
    enough = np.flatnonzero(_within(own, wanted, copies))
    order = np.empty(count, dtype=np.intp)
    order[np.argsort(key, kind="stable")] = enough[np.argsort(own[enough], kind="stable")]
    sample = together.take(order)
    return replace(sample, given=replace(sample.given, labels=sample.labels.strata, rows=None))


def _hashes_of(seed: int, bits: int, first: int, piece: Problem) -> Hashes:
    """Work: hashes of a piece's rows that begin with certain bits."""
    key = piece.hashes(seed)
    return key if bits == 0 else key[key >> np.uint64(64 - bits) == first]


def _rows_with(
    seed: int, wanted: Hashes, copies: NDArray[np.intp], piece: Problem
) -> tuple[Problem, Hashes]:
    """Work: rows of a piece that have a wanted hash, no more copies than wanted."""
    key = piece.hashes(seed)
    at = np.searchsorted(wanted, key).clip(0, len(wanted) - 1)
    rows = np.flatnonzero(wanted[at] == key)
    rows = rows[_within(key[rows], wanted, copies)]
    return piece.take(rows), key[rows]


def _within(key: Hashes, wanted: Hashes, copies: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether a row is one of the copies of its hash that are wanted."""
    number = occurrence_index(key).astype(np.intp)
    return np.asarray(number < copies[np.searchsorted(wanted, key)])


def _smallest(store: Store, count: int, seed: int) -> Hashes:
    """Hashes of the rows that come first once equal ones are told apart, in that order."""
    bits = ((store.size.n_rows - 1) // HASHES_AT_ONCE).bit_length()
    key, told = np.empty(0, np.uint64), np.empty(0, np.uint64)
    for first in range(1 << bits):  # equal hashes are looked at together
        some = np.concatenate(list(store.map(partial(_hashes_of, seed, bits, first))))
        some.sort()
        new = np.ones(len(some), dtype=np.bool_)
        np.not_equal(some[1:], some[:-1], out=new[1:])
        ahead = _first(some, new, count)
        again = np.flatnonzero(~new)
        number = again - np.searchsorted(some, some[again])
        key = np.concatenate([key, ahead, some[again]])
        told = np.concatenate([told, ahead, salted(some[again], number.astype(np.uint64))])
        if len(told) > count:
            kept = np.argpartition(told, count - 1)[:count]
            key, told = key[kept], told[kept]
    return np.asarray(key[np.argsort(told, kind="stable")])


def _first(values: Hashes, marked: NDArray[np.bool_], count: int) -> Hashes:
    """The first ``count`` of the marked values, without a copy of them all."""
    end = count
    while end < len(values) and np.count_nonzero(marked[:end]) < count:
        end *= 2
    return np.asarray(values[:end][marked[:end]][:count])


def _itself(piece: Problem) -> Problem:
    """Work: the rows of a piece, free of the files that they are in."""
    return piece.take(np.arange(piece.n_rows))


def _join(problem: Problem, parts: Sequence[Problem]) -> Problem:
    """Rows of several problems as one."""
    schema = problem.table.schema
    columns = [
        np.concatenate([part.table.column(j) for part in parts]) for j in range(len(schema.columns))
    ]
    # Column by column, as labels and scores of classes are where they were read in one piece.
    values = np.asfortranarray(np.concatenate([part.labels.values for part in parts]))
    weights = [part.labels.weight for part in parts if part.labels.weight is not None]
    labels = replace(
        problem.labels, values=values, weight=np.concatenate(weights) if weights else None
    )
    return replace(
        problem,
        table=Table(schema, columns, len(values)),
        labels=labels,
        base=np.asfortranarray(np.concatenate([part.base for part in parts])),
        given=replace(problem.given, labels=labels.strata),
        cut=_join_cut(parts),
    )


def _join_cut(parts: Sequence[Problem]) -> NDArray[np.float64] | None:
    """What cutting base scores took off the losses of all rows; None if none was cut."""
    if all(part.cut is None for part in parts):
        return None
    return np.concatenate(
        [np.zeros(part.n_rows) if part.cut is None else part.cut for part in parts]
    )


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

    def encode(self, encoders: Sequence[Encoder | None], weigh: Weigh) -> _EncodedOnDisk:
        def encode_piece(k: int, piece: Problem) -> Rows:
            put, labels = self.scratch.put, piece.labels
            blocks = tuple(map(put, encode_blocks(encoders, piece.table)))
            weight, no_keys = put(weigh(labels.weight)), put(NO_KEYS)
            if self.kept is None:  # labels and scores are there already
                y, base = (file.part(self.ranges[k]) for file in (self.files.y, self.files.score))
                return Rows(blocks, y, base, weight, no_keys)
            return Rows(blocks, put(labels.values), put(piece.base), weight, no_keys)

        pieces = dict(self._each(encode_piece))
        return _EncodedOnDisk(pieces, self.scratch, self.threads)

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
class _EncodedOnDisk:
    """Encoded rows in files, by the number of their piece."""

    pieces: dict[int, Rows]
    scratch: Scratch
    threads: int

    side_by_side = False

    @contextmanager
    def open(self, scale: Scale, *, threads: int | None = None) -> Iterator[LocalSource]:
        scratch, held, parts = self.scratch, 0, list[Part | _PartOnDisk]()
        for own in self.pieces.values():
            needed = _bytes_in_memory(own)
            if not len(own):
                continue
            if needed <= scratch.memory:
                scratch.memory -= needed
                held += needed
                parts.append(Part(own.map(lambda stored: np.array(stored.open())), scale))
            else:
                parts.append(_PartOnDisk(own, scale, scratch))
        source = LocalSource(parts, scale, threads=self.threads if threads is None else threads)
        try:
            yield source
        finally:
            source.close()
            scratch.memory += held
            for part in parts:
                if isinstance(part, _PartOnDisk):
                    part.forget()

    def take(self, rows: Selection) -> _EncodedOnDisk:
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

    def reweighted(self, weight: NDArray[np.int64]) -> _EncodedOnDisk:
        cuts = np.cumsum([len(own) for own in self.pieces.values()])[:-1]
        parts = np.split(weight, cuts) if len(weight) else [weight] * len(self.pieces)
        pieces = {
            k: replace(own, weight=self.scratch.put(part))
            for (k, own), part in zip(self.pieces.items(), parts, strict=True)
        }
        return replace(self, pieces=pieces)


def _bytes_in_memory(rows: Rows) -> int:
    """What a part of these rows takes with all that it works out (measured), at most."""
    arrays = [*rows.blocks, rows.y, rows.base, rows.weight, rows.keys]
    return 2 * sum(int(stored.nbytes) for stored in arrays) + WORKED_OUT * len(rows)


class _PartOnDisk:
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

    def scores(self, model: Rounds) -> Scores:
        """Scores after the last step of ``model``, in memory."""
        with self._opened() as part:
            return np.array(part.scores(model))

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
