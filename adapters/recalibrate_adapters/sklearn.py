"""Fitted scikit-learn models, and everything that behaves like them, as base models.

Scores are the probability of the positive class (of two classes the second), the prediction of a
regressor, and for boosted trees the log-odds.

- Trees, forests and boosted trees of scikit-learn are read node by node: exact, with missing
  values and categorical features.
- Other models are written as a graph part by part (`recalibrate_adapters.sklearn_writer`). The
  first rows that are scored decide whether the graph agrees with the model; if it does, it gives
  all scores, and if it does not, the model itself does and there is no graph (see
  `recalibrate_adapters.agreement`).
- Search objects stand for their best estimator. A part with an adapter of its own (such as
  xgboost) is that adapter's graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.wrappers import select_columns
from recalibrate.core.levels import from_margin
from recalibrate.data.sparse import is_sparse
from recalibrate.data.values import UnreadableColumnError, refuse_unknown
from recalibrate.scores import Base, Link, as_base
from recalibrate.support.notices import warn_user
from recalibrate_adapters.agreement import (
    Candidate,
    DecidedBase,
    Decision,
    check_finite,
    disagreement,
)
from recalibrate_adapters.classes import EVERY
from recalibrate_adapters.forest import Forest
from recalibrate_adapters.frames import read_frame
from recalibrate_adapters.probes import Novelty, forest_rows, rows_to_compare
from recalibrate_adapters.sklearn_graph import propose
from recalibrate_adapters.sklearn_task import Task, read_deviance, read_task
from recalibrate_adapters.sklearn_trees import forest_link, read_forest
from recalibrate_adapters.sklearn_writer import boosted_by_us, is_ours, unwrapped

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
    inner = unwrapped(model)
    fitted = boosted_by_us(inner)
    if fitted is not None and target_class in (None, 1):
        return as_base(fitted, link=link)
    if not is_ours(inner):
        return as_base(inner, link=link, target_class=target_class)
    # Some train what they hold on arrays: the names are those that they were given themselves.
    return SklearnBase(inner, link=link, target_class=target_class, names=_names_of(model))


class SklearnBase(DecidedBase):
    """A fitted scikit-learn model as a base; see the module for how scores are computed."""

    def __init__(
        self,
        model: Any,
        *,
        link: Link | None = None,
        target_class: Any = None,
        names: tuple[str, ...] | None = None,
    ) -> None:
        _check_fitted(model)
        self.name = f"scikit-learn {type(model).__name__}"
        self._model = model
        self._names = names or _names_of(model)
        self.target_class = target_class
        self._task = read_task(model, link, target_class)
        self.classes = self._task.classes
        self.outputs = len(self.classes or ()) if self._task.position == EVERY else 1
        self.deviance = read_deviance(model) if self.classes is None else ""
        _warn_if_not_a_mean(model)
        self._forest = self._read_forest(link)
        if self._forest is not None:
            self._task = self._task.on_link(forest_link(model, self._task.position))
        else:
            tail = _tail_link(model, link, target_class)
            self._task = self._task if tail is None else self._task.on_link(tail)
        # Bound to an object of their own: methods of the base itself would keep it, with the model
        # and its rows, until the garbage collector finds the cycle.
        asked = _Asked(model, self._task, named=self._names is not None)
        self._decision = Decision(
            self._task.link, asked.scores, asked.propose, rows_to_compare, asked.means
        )
        self._novelty = Novelty(self._decision.compare)

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
        n_columns = _count_columns(self._model)
        if is_sparse(X) or n_columns is None or _is_tensor(X):
            return self._scores_as_given(X, self._why_as_given(X))
        try:
            frame = read_frame(X, self._names, n_columns, wide=True)
        except UnreadableColumnError as error:
            rows = X if self._names is None else select_columns(X, self._names)
            why = f"{str(error).partition(',')[0]}, not numbers or text"
            return self._scores_as_given(rows, why)
        if not self._decision.by_framework:
            self._novelty.check(frame)
        for name, known in self._decision.known.items():
            refuse_unknown(name, frame[name], known)
        return check_finite(self._decision.scores(frame), self.name)

    def graph(self) -> onnx.ModelProto | None:
        """The model as an ONNX graph, once rows have been scored; None: see `why_no_graph`."""
        return super().graph() if self._forest is None else self._forest.graph()

    def _read_forest(self, link: Link | None) -> Forest | None:
        """The model's trees, if they can be read and give the model's own predictions."""
        model, task = self._model, self._task
        try:
            forest = read_forest(model, task.position, self._names)
            if forest is None or (link is not None and link != forest_link(model, task.position)):
                return None
            rows = forest_rows(forest)
            found = forest.scores(rows)
        except AttributeError:  # parts of the trees are private and may change
            return None
        means = from_margin(found, forest_link(model, task.position))
        expected = _Asked(model, task, named=self._names is not None).means(rows)
        return None if disagreement(means, expected) else forest

    def _why_as_given(self, X: Any) -> str:
        """Why rows are left to the model, and have no graph."""
        if is_sparse(X):
            return "it was asked with sparse rows, which a graph cannot take"
        if _is_tensor(X):
            return f"it was asked with rows of shape {X.shape[1:]}, and a graph takes tables"
        return (
            "it does not tell how many columns it takes (no n_features_in_), as models of "
            "text documents do, and a graph needs them"
        )

    def _scores_as_given(self, X: Any, why: str) -> NDArray[np.float64]:
        """Scores of rows that only the model itself can read: documents, dates, sparse rows."""
        if self._decision.by_graph:
            kind = "sparse rows" if is_sparse(X) else "other rows"
            raise ValueError(
                f"The base model was fitted to tables by this object and now gets {kind}: {why}. "
                f"Use one kind of rows throughout{', or X.toarray()' if is_sparse(X) else ''}."
            )
        self._decision.settle(why)
        scores = self._task.scores(self._model, X)
        if hasattr(X, "columns") and self._reads_column_names(X, len(scores)):
            raise ValueError(
                f"The base model gives {len(scores)} scores for a table of {len(X)} rows and "
                f"{len(X.columns)} columns, not one per row: does it read documents? Then pass "
                "these alone as X, for example X['text'], and the table for H as Z=."
            )
        return check_finite(scores, self.name)

    def _reads_column_names(self, X: Any, n_scores: int) -> bool:
        """Whether the model goes through a table by its column names, as one of documents does.

        A table of as many rows as columns does not tell; with one more row it would.
        """
        if n_scores != len(X) or len(X) != len(X.columns) or not hasattr(X, "iloc"):
            return n_scores != len(X)
        longer = X.iloc[[0, *range(len(X))]]
        return len(self._task.scores(self._model, longer)) == n_scores


@dataclass(frozen=True, eq=False)
class _Asked:
    """A model, and what it is asked for.

    Attributes
    ----------
    model
        The fitted model.
    task
        Its method and the scale of its scores.
    named
        Whether the columns of its rows have names.
    """

    model: Any
    task: Task
    named: bool

    def scores(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Scores on the scale of the link."""
        return self.task.scores(self.model, self._rows(frame))

    def means(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Means or probabilities."""
        return self.task.means(self.model, self._rows(frame))

    def propose(self, frame: pd.DataFrame) -> Iterator[Candidate | str]:
        """Graphs to try."""
        return propose(self.model, self.task, frame, named=self.named)

    def _rows(self, frame: pd.DataFrame) -> Any:
        """With names only if the model was trained with names: it warns about a difference."""
        return frame.to_numpy() if _names_of(self.model) is None else frame


def _tail_link(model: Any, link: Link | None, target_class: Any) -> Link | None:
    """The scale of a pipeline's last step, if another adapter knows it and has its graph."""
    from sklearn.pipeline import Pipeline

    if not isinstance(model, Pipeline) or is_ours(model[-1]):
        return None
    try:
        tail = as_base(model[-1], link=link, target_class=target_class)
    except (TypeError, ValueError):
        return None
    return tail.link if tail.graph() is not None else None


def _count_columns(model: Any) -> int | None:
    """Columns that a model takes; None if it does not tell, as models of documents do not."""
    from sklearn.isotonic import IsotonicRegression

    if isinstance(model, IsotonicRegression):
        return 1
    count = getattr(model, "n_features_in_", None)
    return None if count is None else int(count)


def _is_tensor(X: Any) -> bool:
    """Whether rows are not rows of columns but images, or other arrays."""
    return len(getattr(X, "shape", ())) > 2


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
