"""Fingerprints of rows: the same for the same rows, whatever their order and how they are cut."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Schema
from recalibrate.support.hashing import UInts, combine


class Columns(Protocol):
    """What is needed of a table."""

    @property
    def schema(self) -> Schema: ...
    def column(self, name: str, /) -> NDArray[np.float32]: ...


_BLOCK = 16_384  # rows whose hashes fit the cache


@dataclass(frozen=True)
class Mark:
    """What is known of some rows' hashes: marks of pieces add up to the mark of all."""

    rows: int = 0
    first: int = 0
    second: int = 0

    @classmethod
    def of(cls, hashes: UInts) -> Mark:
        """Of rows by their hashes."""
        other = combine(hashes, np.ones_like(hashes))
        sums = (int(each.sum(dtype=np.uint64)) for each in (hashes, other))
        return cls(len(hashes), *sums)

    def __add__(self, other: Mark) -> Mark:
        return Mark(
            self.rows + other.rows,
            (self.first + other.first) % 2**64,
            (self.second + other.second) % 2**64,
        )

    def digest(self, *about: str) -> str:
        """In words that can be written down, together with what else should be the same."""
        text = "\n".join([f"{self.rows} {self.first} {self.second}", *about])
        return f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"


def hash_rows(
    table: Columns | None, names: Sequence[str], numbers: Sequence[NDArray[np.float64]], n_rows: int
) -> UInts:
    """Hash of every row's values in some columns, and of further numbers.

    Categories count by what they are called, not by their place among others.

    Examples
    --------
    >>> import pandas as pd
    >>> from recalibrate.data.table import read_table
    >>> here = read_table(pd.DataFrame({"sex": ["F", "M"]}))
    >>> there = read_table(pd.DataFrame({"sex": ["M", "F", "X"]}))
    >>> one, other = (hash_rows(t, ["sex"], [], t.n_rows) for t in (here, there))
    >>> one[0] == other[1], one[1] == other[0]
    (np.True_, np.True_)
    """
    columns = [_bits(table, name) for name in names] if table is not None else []
    columns += [(np.ascontiguousarray(v, dtype=np.float64) + 0.0).view(np.uint64) for v in numbers]
    found = np.zeros(n_rows, dtype=np.uint64)
    for start in range(0, n_rows, _BLOCK):
        block = slice(start, start + _BLOCK)
        state = found[block]
        for bits in columns:
            state = combine(state, bits[block])
        found[block] = state
    return found


def _bits(table: Columns, name: str) -> UInts:
    """A column's values as whole numbers."""
    values = table.column(name)
    column = table.schema.columns[table.schema.index(name)]
    if column.kind != "categorical":
        return (values + np.float32(0)).view(np.uint32).astype(np.uint64)
    words = np.zeros(1 + len(column.categories), dtype=np.uint64)
    words[1:] = np.fromiter((_word(repr(each)) for each in column.categories), dtype=np.uint64)
    return words[np.nan_to_num(values, nan=0.0).astype(np.intp)]


def _word(text: str) -> int:
    raw = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(raw, "little")


def add_marks(marks: Iterable[Mark]) -> Mark:
    """The mark of all pieces together."""
    return sum(marks, Mark())
