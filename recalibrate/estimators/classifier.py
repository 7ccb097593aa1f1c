"""LSBoostClassifier: level-set boosting of the share of the second class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from recalibrate.data.labels import read_labels
from recalibrate.estimators.base import Float64
from recalibrate.estimators.boosting import LSBoost
from recalibrate.support.notices import listed


class LSBoostClassifier(ClassifierMixin, LSBoost):  # type: ignore[misc]  # untyped scikit-learn
    r"""Level-set boosting of a constant, a binary classifier with multicalibrated probabilities.

    Labels are 1 for the second of ``classes_`` and 0 for the first. Starting from its share,
    every round fits the class H on every level set of the current prediction and adds a part of
    what it finds to the log-odds, for as long as held-out rows support it. With
    ``loop="paper"`` it is the paper's rounded run [1]_:

    .. math::
        p_{t+1}(x) = \mathrm{Round}(h_{t,v}(x)), \quad v = p_t(x), \quad
        h_{t,v} = \arg\min_{h \in H} \sum_{i : p_t(x_i) = v} w_i (y_i - h(x_i))^2.

    Parameters
    ----------
    H
        The groups or class of functions to be right for: ``Groups(...)``, ``Trees(...)``,
        ``Linear(...)``, ``Polynomial(...)``, ``Estimator(...)`` or a short name such as "trees".
        None: trees on all columns, of depth 2 where ``loop`` or ``alpha`` is given. Fields can
        be searched: ``H__depth``.
    loop
        None is the default fit: small steps, validated on held-out rows, not rounded. "paper"
        is the loop of the paper's own experiments [1]_: 50 levels, every update rounded to the
        grid but the last, no validation; it fits its rows closely. A
        :class:`recalibrate.Loop` sets its own.
    cv
        Number of folds, or a scikit-learn splitter, for choosing how many rounds to take; the
        model is then refitted on all rows. None means 5.
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
        The constant with its rounds, as :func:`recalibrate.fit` returns it.
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
    >>> import numpy as np, pandas as pd
    >>> from recalibrate import Groups, LSBoostClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"sex": rng.choice(["F", "M"], 5000), "age": rng.integers(18, 80, 5000)})
    >>> y = np.where(rng.random(5000) < np.where(X["sex"] == "F", 0.3, 0.6), "yes", "no")
    >>> model = LSBoostClassifier(H=Groups("sex", "age < 25")).fit(X, y)
    >>> new = pd.DataFrame({"sex": ["F", "M"], "age": [40, 40]})
    >>> model.predict_proba(new)[:, 1].round(1)
    array([0.3, 0.6])
    >>> model.predict(new)
    array(['no', 'yes'], dtype='<U3')
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Boost the weighted share of the second class.

        Parameters
        ----------
        X
            DataFrame (categories, text and missing values are fine) or array.
        y
            Labels of two classes: numbers, text or bool.
        sample_weight
            Weights; a row of weight 2 counts as the row twice.
        """
        y = validate_data(self, y=y)
        check_classification_targets(y)
        X = self._read_features(X, reset=True)
        n_rows = len(X)
        weight = read_labels(np.zeros(len(y)), n_rows=n_rows, sample_weight=sample_weight).weight
        self.classes_ = two_classes(y if weight is None else y[weight > 0])
        positive = (y == self.classes_[1]).astype(np.float64)
        return self._boost(X, positive, weight, None)

    def predict_proba(self, X: Any) -> Float64:
        """Probabilities of the two ``classes_``, shape (n, 2)."""
        check_is_fitted(self)
        return self.model_.predict_proba(self._read_features(X, reset=False))

    def predict(self, X: Any) -> NDArray[Any]:
        """The more probable class; the first at one half."""
        return self._decide(self.predict_proba(X)[:, 1])

    def staged_predict_proba(self, X: Any) -> Iterator[Float64]:
        """Probabilities before the first round (the constant) and after every one."""
        check_is_fitted(self)
        for stage in self.model_.staged_predict(self._read_features(X, reset=False)):
            p = np.clip(stage, 0.0, 1.0)
            yield np.column_stack([1.0 - p, p])

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """The more probable class before the first round and after every one."""
        for proba in self.staged_predict_proba(X):
            yield self._decide(proba[:, 1])

    def _decide(self, p: Float64) -> NDArray[Any]:
        decided: NDArray[Any] = self.classes_[(p > 0.5).astype(np.intp)]
        return decided


def two_classes(y: NDArray[Any]) -> NDArray[Any]:
    """The two labels, sorted; an error where there are fewer or more."""
    classes: NDArray[Any] = np.unique(y)
    if len(classes) == 2:
        return classes
    shown = listed(classes.tolist(), 10)
    if len(classes) < 2:
        raise ValueError(
            f"y needs two classes, but all rows that count are of one class, {shown}; "
            "pass rows of both classes"
        )
    # The first sentence is the one that scikit-learn's checks look for.
    raise ValueError(
        f"Only binary classification is supported. y has {len(classes)} classes: {shown}. "
        "Wrap this classifier in sklearn.multiclass.OneVsRestClassifier, or join classes."
    )
