"""Labels, weights and scores at the door: checked once, then plain float64 vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recalibrate.data.vectors import Float64, to_array, to_floats
from recalibrate.support.checks import check_range

ALL_WEIGHTS_ZERO = "sample_weight is zero for every row: at least one row must count."


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels scaled to [0, 1], their weights, and the way back.

    Parameters
    ----------
    values : float64 array of shape (n,)
        ``(y - low) / (high - low)``.
    weight : float64 array of shape (n,) or None
        Weights of the rows; None when all count the same.
    low, high : float
        Bounds of the labels as the user gave them.
    kind : {"binary", "soft", "regression"}
        "binary" for labels 0 and 1, "soft" for labels in [0, 1], "regression" for all others and
        whenever bounds are given.
    observed : bool
        Whether the bounds are only the smallest and largest label seen, so that others may lie
        outside of them.
    """

    values: Float64
    weight: Float64 | None
    low: float
    high: float
    kind: Literal["binary", "soft", "regression"]
    observed: bool = False

    def scale(self, f: ArrayLike) -> Float64:
        """Map from the scale of the user's labels to [0, 1]."""
        return (np.asarray(f, dtype=np.float64) - self.low) / (self.high - self.low)

    def unscale(self, f: ArrayLike) -> Float64:
        """Map from [0, 1] to the scale of the user's labels."""
        return np.asarray(f, dtype=np.float64) * (self.high - self.low) + self.low


def read_labels(
    y: Any,
    *,
    n_rows: int,
    bounds: tuple[float, float] | None = None,
    sample_weight: Any = None,
) -> Labels:
    """Check labels and weights, and scale the labels to [0, 1].

    Without bounds, labels that are all 0 or 1 (or bool) are binary, also when only one of the two
    occurs; others in [0, 1] are soft; any others are regression labels whose bounds are the
    smallest and largest value seen, of all rows, also those of weight zero. A constant regression
    label c gets the bounds c and c + 1 (the next float64 where c + 1 rounds to c).

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, 1)
        Numbers or bool; no missing or infinite values.
    n_rows : int
        Rows of the table that the labels belong to.
    bounds : (float, float), optional
        Lowest and highest possible label; the labels are then regression labels.
    sample_weight : array-like of shape (n_rows,), optional
        Finite, not negative, not all zero.

    Returns
    -------
    Labels
        Scaled labels.

    Examples
    --------
    >>> read_labels([10, 30, 20], n_rows=3, bounds=(0, 40)).values
    array([0.25, 0.75, 0.5 ])
    >>> read_labels([True, False], n_rows=2).kind
    'binary'
    """
    values = read_values(y, n_rows)
    weight = None if sample_weight is None else _read_weight(sample_weight, n_rows)
    return scale_labels(values, weight, Seen.of(values), bounds)


