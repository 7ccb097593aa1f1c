"""What boosted trees of any framework have in common as base models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import from_margin
from recalibrate.data.table import Column, Schema, dense, find_columns, is_sparse, split_columns
from recalibrate.scores import Link
from recalibrate.support.notices import listed, warn_user
from recalibrate.support.onnxgraph import ABSENT, GraphBuilder, value_info
from recalibrate_adapters.agreement import check_finite, disagreement, forest_rows
from recalibrate_adapters.classes import EVERY, choose_class
from recalibrate_adapters.forest import Forest, Response, respond, write_response
from recalibrate_adapters.frames import read_frame

if TYPE_CHECKING:
    import onnx
    import pandas as pd


# --- Linear boosters: weighted sums of the columns ----------------------------------------------


@dataclass(frozen=True, eq=False)
class LinearSum:
    """Bias plus weighted columns in float64; a missing value counts as 0, as in xgboost.

    ``weights`` has a column per output; ``response`` and ``position`` say what becomes of the sums,
    as in a `Forest`. Sums depend on their order in the last bits, so a graph's are not exactly
    these.

    Examples
    --------
    >>> from recalibrate_adapters.forest import make_schema
    >>> model = LinearSum(make_schema(None, 2), np.array([[1.0], [10.0]]), np.array([0.5]))
    >>> model.scores([[1, 2], [3, None]])
    array([21.5,  3.5])
    """

    schema: Schema
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    response: Response = "sum"
    position: int = 0
    exact: bool = False
    why_no_graph: str = ""

    def scores(self, X: Any) -> NDArray[np.float64]:
        """One score per row."""
        matrix = self.schema.read(X).matrix().astype(np.float64)
        matrix[np.isnan(matrix)] = 0.0
        return respond(matrix @ self.weights + self.bias, self.response, self.position)

    def only(self, output: int) -> LinearSum:
        """The sum of one output."""
        return replace(self, weights=self.weights[:, [output]], bias=self.bias[[output]])

    def some_rows(self) -> pd.DataFrame:
        """Rows on which the framework must say the same."""
        import pandas as pd

        rows = np.random.default_rng(0).normal(size=(50, len(self.weights)))
        rows[0] = 0.0
        return pd.DataFrame(rows, columns=list(self.schema.names))

    def graph(self) -> onnx.ModelProto:
        """The same as an ONNX graph."""
        builder = GraphBuilder()
        wide = builder.cast("X", "float64")
        present = builder.op("Where", builder.op("IsNaN", wide), builder.number(0.0), wide)
        total = builder.op("MatMul", present, builder.constant(self.weights))
        sums = builder.op("Add", total, builder.constant(self.bias.reshape(1, -1)))
        result = write_response(builder, sums, self.response, self.position)
        inputs = [value_info("X", "float32", ["N", len(self.weights)])]
        width = 1 if self.response == "softmax" else len(self.bias)
        return builder.score_model(inputs, result, width=width)


Floats = NDArray[np.float64]
Meaning = Literal["log-odds", "mean", "log of the mean", "one per class", "log-odds per class"]
"""What the sums of leaves stand for."""


class NotConvertedError(Exception):
    """The model has a form that is not converted; the message says which."""


class Form(Protocol):
    """A model written down anew, with the same scores in Python and as a graph."""

    @property
    def exact(self) -> bool: ...
    @property
    def why_no_graph(self) -> str: ...

    def scores(self, X: Any) -> Floats:
        """One score per row."""

    def graph(self) -> onnx.ModelProto | None:
        """The same as a graph."""


@dataclass(frozen=True)
class Goal:
    """What a model predicts, as its objective says.

    Attributes
    ----------
    meaning
        What the sums of leaves stand for.
    estimates
        What the model estimates if that is not a mean, in words.
    deviance
        Of counts, amounts and rates: the deviance that it lowers, "poisson", "gamma" or "tweedie".
    """

    meaning: Meaning
    estimates: str = ""
    deviance: str = ""

    def of_power(self, power: object) -> Goal:
        """The same with the power of a Tweedie deviance, if it is one."""
        told = self.deviance == "tweedie" and power is not None
        return replace(self, deviance=f"tweedie-{float(str(power)):g}") if told else self


def read_goal(
    framework: str, objective: str, goals: Mapping[str, Goal], refused: Mapping[str, str]
) -> Goal:
    """The goal of an objective; a warning if it is not a mean, an error if it is no prediction.

    Parameters
    ----------
    framework, objective : str
        Names, for messages.
    goals
        Objectives that are supported.
    refused
        Why others are not, by the beginning of their name.
    """
    if objective not in goals:
        known = (why for start, why in refused.items() if objective.startswith(start))
        why = next(known, "predicts neither a mean nor a probability that is known here")
        raise ValueError(
            f"A {framework} model with the objective {objective} {why}. Objectives that are "
            f"supported: {', '.join(goals)}. For others pass a function of X that returns one "
            "score per row."
        )
    goal = goals[objective]
    if goal.estimates:
        warn_user(
            f"The base model ({framework}, {objective}) estimates {goal.estimates}, not the mean. "
            "It is taken as it is, but what comes out of recalibration estimates the mean."
        )
    return goal


def custom_goal(framework: str, link: Link | None) -> Goal:
    """The goal of a model with an objective of the user's own, which only the user knows."""
    if link is None:
        raise ValueError(
            f"This {framework} model has a custom objective, so only you know what its raw scores "
            'mean. Say so by the link (base_link of fit): "logit" if they are log-odds, '
            '"identity" if they are predictions of the label.'
        )
    return Goal("log-odds" if link == "logit" else "mean")


