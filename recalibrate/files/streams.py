"""A model on its way into a file or out of it: its arrays, shared objects, and where errors are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from recalibrate.files.container import VERSION
from recalibrate.support.errors import ModelFileError


@dataclass(frozen=True)
class Writer:
    """A model on its way into a file: its arrays, and objects that several of its parts share."""

    arrays: list[NDArray[Any]] = field(default_factory=list)
    shared: dict[int, tuple[int, Any]] = field(default_factory=dict)

    def share(self, value: Any) -> int:
        """Number of an object among those that are written once, however often referred to."""
        return self.shared.setdefault(id(value), (len(self.shared), value))[0]


@dataclass
class Reader:
    """A file that is being read: its version, and what its parts refer to by number."""

    version: int = VERSION
    arrays: list[NDArray[Any] | None] = field(default_factory=list)
    folder: Path = Path()
    trust: bool = False
    build: Callable[..., Any] = dict
    shared: tuple[Any, ...] = ()

    def take(self, index: object, where: str) -> NDArray[Any]:
        """Array of a number; nothing else may ask for it again."""
        if type(index) is not int or not 0 <= index < len(self.arrays):
            raise ModelFileError(f"{where} must be the number of an array, got {str(index)[:80]}")
        array, self.arrays[index] = self.arrays[index], None
        if array is None:
            raise ModelFileError(f"{where} uses array {index} for a second time")
        return array

    def check_empty(self) -> None:
        """Refuse arrays that nothing asked for."""
        left = sum(array is not None for array in self.arrays)
        if left:
            raise ModelFileError(f"{left} arrays of the file belong to nothing")


@contextmanager
def located(where: str) -> Iterator[None]:
    """Let errors of a check say where in the file they are."""
    try:
        yield
    except ValueError as error:
        raise ModelFileError(f"{where}: {error}") from error


def wrong(where: str, wanted: str, got: object) -> ModelFileError:
    """The error that says what should be where."""
    return ModelFileError(f"{where} must be {wanted}, got {repr(got)[:80]}")
