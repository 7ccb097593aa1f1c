"""LSBoostRegressor: level-set boosting of the mean label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from recalibrate.bases.constant import Constant
from recalibrate.data.bounds import NO_BOUNDS
from recalibrate.estimators.base import Float64
from recalibrate.estimators.boosting import LSBoost
from recalibrate.estimators.documents import documented


@documented
class LSBoostRegressor(RegressorMixin, LSBoost):  # type: ignore[misc]  # untyped scikit-learn
    r"""Level-set boosting of a constant, a regressor that ends up multicalibrated.

    Starting from the mean label, every round fits the class H to the residuals on every level
    set of the current prediction and adds a part of what it finds, for as long as held-out rows
    support it. With ``loop="paper"`` every round replaces and rounds [1]_:

    .. math::
        f_{t+1}(x) = \mathrm{Round}(h_{t,v}(x)), \quad v = f_t(x), \quad
        h_{t,v} = \arg\min_{h \in H} \sum_{i : f_t(x_i) = v} w_i (y_i - h(x_i))^2,

    and stops when a round lowers the mean squared error by less than a tolerance. If it stops
    because no h does, no h in H can be correlated with the residuals on any level set: the
    predictor is multicalibrated for H.

    Parameters
    ----------
    <parameters>
    cv
        Number of folds, or a scikit-learn splitter, for choosing how many rounds to take; the
        model is then refitted on all rows. None means 5.

    Attributes
    ----------
    <attributes>

    <references>

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate import LSBoostRegressor, Trees
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(5000, 2))
    >>> y = np.sum((np.abs(X) - 1) ** 2, axis=1)
    >>> model = LSBoostRegressor(H=Trees(depth=1), loop="paper").fit(X, y)
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
        weight = self._read_weight(values, X, sample_weight)
        bounds = bounds_of(values, weight)
        # Rows of weight zero do not count, but must lie inside the bounds as well.
        values = np.clip(values, *bounds)
        # The mean of equal numbers may differ from them in the last bit.
        start = float(np.clip(np.average(values, weights=weight), *bounds))
        return self._boost(Constant(start), X, values, weight, bounds=NO_BOUNDS)

    def predict(self, X: Any) -> Float64:
        """Predicted mean of every row."""
        check_is_fitted(self)
        return self.model_.predict(self._read_features(X, reset=False))

    def staged_predict(self, X: Any) -> Iterator[Float64]:
        """Predictions before the first round (the constant, on the grid) and after every one."""
        check_is_fitted(self)
        yield from self.model_.staged_predict(self._read_features(X, reset=False))


def bounds_of(y: Float64, weight: Float64 | None) -> tuple[float, float]:
    """Smallest and largest label among rows that count."""
    counted = y if weight is None else y[weight > 0]
    low, high = float(counted.min()), float(counted.max())
    # Any width will do for a single value, but adding 1 does nothing to a large one.
    return low, high if high > low else low + max(1.0, abs(low))
