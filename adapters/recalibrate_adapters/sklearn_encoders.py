"""scikit-learn's encoders of categories as ONNX nodes.

A category that is missing (None, NaN) is NaN in a column of numbers and the empty text in a column
of text, which is what a graph is fed with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.onnxgraph import ML_DOMAIN
from recalibrate_adapters.sklearn_writer import Block, NotWrittenError, Part, Writer, computed

_UNKNOWN = -1


def writers() -> dict[type, Any]:
    """The transformers that are written here."""
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder

    return {
        OneHotEncoder: _one_hot,
        OrdinalEncoder: _ordinal,
        TargetEncoder: _target,
    }


def _one_hot(w: Writer, encoder: Any, block: Block) -> Block:
    found: list[str] = []
    width = 0
    refuses = encoder.handle_unknown == "error"
    for j, part in enumerate(w.single(block)):
        grouped, count, rare = _grouped(encoder, j)
        unknown = rare if rare is not None and not refuses else _UNKNOWN
        codes = _codes(w, part, encoder.categories_[j], grouped, unknown)
        if refuses:
            _remember(w, part, encoder.categories_[j])
        # Codes that are no column are refused, or give a row of zeros.
        columns = w.op(
            "OneHotEncoder",
            codes,
            domain=ML_DOMAIN,
            cats_int64s=list(range(count)),
            zeros=int(not refuses),
        )
        columns = w.op("Reshape", columns, w.constant(np.array([-1, count], dtype=np.int64)))
        dropped = encoder._drop_idx_after_grouping
        if dropped is not None and dropped[j] is not None:
            kept = np.delete(np.arange(count), int(dropped[j]))
            if not len(kept):
                continue
            columns, count = w.columns(columns, kept), len(kept)
        found.append(w.cast(columns, "float64"))
        width += count
    return computed(w.concat(found), width)


def _grouped(encoder: Any, j: int) -> tuple[NDArray[np.float64], int, int | None]:
    """Column of every category, their number, and the column of infrequent ones, if any."""
    count = len(encoder.categories_[j])
    mapping = None
    if getattr(encoder, "_infrequent_enabled", False):
        mapping = encoder._default_to_infrequent_mappings[j]
    if mapping is None:
        return np.arange(count, dtype=np.float64), count, None
    columns = np.asarray(mapping, dtype=np.float64)
    return columns, int(columns.max()) + 1, int(columns.max())


def _ordinal(w: Writer, encoder: Any, block: Block) -> Block:
    refuses = encoder.handle_unknown == "error"
    found = []
    for j, part in enumerate(w.single(block)):
        categories = encoder.categories_[j]
        values, _, _ = _grouped(encoder, j)
        missing = encoder._missing_indices.get(j)
        if missing is not None:
            values[missing] = encoder.encoded_missing_value
        if refuses:
            _remember(w, part, categories)
            found.append(_refusing(w, part, categories, values))
            continue
        unknown = encoder.unknown_value
        found.append(_looked_up(w, part, categories, values, float(unknown)))
    return computed(w.concat(found), len(found))


def _target(w: Writer, encoder: Any, block: Block) -> Block:
    parts = w.single(block)
    means = np.atleast_1d(np.asarray(encoder.target_mean_, dtype=np.float64))
    per_column = len(encoder.encodings_) // len(parts)
    found = [
        _looked_up(
            w,
            parts[k // per_column],
            encoder.categories_[k // per_column],
            np.asarray(encoding, dtype=np.float64),
            float(means[k % per_column]),
        )
        for k, encoding in enumerate(encoder.encodings_)
    ]
    return computed(w.concat(found), len(found))


def _refusing(w: Writer, part: Part, categories: Sequence[Any], values: NDArray[np.float64]) -> str:
    """Values of categories; onnxruntime refuses a row with any other."""
    count = len(categories)
    codes = _codes(w, part, categories, np.arange(count, dtype=np.float64), _UNKNOWN)
    columns = w.op(
        "OneHotEncoder", codes, domain=ML_DOMAIN, cats_int64s=list(range(count)), zeros=0
    )
    columns = w.op("Reshape", columns, w.constant(np.array([-1, count], dtype=np.int64)))
    best = w.op("ArgMax", columns, axis=1, keepdims=1)
    return w.op("Gather", w.constant(values), best, axis=0)


def _codes(
    w: Writer, part: Part, categories: Sequence[Any], codes: NDArray[np.float64], unknown: int
) -> str:
    return w.cast(_looked_up(w, part, categories, codes, float(unknown)), "int64")


def _looked_up(
    w: Writer,
    part: Part,
    categories: Sequence[Any],
    values: NDArray[np.float64],
    unknown: float,
) -> str:
    """The value of every row's category, a float64 column [N, 1]."""
    plain = [None if _is_missing(value) else value for value in categories]
    gaps = [k for k, value in enumerate(plain) if value is None]
    if len(gaps) > 1:
        raise NotWrittenError(
            f"an encoder tells None from NaN in column {part.sources[0]!r}, which a graph cannot"
        )
    if part.text:
        if gaps and "" in plain:
            raise NotWrittenError(
                f"an encoder tells missing from empty text in column {part.sources[0]!r}, which a "
                "graph cannot"
            )
        texts = np.array(["" if v is None else str(v) for v in plain], dtype=object)
        return w.lookup(part.tensor, texts, values, unknown)
    if any(isinstance(value, str) for value in plain):
        raise NotWrittenError(
            f"an encoder was fitted to text in column {part.sources[0]!r}, which holds numbers now"
        )
    present = [k for k, value in enumerate(plain) if value is not None]
    numbers = np.array([plain[k] for k in present], dtype=np.float64)
    found = w.lookup(part.tensor, numbers, values[present], unknown)
    if gaps:
        missing = w.op("IsNaN", part.tensor)
        found = w.op("Where", missing, w.number(float(values[gaps[0]])), found)
    return found


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _remember(w: Writer, part: Part, categories: Sequence[Any]) -> None:
    """The graph refuses rows with other categories than these."""
    if part.sources[0] is not None:
        plain = [None if _is_missing(v) else v for v in categories]
        w.known[part.sources[0]] = [v.item() if isinstance(v, np.generic) else v for v in plain]
