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
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.protocol import deviance_of
from recalibrate.bases.wrappers import select_columns
from recalibrate.core.levels import from_margin, to_class_scores, to_margin
from recalibrate.data.table import is_sparse
from recalibrate.data.values import UnreadableColumnError, refuse_unknown
from recalibrate.scores import Base, Link, as_base
from recalibrate.support.notices import warn_user
from recalibrate.support.onnxgraph import SCORE, value_info
from recalibrate.support.threads import reraise_interruption
from recalibrate_adapters.agreement import (
    Candidate,
    DecidedBase,
    Decision,
    Novelty,
    check_finite,
    disagreement,
    first_line,
    forest_rows,
    rows_to_compare,
)
from recalibrate_adapters.classes import EVERY, choose_class
from recalibrate_adapters.forest import CALLED_SCORE, NO_NAMES, Forest
from recalibrate_adapters.frames import (
    InputKind,
    column_feed,
    matrix_feed,
    read_frame,
    text_columns,
)
from recalibrate_adapters.sklearn_trees import forest_link, read_forest
from recalibrate_adapters.sklearn_writer import (
    Block,
    NotWrittenError,
    Part,
    Width,
    Writer,
    boosted_by_us,
    is_ours,
    unwrapped,
)

if TYPE_CHECKING:
    import onnx
    import pandas as pd


# --- What a scikit-learn model predicts: which method gives its score, and on which scale -------


Method = Literal["predict_proba", "decision_function", "predict"]

_CALLABLE = "pass a function of X that returns one score per row"


@dataclass(frozen=True)
class _ScoreMethod:
    """How a model is asked for its score.

    Attributes
    ----------
    method
        Method of the model.
    position
        Of a classifier, the class; None for a regressor.
    link
        Scale of the score.
    classes
        Of a classifier, its classes.
    """

    method: Method
    position: int | None
    link: Link
    classes: tuple[Any, ...] | None = None

    def on_link(self, link: Link) -> _ScoreMethod:
        """The same on another scale."""
        return replace(self, link=link)

    def ask(self, model: Any, X: Any) -> NDArray[np.float64]:
        """The number that the model's method gives for the class, one per row."""
        with np.errstate(invalid="ignore"):  # its search for infinities may subtract them
            result = np.asarray(getattr(model, self.method)(X), dtype=np.float64)
        if self.position == EVERY and result.ndim == 2:
            return result
        if self.method == "predict_proba":
            return result[:, self.position]
        if self.method == "decision_function" and self.position is not None:
            if result.ndim == 2:
                return result[:, self.position]
            return result if self.position == 1 else -result
        if result.ndim == 2 and result.shape[1] != 1:
            raise ValueError(
                f"The base model predicts {result.shape[1]} numbers per row, not one. "
                f"Choose one: {_CALLABLE}."
            )
        return result.reshape(-1)

    def scores(self, model: Any, X: Any) -> NDArray[np.float64]:
        """Scores on the scale of the link."""
        asked = self.ask(model, X)
        on_probabilities = self.method == "predict_proba" and self.link == "logit"
        if on_probabilities and self.position == EVERY:
            return to_class_scores(asked, "identity")
        return to_margin(asked, "logit") if on_probabilities else asked

    def means(self, model: Any, X: Any) -> NDArray[np.float64]:
        """Means or probabilities."""
        asked = self.ask(model, X)
        on_margins = self.method != "predict_proba" and self.link == "logit"
        return from_margin(asked, "logit") if on_margins else asked


def _read_task(model: Any, link: Link | None, target_class: Any) -> _ScoreMethod:
    """What to ask of a fitted model.

    Raises
    ------
    ValueError
        If the model has several classes and none was chosen, or no probabilities and no link was
        declared, or is neither classifier nor regressor.
    """
    from sklearn.base import is_classifier, is_regressor

    name = type(model).__name__
    if is_classifier(model) or hasattr(model, "predict_proba"):
        return _classifier_task(model, name, link, target_class)
    if not is_regressor(model) or not hasattr(model, "predict"):
        raise ValueError(
            f"{name} is neither a classifier nor a regressor, so it has no prediction of the "
            f"label to recalibrate. If one can be computed from it, {_CALLABLE}."
        )
    if target_class is not None:
        raise ValueError(f"target_class={target_class!r} was given, but {name} is a regressor.")
    return _ScoreMethod("predict", None, link or "identity")


def _read_deviance(model: Any) -> str:
    """The deviance that a regressor of counts, amounts or rates was trained by; "" for others."""
    from sklearn.pipeline import Pipeline

    last = model[-1] if isinstance(model, Pipeline) else model
    losses = {"poisson": "poisson", "gamma": "gamma"}
    kinds = {"PoissonRegressor": "poisson", "GammaRegressor": "gamma"}
    if type(last).__name__ == "HistGradientBoostingRegressor":
        return losses.get(last.loss, "")
    if type(last).__name__ == "TweedieRegressor":
        logarithm = last.link == "log" or (last.link == "auto" and last.power > 0)
        return f"tweedie-{last.power:g}" if logarithm and 1 <= last.power <= 2 else ""
    if last is not model and not type(last).__module__.startswith("sklearn."):
        with suppress(TypeError, ValueError):
            return deviance_of(as_base(last))
    return kinds.get(type(last).__name__, "")


