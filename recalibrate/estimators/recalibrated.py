"""RecalibratedClassifier and RecalibratedRegressor: ``fit`` around an estimator of scikit-learn."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import LeaveOneOut, LeavePOut
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from recalibrate.core.levels import Link
from recalibrate.data.bounds import NO_BOUNDS
from recalibrate.estimators.base import FitsModel, Float64
from recalibrate.estimators.classes import Classifies
from recalibrate.estimators.documents import documented
from recalibrate.estimators.regressor import bounds_of
from recalibrate.fitting.arguments import Loop

DEFAULT_FOLDS = 5


class _Recalibrates(MetaEstimatorMixin, FitsModel):  # type: ignore[misc]  # untyped scikit-learn
    """What both share: the estimator inside, frozen or cross-fitted."""

    def __init__(
        self,
        estimator: Any,
        H: Any = None,
        *,
        cv: Any = None,
        loop: Loop | Literal["paper"] | None = None,
        validation: Any = None,
        base_link: Link | None = None,
        link: str | None = None,
        alpha: float | None = None,
        B: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.base_link = base_link
        super().__init__(
            H,
            loop=loop,
            cv=cv,
            validation=validation,
            link=link,
            alpha=alpha,
            B=B,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        for name in ("allow_nan", "categorical", "string"):
            both = getattr(tags.input_tags, name) and getattr(inner, name)
            setattr(tags.input_tags, name, both)
        return tags

    @property
    def _refuses_missing(self) -> bool:
        # What an estimator makes of missing values is its own affair: a pipeline may impute them.
        return False

    def _read_features(self, X: Any, *, reset: bool, any_rows: bool = False) -> Any:
        if not any_rows and _holds_documents(X):
            raise ValueError(
                "X holds texts or dicts, which H cannot read: give H a table of its own, with a "
                "row for each of them, as Z=."
            )
        return super()._read_features(X, reset=reset, any_rows=any_rows)

    def _fitted_model(self) -> Any:
        """The model inside, where it is fitted already and stays as it is; None: cross-fit it."""
        if isinstance(self.estimator, FrozenEstimator):
            return self.estimator.estimator
        if not isinstance(self.cv, str):
            return None
        if self.cv != "prefit":
            raise ValueError(
                f"cv must be a number of folds, a splitter or 'prefit', got {self.cv!r}"
            )
        check_is_fitted(self.estimator)
        return self.estimator

    def _recalibrate(
        self, X: Any, y: Any, weight: Any, Z: Any, fit_params: dict[str, Any], **options: Any
    ) -> Self:
        """Around a model that is fitted, or around one that is cross-fitted on these rows."""
        options |= {"Z": Z, "base_link": self.base_link, "fit_params": fit_params or None}
        fitted = self._fitted_model()
        if fitted is not None:
            folds = None if isinstance(self.cv, str) else self.cv
            return self._fit(fitted, X, y, weight, cv=folds, **options)
        folds = min(DEFAULT_FOLDS, max(len(y), 2)) if self.cv is None else self.cv
        return self._fit(clone(self.estimator), X, y, weight, cv=folds, **options)


def _holds_documents(X: Any) -> bool:
    """Whether X is a list, array or Series of texts or dicts."""
    vector = len(X.shape) == 1 if hasattr(X, "shape") else isinstance(X, list | tuple)
    return vector and any(isinstance(value, str | dict) for value in X[:1])


@documented
class RecalibratedClassifier(Classifies, _Recalibrates):
    """A classifier whose probabilities are right on average inside every group.

    Used where :class:`sklearn.calibration.CalibratedClassifierCV` is: around an estimator that is
    not fitted, which is then cross-fitted (every row is scored by a copy that was trained on the
    other folds, and the estimator is trained on all rows in the end), or around a fitted one.

    Parameters
    ----------
    estimator
        A classifier. In a :class:`sklearn.frozen.FrozenEstimator`, or with ``cv="prefit"``, it is
        fitted already, on other rows, and stays as it is.
    <parameters>
    cv
        Number of folds, or a scikit-learn splitter, for cross-fitting and for choosing how many
        rounds to take; "prefit" for an estimator that is fitted. None means 5.
    base_link
        "logit" reads the estimator's ``decision_function`` as log-odds, for one that has no
        probabilities, such as :class:`sklearn.svm.LinearSVC`.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted; those of the estimator, where it is fitted.
    <attributes>

    <references>

    Examples
    --------
    >>> from recalibrate import Groups, RecalibratedClassifier
    >>> from recalibrate.simulate import census
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = census(3000, seed=1)
    >>> seen = data.X[["AGEP", "SCHL", "WKHP"]]
    >>> model = RecalibratedClassifier(LogisticRegression(max_iter=1000), H=Groups("SEX"))
    >>> model.fit(seen, data.y, Z=data.X).predict_proba(seen, Z=data.X).shape
    (3000, 2)
    """

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, Z: Any = None, **fit_params: Any
    ) -> Self:
        """Cross-fit the estimator, or take it as it is, and recalibrate it.

        Parameters
        ----------
        X
            Rows as the estimator takes them: a table or array. With ``Z`` anything that it takes:
            sparse matrices, texts, dicts, images.
        y
            Labels of two or more classes: numbers, text or bool.
        sample_weight
            Weights; the estimator gets them too, if it takes any.
        Z
            Columns that only H sees, where the estimator must not: a table with as many rows.
        **fit_params
            Further arguments of the estimator's ``fit``; those with an entry per row are cut to
            the rows of every fold.
        """
        fitted = self._fitted_model()
        known = None if fitted is None else getattr(fitted, "classes_", None)
        X, y, weight = self._read_rows(X, y, sample_weight, known, any_rows=Z is not None)
        if fitted is None:
            self._check_folds(y)
        return self._recalibrate(X, y, weight, Z, fit_params)

    def _check_folds(self, y: NDArray[Any]) -> None:
        """Refuse more folds than a class has rows, in the words of scikit-learn."""
        folds = self.cv
        if isinstance(folds, LeaveOneOut | LeavePOut):  # they ask the rows how many folds there are
            folds = folds.get_n_splits(y)
        elif not isinstance(folds, int | np.integer):
            folds = getattr(folds, "n_splits", None)
        values, counts = np.unique(y, return_counts=True)
        if isinstance(folds, int | np.integer) and counts.min() < folds:
            raise ValueError(
                f"Requesting {folds}-fold cross-validation but provided less than {folds} examples "
                f"for at least one class: {values.tolist()[counts.argmin()]!r} has {counts.min()}. "
                "Use a smaller cv, or merge rare classes."
            )

    def predict_proba(self, X: Any, Z: Any = None) -> Float64:
        """Probabilities of the ``classes_``, a column for each."""
        check_is_fitted(self)
        return self.model_.predict_proba(
            self._read_features(X, reset=False, any_rows=Z is not None), Z=Z
        )

    def predict(self, X: Any, Z: Any = None) -> NDArray[Any]:
        """The most probable class; the first of several that are equally so."""
        return self._decide(self.predict_proba(X, Z))


@documented
class RecalibratedRegressor(RegressorMixin, _Recalibrates):  # type: ignore[misc]  # untyped
    """A regressor whose predicted means are right on average inside every group.

    Around an estimator that is not fitted, which is then cross-fitted (every row is scored by a
    copy that was trained on the other folds, and the estimator is trained on all rows in the end),
    or around a fitted one.

    Parameters
    ----------
    estimator
        A regressor. In a :class:`sklearn.frozen.FrozenEstimator`, or with ``cv="prefit"``, it is
        fitted already, on other rows, and stays as it is.
    <parameters>
    cv
        Number of folds, or a scikit-learn splitter, for cross-fitting and for choosing how many
        rounds to take; "prefit" for an estimator that is fitted. None means 5.
    base_link
        "log" if the estimator predicts logarithms of means.

    Attributes
    ----------
    <attributes>

    <references>

    Examples
    --------
    >>> from recalibrate import Groups, RecalibratedRegressor
    >>> from recalibrate.simulate import census
    >>> from sklearn.linear_model import Ridge
    >>> data = census(3000, seed=1)
    >>> model = RecalibratedRegressor(Ridge(), H=Groups("SEX")).fit(data.X, data.probability)
    >>> model.predict(data.X).shape
    (3000,)
    """

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        Z: Any = None,
        exposure: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Cross-fit the estimator, or take it as it is, and recalibrate it.

        Parameters
        ----------
        X
            Rows as the estimator takes them: a table or array. With ``Z`` anything that it takes:
            sparse matrices, texts, dicts, images.
        y
            Numbers; with ``exposure`` totals (counts, amounts) over it.
        sample_weight
            Weights; the estimator gets them too, if it takes any.
        Z
            Columns that only H sees, where the estimator must not: a table with as many rows.
        exposure
            What y is a total over. Predictions are rates; the estimator is trained on rates too,
            with exposures as weights.
        **fit_params
            Further arguments of the estimator's ``fit``; those with an entry per row are cut to
            the rows of every fold.
        """
        y = validate_data(self, y=y, y_numeric=True).astype(np.float64)
        X = self._read_features(X, reset=True, any_rows=Z is not None)
        weight = self._read_weight(y, X, sample_weight)
        if exposure is None:  # rows of weight zero do not count
            y = np.clip(y, *bounds_of(y, weight))
        return self._recalibrate(X, y, weight, Z, fit_params, bounds=NO_BOUNDS, exposure=exposure)

    def predict(self, X: Any, Z: Any = None) -> Float64:
        """Predicted mean of every row."""
        check_is_fitted(self)
        rows = self._read_features(X, reset=False, any_rows=Z is not None)
        return self.model_.predict(rows, Z=Z)
