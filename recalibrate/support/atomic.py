"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

# --- Locks between processes. The system releases them when their holder ends, however it ends --


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


def atomic_write(path: str | os.PathLike[str], data: bytes, *, overwrite: bool = True) -> Path:
    """Write a file under a temporary name in its folder, then move it into place.

    A reader sees the old file or the new one, never a part; an error, a full disk or Ctrl-C
    leaves the old file as it was and nothing beside it. What a process that was killed left
    beside the file is removed when the file is written again.

    Parameters
    ----------
    path
        The file; its folder must exist. A symbolic link is followed.
    data
        The whole content.
    overwrite
        Whether an existing file is replaced; otherwise it is a FileExistsError.

    Returns
    -------
    Path
        The path as given.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> atomic_write(f"{folder}/a.txt", b"new").read_bytes()
    b'new'
    >>> [file.name for file in Path(folder).iterdir()]
    ['a.txt']
    """
    given = Path(path)
    target = Path(os.path.realpath(given))
    mode = check_writable(given, overwrite=overwrite)
    _remove_abandoned(target)
    temporary = hidden_name(target, f"{secrets.token_hex(4)}.tmp")
    try:
        with _create(temporary) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if mode is not None:
                os.chmod(temporary, mode)
            if sys.platform == "win32":  # where an open file cannot be moved
                file.close()
            _move(temporary, target, overwrite=overwrite)
    finally:  # also on Ctrl-C, even in _create; after the move there is nothing left to remove
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)
    return given


def check_writable(path: str | os.PathLike[str], *, overwrite: bool = True) -> int | None:
    """Refuse a path that no file can be written to, before any work is done for it.

    Returns the permissions of the file that is there, or None.

    Examples
    --------
    >>> check_writable("no/such/folder/model.rcal")
    Traceback (most recent call last):
    ...
    FileNotFoundError: the folder of 'no/such/folder/model.rcal' does not exist; create it first
    """
    shown = repr(os.fspath(path))
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of {shown} does not exist; create it first")
    try:
        found = target.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(f"{shown} is a folder; give the name of a file in it")
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{shown} is a device or pipe, not a file that can be replaced")
    if not overwrite:
        raise FileExistsError(f"{shown} exists already; choose another name, or allow overwriting")
    return stat.S_IMODE(found.st_mode)


ABANDONED = 3600.0
"""Seconds after which a temporary file is taken for abandoned where locks do not tell."""


def _create(temporary: Path) -> IO[bytes]:
    """A new file, locked while its writer is alive."""
    while True:
        # A file object, unlike a handle, is closed even if an interruption keeps it from us.
        file = open(temporary, "xb")  # noqa: SIM115 - for the caller to close
        try:
            # Before it was locked, another writer may have taken it for abandoned.
            if lock_now(file.fileno()) and is_current(file.fileno(), temporary):
                return file
        except OSError:  # no locks, so nobody removes what seems abandoned
            return file
        except BaseException:
            file.close()
            raise
        file.close()
        temporary.unlink(missing_ok=True)


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of the same target whose writers were killed."""
    start = hidden_name(target, "").name
    with contextlib.suppress(OSError):  # a folder may be written to but not listed
        names = [name for name in os.listdir(target.parent) if name.startswith(start)]
        for name in names:
            if name.endswith(".tmp"):
                with contextlib.suppress(OSError):  # somebody else's, or removed meanwhile
                    _remove_if_abandoned(target.with_name(name))


def _remove_if_abandoned(file: Path) -> None:
    if sys.platform == "win32":
        # The system keeps files that a writer has open, which it has until just before the move.
        if time.time() - file.stat().st_mtime > ABANDONED:
            file.unlink()
        return
    with open(file, "r+b", buffering=0) as found:
        if lock_now(found.fileno()):
            file.unlink()  # before the lock is released: its writer may be waiting to take it


def _move(temporary: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # unlike a move, fails if another process was quicker
    except FileExistsError:
        raise FileExistsError(f"{str(target)!r} was created by somebody else meanwhile") from None
    except OSError:  # a file system without hard links
        check_writable(target, overwrite=False)
        os.replace(temporary, target)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself last; not every system lets a folder be opened."""
    handles: list[int] = []
    with contextlib.suppress(OSError):
        try:
            # One call, inside of which nothing is interrupted: the handle cannot get lost.
            handles.extend(map(os.open, [folder], [os.O_RDONLY]))
            os.fsync(handles[0])
        finally:
            for handle in handles:
                os.close(handle)
