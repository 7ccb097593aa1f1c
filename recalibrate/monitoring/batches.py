"""One batch of the monitor: rows, scores, labels, weights and times become checked arrays."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.predictions import count_rows
from recalibrate.bases.protocol import ScoreColumn, as_base, predicted_mean, takes_base
from recalibrate.bases.wrappers import select_columns
from recalibrate.data.classes import Known
from recalibrate.data.labels import (
    Float64,
    Seen,
    by_exposure,
    per_exposure,
    read_exposure,
    read_labels,
    read_scores,
    read_some_weights,
    read_values,
    scale_labels,
    to_array,
    to_floats,
)
from recalibrate.support.notices import listed, warn_user

# --- When batches happened: dates or numbers as users have them, as float64 ---------------------


TimeKind = Literal["batch", "number", "date"]
"""What times are: the count of batches where none is given, numbers, or dates and times."""

KINDS = get_args(TimeKind)
_DAY = 86_400.0


def read_time(time: Any, n_rows: int) -> tuple[Float64, TimeKind]:
    """Times of the rows as numbers (dates: seconds since 1970, without a zone in UTC).

    Examples
    --------
    >>> read_time("2024-01-02", 2)
    (array([1.7041536e+09, 1.7041536e+09]), 'date')
    >>> read_time([3, 5.5], 2)
    (array([3. , 5.5]), 'number')
    """
    single = np.ndim(time) == 0
    values = to_array([time] if single else time, "time")
    if values.shape != (1 if single else n_rows,):
        raise ValueError(
            f"time has shape {values.shape}, but there are {n_rows} rows: give one time for the "
            "batch, or one for every row."
        )
    kind: TimeKind = "number"
    if values.dtype.kind in "MOUT" and not _is_number(values[0]):
        found, kind = _read_dates(values), "date"
    else:
        found = to_floats(values, "time", "Give dates or numbers.")
    bad = ~np.isfinite(found)
    if bad.any():
        raise ValueError(
            f"time is missing or infinite for {int(bad.sum())} rows, the first is row "
            f"{int(bad.argmax())} (from 0): give the time of every row."
        )
    return (np.repeat(found, n_rows) if single else found), kind


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, np.timedelta64)


def _read_dates(values: Any) -> Float64:
    import pandas as pd

    try:
        dates = pd.DatetimeIndex(pd.to_datetime(pd.Series(values), utc=True, format="ISO8601"))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"time must be dates (such as '2024-05-31'), or numbers; got {values[0]!r}: {error}"
        ) from error
    micros = dates.as_unit("us").asi8
    return np.where(dates.isna(), np.nan, micros / 1e6)


def show_time(value: float, kind: TimeKind) -> str:
    """A time as readers want it.

    Examples
    --------
    >>> show_time(1704153600.0, "date"), show_time(3.0, "number"), show_time(2.0, "batch")
    ('2024-01-02', '3', 'batch 2')
    """
    if kind == "batch":
        return f"batch {value:.0f}"
    if kind == "number":
        return f"{value:.10g}"
    moment = datetime.fromtimestamp(value, UTC)
    if value % _DAY == 0:
        return date(moment.year, moment.month, moment.day).isoformat()
    return moment.strftime("%Y-%m-%d %H:%M")


COMPARED_ROWS = 1000
"""Rows of a batch that tell whether another can be equal to it by chance: enough for any batch."""

LOG_COINCIDENCE = float(np.log(1e-9))
"""Chance of equal batches below which they are taken for the same one."""


@dataclass(frozen=True)
class Scale:
    """What labels and scores are.

    Attributes
    ----------
    low, high : float
        Bounds of the labels; 0 and 1 for probabilities.
    classes : tuple
        Labels of the classes; of two the second counts as 1. Empty where labels are numbers.
    chosen : label or None
        The one class that scores are for, of more than two.
    exposed : bool
        Whether scores are rates, and labels are totals over an exposure.
    """

    low: float = 0.0
    high: float = 1.0
    classes: tuple[Any, ...] = ()
    chosen: Any = None
    exposed: bool = False

    @property
    def span(self) -> float:
        return self.high - self.low

    @property
    def n_scores(self) -> int:
        """Columns of scores: one, or one for every class of more than two."""
        return len(self.classes) if len(self.classes) > 2 and self.chosen is None else 1

    @property
    def probabilities(self) -> bool:
        return (self.low, self.high) == (0.0, 1.0)


def rows_of(X: Any, scores: Any, y: Any) -> int:
    """Rows of a batch; none is an error."""
    given = X if X is not None else scores
    n_rows = count_rows(given, y)
    if n_rows == 0:
        raise ValueError("The batch has no rows; nothing was added. Leave empty batches out.")
    return n_rows


def read_predictions(
    model: Any, X: Any, base: Any, Z: Any, scores: Any, scale: Scale, n_rows: int
) -> Float64:
    """Scores on [0, 1], shape (n, classes): as given, else the model's."""
    raw = _given_or_predicted(model, X, base, Z, scores, scale)
    values = to_array(raw, "scores")
    if scale.n_scores > 1:
        if values.shape != (n_rows, scale.n_scores):
            raise ValueError(
                f"scores must have one column for each of the {len(scale.classes)} classes "
                f"{listed(scale.classes, 5)} and {n_rows} rows, got shape {values.shape}."
            )
        columns = [_read(values[:, k], scale, n_rows) for k in range(values.shape[1])]
        return np.stack(columns, axis=1)
    if values.ndim == 2 and values.shape[1] == 2:  # a classifier's probabilities of 0 and 1
        values = values[:, 1]
    return _read(values, scale, n_rows)[:, None]


