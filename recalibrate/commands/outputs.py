"""Files that a command writes: all refused or accepted before the work starts."""

from __future__ import annotations

import os
from pathlib import Path

from recalibrate.support.atomic import atomic_write, check_writable


class Outputs:
    """The files that one command will write.

    Parameters
    ----------
    force
        Whether existing files are replaced.
    inputs
        Files that the command reads, which it never replaces; None stands for no file.
    """

    def __init__(self, force: bool, *inputs: str | None) -> None:
        self.force = force
        self._taken = {os.path.realpath(path): "is read by this command" for path in inputs if path}

    def plan(self, option: str, path: str | None, *suffixes: str) -> Path | None:
        """Check a path that will be written to; None where the user does not want the file."""
        if path is None:
            return None
        if not path.lower().endswith(suffixes):
            expected = " or ".join(suffixes)
            raise ValueError(f"{option} {path!r}: the name must end in {expected}")
        key = os.path.realpath(path)
        if key in self._taken:
            raise ValueError(f"{option} {path!r}: this file {self._taken[key]}; choose another")
        self._taken[key] = f"is written by {option}"
        try:
            check_writable(path, overwrite=self.force)
        except FileExistsError:
            raise FileExistsError(
                f"{option} {path!r}: the file exists; choose another name, or replace it with "
                "--force"
            ) from None
        return Path(path)

    def write(self, path: Path, content: bytes) -> None:
        """Write a planned file as a whole."""
        atomic_write(path, content, overwrite=self.force)