def _classifier_task(model: Any, name: str, link: Link | None, target_class: Any) -> _ScoreMethod:
    classes = getattr(model, "classes_", None)
    if classes is None or isinstance(classes, list) or np.ndim(classes) != 1:
        raise ValueError(
            f"{name} has several outputs (or does not tell its classes). Choose one: {_CALLABLE}, "
            "for example lambda X: model.predict_proba(X)[0][:, 1]."
        )
    classes = tuple(np.asarray(classes).tolist())
    position = choose_class(classes, target_class, name)
    if link == "logit" and hasattr(model, "decision_function"):
        return _ScoreMethod("decision_function", position, "logit", classes)
    if hasattr(model, "predict_proba"):
        if link == "logit":
            raise ValueError(
                f"link='logit' was declared, but {name} gives probabilities and has no "
                "decision_function. Leave the link out."
            )
        return _ScoreMethod("predict_proba", position, "identity", classes)
    if not hasattr(model, "decision_function"):
        raise ValueError(
            f"{name} gives labels only: it has neither predict_proba nor decision_function, so "
            f"there is no score to recalibrate. Choose a classifier with probabilities (a vote: "
            f"voting='soft'), or {_CALLABLE}."
        )
    raise ValueError(
        f"{name} gives no probabilities (it has no predict_proba). Either declare the link "
        "'logit' (base_link of fit), so that its decision_function is read as log-odds, or "
        "calibrate it first with sklearn.calibration.CalibratedClassifierCV."
    )


# --- ONNX graphs of scikit-learn models, as proposals -------------------------------------------
#
# `recalibrate_adapters.agreement` decides whether a proposal says what the model says.


def propose(
    model: Any, task: _ScoreMethod, frame: pd.DataFrame, *, named: bool
) -> Iterator[Candidate | str]:
    """Graphs of a model for rows like these, the most accurate first; texts say what failed.

    Parameters
    ----------
    model
        A fitted model of scikit-learn.
    task
        Which of its outputs is the score.
    frame
        Rows, which tell numbers from text.
    named
        Whether the model knows the names of its columns.
    """
    texts = text_columns(frame)
    if texts and not named:
        yield NO_NAMES
        return
    if texts and SCORE in frame.columns:
        yield CALLED_SCORE
        return
    widths: tuple[Width, ...] = ("float64", "float32")
    for width in widths:
        try:
            yield _candidate(model, task, [str(name) for name in frame], texts, width)
        except NotWrittenError as error:
            yield str(error)
        except Exception as error:  # parts of models are private and may change
            reraise_interruption(error)
            yield f"its parts cannot be read ({first_line(error)})"


def _candidate(
    model: Any, task: _ScoreMethod, names: list[str], texts: list[str], width: Width
) -> Candidate:
    """The model as one graph; a matrix cannot hold text, so with text each column is an input."""
    writer = Writer(width)
    kinds: dict[str, InputKind] = {name: "string" if name in texts else "float64" for name in names}
    if texts:
        inputs = [value_info(name, kind, ["N", 1]) for name, kind in kinds.items()]
        block: Block = tuple(Part(name, (name,), name in texts) for name in names)
    else:
        inputs = [value_info("X", "float64", ["N", len(names)])]
        block = (Part("X", tuple(names)),)
    score = _write_score(writer, model, task, block)
    feed = partial(column_feed, kinds=kinds) if texts else matrix_feed
    # Columns of a matrix are told by their position.
    known = {n if texts else str(names.index(n)): v for n, v in writer.known.items()}
    outputs = len(task.classes or ()) if task.position == EVERY else 1
    graph = writer.score_model(inputs, score, known=known, width=outputs)
    return Candidate(graph, feed, writer.known)


def _write_score(writer: Writer, model: Any, task: _ScoreMethod, block: Block) -> str:
    if task.position is None:
        return writer.outputs(model, block, "predict")
    on_margins = task.link == "logit"
    found = writer.outputs(model, block, "decision_function" if on_margins else task.method)
    if on_margins and len(model.classes_) == 2:
        return found if task.position == 1 else writer.op("Neg", found)
    return found if task.position == EVERY else writer.columns(found, [task.position])


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
        self._task = _read_task(model, link, target_class)
        self.classes = self._task.classes
        self.outputs = len(self.classes or ()) if self._task.position == EVERY else 1
        self.deviance = _read_deviance(model) if self.classes is None else ""
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
    task: _ScoreMethod
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
