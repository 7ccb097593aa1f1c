"""Labels, weights and scores at the door: checked once, then plain float64 vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recalibrate.data.bounds import (
    NO_BOUNDS,
    UNIT,
    Bounds,
    check_bounds,
    label_range,
    refuse_outside,
)
from recalibrate.data.classes import (
    MOST_CLASSES,
    NOTHING_KNOWN,
    Known,
    find_classes,
    one_hot,
    sort_classes,
)
from recalibrate.data.scores import checked_vector, one_per_row, refuse
from recalibrate.data.vectors import Float64, to_array, to_floats
from recalibrate.data.weights import (
    by_exposure,
    per_exposure,
    read_exposure,
    read_weight,
    require_exposure,
)
from recalibrate.support.notices import warn_user


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
    weight = None if sample_weight is None else read_weight(sample_weight, n_rows)
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
        bounds = check_bounds(bounds, positive=known.positive)
        refuse_outside(values, bounds, above_zero=known.above_zero)
        low, high = label_range((seen.low, seen.high), bounds, positive=known.positive)
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
    low, high = label_range((low, high), NO_BOUNDS)
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
    refuse(
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
    array = one_per_row(y, "y", n_rows)
    if array.dtype.kind == "O" and all(isinstance(value, bool | np.bool_) for value in array):
        array = array.astype(np.bool_)
    if array.dtype.kind == "b":
        return array.copy()
    if array.dtype.kind in "OUT":
        import pandas as pd

        texts = np.array([isinstance(value, str) for value in array])
        missing = np.asarray(pd.isna(array))
        if (texts | missing).all() and texts.any():
            refuse(missing, array, "y must not be missing", "Drop these rows, or find labels.")
            return np.array([str(value) for value in array], dtype=object)
        if texts.any():
            raise ValueError(
                f"y mixes text, such as {str(array[texts.argmax()])!r}, with other values, such as "
                f"{array[(~texts).argmax()]!r}: pass labels of one kind."
            )
    return checked_vector(array, "y", n_rows, "Drop these rows, or find their labels.")


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
    weight = None if sample_weight is None else read_weight(sample_weight, n_rows)
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
    refuse_outside(values, like.bounds, what=what, advice="Pass labels like the fitted ones.")
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