class BoostedBase(ABC):
    """A boosted model as a base: converted where possible, else scored by its framework.

    Subclasses know their framework: how to convert the model, and how to ask it.

    Parameters
    ----------
    name
        For messages.
    goal
        What the model predicts.
    classes
        Classes of a classifier, a range where it only numbers them; else None.
    names
        Columns of the model; None if they have no names.
    n_columns
        Their number.
    link, target_class
        As the user gave them.

    Attributes
    ----------
    wide
        Whether the framework compares float64 numbers; others round them to float32 first.
    adds_float32
        Whether the framework adds leaves in float32, so that a graph differs in the last bits.
    absent
        What an entry is to the framework that a sparse matrix does not store.
    """

    wide = False
    adds_float32 = False
    absent = 0.0

    def __init__(
        self,
        name: str,
        goal: Goal,
        classes: Sequence[Any] | None,
        names: tuple[str, ...] | None,
        n_columns: int,
        link: Link | None,
        target_class: Any,
    ) -> None:
        self.name = name
        self._meaning = goal.meaning
        self.deviance = goal.deviance
        self._names = names
        self._n_columns = n_columns
        self.target_class = target_class
        self.classes = classes
        self._position = self._choose(classes, target_class)
        every = self._position == EVERY
        logits = every or goal.meaning.startswith("log-odds")
        self.link: Link = "logit" if logits else "identity"
        self.outputs = len(classes or ()) if every else 1
        if link not in (None, self.link):
            raise ValueError(
                f"link={link!r} was given, but the scores of {name} have the link {self.link!r}. "
                "Leave it out."
            )
        self._why_not = ""
        self._form = self._converted()

    @abstractmethod
    def _convert(self) -> Form:
        """The model as trees (or whatever it consists of), or `NotConvertedError`."""

    @abstractmethod
    def _raw(self, frame: pd.DataFrame) -> Floats:
        """Sums of leaves by the framework itself: one column, or one per class."""

    @property
    def exact(self) -> bool:
        """Whether onnxruntime gives the same bits: True where scores are sums of leaves."""
        return self._form is not None and self._form.exact

    @property
    def why_no_graph(self) -> str:
        """Why there is no graph; empty if there is one."""
        return self._why_not if self._form is None else self._form.why_no_graph

    def columns(self) -> tuple[str, ...] | None:
        """Columns that the model was trained on, if they had names."""
        return self._names

    def scores(self, X: Any) -> Floats:
        """One score per row of X."""
        X = dense(X, self.absent) if is_sparse(X) else X
        if self._form is None:
            frame = read_frame(X, self._names, self._n_columns, wide=self.wide)
            return check_finite(self._native(frame), self.name)
        if isinstance(self._form, Forest):
            _refuse_numbers(self._form.schema.columns, self._names, X)
        return check_finite(self._form.scores(X), self.name)

    def graph(self) -> onnx.ModelProto | None:
        """The model as an ONNX graph, or None: see `why_no_graph`."""
        graph = None if self._form is None else self._form.graph()
        if graph is not None:  # for those who feed it with sparse rows
            from onnx import helper

            told = {fact.key: fact.value for fact in graph.metadata_props}
            helper.set_model_props(graph, told | {ABSENT: repr(self.absent)})
        return graph

    @property
    def _sign(self) -> float:
        """Log-odds are those of the second class."""
        return -1.0 if self._meaning == "log-odds" and self._position == 0 else 1.0

    def _choose(self, classes: Sequence[Any] | None, target_class: Any) -> int:
        if classes is not None:
            return choose_class(classes, target_class, self.name)
        if target_class is not None:
            raise ValueError(
                f"target_class={target_class!r} was given, but {self.name} has no classes."
            )
        return 0

    def _native(self, frame: pd.DataFrame) -> Floats:
        """Scores by the framework itself."""
        raw = self._raw(frame)
        if self._position == EVERY:
            return raw if self._meaning == "one per class" else -np.logaddexp(0.0, -raw)
        if self._meaning == "one per class":
            weights = np.exp(raw - raw.max(axis=1, keepdims=True))
            return np.asarray(weights[:, self._position] / weights.sum(axis=1))
        if self._meaning == "log-odds per class":
            return raw[:, self._position]
        if self._meaning == "log of the mean":
            return np.asarray(np.exp(raw[:, 0]))
        return self._sign * raw[:, 0]

    def _converted(self) -> Form | None:
        """The converted model, if it is one and gives the framework's own predictions."""
        try:
            form = self._convert()
        except NotConvertedError as error:
            self._why_not = str(error)
            return None
        if isinstance(form, Forest | LinearSum):
            rows = forest_rows(form) if isinstance(form, Forest) else form.some_rows()
            found, expected = form.scores(rows), self._native(rows)
            self._why_not = disagreement(
                from_margin(found, self.link), from_margin(expected, self.link)
            )
        return None if self._why_not else form


