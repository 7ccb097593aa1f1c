"""Fingerprints of a store's rows and of the base model's scores for them."""

from __future__ import annotations

import json
from functools import partial

from recalibrate.bases.problem import Problem, by_column
from recalibrate.core.learning import is_score
from recalibrate.data.fingerprints import Mark, add_marks, hash_rows
from recalibrate.rows.memory import MemoryStore
from recalibrate.rows.store import Store
from recalibrate.support.hashing import combine


def marks_of(threads: int, piece: Problem) -> tuple[Mark, Mark]:
    """Work: marks of a piece's rows, and of their base scores."""
    names = [name for name in piece.table.schema.names if not is_score(name)]
    numbers = by_column(piece.labels.values)
    weight = piece.labels.weight
    if weight is not None:
        numbers = [*numbers, weight]
    rows = hash_rows(piece.table, names, numbers, piece.n_rows, threads)
    scores = hash_rows(None, (), by_column(piece.base), piece.n_rows)
    return Mark.of(rows), Mark.of(combine(rows, scores))


def fingerprints(store: Store) -> tuple[str, str]:
    """Of the rows (columns, labels, weights), and of the base model by its scores for them."""
    threads = store.threads if isinstance(store, MemoryStore) else 1  # others map side by side
    found = list(store.map(partial(marks_of, threads)))
    rows, scores = (add_marks(each[side] for each in found) for side in (0, 1))
    labels = store.problem.labels
    names = [name for name in store.problem.table.schema.names if not is_score(name)]
    about = json.dumps({"columns": names, "labels": [labels.kind, labels.low, labels.high]})
    return rows.digest(about), scores.digest("base")