def _given_or_predicted(model: Any, X: Any, base: Any, Z: Any, scores: Any, scale: Scale) -> Any:
    if scores is not None:
        if base is not None:
            raise ValueError("give either scores= (predictions) or base= (scores of the base)")
        return scores
    if model is None:
        raise ValueError("This monitor has no model: pass the predictions as scores=.")
    if scale.n_scores > 1:
        if takes_base(model):
            return _by_class(model, model.predict_proba(X, base=base, Z=Z), scale)
        columns = getattr(model, "feature_names_in_", None)
        X = X if columns is None else select_columns(X, list(columns))
        return _by_class(model, model.predict_proba(X), scale)
    if takes_base(model):
        return model.predict(X, base=base, Z=Z)
    source = as_base(model)
    if isinstance(source, ScoreColumn):
        raise TypeError(
            "The model of a monitor is an array of scores, which belongs to one batch only: make "
            "the monitor with model=None, and pass scores= with every batch."
        )
    return predicted_mean(source, X)


def _by_class(model: Any, p: Any, scale: Scale) -> Any:
    """Probabilities of a model's classes in the order of the monitor's own."""
    own = np.asarray(getattr(model, "classes_", ())).tolist()
    if own == list(scale.classes) or set(own) != set(scale.classes):
        return p
    return np.asarray(p)[:, [own.index(label) for label in scale.classes]]


def _read(values: NDArray[Any], scale: Scale, n_rows: int) -> Float64:
    found = read_scores(values, n_rows=n_rows, probability=False)
    outside = (found < scale.low) | (found > scale.high)
    if outside.any():
        row = int(outside.argmax())
        count = f"{int(outside.sum())} of {n_rows} predictions are outside of "
        if scale.probabilities:
            raise ValueError(
                f"{count}[0, 1], the first is {found[row]} in row {row} (from 0). Turn log-odds "
                "into probabilities with 1 / (1 + exp(-score)), or give bounds= for a regression."
            )
        warn_user(f"{count}the bounds ({scale.low:g}, {scale.high:g}) and count as the nearer one.")
        found = np.clip(found, scale.low, scale.high)
    return (found - scale.low) / scale.span


