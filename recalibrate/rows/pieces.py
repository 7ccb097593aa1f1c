"""Rows in pieces brought together: statistics of columns, all rows, or a sample of them.

The sample is the same however rows are cut: those with the smallest hashes, equal rows told apart.
Hashes are collected first, which says how many copies of which rows are wanted; copies are
interchangeable, so every piece then hands over its own until there are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.fixedpoint import Scale
from recalibrate.data.columns import Columns, Piece
from recalibrate.data.folds import apart, number_equals
from recalibrate.data.table import Table
from recalibrate.rows.store import Store

T = TypeVar("T")
HASHES_AT_ONCE = 1 << 26
"""Hashes that are looked at together (512 MiB); of more rows a share at a time."""

Hashes = NDArray[np.uint64]


def on_columns(work: Callable[[Piece], T], scale: Scale, piece: Problem) -> T:
    """Work on the columns of a piece and the quantised weights of its rows."""
    return work(Piece(piece.table, scale.quantise_for_columns(piece.labels.weight)))


def columns_of(store: Store, scale: Scale) -> Columns:
    """Statistics of the columns of all pieces."""
    schema = store.problem.table.schema
    return Columns(schema, lambda work: store.map(partial(on_columns, work, scale)))


def gather(store: Store) -> Problem:
    """All rows, in their order."""
    return _join(store.problem, list(store.map(_itself)))


def sample_pieces(store: Store, count: int, seed: int) -> Problem:
    """The ``count`` rows with the smallest hashes, in the order of these."""
    key = _smallest(store, count, seed)
    wanted, copies = np.unique(key, return_counts=True)
    found = list(store.map(partial(rows_with, seed, wanted, copies)))
    together = _join(store.problem, [rows for rows, _ in found])
    own = np.concatenate([keys for _, keys in found])
    enough = np.flatnonzero(_within(own, wanted, copies))
    order = np.empty(count, dtype=np.intp)
    order[np.argsort(key, kind="stable")] = enough[np.argsort(own[enough], kind="stable")]
    sample = together.take(order)
    return replace(sample, given=replace(sample.given, labels=sample.labels.strata, rows=None))


def hashes_of(seed: int, bits: int, first: int, piece: Problem) -> Hashes:
    """Work: hashes of a piece's rows that begin with certain bits."""
    key = piece.hashes(seed)
    return key if bits == 0 else key[key >> np.uint64(64 - bits) == first]


def rows_with(
    seed: int, wanted: Hashes, copies: NDArray[np.intp], piece: Problem
) -> tuple[Problem, Hashes]:
    """Work: rows of a piece that have a wanted hash, no more copies than wanted."""
    key = piece.hashes(seed)
    at = np.searchsorted(wanted, key).clip(0, len(wanted) - 1)
    rows = np.flatnonzero(wanted[at] == key)
    rows = rows[_within(key[rows], wanted, copies)]
    return piece.take(rows), key[rows]


def _within(key: Hashes, wanted: Hashes, copies: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether a row is one of the copies of its hash that are wanted."""
    number = number_equals(key).astype(np.intp)
    return np.asarray(number < copies[np.searchsorted(wanted, key)])


def _smallest(store: Store, count: int, seed: int) -> Hashes:
    """Hashes of the rows that come first once equal ones are told apart, in that order."""
    bits = ((store.size.n_rows - 1) // HASHES_AT_ONCE).bit_length()
    key, told = np.empty(0, np.uint64), np.empty(0, np.uint64)
    for first in range(1 << bits):  # equal hashes are looked at together
        some = np.concatenate(list(store.map(partial(hashes_of, seed, bits, first))))
        some.sort()
        new = np.ones(len(some), dtype=np.bool_)
        np.not_equal(some[1:], some[:-1], out=new[1:])
        ahead = _first(some, new, count)
        again = np.flatnonzero(~new)
        number = again - np.searchsorted(some, some[again])
        key = np.concatenate([key, ahead, some[again]])
        told = np.concatenate([told, ahead, apart(some[again], number.astype(np.uint64))])
        if len(told) > count:
            kept = np.argpartition(told, count - 1)[:count]
            key, told = key[kept], told[kept]
    return np.asarray(key[np.argsort(told, kind="stable")])


def _first(values: Hashes, marked: NDArray[np.bool_], count: int) -> Hashes:
    """The first ``count`` of the marked values, without a copy of them all."""
    end = count
    while end < len(values) and np.count_nonzero(marked[:end]) < count:
        end *= 2
    return np.asarray(values[:end][marked[:end]][:count])


def _itself(piece: Problem) -> Problem:
    """Work: the rows of a piece, free of the files that they are in."""
    return piece.take(np.arange(piece.n_rows))


def _join(problem: Problem, parts: Sequence[Problem]) -> Problem:
    """Rows of several problems as one."""
    schema = problem.table.schema
    columns = [
        np.concatenate([part.table.column(j) for part in parts]) for j in range(len(schema.columns))
    ]
    # Column by column, as labels and scores of classes are where they were read in one piece.
    values = np.asfortranarray(np.concatenate([part.labels.values for part in parts]))
    weights = [part.labels.weight for part in parts if part.labels.weight is not None]
    labels = replace(
        problem.labels, values=values, weight=np.concatenate(weights) if weights else None
    )
    return replace(
        problem,
        table=Table(schema, columns, len(values)),
        labels=labels,
        base=np.asfortranarray(np.concatenate([part.base for part in parts])),
        given=replace(problem.given, labels=labels.strata),
        cut=_join_cut(parts),
    )


def _join_cut(parts: Sequence[Problem]) -> NDArray[np.float64] | None:
    """What cutting base scores took off the losses of all rows; None if none was cut."""
    if all(part.cut is None for part in parts):
        return None
    return np.concatenate(
        [np.zeros(part.n_rows) if part.cut is None else part.cut for part in parts]
    )
