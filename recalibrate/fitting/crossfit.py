"""Cross-fitting: honest scores for the rows that train the base model itself.

An estimator that is not fitted yet may be trained and calibrated on the same rows, if every row
is scored by a copy that was trained without it. The base that is kept is trained on all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import (
    InputOptions,
    OriginalRows,
    Problem,
    known_classes,
    open_base,
    read_labelled,
)
from recalibrate.bases.protocol import Base
from recalibrate.classes.estimator import fit_arguments, seed_estimator, weight_argument
from recalibrate.data.classes import Known
from recalibrate.data.folds import Fold, count_folds, is_splitter, split_folds
from recalibrate.data.labels import Labels, Seen, read_values
from recalibrate.data.table import Table
from recalibrate.rows.memory import MemoryStore
from recalibrate.rows.store import deal
from recalibrate.support.notices import warn_user

SHOWN_ROWS = 1000
"""Rows, at least if there are as many, that the base trained on all rows is asked to score."""


@dataclass(frozen=True, eq=False)
class _CrossFitted:
    """What cross-fitting gives.

    Attributes
    ----------
    base
        The estimator, trained on all rows.
    scores
        Score of every row by copies that were not trained on it, on the scale of the base's link;
        the mean where there are several, 0 where there is none.
    scored
        Rows that have such a score.
    folds
        The same folds for choosing rounds, without rows that have no score; may be empty.
    """

    base: Base
    scores: NDArray[np.float64]
    scored: NDArray[np.bool_]
    folds: list[Fold]

    def weight(self, sample_weight: Any) -> Any:
        """Sample weights that leave out rows without a score."""
        if self.scored.all():
            return sample_weight
        given = np.ones(len(self.scored)) if sample_weight is None else np.asarray(sample_weight)
        return np.where(self.scored, given, 0.0)


def is_unfitted(model: Any) -> bool:
    """Whether the model is a scikit-learn-compatible estimator that was not fitted yet."""
    known = (hasattr(type(model), name) for name in ("fit", "get_params"))
    if isinstance(model, type) or not all(known):
        return False
    own = getattr(model, "is_fitted", None)  # catboost and sktime have their own answer
    if own is not None:
        return not (own() if callable(own) else own)
    if not (hasattr(model, "__sklearn_is_fitted__") or hasattr(model, "__sklearn_tags__")):
        return False  # fit and get_params of another convention
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError:
        # What fit learned should end in an underscore, but not everybody's does: ngboost's.
        return not vars(model).keys() - vars(clone(model)).keys()
    return False


def refuse_unfitted(model: Any) -> None:
    """Say what an estimator that was not fitted needs."""
    raise ValueError(
        f"The base model {model!r} is not fitted. Fit it on other rows than these first. Or give "
        "cv=, for example cv=5: then every row is scored by a copy of the model that was trained "
        "on the other folds, and the model is trained on all rows in the end."
    )


def cross_fit(
    estimator: Any,
    X: Any,
    y: Any,
    cv: Any,
    reading: InputOptions,
    *,
    Z: Any = None,
    seed: int = 0,
    fit_params: Mapping[str, Any] | None = None,
) -> _CrossFitted:
    """Score every row by copies of the estimator that were not trained on it.

    Parameters
    ----------
    estimator
        Not fitted, and not changed: all training is done on copies.
    X
        Rows of the estimator, a DataFrame or array; it is trained on all their columns.
    y, cv, Z, seed
        As in `recalibrate.fit`.
    reading
        How the rows are read; the estimator gets their weights if it takes any.
    fit_params
        Further arguments of its ``fit``.

    Returns
    -------
    CrossFitted
    """
    known = known_classes(None, reading)
    if _is_classifier(estimator):
        known = _known_to(y, known, reading.target_class)
    table, labels = read_labelled(X, y, Z, reading, known)
    folds = _folds(table, labels, cv, seed)
    training = _Training(estimator, X, labels, seed, fit_params or {})

    def base(rows: NDArray[np.intp] | None) -> Base:
        fitted = training.fit(rows)
        return open_base(fitted, reading)

    several = labels.kind == "classes"
    columns = several and reading.target_class is None
    total = np.zeros((table.n_rows, labels.outputs) if columns else table.n_rows)
    count = np.zeros(table.n_rows)
    for train, held_out in folds:
        if several and len(np.unique(training.y[train])) < labels.outputs:
            raise ValueError(
                "cv= gave a fold whose training rows lack a class, which a classifier trained on "
                "them would not know. Use fewer or stratified folds, or merge rare classes."
            )
        total[held_out] += base(train).scores(_take_rows(X, held_out))
        count[held_out] += 1
    scored = count > 0
    times = np.maximum(count, 1)
    own = [(train[scored[train]], held_out) for train, held_out in folds]
    usable = [(train, held_out) for train, held_out in own if len(train)]
    mean = total / (times[:, None] if columns else times)
    kept = base(None)
    # A graph is checked on rows that were scored; copies have scored these, the kept base none.
    kept.scores(_take_rows(X, _some_rows(table.n_rows)))
    return _CrossFitted(kept, mean, scored, usable)


def _some_rows(n_rows: int) -> NDArray[np.intp]:
    """Numbers of rows from all over the table."""
    return np.arange(0, n_rows, max(1, n_rows // SHOWN_ROWS), dtype=np.intp)


class _Training:
    """Trains copies of an estimator on some of the rows."""

    def __init__(
        self, estimator: Any, X: Any, labels: Labels, seed: int, params: Mapping[str, Any]
    ) -> None:
        from sklearn.base import clone

        self.estimator = clone(estimator)
        # Otherwise equal calls of `fit` would give different models.
        seed_estimator(self.estimator, seed)
        self.X = X
        self.y = _labels_for(estimator, labels)
        self.params = fit_arguments(estimator, params, labels.weight)
        if labels.weight is not None and weight_argument(estimator) is None:
            warn_user(
                f"{type(estimator).__name__} takes no sample_weight: it is trained without the "
                "weights, which count in the recalibration only"
            )

    def fit(self, rows: NDArray[np.intp] | None) -> Any:
        """A copy, trained on some rows; None: on all of them."""
        from sklearn.base import clone

        X = self.X if rows is None else _take_rows(self.X, rows)
        y = self.y if rows is None else self.y[rows]
        self._check_classes(y)
        given = {name: self._cut(value, rows) for name, value in self.params.items()}
        try:
            return clone(self.estimator).fit(X, y, **given)
        except ValueError as error:
            if hasattr(X, "columns") and "inconsistent numbers of samples" in str(error):
                raise ValueError(
                    f"{type(self.estimator).__name__} does not find {len(y)} rows in a table of "
                    f"{len(X.columns)} columns: does it read documents? Then pass these alone as "
                    "X, for example X['text'], and the table for H as Z=."
                ) from error
            raise

    def _cut(self, value: Any, rows: NDArray[np.intp] | None) -> Any:
        """What has an entry per row, for some rows; all else as it is."""
        if rows is None or not (hasattr(value, "shape") or isinstance(value, list | tuple)):
            return value
        size = value.shape[:1] if hasattr(value, "shape") else (len(value),)
        return _take_rows(value, rows) if size == (len(self.y),) else value

    def _check_classes(self, y: NDArray[Any]) -> None:
        if _is_classifier(self.estimator) and len(np.unique(y)) < 2:
            raise ValueError(
                f"cv= gave a fold whose training rows all have the label {y[0]}, so no "
                "classifier can be trained on them. Use fewer or stratified folds."
            )


def _folds(table: Table, labels: Labels, cv: Any, seed: int) -> list[Fold]:
    if is_splitter(cv):
        return split_folds(cv, labels.strata)
    count = count_folds(cv)
    if table.n_rows < 2:
        raise ValueError("X has 1 sample, which cannot be split into rows to train on and to score")
    if count > table.n_rows:
        raise ValueError(f"cv={count} asks for more folds than there are rows, {table.n_rows}")
    blank = np.zeros(table.n_rows)  # there are no scores yet to tell rows apart
    given = OriginalRows(labels.strata, None, labels.weight is not None)
    problem = Problem(table, labels, blank, "identity", given)
    folds = deal(MemoryStore(problem), count, seed)
    return [(fold.train.of(0), fold.held_out.of(0)) for fold in folds]


def _take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of a table, array or list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return [X[i] for i in rows] if isinstance(X, list | tuple) else X[rows]


def _is_classifier(estimator: Any) -> bool:
    from sklearn.base import is_classifier

    return bool(is_classifier(estimator))


def _known_to(y: Any, known: Known, target_class: Any) -> Known:
    """What the labels tell about the classes that a classifier will be trained on.

    It is trained on all of them, also if ``target_class`` is the only one to be recalibrated.
    """
    shape = np.shape(y)
    if known.classes is not None or not shape:
        return known if known.classes is not None else replace(known, classes=range(2))
    found = Seen.of(read_values(y, shape[0])).distinct or ()
    if found and all(isinstance(label, bool) for label in found):
        _refuse_flags(target_class)
        return replace(known, classes=(False, True))
    whole = all(not isinstance(label, float) for label in found)
    if known.chosen == target_class and len(found) > 2 and whole:
        return replace(known, classes=found, outputs=len(found), chosen=None)
    return replace(known, classes=range(2))


def _refuse_flags(target_class: Any) -> None:
    """A classifier that is trained on booleans does not know the classes behind them."""
    if target_class is not None and not isinstance(target_class, bool | np.bool_):
        raise ValueError(
            f"y holds booleans, so an estimator that is trained on it has no class "
            f"{target_class!r}. Pass the class of every row, or leave target_class= out."
        )


def _labels_for(estimator: Any, labels: Labels) -> NDArray[Any]:
    """Labels as the estimator takes them: classes as they were given, or numbers."""
    if labels.kind == "classes":
        return np.asarray(np.array(labels.classes)[labels.values.argmax(axis=1)])
    if labels.kind == "binary":
        return np.array(labels.classes or (0, 1))[labels.values.astype(np.intp)]
    if _is_classifier(estimator):
        raise ValueError(
            f"The base model {estimator!r} is a classifier, but the labels are not 0 and 1. Pass "
            "0/1 labels, or a regressor."
        )
    return labels.unscale(labels.values)
