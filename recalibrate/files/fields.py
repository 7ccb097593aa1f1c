"""Reading a header field by field: every value is checked for its type and range, once."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recalibrate.files.errors import ModelFileError

MOST_TEXT = 1 << 16
NON_FINITE = {"nan": float("nan"), "inf": inf, "-inf": -inf}


def number(value: float) -> float | str:
    """A number for the header, exactly; JSON has no infinities.

    Examples
    --------
    >>> number(0.1), number(float("inf"))
    (0.1, 'inf')
    """
    return float(value) if isfinite(value) else str(float(value))


class Store:
    """Arrays of a file, each to be used once."""

    def __init__(self, arrays: Sequence[NDArray[Any]]) -> None:
        self._arrays: list[NDArray[Any] | None] = list(arrays)

    def take(self, index: object, where: str) -> NDArray[Any]:
        """Array of a number; nothing else may ask for it again."""
        if type(index) is not int or not 0 <= index < len(self._arrays):
            raise ModelFileError(f"{where} must be the number of an array, got {str(index)[:80]}")
        array = self._arrays[index]
        if array is None:
            raise ModelFileError(f"{where} uses array {index} for a second time")
        self._arrays[index] = None
        return array

    def check_empty(self) -> None:
        """Refuse arrays that nothing asked for."""
        left = sum(array is not None for array in self._arrays)
        if left:
            raise ModelFileError(f"{left} arrays of the file belong to nothing")


class Fields:
    """An object of the header; used in a ``with`` block, at whose end all must have been read.

    Examples
    --------
    >>> with Fields({"depth": 2}, "H", Store([])) as fields:
    ...     fields.whole("depth", least=1, most=6)
    2
    >>> with Fields({"depth": "2"}, "H", Store([])) as fields:
    ...     fields.whole("depth", least=1, most=6)
    Traceback (most recent call last):
    ...
    recalibrate.files.errors.ModelFileError: H.depth must be a whole number from 1 to 6, got '2'
    """

    def __init__(self, data: object, where: str, store: Store) -> None:
        if not isinstance(data, dict):
            raise ModelFileError(f"{where} must be an object with fields")
        self._left = dict(data)
        self._where = where
        self._store = store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self._left:
            raise ModelFileError(
                f"{self._where} has unknown fields: {str(sorted(self._left))[:80]}"
            )

    def fault(self, what: str) -> ModelFileError:
        """Error that says what is wrong with this object."""
        return ModelFileError(f"{self._where}: {what}")

    def raw(self, name: str) -> Any:
        """A value as it is, for readers that check it themselves."""
        if name not in self._left:
            raise ModelFileError(f"{self._where} has no field {name!r}")
        return self._left.pop(name)

    def has(self, name: str) -> bool:
        """Whether there is such a field, still to be read."""
        return name in self._left

    def is_null(self, name: str) -> bool:
        """Whether a field is null; it then counts as read."""
        if name in self._left and self._left[name] is None:
            del self._left[name]
            return True
        return False

    def text(self, name: str, most: int = MOST_TEXT) -> str:
        value = self.raw(name)
        if not isinstance(value, str) or len(value) > most:
            raise self._wrong(name, f"a text of at most {most} characters", value)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.raw(name)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self._wrong(name, "a list of texts", value)
        return tuple(value)

    def choice(self, name: str, options: Sequence[str]) -> Any:
        value = self.raw(name)
        if not isinstance(value, str) or value not in options:
            raise self._wrong(name, f"one of {', '.join(options)}", value)
        return value

    def whole(self, name: str, *, least: int, most: int) -> int:
        value = self.raw(name)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(name, f"a whole number from {least} to {most}", value)
        return value

    def number(self, name: str, *, least: float = -inf, most: float = inf) -> float:
        """A number; NaN only where there are no limits."""
        value = self._as_number(self.raw(name), name)
        if not least <= value <= most and not (least == -inf and most == inf):
            raise self._wrong(name, f"a number from {least:g} to {most:g}", value)
        return value

    def numbers(self, name: str) -> tuple[float, ...]:
        value = self.raw(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list of numbers", value)
        return tuple(self._as_number(v, name) for v in value)

    def flag(self, name: str) -> bool:
        value = self.raw(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return bool(value)

    def array(self, name: str, dtype: type[Any], dimensions: int = 1) -> NDArray[Any]:
        array = self._store.take(self.raw(name), f"{self._where}.{name}")
        if array.dtype != np.dtype(dtype) or array.ndim != dimensions:
            raise self._wrong(
                name,
                f"{dimensions}-d array of {np.dtype(dtype)}",
                f"{array.ndim}-d array of {array.dtype}",
            )
        return array

    def fields(self, name: str) -> Fields:
        return self.inside(self.raw(name), name)

    def inside(self, data: object, name: str) -> Fields:
        """An object found in this one by other means."""
        return Fields(data, f"{self._where}.{name}", self._store)

    def items(self, name: str) -> list[Fields]:
        value = self.raw(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list", value)
        return [self.inside(item, f"{name}[{k}]") for k, item in enumerate(value)]

    def _as_number(self, value: object, name: str) -> float:
        if isinstance(value, str) and value in NON_FINITE:
            return NON_FINITE[value]
        if type(value) is int and abs(value) < 2**53:
            return float(value)
        if type(value) is not float or not isfinite(value):  # 1e999 is infinite to JSON
            raise self._wrong(name, "a number", value)
        return value

    def _wrong(self, name: str, wanted: str, value: object) -> ModelFileError:
        return ModelFileError(f"{self._where}.{name} must be {wanted}, got {repr(value)[:80]}")
