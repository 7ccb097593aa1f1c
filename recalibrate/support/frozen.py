"""What scikit-learn asks of a model that is fitted and stays as it is."""

from __future__ import annotations

from typing import Any, Self


class Frozen:
    """A fitted model that scorers, displays and cross-validation of scikit-learn can be given.

    It is to them what scikit-learn's ``FrozenEstimator`` is: cloning it and fitting it leave it as
    it is.
    """

    labels: Any

    def fit(self, X: Any = None, y: Any = None, **_: Any) -> Self:
        """The model as it is.

        To learn from new rows, use :meth:`recalibrate.Recalibrated.refit`; to be trained on every
        fold of a cross-validation, :class:`recalibrate.RecalibratedClassifier`.
        """
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        means = self.labels.kind == "regression"
        return Tags(
            estimator_type="regressor" if means else "classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=None if means else ClassifierTags(),
            regressor_tags=RegressorTags() if means else None,
        )
