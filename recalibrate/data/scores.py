"""Scores of base models at the door, and vectors with an entry per row: checked once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.vectors import Float64, to_array, to_floats

SUM_TOLERANCE = 1e-3
"""Probabilities of classes that were rounded to a few digits still sum to 1."""


def count_outputs(scores: Any) -> int:
    """Numbers that a base gives per row; two columns are the probabilities of one class."""
    shape: tuple[int, ...] = getattr(scores, "shape", ())
    return shape[1] if len(shape) == 2 and shape[1] > 2 else 1


def check_score_names(base: Any) -> tuple[str, ...]:
    """Names of the columns that hold base scores of rows that come in pieces; None: none.

    Examples
    --------
    >>> check_score_names("p"), check_score_names(["a", "b", "c"]), check_score_names(None)
    (('p',), ('a', 'b', 'c'), ())
    """
    names = (base,) if isinstance(base, str) else () if base is None else base
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            "base must be the name of a column where rows come in pieces, or the names of one for "
            f"every class; got {type(base).__name__}"
        )
    return tuple(names)


def take_scores(columns: Sequence[Any]) -> Any:
    """Scores of rows in pieces from a column, or one for every class; None without any."""
    if len(columns) > 1:
        return np.stack([np.asarray(column) for column in columns], axis=1)
    return columns[0] if columns else None


def read_scores(scores: Any, *, n_rows: int, probability: bool, outputs: int | None = 1) -> Float64:
    """Check the scores of a base model.

    Parameters
    ----------
    scores : array-like of shape (n_rows,) or (n_rows, 1)
        Finite numbers.
    n_rows : int
        Rows of the table that the scores belong to.
    probability : bool
        Whether the scores must lie in [0, 1].
    outputs : int or None
        Numbers per row: 1, or one for every class; None: either.

    Returns
    -------
    float64 array of shape (n_rows,) or (n_rows, outputs)
        The scores. Of the probabilities of two classes, which sum to 1, those of the second.

    Examples
    --------
    >>> read_scores([[0.25], [0.5]], n_rows=2, probability=True)
    array([0.25, 0.5 ])
    """
    if n_rows == 0:
        raise ValueError("There are no rows: pass at least one row with its score.")
    array = to_array(scores, "scores")
    wide = array.ndim == 2 and array.shape[1] > 1
    if wide and (outputs != 1 or array.shape[1] == 2):
        found = _read_class_scores(array, n_rows, probability, outputs)
        if found is not None:
            return found
    if outputs is not None and outputs > 1:
        raise ValueError(
            f"scores must have a column for each of {outputs} classes, but have shape {array.shape}"
        )
    values = checked_vector(scores, "scores", n_rows, "Scores must be finite numbers.")
    if probability:
        refuse(
            (values < 0.0) | (values > 1.0),
            values,
            "scores must be probabilities in [0, 1]",
            'If they are margins or log-odds, tell fit with base_link="logit". If they are '
            "predictions of a regressor, cut them: pass a function such as lambda X: "
            "numpy.clip(model.predict(X), 0, 1).",
        )
    return values


def _read_class_scores(
    array: NDArray[Any], n_rows: int, probability: bool, outputs: int | None
) -> Float64 | None:
    """Scores of classes, checked; None for two columns that are no probabilities."""
    columns = [
        checked_vector(column, "scores", n_rows, "Give finite numbers.") for column in array.T
    ]
    values = np.asfortranarray(np.stack(columns).T)
    sums = values.sum(axis=1)
    bad = (values < 0.0).any(axis=1) | (np.abs(sums - 1.0) > SUM_TOLERANCE)
    if len(columns) == 2:
        return None if bad.any() else values[:, 1]
    if outputs is not None and len(columns) != outputs:
        raise ValueError(f"scores have {len(columns)} columns, but there are {outputs} classes")
    if probability:
        refuse(
            bad,
            sums,
            "scores of classes must be probabilities that sum to 1 in every row",
            'The number shown is the sum. If they are logits, tell fit with base_link="logit".',
        )
    return values


def checked_vector(data: Any, name: str, n_rows: int, advice: str) -> Float64:
    """Convert to n_rows finite float64 numbers, never the caller's own array."""
    encode = (
        "Encode them as 0 and 1, for example y = (y == 'the positive label').astype(int)."
        if name == "y"
        else "Convert it to numbers."
    )
    values = to_floats(one_per_row(data, name, n_rows), name, encode)
    refuse(~np.isfinite(values), values, f"{name} must not be missing or infinite", advice)
    return values


def one_per_row(data: Any, name: str, n_rows: int) -> NDArray[Any]:
    """The data as an array with one entry per row."""
    array = to_array(data, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        per_class = name == "scores" and array.ndim == 2 and array.shape[1] == 2
        advice = "the column scores[:, 1]" if per_class else "a vector with one entry per row"
        raise ValueError(f"{name} must be 1-d, but has shape {array.shape}: pass {advice}.")
    if len(array) != n_rows:
        raise ValueError(f"{name} has {len(array)} entries, but X has {n_rows} rows.")
    return array


def refuse(bad: NDArray[np.bool_], values: Float64, rule: str, advice: str) -> None:
    """Raise an error about entries that break a rule, if there are any."""
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{rule}: {int(bad.sum())} of {len(values)} entries break this rule, the first is "
            f"{values[row]!s} in row {row} (from 0). {advice}"
        )
