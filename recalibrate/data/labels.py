"""Labels, weights and scores as users give them: checked once, then plain float64 vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import frexp
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recalibrate.data.classes import (
    MOST_CLASSES,
    NOTHING_KNOWN,
    Known,
    find_classes,
    one_hot,
    sort_classes,
)
from recalibrate.support.checks import check_number, check_range
from recalibrate.support.notices import listed, warn_user

# --- Vectors of numbers: one conversion to float64, for labels, scores and measures -------------


Float64 = NDArray[np.float64]


def to_array(data: Any, name: str) -> NDArray[Any]:
    """Array of the data as they are; masks and ragged lists are refused."""
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: pass its valid entries, or .filled(...).")
    try:
        return np.asarray(data)
    except ValueError as error:
        raise ValueError(f"{name} must be 1-d, but its entries differ in length.") from error


def to_floats(array: NDArray[Any], name: str, advice: str = "Convert it to numbers.") -> Float64:
    """Convert a vector of numbers or bool to new float64, with NaN for missing; refuse all else.

    The advice is for those who pass text.

    Examples
    --------
    >>> to_floats(np.array([True, None, 2], dtype=object), "y")
    array([ 1., nan,  2.])
    """
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    texts = [str(v) for v in array if isinstance(v, str)] if array.dtype.kind in "OUT" else []
    if texts:
        shown = listed(sorted(set(texts)), 5)
        raise ValueError(f"{name} holds text, not numbers: {shown}. {advice}")
    if array.dtype.kind != "O":
        raise ValueError(f"{name} holds {array.dtype} values: pass numbers.")
    import pandas as pd

    values = np.full(len(array), np.nan)
    present = ~pd.isna(array)
    types: set[Any] = set(map(type, array[present]))
    for type_ in types:
        # numpy counts timedelta64 among the integers, and would cast datetime64 to a number
        if not issubclass(type_, Real | np.bool_ | Decimal) or issubclass(type_, np.timedelta64):
            raise ValueError(f"{name} holds {type_.__name__} values: pass numbers.")
    try:
        values[present] = array[present].astype(np.float64)
    except OverflowError as error:
        raise ValueError(f"{name} must be numbers that float64 can hold: {error}.") from error
    return values


def finite_vector(data: Any, name: str, n_rows: int | None = None) -> Float64:
    """Check a vector of a measure: shape (n,), not empty, finite, as long as f when that is known.

    Examples
    --------
    >>> finite_vector([1, 0, True], "y", 3)
    array([1., 0., 1.])
    """
    array = to_array(data, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got {array.shape}")
    if not len(array):
        raise ValueError(f"{name} is empty; at least one row is needed")
    if n_rows is not None and len(array) != n_rows:
        raise ValueError(f"{name} has {len(array)} rows, but f has {n_rows}")
    vector = to_floats(array, name, f"Convert it: {name} must hold numbers.")
    bad = np.flatnonzero(~np.isfinite(vector))
    if len(bad):
        raise ValueError(
            f"{name} must be finite; {len(bad)} values are not, the first is {vector[bad[0]]} "
            f"in row {bad[0]}"
        )
    return vector


def read_weight_vector(weight: Any, n_rows: int) -> Float64:
    """Check row weights: one per row, finite, not negative, not all zero.

    Examples
    --------
    >>> _read_weight([1, 0, 2.5], 3)
    array([1. , 0. , 2.5])
    """
    array = to_array(weight, "weight")
    if array.shape != (n_rows,):
        raise ValueError(f"weights must have shape ({n_rows},), got {array.shape}")
    values = to_floats(array, "weight", "Convert them: weights must be numbers.")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        raise ValueError(
            f"weights must be finite and not negative; {len(bad)} are not, the first is "
            f"{values[bad[0]]} in row {bad[0]}"
        )
    if not values.any():
        raise ValueError("all weights are zero; give at least one row a positive weight")
    return values


# --- How much rows count: weights, and exposure, which makes rates of totals --------------------


ALL_WEIGHTS_ZERO = "sample_weight is zero for every row: at least one row must count."


def _read_weight(sample_weight: Any, n_rows: int) -> Float64:
    """Weights of all rows, checked."""
    weight = read_some_weights(sample_weight, n_rows)
    if not weight.any():
        raise ValueError(ALL_WEIGHTS_ZERO)
    return weight


def read_some_weights(sample_weight: Any, n_rows: int) -> Float64:
    """Weights of some of the rows, checked; unlike those of all rows they may all be zero."""
    weight = _checked_vector(
        sample_weight, "sample_weight", n_rows, "Use weight 0 for rows that are not to count."
    )
    _refuse(weight < 0.0, weight, "sample_weight must not be negative", "Use 0 to leave a row out.")
    return weight


def read_exposure(exposure: Any, n_rows: int) -> Float64:
    """Exposures of the rows, checked."""
    advice = "Leave rows without exposure out: they say nothing about a rate."
    found = _checked_vector(exposure, "exposure", n_rows, advice)
    _refuse(found <= 0.0, found, "exposure must be above zero", advice)
    return found


def require_exposure(exposed: bool, exposure: Any) -> None:
    """Refuse labels without exposure beside predictions that are rates: they are totals then.

    Compared with rates as they are, totals look wrong in every group.
    """
    if exposed and exposure is None:
        raise ValueError(
            "The model was fitted with exposure=, so it predicts rates: y per unit of exposure. "
            "Pass exposure= here, too (on the command line --exposure), with totals as y: rates "
            "times exposure, if y holds rates."
        )


def per_exposure(values: NDArray[Any], exposure: Float64) -> Float64:
    """Rates: totals by exposure."""
    if values.dtype.kind == "O":
        raise ValueError("exposure= needs totals (counts, amounts) as labels, but y holds text.")
    return np.asarray(values / exposure, dtype=np.float64)


def by_exposure(weight: Float64 | None, exposure: Float64) -> Float64:
    """Weights of rows that count as often as they have exposure."""
    return exposure if weight is None else weight * exposure


# --- Bounds of labels: what is possible, and the range that labels are scaled by ----------------


Bounds = tuple[float | None, float | None]
"""Smallest and largest possible label; None where there is none, or none is known."""
UNIT: Bounds = (0.0, 1.0)
NO_BOUNDS: Bounds = (None, None)


def _check_bounds(bounds: Any, *, positive: bool = False) -> Bounds:
    """Bounds as the user gave them; None is no bound. Counts, amounts and rates have 0 at least.

    Examples
    --------
    >>> _check_bounds((0, None)), _check_bounds(None, positive=True)
    ((0.0, None), (0.0, None))
    """
    if bounds is None:
        return (0.0, None) if positive else NO_BOUNDS
    try:
        low, high = bounds
    except (TypeError, ValueError):
        low, high = check_range("bounds", bounds)  # says what is wrong
    if low is not None and high is not None:
        low, high = check_range("bounds", bounds)
    else:
        check_number("the lower bound", low)
        check_number("the upper bound", high)
        low, high = (None if bound is None else float(bound) for bound in (low, high))
    if positive:
        low = 0.0 if low is None else low
        if low < 0:
            raise ValueError(
                f"bounds={bounds!r} allow negative labels, which a log link cannot predict. Pass "
                "bounds=(0, None), or link='identity'."
            )
    return low, high


def _refuse_outside(
    values: NDArray[Any],
    bounds: Bounds,
    *,
    above_zero: bool = False,
    what: str = "y",
    advice: str = "Widen the bounds, or clip the labels if they are wrong.",
) -> None:
    """Refuse labels that are not possible."""
    if values.dtype.kind == "O":
        raise ValueError(f"{what} holds text, where numbers are expected.")
    if above_zero:
        more = "A gamma deviance needs that; for labels with zeros pass link='log-tweedie-1.5'."
        _refuse(values <= 0, values, f"{what} must be above zero", more)
    low, high = (-np.inf if bounds[0] is None else bounds[0]), bounds[1]
    high = np.inf if high is None else high
    shown = ", ".join("None" if bound is None else f"{bound:g}" for bound in bounds)
    _refuse(
        (values < low) | (values > high),
        values,
        f"{what} must lie inside bounds=({shown})",
        advice,
    )


def _label_range(
    seen: tuple[float, float], bounds: Bounds, *, positive: bool = False
) -> tuple[float, float]:
    """What 0 and 1 stand for: bounds that are known, and otherwise what was seen."""
    if positive:  # a power of two changes no digit of a label
        return 0.0, 2.0 ** frexp(seen[1])[1] if seen[1] > 0 else 1.0
    low, high = (a if b is None else b for a, b in zip(seen, bounds, strict=True))
    if low >= high:
        # Adding 1 does nothing to a number above 2**53.
        one = max(low + 1.0, float(np.nextafter(low, np.inf)))
        low, high = (low, one) if bounds[1] is None else (high - (one - low), high)
    _check_span(low, high)
    return low, high


def _check_span(low: float, high: float) -> None:
    if not np.isfinite(high - low):
        raise ValueError(
            f"The labels span {low:g} to {high:g}, more than float64 can hold: rescale them."
        )


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels scaled to [0, 1], their weights, and the way back.

    Parameters
    ----------
    values : float64 array of shape (n,), or (n, K) for K > 2 classes
        ``(y - low) / (high - low)``; of classes the share of every row that is of each.
    weight : float64 array of shape (n,) or None
        Weights of the rows; None when all count the same.
    low, high : float
        What 0 and 1 stand for: the bounds of the labels, if these are known; otherwise the smallest
        and the largest label seen. Of counts, amounts and rates 0 and a power of two.
    kind : {"binary", "soft", "regression", "classes"}
        "binary" for labels 0 and 1 and for two classes, "soft" for labels in [0, 1], "classes" for
        more than two classes, "regression" for all others and whenever bounds are given.
    bounds : (float or None, float or None)
        Smallest and largest possible label, which predictions never leave; None where it is not
        known.
    classes : tuple
        The classes that labels name, in the order of the base's scores; of two the one that counts
        as 1 last. Empty where labels are numbers. Predictions have them sorted, see ``columns``.
    chosen : label or None
        Where one class was chosen against the rest: that class.
    exposed : bool
        Whether labels are rates: totals per unit of an exposure.
    """

    values: Float64
    weight: Float64 | None
    low: float
    high: float
    kind: Literal["binary", "soft", "regression", "classes"]
    bounds: Bounds = UNIT
    classes: tuple[Any, ...] = ()
    chosen: Any = None
    exposed: bool = False

    @property
    def outputs(self) -> int:
        """Numbers that a prediction consists of: one, or one for every class."""
        return len(self.classes) if self.kind == "classes" else 1

    @property
    def columns(self) -> tuple[Any, ...]:
        """The classes in the order in which predictions have them: sorted, as scikit-learn expects.

        Its scorers take the columns of ``predict_proba`` to be those of the sorted labels.
        """
        return sort_classes(self.classes)

    def in_columns(self, values: Float64) -> Float64:
        """Numbers with a column for every one of ``classes``, in the order of ``columns``."""
        places = [self.classes.index(label) for label in self.columns]
        return values if places == sorted(places) else values[:, places]

    @property
    def strata(self) -> Float64:
        """What rows are told apart by when folds are dealt: labels, or numbers of classes."""
        if self.kind != "classes":
            return self.values
        return np.asarray(self.values.argmax(axis=1), dtype=np.float64)

    @property
    def known(self) -> Known:
        """How further labels of the same kind are to be read."""
        numbered = (0, 1) if self.kind == "binary" else None
        return Known(self.classes or numbered, self.outputs, self.chosen)

    @property
    def audited(self) -> Known:
        """How labels are to be read that predictions are compared with."""
        known = self.known
        return replace(known, classes=self.columns) if self.kind == "classes" else known

    @property
    def observed(self) -> bool:
        """Whether a bound is only what was seen, so that labels may lie outside."""
        return None in self.bounds

    @property
    def span(self) -> float:
        """The unit of the scaled labels, in the user's own."""
        return self.high - self.low

    def within(self, means: Float64) -> Float64:
        """Predictions, cut where they leave the bounds."""
        low, high = self.bounds
        return means if self.bounds == (None, None) else np.clip(means, low, high)

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
    bounds: Bounds | None = None,
    sample_weight: Any = None,
    exposure: Any = None,
    known: Known = NOTHING_KNOWN,
) -> Labels:
    """Check labels and weights, and scale the labels to [0, 1].

    Without bounds, labels that are all 0 or 1 (or bool) are binary, also when only one of the two
    occurs; others in [0, 1] are soft; any others are regression labels whose bounds are the
    smallest and largest value seen, of all rows, also those of weight zero. A constant regression
    label c gets the bounds c and c + 1 (the next float64 where c + 1 rounds to c). Text, and all
    labels of a classifier, name classes, see ``data.classes``.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, 1); (n_rows, K) for shares of K classes
        Numbers, bool or text; no missing or infinite values.
    n_rows : int
        Rows of the table that the labels belong to.
    bounds : (float or None, float or None), optional
        Lowest and highest possible label; the labels are then regression labels.
    sample_weight : array-like of shape (n_rows,), optional
        Finite, not negative, not all zero.
    exposure : array-like of shape (n_rows,), optional
        What the labels are totals over: they become rates, and rows count as often as they have
        exposure. Finite and above zero.
    known : Known
        What the base model tells about its classes.

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
    >>> read_labels(["yes", "no", "yes"], n_rows=3).values
    array([1., 0., 1.])
    >>> rates = read_labels([3, 1], n_rows=2, exposure=[2.0, 0.5], known=Known(positive=True))
    >>> rates.unscale(rates.values), rates.weight
    (array([1.5, 2. ]), array([2. , 0.5]))
    """
    weight = None if sample_weight is None else _read_weight(sample_weight, n_rows)
    if known.outputs > 1:
        shares = _read_shares(y, n_rows, known)
        if shares is not None:
            classes = tuple(known.classes or range(known.outputs))
            return Labels(shares, weight, 0.0, 1.0, "classes", classes=classes)
    values = read_values(y, n_rows)
    if exposure is not None:
        share = read_exposure(exposure, n_rows)
        values, weight = per_exposure(values, share), by_exposure(weight, share)
    labels = scale_labels(values, weight, Seen.of(values), bounds, known)
    return labels if exposure is None else replace(labels, exposed=True)


