"""UBJSON, the binary form of JSON in which xgboost writes ``.ubj`` files, read with care.

Lengths are compared with what is left of the file before anything is allocated, and nesting has an
end. Arrays of numbers come as lists, whatever their form.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from recalibrate.support.errors import ModelFileError
from recalibrate.support.strictjson import MOST_NESTING, MOST_PARTS

NUMBERS = {
    "i": ">i1", "U": ">u1", "I": ">i2", "u": ">u2", "l": ">i4", "m": ">u4", "L": ">i8", "M": ">u8",
    "d": ">f4", "D": ">f8",
}  # fmt: skip
CONSTANTS = {"T": True, "F": False, "Z": None}
_SIZES = {marker: np.dtype(kind).itemsize for marker, kind in NUMBERS.items()}
_FORMS = {
    marker: struct.Struct(">" + form) for marker, form in zip(NUMBERS, "bBhHiIqQfd", strict=True)
}


def parse(data: bytes) -> Any:
    r"""The value of a file; a `ModelFileError` if it has none, or something behind it.

    Examples
    --------
    >>> parse(b"{U\x01a[$d#U\x02" + struct.pack(">ff", 0.5, 2.0) + b"}")
    {'a': [0.5, 2.0]}
    """
    reader = _Reader(data)
    value = reader.value(reader.marker(), 0)
    if reader.at != len(data):
        raise ModelFileError(f"{len(data) - reader.at} bytes follow its end")
    return value


class _Reader:
    """A place in the file."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.containers = data, 0, 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise ModelFileError(f"it ends before {size} bytes at {self.at} that it should have")
        self.at += size
        return self.data[self.at - size : self.at]

    def marker(self) -> str:
        marker = self.take(1).decode("latin-1")
        while marker == "N":  # nothing, by definition
            marker = self.take(1).decode("latin-1")
        return marker

    def number(self, marker: str) -> Any:
        if marker not in NUMBERS:
            raise ModelFileError(f"byte {self.at}: {marker!r} is no number")
        return _FORMS[marker].unpack(self.take(_SIZES[marker]))[0]

    def count(self) -> int:
        marker = self.marker()
        if marker in "dD":
            raise ModelFileError(f"byte {self.at}: a length must be a whole number")
        return int(self.number(marker))

    def text(self) -> str:
        try:
            return self.take(self.count()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelFileError(f"a text is not UTF-8: {error}") from error

    def value(self, marker: str, depth: int) -> Any:
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        if marker == "S":
            return self.text()
        if marker == "C":
            return self.take(1).decode("latin-1")
        if marker not in "[{":
            return self.number(marker)
        self.containers += 1
        if depth >= MOST_NESTING or self.containers > MOST_PARTS:
            raise ModelFileError("it has too many lists and objects, or too many in each other")
        return self.array(depth + 1) if marker == "[" else self.object(depth + 1)

    def array(self, depth: int) -> list[Any]:
        marker, kind = self.marker(), ""
        if marker == "$":
            kind, marker = self.marker(), self.marker()
            if kind not in NUMBERS or marker != "#":
                raise ModelFileError(f"byte {self.at}: an array of {kind!r} is not supported")
        if kind:
            content = self.take(self.count() * _SIZES[kind])
            numbers: list[Any] = np.frombuffer(content, NUMBERS[kind]).tolist()
            return numbers
        if marker == "#":
            size = self.count()
            if not 0 <= size <= len(self.data) - self.at:  # a value takes a byte at least
                raise ModelFileError(f"byte {self.at}: an array of {size} values is too long")
            return [self.value(self.marker(), depth) for _ in range(size)]
        values = []
        while marker != "]":
            values.append(self.value(marker, depth))
            marker = self.marker()
        return values

    def object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.data[self.at : self.at + 1] != b"}":
            key = self.text()
            if key in found:
                raise ModelFileError(f"it repeats the key {key[:80]!r}")
            found[key] = self.value(self.marker(), depth)
        self.at += 1
        return found
