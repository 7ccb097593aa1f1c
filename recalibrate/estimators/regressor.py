"""LSBoostRegressor: level-set boosting of the mean label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from recalibrate.data.labels import read_labels
from recalibrate.estimators.base import Float64, LSBoost


class LSBoostRegressor(RegressorMixin, LSBoost):  # type: ignore[misc]  # untyped scikit-learn
    r"""Level-set boosting of a constant, a regressor that ends up multicalibrated.

    Starting from the mean label, every round fits the class H to the labels on every level set
    of the current predictor and rounds the result to a grid [1]_:

    .. math::
        f_{t+1}(x) = \mathrm{Round}(h_{t,v}(x)), \quad v = f_t(x), \quad
        h_{t,v} = \arg\min_{h \in H} \sum_{i : f_t(x_i) = v} w_i (y_i - h(x_i))^2.

    It stops when a round lowers the mean squared error by less than the tolerance. If it stops
    because no h does, no h in H can be correlated with the residuals on any level set: the
    predictor is multicalibrated for H.

    Parameters
    ----------
    H
        The class: ``Trees(...)``, ``Linear(...)``, ``Groups(...)``, ``Estimator(...)``, "trees"
        or "linear". None means ``Trees(depth=2)``.
    levels
        Steps of the grid; without ``rounded`` the number of level sets drawn every round.
    level_kind
        Levels of equal width ("uniform") or equal weight ("quantile"). None means "uniform"
        for rounded scores, otherwise "quantile".
    rounded
        Round to the grid after every round, as in the formula; predictions are then values of
        the grid. False takes small steps on level sets drawn anew, without rounding.
    keep_unrounded
        End a rounded run with one more update that is not rounded (of a run stopped by a number as
        the tolerance: the rejected one). None means True with ``tolerance="authors"``.
    step
        Share of every fitted correction that is taken. None means 1 if rounded, otherwise 0.1.
    l2
        Ridge on every fitted number, in units of row weight (of hessian under the logit link).
        None means 0, and 10 under the logit link.
    min_level_rows
        Level sets with fewer rows are left alone.
    tolerance
        Stop when a round lowers the error (of labels scaled to [0, 1]) by less. "authors" is
        the rule of the paper's own code, see :class:`recalibrate.Loop`; None stops only at
        ``max_rounds``.
    max_rounds
        Most rounds.
    link
        "identity" fits the labels by squared error, as the paper does; "logit" takes Newton
        steps of the log loss of the scaled labels, which keeps predictions inside their range.
    alpha, B
        Run Algorithm 1 of [1]_ to the letter, with the certificate that the result is
        alpha-approximately multicalibrated for the h in H with h(x)^2 <= B (default 1). Grid,
        step and stop rule then follow from alpha and B, and the parameters above for them are
        not used.
    validation
        How to choose the number of rounds on held-out rows: a share of the rows such as 0.2, a
        number of folds, or a scikit-learn splitter; the model is then refitted on all rows.
        None fits without.
    random_state
        For the folds and for ``Trees(feature_share=...)``; nothing else is random.
    n_jobs
        Number of threads, -1 for all cores. The model is the same for all values.

    Attributes
    ----------
    rounds_ : Rounds
        The fitted rounds.
    n_rounds_, n_learners_ : int
        Number of rounds, and of weak learners over all rounds and level sets.
    history_ : History
        Errors by round (labels scaled to [0, 1]), and what ended the run.
    certificate_ : Certificate or None
        What a run with ``alpha`` proves.
    model_ : Recalibrated
        The constant with its rounds, as :func:`recalibrate.fit` returns it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X has names that are all text.

    Notes
    -----
    The defaults are the paper's method, which fits its rows closely and predicts values of the
    grid. On few or noisy rows ``validation=5`` predicts new rows better, and so does
    ``rounded=False, levels=10, tolerance=None`` with some hundred rounds.

    References
    ----------
    .. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
       "Multicalibration as Boosting for Regression", ICML 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate import LSBoostRegressor, Trees
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(5000, 2))
    >>> y = np.sum((np.abs(X) - 1) ** 2, axis=1)
    >>> model = LSBoostRegressor(H=Trees(depth=1), levels=100).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Boost the weighted mean of y.

        Parameters
        ----------
        X
            DataFrame (categories, text and missing values are fine) or array.
        y
            Numbers.
        sample_weight
            Weights; a row of weight 2 counts as the row twice.
        """
        values = validate_data(self, y=y, y_numeric=True).astype(np.float64)
        X = self._read_features(X, reset=True)
        weight = read_labels(values, n_rows=len(X), sample_weight=sample_weight).weight
        counted = values if weight is None else values[weight > 0]
        low, high = float(counted.min()), float(counted.max())
        # Any width will do for a single value, but adding 1 does nothing to a large one.
        bounds = (low, high if high > low else low + max(1.0, abs(low)))
        # Rows of weight zero do not count, but must lie inside the bounds as well.
        return self._boost(X, np.clip(values, *bounds), weight, bounds)

    def predict(self, X: Any) -> Float64:
        """Predicted mean of every row."""
        check_is_fitted(self)
        return self.model_.predict(self._read_features(X, reset=False))

    def staged_predict(self, X: Any) -> Iterator[Float64]:
        """Predictions before the first round (the constant, on the grid) and after every one."""
        check_is_fitted(self)
        yield from self.model_.staged_predict(self._read_features(X, reset=False))
