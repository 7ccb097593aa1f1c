"""Fingerprints of rows: the same for the same rows, whatever their order and how they are cut."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Schema
from recalibrate.support.hashing import BLOCK, UInts, combine
from recalibrate.support.threads import cut, share_out


class Columns(Protocol):
    """What is needed of a table."""

    @property
    def schema(self) -> Schema: ...
    def column(self, name: str, /, *, copy: bool = True) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Mark:
    """What is known of some rows' hashes: marks of pieces add up to the mark of all."""

    rows: int = 0
    first: int = 0
    second: int = 0

    @classmethod
    def of(cls, hashes: UInts) -> Mark:
        """Of rows by their hashes."""
        other = combine(hashes, np.uint64(1))
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
    table: Columns | None,
    names: Sequence[str],
    numbers: Sequence[NDArray[np.float64]],
    n_rows: int,
    threads: int = 1,
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
    columns: list[tuple[NDArray[Any], UInts | None]] = []
    if table is not None:
        columns += [(table.column(name, copy=False), _words(table, name)) for name in names]
    columns += [(np.asarray(values, dtype=np.float64), None) for values in numbers]
    found = np.zeros(n_rows, dtype=np.uint64)

    def write(rows: slice) -> None:
        for start in range(rows.start, rows.stop, BLOCK):
            block = slice(start, min(start + BLOCK, rows.stop))
            state = found[block]
            for values, words in columns:
                state = combine(state, _bits(values[block], words))
            found[block] = state

    share_out(write, cut(n_rows, None, threads), threads)
    return found


def _bits(values: NDArray[Any], words: UInts | None) -> UInts:
    """Values, or what codes stand for, as whole numbers."""
    if words is not None:
        return np.asarray(words[np.nan_to_num(values, nan=0.0).astype(np.intp)])
    if values.dtype == np.float32:
        return np.asarray((values + np.float32(0)).view(np.uint32), dtype=np.uint64)
    bits: UInts = (values + 0.0).view(np.uint64)
    return bits


def _words(table: Columns, name: str) -> UInts | None:
    """A number for each code of a categorical column; None for numbers."""
    column = table.schema.columns[table.schema.index(name)]
    if column.kind != "categorical":
        return None
    words = np.zeros(1 + len(column.categories), dtype=np.uint64)
    words[1:] = np.fromiter((_word(repr(each)) for each in column.categories), dtype=np.uint64)
    return words


def _word(text: str) -> int:
    raw = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(raw, "little")


def add_marks(marks: Iterable[Mark]) -> Mark:
    """The mark of all pieces together."""
    return sum(marks, Mark())
