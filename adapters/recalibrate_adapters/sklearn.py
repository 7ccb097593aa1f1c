"""Fitted scikit-learn models, and everything that behaves like them, as base models.

Scores are the probability of the positive class (of two classes the second), the prediction of a
regressor, and for boosted trees the log-odds.

- Trees, forests and boosted trees of scikit-learn are read node by node: exact, with missing
  values and categorical features.
- Other models are converted by skl2onnx. The first rows that are scored decide whether the graph
  agrees with the model; if it does, it gives all scores, and if it does not, the model itself
  does and there is no graph (see `recalibrate_adapters.agreement`).
- Search objects stand for their best estimator. A pipeline that ends in a model with an adapter
  of its own (such as xgboost) is its steps' graph followed by that model's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.registry import find_adapter
from recalibrate.core.levels import from_margin
from recalibrate.scores import Base, Link, as_base
from recalibrate.support.notices import warn_user
from recalibrate_adapters.agreement import (
    Candidate,
    DecidedBase,
    Decision,
    check_finite,
    disagreement,
)
from recalibrate_adapters.forest import Forest
from recalibrate_adapters.frames import is_sparse, read_frame
from recalibrate_adapters.probes import Novelty, forest_rows, rows_to_compare
from recalibrate_adapters.sklearn_graph import propose
from recalibrate_adapters.sklearn_task import read_task
from recalibrate_adapters.sklearn_trees import forest_link, read_forest

if TYPE_CHECKING:
    import onnx
    import pandas as pd


def wrap(model: Any, *, link: Link | None = None, target_class: Any = None) -> Base:
    """A fitted scikit-learn model as a base.

    Parameters
    ----------
    model
        A fitted classifier, regressor, pipeline or search object.
    link : {"identity", "logit"} or None
        "logit" takes ``decision_function`` (of a regressor: ``predict``) as log-odds; needed for
        classifiers without probabilities.
    target_class
        Class whose probability is the score; needed where there are more than two.

    Returns
    -------
    Base

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [0.0, 0.5])
    >>> wrap(model).scores(np.array([[0.2], [0.9]]))
    array([0. , 0.5])
    """
    inner = _unwrap(model)
    if not _is_ours(inner):
        return as_base(inner, link=link, target_class=target_class)
    return SklearnBase(inner, link=link, target_class=target_class)


class SklearnBase(DecidedBase):
    """A fitted scikit-learn model as a base; see the module for how scores are computed."""

    def __init__(self, model: Any, *, link: Link | None = None, target_class: Any = None) -> None:
        _check_fitted(model)
        self.name = f"scikit-learn {type(model).__name__}"
        self._model = model
        self._names = _names_of(model)
        self.target_class = target_class
        self._task = read_task(model, link, target_class)
        self.classes = self._task.classes
        _warn_if_not_a_mean(model)
        self._tail: Base | None = None
        self._forest = self._read_forest(link)
        if self._forest is not None:
            self._task = self._task.on_link(forest_link(model))
        else:
            self._tail = _tail_of(model, link, target_class)
            if self._tail is not None:
                self._task = self._task.on_link(self._tail.link)
        self._novelty = Novelty(self._native)
        self._decision = Decision(
            self._task.link, self._native, self._propose, rows_to_compare, self._means
        )

    @property
    def link(self) -> Link:
        """Scale of the scores."""
        return self._task.link

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Whether onnxruntime gives the same bits: True where the model is a sum of trees."""
        return self._forest is not None and self._forest.exact

    @property
    def why_no_graph(self) -> str:
        """Why there is no graph; empty if there is one."""
        return (self._forest or self._decision).why_no_graph

    def columns(self) -> tuple[str, ...] | None:
        """Columns that the model was trained on, if they had names."""
        return self._names

    def scores(self, X: Any) -> NDArray[np.float64]:
        """One score per row of X."""
        if self._forest is not None:
            return self._forest.scores(X)
        if is_sparse(X) or not hasattr(self._model, "n_features_in_"):
            return self._scores_as_given(X)
        frame = read_frame(X, self._names, int(self._model.n_features_in_), wide=True)
        if not self._decision.by_framework:
            self._novelty.check(frame)
        return check_finite(self._decision.scores(frame), self.name)

    def graph(self) -> onnx.ModelProto | None:
        """The model as an ONNX graph, once rows have been scored; None: see `why_no_graph`."""
        return super().graph() if self._forest is None else self._forest.graph()

    def _read_forest(self, link: Link | None) -> Forest | None:
        """The model's trees, if they can be read and give the model's own predictions."""
        model, task = self._model, self._task
        try:
            forest = read_forest(model, task.position, self._names)
            if forest is None or (link is not None and link != forest_link(model)):
                return None
            rows = forest_rows(forest)
            found = forest.scores(rows)
        except AttributeError:  # parts of the trees are private and may change
            return None
        means = from_margin(found, forest_link(model))
        return None if disagreement(means, self._means(rows)) else forest

    def _scores_as_given(self, X: Any) -> NDArray[np.float64]:
        """Scores of documents or sparse rows, which only the model itself can read."""
        if self._decision.by_graph:
            raise ValueError(
                "The base model was fitted to tables by this object and now gets sparse rows. "
                "Pass X.toarray(), or use one kind of rows throughout."
            )
        self._decision.settle("the model reads text documents or sparse rows, a graph cannot")
        return check_finite(self._task.scores(self._model, X), self.name)

    def _native(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        return self._task.scores(self._model, self._native_rows(frame))

    def _means(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        return self._task.means(self._model, self._native_rows(frame))

    def _native_rows(self, frame: pd.DataFrame) -> Any:
        """With names only if the model was trained with names: it warns about a difference."""
        return frame.to_numpy() if self._names is None else frame

    def _propose(self, frame: pd.DataFrame) -> Iterator[Candidate | str]:
        named = self._names is not None
        return propose(self._model, self._task, self._tail, frame, named=named)


def _unwrap(model: Any) -> Any:
    """The model inside of search objects, chosen thresholds and one-step pipelines."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.pipeline import Pipeline

    wrappers = {
        BaseSearchCV: "best_estimator_",
        FixedThresholdClassifier: "estimator_",
        TunedThresholdClassifierCV: "estimator_",
        FrozenEstimator: "estimator",
    }
    for kind, attribute in wrappers.items():
        if isinstance(model, kind) and hasattr(model, attribute):
            return _unwrap(getattr(model, attribute))
    if isinstance(model, Pipeline) and len(model.steps) == 1:
        return _unwrap(model[0])
    return model


def _tail_of(model: Any, link: Link | None, target_class: Any) -> Base | None:
    """The last step of a pipeline as a base, if another adapter knows it and has its graph."""
    from sklearn.pipeline import Pipeline

    if not isinstance(model, Pipeline) or _is_ours(model[-1]):
        return None
    try:
        tail = as_base(model[-1], link=link, target_class=target_class)
    except (TypeError, ValueError):
        return None
    return tail if tail.graph() is not None else None


def _is_ours(model: Any) -> bool:
    """Whether this adapter is the one for the model."""
    entry = find_adapter(model)
    return entry is None or entry.name == "sklearn"


def _names_of(model: Any) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


def _check_fitted(model: Any) -> None:
    from sklearn.exceptions import NotFittedError

    from recalibrate.fitting.crossfit import is_unfitted

    if is_unfitted(model):
        raise NotFittedError(
            f"This {type(model).__name__} is not fitted yet. Fit it on rows other than the "
            "calibration rows, or pass cv= to fit, which trains and scores it by cross-fitting."
        )


def _warn_if_not_a_mean(model: Any) -> None:
    from sklearn.pipeline import Pipeline

    last = model[-1] if isinstance(model, Pipeline) else model
    aims = {getattr(last, "loss", None), getattr(last, "criterion", None)} - {None}
    if "quantile" in aims or type(last).__name__ == "QuantileRegressor":
        aim = "a quantile"
    elif "absolute_error" in aims:
        aim = "the median"
    else:
        return
    warn_user(
        f"The base model ({type(last).__name__}) estimates {aim}, not the mean. It is taken as it "
        "is, but what comes out of recalibration estimates the mean."
    )