def read_rates(y: Any, exposure: Any, sample_weight: Any, n_rows: int) -> tuple[Any, Any]:
    """Labels as rates, with the weights that rates have; both as given without exposure."""
    if exposure is None:
        return y, sample_weight
    share = read_exposure(exposure, n_rows)
    weight = None if sample_weight is None else read_some_weights(sample_weight, n_rows)
    y = None if y is None else per_exposure(read_values(y, n_rows), share)
    return y, by_exposure(weight, share)


def read_targets(y: Any, scale: Scale, n_rows: int) -> Float64:
    """Labels on [0, 1], or indicators of the classes; shape (n, scores)."""
    if scale.classes:
        known = Known(scale.classes, scale.n_scores, scale.chosen)
        return read_labels(y, n_rows=n_rows, known=known).values.reshape(n_rows, -1)
    values = read_values(y, n_rows)
    if values.dtype.kind == "O":
        raise ValueError(
            f"y holds text: {listed(sorted(set(values)), 5)}. Make the monitor with classes=, of "
            "two the one that counts as 1 last, or pass numbers."
        )
    bounds = (scale.low, scale.high)
    return scale_labels(values * 1.0, None, Seen.of(values), bounds).values[:, None]


def read_weights(sample_weight: Any, n_rows: int, most: float | None) -> tuple[Float64, float]:
    """Weights divided by the largest possible one, and that."""
    if sample_weight is None:
        heaviest = most or 1.0
        return np.full(n_rows, 1.0 / heaviest), heaviest
    weight = read_some_weights(sample_weight, n_rows)
    if most is None:  # twice the largest, as a margin for the batches to come
        most = 2.0 * float(weight.max()) or 1.0
    if (weight > most).any():
        raise ValueError(
            f"sample_weight has a weight of {weight.max():g}, but this monitor counts on weights "
            f"of at most {most:g}. The largest possible weight has to be known in advance: start a "
            "monitor with max_weight=."
        )
    return weight / most, most


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that are checked.

    Attributes
    ----------
    codes : ndarray of int32, shape (n, terms)
        Groups by term.
    scores : ndarray of float64, shape (n, classes)
    target : ndarray of float64, shape (n, classes), or None
        None without labels.
    weight : ndarray of float64, shape (n,)
        Divided by the heaviest possible.
    time : ndarray of float64, shape (n,)
    kind : {"batch", "number", "date"}
    heaviest : float
    """

    codes: NDArray[np.int32]
    scores: Float64
    target: Float64 | None
    weight: Float64
    time: Float64
    kind: TimeKind
    heaviest: float

    def digest(self) -> str:
        """Hash of the rows, to know them again, in whatever order.

        The same rows under another time are the same rows, unless they are so few or so alike
        that other rows may well be equal to them.
        """
        rows = self._sorted_rows()
        if self.kind != "batch" and _log_chance(rows) > LOG_COINCIDENCE:
            rows = self._sorted_rows(self.time)
        found = hashlib.sha256(b"-" if self.target is None else b"")
        found.update(rows.tobytes())
        return found.hexdigest()[:16]

    def _sorted_rows(self, *more: Float64) -> NDArray[np.void]:
        """The bytes of every row, in an order of their own."""
        codes = self.codes.astype(np.uint8) if self.codes.max() < 256 else self.codes
        columns = [codes, self.scores, self.weight, self.target, *more]
        n_rows = len(self.scores)
        content = np.hstack(
            [
                np.ascontiguousarray(own).reshape(n_rows, -1).view(np.uint8)
                for own in columns
                if own is not None
            ]
        )
        return np.sort(content.view(f"V{content.shape[1]}")[:, 0])


def _log_chance(rows: NDArray[np.void]) -> float:
    """Logarithm of the chance that as many rows, drawn like these, are the same in some order.

    At most that of the most likely numbers of rows of every kind, which those seen are taken for.
    """
    some = rows[:: -(-len(rows) // COMPARED_ROWS)]
    _, counts = np.unique(some, return_counts=True)
    orders = math.lgamma(len(some) + 1) - sum(math.lgamma(count + 1) for count in counts)
    return orders + float((counts * np.log(counts / len(some))).sum())