@dataclass(frozen=True)
class Seen:
    """What the labels of all rows say about their kind.

    Parameters
    ----------
    low, high : float
        Smallest and largest label.
    binary : bool
        Whether all are 0 or 1.
    """

    low: float
    high: float
    binary: bool

    @classmethod
    def of(cls, values: Float64) -> Seen:
        """Look at some labels."""
        binary = bool(np.isin(values, (0.0, 1.0)).all())
        return cls(float(values.min()), float(values.max()), binary)

    def __or__(self, other: Seen) -> Seen:
        """Labels of both."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Seen(low, high, self.binary and other.binary)


def scale_labels(
    values: Float64,
    weight: Float64 | None,
    seen: Seen,
    bounds: tuple[float, float] | None = None,
) -> Labels:
    """Labels of some rows on the scale that the labels of all rows ask for."""
    if bounds is not None:
        low, high = check_range("bounds", bounds)
        _check_span(low, high)
        _refuse(
            (values < low) | (values > high),
            values,
            f"y must lie inside bounds=({low:g}, {high:g})",
            "Widen the bounds, or clip the labels if they are wrong.",
        )
        return Labels((values - low) / (high - low), weight, low, high, "regression")
    if seen.binary:
        return Labels(values, weight, 0.0, 1.0, "binary")
    low, high = seen.low, seen.high
    if low >= 0.0 and high <= 1.0:
        return Labels(values, weight, 0.0, 1.0, "soft")
    if low == high:
        # Adding 1 does nothing to a number above 2**53.
        high = max(low + 1.0, float(np.nextafter(low, np.inf)))
    _check_span(low, high)
    return Labels((values - low) / (high - low), weight, low, high, "regression", observed=True)


def read_values(y: Any, n_rows: int) -> Float64:
    """Labels as the user gave them, checked."""
    if n_rows == 0:
        raise ValueError("There are no rows: pass at least one row with its label.")
    return _finite_vector(y, "y", n_rows, "Drop these rows, or find their labels.")


def read_more_labels(
    like: Labels, y: Any, *, n_rows: int, sample_weight: Any = None, what: str = "y"
) -> Labels:
    """Check further labels and bring them to the scale of those that were read before.

    Parameters
    ----------
    like : Labels
        Labels read before; unless their bounds were only observed, the new ones must keep them.
    y : array-like of shape (n_rows,) or (n_rows, 1)
        Numbers or bool; no missing or infinite values.
    n_rows : int
        Rows of the table that the labels belong to.
    sample_weight : array-like of shape (n_rows,), optional
        Finite, not negative, not all zero.
    what : str
        Name of the labels in error messages.

    Returns
    -------
    Labels
        The new labels, scaled like the old ones.

    Examples
    --------
    >>> read_more_labels(read_labels([0, 1], n_rows=2), [0.5], n_rows=1).values
    array([0.5])
    """
    values = read_values(y, n_rows)
    if not like.observed:
        _refuse(
            (values < like.low) | (values > like.high),
            values,
            f"{what} must lie between {like.low:g} and {like.high:g}, like the fitted labels",
            "Pass labels of the same kind.",
        )
    weight = None if sample_weight is None else _read_weight(sample_weight, n_rows)
    return replace(like, values=like.scale(values), weight=weight)


def read_scores(scores: Any, *, n_rows: int, probability: bool) -> Float64:
    """Check the scores of a base model.

    Parameters
    ----------
    scores : array-like of shape (n_rows,) or (n_rows, 1)
        Finite numbers.
    n_rows : int
        Rows of the table that the scores belong to.
    probability : bool
        Whether the scores must lie in [0, 1].

    Returns
    -------
    float64 array of shape (n_rows,)
        The scores.

    Examples
    --------
    >>> read_scores([[0.25], [0.5]], n_rows=2, probability=True)
    array([0.25, 0.5 ])
    """
    if n_rows == 0:
        raise ValueError("There are no rows: pass at least one row with its score.")
    values = _finite_vector(scores, "scores", n_rows, "Scores must be finite numbers.")
    if probability:
        _refuse(
            (values < 0.0) | (values > 1.0),
            values,
            "scores must be probabilities in [0, 1]",
            'If they are margins or log-odds, tell fit with base_link="logit". If they are '
            "predictions of a regressor, cut them: pass a function such as lambda X: "
            "numpy.clip(model.predict(X), 0, 1).",
        )
    return values


def _read_weight(sample_weight: Any, n_rows: int) -> Float64:
    weight = read_some_weights(sample_weight, n_rows)
    if not weight.any():
        raise ValueError(ALL_WEIGHTS_ZERO)
    return weight


def read_some_weights(sample_weight: Any, n_rows: int) -> Float64:
    """Weights of some of the rows, checked; unlike those of all rows they may all be zero."""
    weight = _finite_vector(
        sample_weight, "sample_weight", n_rows, "Use weight 0 for rows that are not to count."
    )
    _refuse(weight < 0.0, weight, "sample_weight must not be negative", "Use 0 to leave a row out.")
    return weight


def _check_span(low: float, high: float) -> None:
    if not np.isfinite(high - low):
        raise ValueError(
            f"The labels span {low:g} to {high:g}, more than float64 can hold: rescale them."
        )


def _finite_vector(data: Any, name: str, n_rows: int, advice: str) -> Float64:
    """Convert to n_rows finite float64 numbers, never the caller's own array."""
    encode = (
        "Encode them as 0 and 1, for example y = (y == 'the positive label').astype(int)."
        if name == "y"
        else "Convert it to numbers."
    )
    values = to_floats(_vector(data, name, n_rows), name, encode)
    _refuse(~np.isfinite(values), values, f"{name} must not be missing or infinite", advice)
    return values


def _vector(data: Any, name: str, n_rows: int) -> NDArray[Any]:
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


def _refuse(bad: NDArray[np.bool_], values: Float64, rule: str, advice: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{rule}: {int(bad.sum())} of {len(values)} entries break this rule, the first is "
            f"{values[row]!s} in row {row} (from 0). {advice}"
        )
