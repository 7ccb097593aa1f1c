"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path


def atomic_write(path: str | os.PathLike[str], data: bytes, *, overwrite: bool = True) -> Path:
    """Write a file under a temporary name in its folder, then move it into place.

    A reader sees the old file or the new one, never a part; an error, a full disk or Ctrl-C
    leaves the old file as it was and nothing beside it.

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
    # Short, or the name of a long-named file would become too long for the file system.
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with open(os.open(temporary, _CREATE, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        _move(temporary, target, overwrite=overwrite)
    finally:  # also on Ctrl-C; after the move there is nothing left to remove
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


_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


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
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