def read_classes(model: Any, goal: Goal, n_outputs: int) -> Sequence[Any] | None:
    """Classes of a classifier, a range where the model only numbers them; else None."""
    if goal.meaning not in ("log-odds", "one per class", "log-odds per class"):
        return None
    known = getattr(model, "classes_", None)
    return range(max(n_outputs, 2)) if known is None else tuple(np.asarray(known).tolist())


Sums = TypeVar("Sums", Forest, LinearSum)


def with_response(model: Sums, meaning: Meaning, position: int) -> Sums:
    """A model with one sum per output, and what becomes of the sums."""
    if position == EVERY:
        return model if meaning == "one per class" else replace(model, response="log-sigmoid")
    if meaning == "one per class":
        return replace(model, response="softmax", position=position)
    if meaning == "log-odds per class":
        return model.only(position)
    first = model.only(0)  # others say how certain it is
    return replace(first, response="exp") if meaning == "log of the mean" else first


def _refuse_numbers(columns: tuple[Column, ...], names: tuple[str, ...] | None, X: Any) -> None:
    """Refuse codes in the place of text categories, which would count as unknown, all of them."""
    texts = [
        j
        for j, column in enumerate(columns)
        if column.categories and all(isinstance(value, str) for value in column.categories)
    ]
    if not texts:
        return
    given, values = split_columns(X)
    if given is not None and names is not None:
        values = [values[j] for j in find_columns(names, given)]
    for j in texts:
        if j < len(values) and values[j].dtype.kind in "biuf" and np.isfinite(values[j]).any():
            raise ValueError(
                f"Column {columns[j].name!r} holds numbers, but the base model was trained on the "
                f"categories {listed(columns[j].categories, 5)}. Pass the categories themselves."
            )


def with_categories(frame: pd.DataFrame, columns: Mapping[str, tuple[Any, ...]]) -> pd.DataFrame:
    """The frame with pandas Categoricals where a framework wants them; new values are missing.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": ["M", "XXL", None]})
    >>> with_categories(frame, {"size": ("L", "M")})["size"].cat.codes.tolist()
    [1, -1, -1]
    """
    import pandas as pd

    frame = frame.copy(deep=False)
    for name, categories in columns.items():
        values = frame[name].astype(object)
        known = values.where(values.isin(list(categories)))
        frame[name] = pd.Categorical(known, categories=list(categories))
    return frame
