"""Locks between processes. The system releases them when their holder ends, however it ends."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

PAUSE = 0.05
"""Seconds between two attempts to take a lock: short beside an update of a state."""


@contextmanager
def locked(path: str | os.PathLike[str], *, timeout: float) -> Iterator[None]:
    """Let no other process into blocks with the lock of the same path while this one runs.

    The lock is a hidden file in the folder of ``path``, because the file itself is replaced when
    it is written.

    Parameters
    ----------
    path
        What is locked; the file need not exist, its folder must.
    timeout
        Seconds to wait for another process.

    Raises
    ------
    TimeoutError
        If the lock was not free in time.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with locked(f"{folder}/state.json", timeout=10):
    ...     len(os.listdir(folder))
    1
    >>> os.listdir(folder)
    []
    """
    file = hidden_name(path, "lock")
    deadline = time.monotonic() + timeout
    while (lock := _take(file, path)) is None:
        if time.monotonic() >= deadline:
            raise TimeoutError(
                f"another process has been working on {os.fspath(path)!r} for the {timeout:g} "
                "seconds that this one waited; run again when it has ended, or wait longer"
            )
        time.sleep(PAUSE)
    try:
        yield
    finally:
        _remove(file, lock)


def lock_now(handle: int) -> bool:
    """Lock an open file; False if another process has locked it.

    An OSError says that the file system has no locks.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True


def hidden_name(path: str | os.PathLike[str], suffix: str) -> Path:
    """The path of a hidden file that belongs to another one, in its folder.

    Names are of fixed length, or those of files with long names would become too long.
    """
    target = Path(os.path.realpath(path))
    return target.with_name(f".{_digest(target.name)}.{suffix}")


def is_current(handle: int, file: Path) -> bool:
    """Whether an open file is the one that has this name now, rather than a removed one."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except FileNotFoundError:
        return False


def _digest(name: str) -> str:
    return hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()


def _take(file: Path, path: str | os.PathLike[str]) -> IO[bytes] | None:
    """The locked file, or None if another process has the lock."""
    try:
        # A file object, unlike a handle, is closed even if an interruption keeps it from us.
        lock = open(file, "a+b", buffering=0)  # noqa: SIM115 - for the caller to close
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror}: while {os.fspath(path)!r} is read and written, a lock lies beside "
            f"it, and none can be made in its folder {str(file.parent)!r}; allow this user to "
            "write there, or keep the file in another folder",
        ) from error
    try:
        # The last holder may have removed the file between the two lines.
        if lock_now(lock.fileno()) and is_current(lock.fileno(), file):
            return lock
    except OSError as error:
        lock.close()
        raise OSError(
            error.errno,
            f"{error.strerror}: files in {str(file.parent)!r} cannot be locked; use a folder on a "
            "file system with locks",
        ) from error
    except BaseException:
        lock.close()
        raise
    lock.close()
    return None


def _remove(file: Path, lock: IO[bytes]) -> None:
    """Release the lock; its file goes while it is held, so that nobody else's is removed."""
    if sys.platform == "win32":  # where open files cannot be removed, not even by others
        lock.close()
        with suppress(OSError):
            file.unlink()
        return
    file.unlink(missing_ok=True)
    lock.close()
