"""What ``exportable=True`` promises: the fitted model has a graph that says what it says."""

from __future__ import annotations

from typing import Any

from recalibrate.bases.protocol import ScoreColumn, count_rows
from recalibrate.data.inputs import is_collection, is_streamed
from recalibrate.model import Recalibrated

ROWS = 200
"""Rows of the user's that the graph is tried on."""


def keep_promise(model: Recalibrated, X: Any, Z: Any) -> Recalibrated:
    """The model, if it can be exported; an `ExportError` or `ParityError` says why not."""
    in_pieces = is_collection(X) or (Z is None and is_streamed(X))
    scores = model.base.values[:ROWS] if isinstance(model.base, ScoreColumn) else None
    sample = None if in_pieces else _first(X)
    model.to_onnx(None, sample, base=None if sample is None else scores, Z=_first(Z))
    return model


def _first(rows: Any) -> Any:
    """The first rows, of whatever kind; of rows that cannot be cut, all."""
    if rows is None or count_rows(rows) is None:
        return tuple(_first(part) for part in rows) if isinstance(rows, tuple) else rows
    return rows.iloc[:ROWS] if hasattr(rows, "iloc") else rows[:ROWS]
