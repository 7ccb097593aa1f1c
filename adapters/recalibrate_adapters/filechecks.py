"""What readers of base model files ask before a framework sees a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.checks import ModelFileError
from recalibrate.support.threads import reraise_interruption

MOST_FILE_BYTES = 1 << 32
MOST_COLUMNS = 1 << 24
MOST_OUTPUTS = 1 << 16
Ints = NDArray[np.int64]
T = TypeVar("T")


def read_base(
    framework: str,
    path: str | os.PathLike[str],
    read: Callable[[bytes], Any],
    wrap: Callable[[Any], T],
) -> T:
    """A base model from a file.

    Parameters
    ----------
    framework, path
        For messages, and to read.
    read
        The framework's model from the content of the file, checked.
    wrap
        The base of the model. ValueErrors of this package pass: they say what a sound model
        lacks. Those of frameworks and decoders are of classes of their own.
    """
    shown = repr(os.fspath(path))
    content = read_content(path)
    try:
        model = read(content)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # frameworks raise whatever they like
        reraise_interruption(error)
        text = str(error).strip()[:500] or type(error).__name__
        raise ModelFileError(f"{framework} cannot read the model file {shown}: {text}") from error
    try:
        return wrap(model)
    except (ImportError, MemoryError, ModelFileError):
        raise
    except Exception as error:
        reraise_interruption(error)
        if type(error) is ValueError:
            raise
        text = f"{type(error).__name__}: {str(error)[:500]}"
        raise ModelFileError(f"the model file {shown} is damaged: {text}") from error


def read_content(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a model file, once: what was checked is what the framework gets."""
    if not Path(path).is_file():  # a pipe or device has no end
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r}")
    size = os.path.getsize(path)
    if not 0 < size <= MOST_FILE_BYTES:
        raise ModelFileError(f"the model file {os.fspath(path)!r} has {size:,} bytes")
    return Path(path).read_bytes()


CHILD_SECONDS = 60


def try_in_child(script: str, content: bytes) -> None:
    """Refuse a file on which a framework that has no checks of its own ends its process.

    Parameters
    ----------
    script
        A program that reads the file from standard input, and lets the framework read it.
    content
        The file.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            [sys.executable, "-c", script],
            input=content,
            capture_output=True,
            timeout=CHILD_SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ModelFileError(f"reading it did not end in {CHILD_SECONDS} seconds") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [""]
        raise ModelFileError(
            f"it ends the process that reads it (exit code {done.returncode}) {said[0][:300]}"
        )


def require_that(holds: bool | np.bool_, what: str) -> None:
    """Refuse a file of which something does not hold."""
    if not holds:
        raise ModelFileError(what)


def check_range(values: NDArray[Any], low: float, high: float, what: str) -> None:
    """Refuse numbers that are not all from low to high; NaN is none."""
    inside = (values >= low) & (values <= high)
    if not inside.all():
        raise ModelFileError(f"{what}: {values[~inside][0]} is not from {low:g} to {high:g}")


def check_tree(left: Ints, right: Ints, is_leaf: NDArray[np.bool_], where: str) -> Ints:
    """Refuse children that do not exist, or that are met twice; gives the nodes that are met.

    Level by level from the root, node 0, so that time and memory are linear in the nodes.

    Examples
    --------
    >>> nodes = np.array([1, 0, 0]), np.array([2, 0, 0]), np.array([False, True, True])
    >>> check_tree(*nodes, "tree 0").tolist()
    [0, 1, 2]
    >>> check_tree(np.array([0]), np.array([0]), np.array([False]), "tree 0")
    Traceback (most recent call last):
    ...
    recalibrate.support.checks.ModelFileError: tree 0: a node is met twice
    """
    met = np.zeros(len(left), dtype=bool)
    front = np.zeros(1, dtype=np.int64)
    while len(front):
        check_range(front, 0, len(left) - 1, f"{where}: a child")
        if met[front].any() or len(np.unique(front)) < len(front):
            raise ModelFileError(f"{where}: a node is met twice")
        met[front] = True
        inner = front[~is_leaf[front]]
        front = np.concatenate([left[inner], right[inner]])
    return np.flatnonzero(met)
