"""Arrays in files of a temporary folder, mapped into memory when they are needed."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from math import prod
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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
