"""LSBoostClassifier: level-set boosting of the shares of classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from recalibrate.bases.constant import Constant
from recalibrate.estimators.base import Float64
from recalibrate.estimators.boosting import LSBoost
from recalibrate.estimators.classes import Classifies
from recalibrate.estimators.documents import documented


@documented
class LSBoostClassifier(Classifies, LSBoost):
    r"""Level-set boosting of a constant, a classifier with multicalibrated probabilities.

    Starting from the shares of the classes, every round fits the class H on every level set of the
    current prediction and adds a part of what it finds to the log-odds, for as long as held-out
    rows support it. Of two classes, the label is 1 for the second of ``classes_``; with
    ``loop="paper"`` it is then the paper's rounded run [1]_:

    .. math::
        p_{t+1}(x) = \mathrm{Round}(h_{t,v}(x)), \quad v = p_t(x), \quad
        h_{t,v} = \arg\min_{h \in H} \sum_{i : p_t(x_i) = v} w_i (y_i - h(x_i))^2.

    Parameters
    ----------
    <parameters>
    cv
        Number of folds, or a scikit-learn splitter, for choosing how many rounds to take; the
        model is then refitted on all rows. None means 5.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    <attributes>

    <references>

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Boost the weighted shares of the classes.

        Parameters
        ----------
        X
            DataFrame (categories, text and missing values are fine) or array.
        y
            Labels of two or more classes: numbers, text or bool.
        sample_weight
            Weights; a row of weight 2 counts as the row twice.
        """
        X, y, weight = self._read_rows(X, y, sample_weight)
        share = [float(np.average(y == label, weights=weight)) for label in self.classes_]
        base = Constant(share[1]) if len(share) == 2 else Constant(share[0], others=(*share[1:],))
        return self._boost(base, X, y, weight, classes=np.unique(y).tolist())

    def predict_proba(self, X: Any) -> Float64:
        """Probabilities of the ``classes_``, a column for each."""
        check_is_fitted(self)
        return self.model_.predict_proba(self._read_features(X, reset=False))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class; the first of several that are equally so."""
        return self._decide(self.predict_proba(X))

    def staged_predict_proba(self, X: Any) -> Iterator[Float64]:
        """Probabilities before the first step (the shares) and after every one."""
        check_is_fitted(self)
        for stage in self.model_.staged_predict(self._read_features(X, reset=False)):
            p = np.clip(stage, 0.0, 1.0)
            yield p if p.ndim == 2 else np.column_stack([1.0 - p, p])

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """The most probable class before the first step and after every one."""
        for proba in self.staged_predict_proba(X):
            yield self._decide(proba)
