"""What both classifiers share: their classes, and predictions as labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from recalibrate.estimators.base import FitsModel, Float64
from recalibrate.support.notices import listed


class Classifies(ClassifierMixin, FitsModel):  # type: ignore[misc]  # scikit-learn ships no types
    """A classifier of two or more classes."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self._is_binary
        return tags

    @property
    def _is_binary(self) -> bool:
        """Whether what was asked for exists for two classes only."""
        rounded = self.loop == "paper" or bool(getattr(self.loop, "rounded", None))
        return rounded or self.link == "identity" or self.alpha is not None or self.B is not None

    def _read_rows(
        self, X: Any, y: Any, sample_weight: Any, known: Any = None, *, any_rows: bool = False
    ) -> tuple[Any, NDArray[Any], Float64 | None]:
        """X, labels and weights, checked; sets ``classes_``.

        ``known`` are the classes of a model that is fitted already; ``any_rows`` see
        `_read_features`.
        """
        y = validate_data(self, y=y)
        check_classification_targets(y)
        X = self._read_features(X, reset=True, any_rows=any_rows)
        weight = self._read_weight(np.zeros(len(y)), X, sample_weight)
        counts = np.ones(len(y), np.bool_) if weight is None else weight > 0
        classes = self._check_classes(np.unique(y[counts]))
        if not counts.all():  # labels of rows that do not count may be anything
            y = np.where(counts, y, classes[0])
        self.classes_ = classes if known is None else np.unique(known)
        # Numbers of classes: scikit-learn refuses others, and to `fit` a float is no class.
        return X, y.astype(np.int64) if y.dtype.kind == "f" else y, weight

    def _check_classes(self, classes: NDArray[Any]) -> NDArray[Any]:
        shown = listed(classes.tolist(), 10)
        if len(classes) < 2:
            raise ValueError(
                f"y needs two classes, but all rows that count are of one class, {shown}; "
                "pass rows of both classes"
            )
        if len(classes) > 2 and self._is_binary:
            # The first sentence is the one that scikit-learn's checks look for.
            raise ValueError(
                f"Only binary classification is supported. y has {len(classes)} classes: {shown}, "
                'but alpha, loop="paper", rounded levels and link="identity" are for two. Leave '
                "them out, or wrap this classifier in sklearn.multiclass.OneVsRestClassifier."
            )
        return classes

    def _decide(self, proba: Float64) -> NDArray[Any]:
        """The most probable class; the first of several that are equally so."""
        decided: NDArray[Any] = self.classes_[np.argmax(proba, axis=1)]
        return decided
