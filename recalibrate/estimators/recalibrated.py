"""RecalibratedClassifier and RecalibratedRegressor: ``fit`` around an estimator of scikit-learn."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from recalibrate.core.levels import Link
from recalibrate.data.labels import read_labels
from recalibrate.estimators.base import FitsModel, Float64
from recalibrate.estimators.classifier import two_classes
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
        link: Link | None = None,
        alpha: float | None = None,
        B: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
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

    def _recalibrate(self, X: Any, y: Any, weight: Any, Z: Any, **options: Any) -> Self:
        """Around a model that is fitted, or around one that is cross-fitted on these rows."""
        if isinstance(self.estimator, FrozenEstimator):
            return self._fit(self.estimator.estimator, X, y, weight, Z=Z, **options)
        if isinstance(self.cv, str):
            if self.cv != "prefit":
                raise ValueError(
                    f"cv must be a number of folds, a splitter or 'prefit', got {self.cv!r}"
                )
            check_is_fitted(self.estimator)
            return self._fit(self.estimator, X, y, weight, Z=Z, cv=None, **options)
        from sklearn.base import clone

        folds = DEFAULT_FOLDS if self.cv is None else self.cv
        return self._fit(clone(self.estimator), X, y, weight, Z=Z, cv=folds, **options)

    def _predicted(self, X: Any, Z: Any) -> Float64:
        check_is_fitted(self)
        return self.model_.predict(self._read_features(X, reset=False), Z=Z)


class RecalibratedClassifier(ClassifierMixin, _Recalibrates):  # type: ignore[misc]
    """A classifier whose probabilities are right on average inside every group.

    Used where :class:`sklearn.calibration.CalibratedClassifierCV` is: around an estimator that is
    not fitted, which is then cross-fitted (every row is scored by a copy that was trained on the
    other folds, and the estimator is trained on all rows in the end), or around a fitted one.

    Parameters
    ----------
    estimator
        A classifier. In a :class:`sklearn.frozen.FrozenEstimator`, or with ``cv="prefit"``, it is
        fitted already, on other rows, and stays as it is.
    H
        The groups or class of functions to be right for: ``Groups(...)``, ``Trees(...)``,
        ``Linear(...)``, ``Polynomial(...)``, ``Estimator(...)`` or a short name such as "trees".
        None: trees on all columns. Fields can be searched: ``H__depth``.
    loop
        None is the default fit: small steps, validated on held-out rows, not rounded. "paper"
        is the loop of the paper's own experiments [1]_: 50 levels, every update rounded to the
        grid but the last, no validation; it fits its rows closely. A
        :class:`recalibrate.Loop` sets its own.
    cv
        Number of folds, or a scikit-learn splitter, for cross-fitting and for choosing how many
        rounds to take; "prefit" for an estimator that is fitted. None means 5.
    validation
        Instead of folds: a share of the rows such as 0.2, or False for none.
    link
        Scale of the updates. None means "logit" (log loss) for classes and "identity" (squared
        error) for numbers and for ``loop="paper"``.
    alpha, B
        Run Algorithm 1 of [1]_ to the letter, with the certificate that the result is
        alpha-approximately multicalibrated for the h in H with h(x)^2 <= B (default 1).
    random_state
        For the folds and for learners that draw; nothing else is random.
    n_jobs
        Number of threads, -1 for all cores. The model is the same for all values.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels, sorted.
    rounds_ : Rounds
        The fitted rounds.
    n_rounds_, n_learners_ : int
        Number of rounds, and of weak learners over all rounds and level sets.
    history_ : History
        Losses by round, and what ended the run.
    certificate_ : Certificate or None
        What a run with ``alpha`` proves.
    model_ : Recalibrated
        The estimator with its rounds, as :func:`recalibrate.fit` returns it: ``model_.summary()``,
        ``model_.save(...)``, ``model_.decide(...)``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X has names that are all text.

    References
    ----------
    .. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
       "Multicalibration as Boosting for Regression", ICML 2023.

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, Z: Any = None) -> Self:
        """Cross-fit the estimator, or take it as it is, and recalibrate it.

        Parameters
        ----------
        X
            Rows as the estimator takes them.
        y
            Labels of two classes: numbers, text or bool.
        sample_weight
            Weights; the estimator gets them too, if it takes any.
        Z
            Columns that only H sees, where the estimator must not: a table with as many rows.
        """
        y = validate_data(self, y=y)
        check_classification_targets(y)
        X = self._read_features(X, reset=True)
        labels = read_labels(np.zeros(len(y)), n_rows=len(X), sample_weight=sample_weight)
        self.classes_ = two_classes(y if labels.weight is None else y[labels.weight > 0])
        positive = (y == self.classes_[1]).astype(np.float64)
        return self._recalibrate(X, positive, labels.weight, Z)

    def predict_proba(self, X: Any, Z: Any = None) -> Float64:
        """Probabilities of the ``classes_``, shape (n, 2)."""
        p = self._predicted(X, Z)
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any, Z: Any = None) -> NDArray[Any]:
        """The more probable class; the first of several that are equally so."""
        proba = self.predict_proba(X, Z)
        decided: NDArray[Any] = self.classes_[np.argmax(proba, axis=1)]
        return decided


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
    H
        The groups or class of functions to be right for: ``Groups(...)``, ``Trees(...)``,
        ``Linear(...)``, ``Polynomial(...)``, ``Estimator(...)`` or a short name such as "trees".
        None: trees on all columns. Fields can be searched: ``H__depth``.
    loop
        None is the default fit: small steps, validated on held-out rows, not rounded. "paper"
        is the loop of the paper's own experiments [1]_: 50 levels, every update rounded to the
        grid but the last, no validation; it fits its rows closely. A
        :class:`recalibrate.Loop` sets its own.
    cv
        Number of folds, or a scikit-learn splitter, for cross-fitting and for choosing how many
        rounds to take; "prefit" for an estimator that is fitted. None means 5.
    validation
        Instead of folds: a share of the rows such as 0.2, or False for none.
    link
        Scale of the updates. None means "logit" (log loss) for classes and "identity" (squared
        error) for numbers and for ``loop="paper"``.
    alpha, B
        Run Algorithm 1 of [1]_ to the letter, with the certificate that the result is
        alpha-approximately multicalibrated for the h in H with h(x)^2 <= B (default 1).
    random_state
        For the folds and for learners that draw; nothing else is random.
    n_jobs
        Number of threads, -1 for all cores. The model is the same for all values.

    Attributes
    ----------
    rounds_ : Rounds
        The fitted rounds.
    n_rounds_, n_learners_ : int
        Number of rounds, and of weak learners over all rounds and level sets.
    history_ : History
        Losses by round, and what ended the run.
    certificate_ : Certificate or None
        What a run with ``alpha`` proves.
    model_ : Recalibrated
        The estimator with its rounds, as :func:`recalibrate.fit` returns it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X has names that are all text.

    References
    ----------
    .. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
       "Multicalibration as Boosting for Regression", ICML 2023.

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, Z: Any = None) -> Self:
        """Cross-fit the estimator, or take it as it is, and recalibrate it.

        Parameters
        ----------
        X
            Rows as the estimator takes them.
        y
            Numbers.
        sample_weight
            Weights; the estimator gets them too, if it takes any.
        Z
            Columns that only H sees, where the estimator must not: a table with as many rows.
        """
        y = validate_data(self, y=y, y_numeric=True).astype(np.float64)
        X = self._read_features(X, reset=True)
        weight = read_labels(y, n_rows=len(X), sample_weight=sample_weight).weight
        bounds = bounds_of(y, weight)
        return self._recalibrate(X, np.clip(y, *bounds), weight, Z, bounds=bounds)

    def predict(self, X: Any, Z: Any = None) -> Float64:
        """Predicted mean of every row."""
        return self._predicted(X, Z)