@dataclass(frozen=True)
class Seen:
    """What the labels of all rows say about their kind.

    Parameters
    ----------
    low, high : float
        Smallest and largest label; 0 and 1 for text.
    binary : bool
        Whether all are 0 or 1.
    distinct : tuple or None
        The different labels in order; None where they are too many for classes.
    """

    low: float
    high: float
    binary: bool
    distinct: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, values: NDArray[Any]) -> Seen:
        """Look at some labels."""
        if values.dtype.kind in "Ob":
            text, found = values.dtype.kind == "O", tuple(sorted(set(values.tolist())))
            return cls(0.0, 1.0, not text, found)
        binary = bool(np.isin(values, (0.0, 1.0)).all())
        # Plus zero: which of two zeros is the smallest is up to the order.
        low, high = float(values.min()) + 0.0, float(values.max()) + 0.0
        return cls(low, high, binary, _distinct(values, binary))

    def __or__(self, other: Seen) -> Seen:
        """Labels of both."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        distinct = None
        if self.distinct is not None and other.distinct is not None:
            both = tuple(sorted({*self.distinct, *other.distinct}))
            distinct = both if len(both) <= MOST_CLASSES else None
        return Seen(low, high, self.binary and other.binary, distinct)


def _distinct(values: Float64, binary: bool) -> tuple[Any, ...] | None:
    """The different labels; whole numbers as such."""
    if binary:
        found = [v for v in (0.0, 1.0) if (values == v).any()]
    else:
        some = np.unique(values[: 2 * MOST_CLASSES])
        found = [] if len(some) > MOST_CLASSES else np.unique(values).tolist()
        if not 0 < len(found) <= MOST_CLASSES:
            return None
    return tuple(int(v) if v.is_integer() else v for v in found)


def scale_labels(
    values: NDArray[Any],
    weight: Float64 | None,
    seen: Seen,
    bounds: Bounds | None = None,
    known: Known = NOTHING_KNOWN,
) -> Labels:
    """Labels of some rows on the scale that the labels of all rows ask for."""
    if bounds is not None or known.positive:
        bounds = _check_bounds(bounds, positive=known.positive)
        _refuse_outside(values, bounds, above_zero=known.above_zero)
        low, high = _label_range((seen.low, seen.high), bounds, positive=known.positive)
        return Labels((values - low) / (high - low), weight, low, high, "regression", bounds)
    coding = find_classes(seen.distinct, known, shares=seen.low >= 0.0 and seen.high <= 1.0)
    if coding is not None:
        codes, classes = coding.of(values), coding.classes
        if known.outputs > 1:
            shares = one_hot(codes, len(classes))
            return Labels(shares, weight, 0.0, 1.0, "classes", classes=classes)
        return Labels(
            codes.astype(np.float64),
            weight,
            0.0,
            1.0,
            "binary",
            classes=classes,
            chosen=coding.chosen,
        )
    values = values.astype(np.float64)
    if seen.binary:
        return Labels(values, weight, 0.0, 1.0, "binary")
    low, high = seen.low, seen.high
    if low >= 0.0 and high <= 1.0:
        return Labels(values, weight, 0.0, 1.0, "soft")
    low, high = _label_range((low, high), NO_BOUNDS)
    return Labels((values - low) / (high - low), weight, low, high, "regression", NO_BOUNDS)


def _read_shares(y: Any, n_rows: int, known: Known) -> Float64 | None:
    """Soft labels, a column per class; None for one label per row."""
    array = to_array(y, "y")
    if array.ndim != 2 or array.shape[1] == 1:
        return None
    if array.shape != (n_rows, known.outputs):
        raise ValueError(
            f"y has shape {array.shape}, but there are {n_rows} rows and {known.outputs} classes: "
            "pass the class of every row, or a share for every row and class."
        )
    shares = np.stack([to_floats(column, "y") for column in array.T]).T
    bad = ~(np.isfinite(shares) & (shares >= 0)).all(axis=1)
    bad |= np.abs(shares.sum(axis=1) - 1.0) > 1e-6
    _refuse(
        bad,
        np.asarray(shares.sum(axis=1)),
        "shares of classes must not be negative and sum to 1 in every row",
        "The number shown is the sum.",
    )
    return np.asfortranarray(shares)


def warn_if_one_class(labels: Labels) -> None:
    """Rows of a single class say nothing about what tells classes apart."""
    if labels.kind == "binary" and (labels.values == labels.values[0]).all():
        which = int(labels.values[0])
        name = labels.classes[which] if labels.classes and labels.chosen is None else which
        warn_user(
            f"all {len(labels.values)} labels are {name!r}, of one class only: pass rows "
            "of both classes"
        )


def read_values(y: Any, n_rows: int) -> NDArray[Any]:
    """Labels as the user gave them, checked: float64, bool, or objects where they are text."""
    if n_rows == 0:
        raise ValueError("There are no rows: pass at least one row with its label.")
    array = _one_per_row(y, "y", n_rows)
    if array.dtype.kind == "O" and all(isinstance(value, bool | np.bool_) for value in array):
        array = array.astype(np.bool_)
    if array.dtype.kind == "b":
        return array.copy()
    if array.dtype.kind in "OUT":
        import pandas as pd

        texts = np.array([isinstance(value, str) for value in array])
        missing = np.asarray(pd.isna(array))
        if (texts | missing).all() and texts.any():
            _refuse(missing, array, "y must not be missing", "Drop these rows, or find labels.")
            return np.array([str(value) for value in array], dtype=object)
        if texts.any():
            raise ValueError(
                f"y mixes text, such as {str(array[texts.argmax()])!r}, with other values, such as "
                f"{array[(~texts).argmax()]!r}: pass labels of one kind."
            )
    return _checked_vector(array, "y", n_rows, "Drop these rows, or find their labels.")


def read_more_labels(
    like: Labels,
    y: Any,
    *,
    n_rows: int,
    sample_weight: Any = None,
    exposure: Any = None,
    what: str = "y",
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
    exposure : array-like of shape (n_rows,), optional
        What the labels are totals over.
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
    weight = None if sample_weight is None else _read_weight(sample_weight, n_rows)
    if like.classes:
        found = read_labels(y, n_rows=n_rows, known=like.known)
        return replace(like, values=found.values, weight=weight)
    values = read_values(y, n_rows)
    if values.dtype.kind == "O":
        raise ValueError(f"{what} holds text, but the fitted labels were numbers: pass numbers.")
    values = values.astype(np.float64)
    require_exposure(like.exposed, exposure)
    if exposure is not None:
        share = read_exposure(exposure, n_rows)
        values, weight = per_exposure(values, share), by_exposure(weight, share)
    _refuse_outside(values, like.bounds, what=what, advice="Pass labels like the fitted ones.")
    return replace(like, values=like.scale(values), weight=weight)


def check_aligned(X: Any, **others: Any) -> None:
    """Refuse a Series whose index has the rows of X in another order: rows go by position."""
    rows = getattr(X, "index", None)
    if rows is None or callable(rows):
        return
    for name, given in others.items():
        index = getattr(given, "index", None)
        if index is None or callable(index) or len(index) != len(rows) or rows.equals(index):
            continue
        if rows.is_unique and rows.isin(index).all():
            raise ValueError(
                f"The index of {name} holds the same rows as that of X in another order, but rows "
                f"are matched by their position. Pass {name}.loc[X.index], or {name}.to_numpy() "
                "if the order is right as it is."
            )


def check_squares(labels: Labels) -> None:
    """Refuse labels whose squared errors no number can hold."""
    span = labels.high - labels.low
    if not np.isfinite(span * span):
        raise ValueError(
            f"The labels span {labels.low:g} to {labels.high:g}: squared errors are more than "
            "float64 can hold. Rescale labels and predictions."
        )


# --- Scores of base models, and vectors with an entry per row: checked once ---------------------


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
    values = _checked_vector(scores, "scores", n_rows, "Scores must be finite numbers.")
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


def _read_class_scores(
    array: NDArray[Any], n_rows: int, probability: bool, outputs: int | None
) -> Float64 | None:
    """Scores of classes, checked; None for two columns that are no probabilities."""
    columns = [
        _checked_vector(column, "scores", n_rows, "Give finite numbers.") for column in array.T
    ]
    values = np.asfortranarray(np.stack(columns).T)
    sums = values.sum(axis=1)
    bad = (values < 0.0).any(axis=1) | (np.abs(sums - 1.0) > SUM_TOLERANCE)
    if len(columns) == 2:
        return None if bad.any() else values[:, 1]
    if outputs is not None and len(columns) != outputs:
        raise ValueError(f"scores have {len(columns)} columns, but there are {outputs} classes")
    if probability:
        _refuse(
            bad,
            sums,
            "scores of classes must be probabilities that sum to 1 in every row",
            'The number shown is the sum. If they are logits, tell fit with base_link="logit".',
        )
    return values


def _checked_vector(data: Any, name: str, n_rows: int, advice: str) -> Float64:
    """Convert to n_rows finite float64 numbers, never the caller's own array."""
    encode = (
        "Encode them as 0 and 1, for example y = (y == 'the positive label').astype(int)."
        if name == "y"
        else "Convert it to numbers."
    )
    values = to_floats(_one_per_row(data, name, n_rows), name, encode)
    _refuse(~np.isfinite(values), values, f"{name} must not be missing or infinite", advice)
    return values


def _one_per_row(data: Any, name: str, n_rows: int) -> NDArray[Any]:
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


def _refuse(bad: NDArray[np.bool_], values: Float64, rule: str, advice: str) -> None:
    """Raise an error about entries that break a rule, if there are any."""
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{rule}: {int(bad.sum())} of {len(values)} entries break this rule, the first is "
            f"{values[row]!s} in row {row} (from 0). {advice}"
        )
