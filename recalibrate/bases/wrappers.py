"""Bases made of others: one tied to column names, and a recalibrated model under new rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.protocol import (
    Base,
    ScoreColumn,
    base_outputs,
    class_of,
    classes_of,
    deviance_of,
    has_unnamed_outputs,
    predicts_rates,
)
from recalibrate.core.learning import is_score
from recalibrate.core.levels import Link
from recalibrate.data.labels import read_scores
from recalibrate.data.table import find_columns
from recalibrate.data.values import Value
from recalibrate.support.checks import ModelFileError
from recalibrate.support.notices import listed
from recalibrate.support.onnxfile import GraphRunner
from recalibrate.support.threads import reraise_interruption

if TYPE_CHECKING:
    from recalibrate.graph.inputs import Input
    from recalibrate.model import Recalibrated


# --- The base model that knows nothing: the same score for every row ----------------------------


@dataclass(frozen=True)
class Constant:
    """A base model that gives every row the same score, or the same scores of classes.

    Examples
    --------
    >>> Constant(0.3).scores([["a row"], ["another"]])
    array([0.3, 0.3])
    >>> Constant(0.5, others=(0.25, 0.25)).scores([["a row"]])
    array([[0.5 , 0.25, 0.25]])
    """

    value: float
    link: Link = "identity"
    why_no_graph: str = "the base model is a constant; the graph takes it as an input of scores"
    exact: bool = True
    others: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return "constant class probabilities" if self.others else f"constant {self.value:g}"

    def columns(self) -> tuple[str, ...] | None:
        """Nothing is needed from X."""
        return ()

    def scores(self, X: Any) -> NDArray[np.float64]:
        """The constant, once per row."""
        if self.others:
            return np.tile([self.value, *self.others], (len(X), 1))
        return np.full(len(X), self.value)

    def graph(self) -> object | None:
        """There is none: a constant has no inputs to make a graph of."""
        return None


@dataclass(frozen=True, eq=False)
class NamedBase:
    """A base without column names, tied to those of the table that it was calibrated on.

    Such a model takes columns by their position. With the names remembered, neither a shuffled
    nor an extended table changes what it sees.
    """

    inner: Base
    names: tuple[str, ...]

    @property
    def link(self) -> Link:
        return self.inner.link

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def why_no_graph(self) -> str:
        return self.inner.why_no_graph

    @property
    def exact(self) -> bool:
        return self.inner.exact

    @property
    def target_class(self) -> Any:
        return class_of(self.inner)

    @property
    def examples(self) -> Any:
        """Rows that the inner base keeps, with the remembered names; None if it keeps none."""
        import pandas as pd

        rows = getattr(self.inner, "examples", None)
        return None if rows is None else pd.DataFrame(np.asarray(rows), columns=list(self.names))

    @property
    def classes(self) -> Sequence[Any] | None:
        return classes_of(self.inner)

    @property
    def unnamed_outputs(self) -> bool:
        return has_unnamed_outputs(self.inner)

    @property
    def deviance(self) -> str:
        return deviance_of(self.inner)

    @property
    def predicts_rates(self) -> bool:
        return predicts_rates(self.inner)

    @property
    def outputs(self) -> int | None:
        return base_outputs(self.inner)

    def columns(self) -> tuple[str, ...] | None:
        """The columns that the table had."""
        return self.names

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of the remembered columns; X without names is taken as it is."""
        return self.inner.scores(select_columns(X, self.names))

    def graph(self) -> object | None:
        """The inner base's graph, whose columns are the remembered ones in their order."""
        return self.inner.graph()


def remember_columns(base: Base, X: Any) -> Base:
    """Tie a base without column names to those of X, if X has any.

    Examples
    --------
    >>> import pandas as pd
    >>> from recalibrate.bases.protocol import as_base
    >>> X = pd.DataFrame({"a": [1.0], "b": [0.0]})
    >>> base = remember_columns(as_base(lambda X: X.to_numpy() @ [1.0, 0.5]), X)
    >>> base.scores(pd.DataFrame({"b": [2.0], "c": [9.0], "a": [3.0]}))
    array([4.])
    """
    names = column_names(X)
    if names is None or base.columns() is not None:
        return base
    find_columns(names, names)  # a repeated name could not be found again
    return NamedBase(base, tuple(names))


def column_names(X: Any) -> list[str] | None:
    """Names of the columns of a pandas, polars or pyarrow table, as text; None for arrays."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    has_rows = hasattr(X, "iloc") or hasattr(X, "select")
    return None if names is None or callable(names) or not has_rows else [str(n) for n in names]


def select_columns(X: Any, wanted: Sequence[str]) -> Any:
    """The wanted columns of a table, in this order; X itself where it has no names."""
    names = column_names(X)
    if names is None or names == list(wanted):
        return X
    places = find_columns(wanted, names)
    return X.iloc[:, places] if hasattr(X, "iloc") else X.select([names[j] for j in places])


def is_exact(model: Recalibrated) -> bool:
    """Whether a graph of the model can be expected to give the same bits.

    Its base must be exact: sums of leaves are, exponentials, softmax and matrix products are not.
    Logarithms and exponentials of another library need not be the same; scores made of them are
    rounded so coarsely that they practically never differ, but that is no promise. The same
    holds for the estimators of others.
    """
    one = model.rounds.outputs == 1  # log-odds of several need exponentials
    same = model.base.link == model.rounds.family.link
    direct = one and (same or isinstance(model.base, Constant))
    return model.base.exact and direct and model.rounds.exact


@dataclass(frozen=True, eq=False)
class ChainedBase:
    """A recalibrated model as the base of further rounds, on labels it has not seen."""

    model: Recalibrated

    def __post_init__(self) -> None:
        if isinstance(self.model.base, ScoreColumn):
            raise ValueError(
                "The base model was itself fitted on an array of scores, so it cannot score new "
                "rows alone. Pass its predictions, model.predict(X, base=scores), as the base."
            )
        if self.model.own_table:
            raise ValueError(
                "The base model was itself fitted with a table Z= for H, so it cannot score rows "
                "of X alone. Pass its predictions, model.predict(X, Z=Z), as the base."
            )

    @property
    def link(self) -> Link:
        return "logit" if self._on_margins else "identity"

    @property
    def name(self) -> str:
        return f"{self.model.base.name}, recalibrated"

    @property
    def exact(self) -> bool:
        return is_exact(self.model) and self.model.rounds.link == self.link

    @property
    def why_no_graph(self) -> str:
        return self._export()[1]

    @property
    def _on_margins(self) -> bool:
        # Scores of a regression are on the scale of its labels, whatever the updates' scale.
        return self.model.rounds.link == "logit" and self.model.labels.kind != "regression"

    @property
    def deviance(self) -> str:
        """The deviance that the model was fitted by."""
        own = self.model.rounds.family
        return own.deviance if own.positive else ""

    @property
    def predicts_rates(self) -> bool:
        """Whether predictions are per unit of an exposure."""
        return self.model.predicts_rates

    @property
    def classes(self) -> Sequence[Any] | None:
        """The classes that the model was fitted to."""
        labels = self.model.labels
        return None if labels.kind == "regression" else labels.classes or None

    @property
    def target_class(self) -> Any:
        """The class that the model predicts, where it is one of several."""
        return self.model.labels.chosen

    def columns(self) -> tuple[str, ...] | None:
        """Columns of the first base and of H."""
        model = self.model
        own = model.base.columns()
        if own is None or not model.schema.named:
            return None
        used = (name for encoder in model.rounds.encoders for name in encoder.names)
        return tuple(dict.fromkeys([*own, *(name for name in used if not is_score(name))]))

    def scores(self, X: Any) -> NDArray[np.float64]:
        """The model's log-odds, or its means."""
        # In the order of `classes`, which is not that of predictions.
        return self.model._answers(X)[0] if self._on_margins else self.model.predict(X)

    def graph(self) -> object | None:
        """The exported graph of the model."""
        return self._export()[0]

    @cached_property
    def _graphs(self) -> list[object]:
        return []  # the graph, once there is one

    def _export(self) -> tuple[object | None, str]:
        """The graph, and why there is none: that may change, when its base has seen rows."""
        if self._graphs:
            return self._graphs[0], ""
        from recalibrate.graph import ExportError, export_model

        columns = self.columns()
        style: Literal["matrix", "columns"] = "matrix" if columns is None else "columns"
        try:
            graph = export_model(self.model, inputs=style, output="score")
        except ExportError as error:
            return None, f"the recalibrated model cannot be exported: {error}"
        inputs = {value.name for value in graph.graph.input}
        reserved = [name for name in columns or () if name not in inputs]
        if reserved:
            return None, f"column names that are reserved in graphs: {listed(reserved)}"
        self._graphs.append(graph)
        return graph, ""


# --- A base model that is the bytes of its ONNX graph, as files hold it and as it travels -------
#
# A graph is a program of numeric operators: parsed and looked at when it comes out of a file,
# run by onnxruntime only when asked to score. It may not refer to other files.


def to_bytes(graph: Any) -> bytes:
    """The same bytes for the same ``ModelProto``."""
    return bytes(graph.SerializeToString(deterministic=True))


@dataclass(frozen=True, eq=False)
class GraphBase:
    """A base model that came out of a file as its graph, of the form that ``Base.graph`` has."""

    content: bytes
    link: Link
    name: str
    names: tuple[str, ...] | None
    exact: bool
    why_no_graph: str = ""
    target_class: Value | None = None

    @classmethod
    def of(cls, base: Base) -> GraphBase | None:
        """A base as its graph; None where it has none."""
        graph = base.graph()
        if graph is None:
            return None
        told = base.link, base.name, base.columns(), base.exact
        return cls(to_bytes(graph), *told, target_class=class_of(base))

    def columns(self) -> tuple[str, ...] | None:
        """Columns that the model takes from X."""
        return self.names

    def graph(self) -> object | None:
        """The graph itself."""
        from onnx import ModelProto

        model: object = ModelProto.FromString(self.content)
        return model

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Scores by onnxruntime; a :class:`ModelFileError` where it cannot run the graph."""
        from recalibrate.graph.inputs import make_feed

        columns = [name for port in self._ports for name in port.columns]
        # Without names of their own, columns are found by position.
        feed = make_feed(self._ports, X, array_columns=columns if self.names is None else ())
        try:
            scores = self._runner.run(feed)
        except Exception as error:  # onnxruntime has a class for each kind of fault
            reraise_interruption(error)
            raise ModelFileError(f"the saved graph of {self.name} does not run: {error}") from error
        return read_scores(scores, n_rows=len(scores), probability=False, outputs=None)

    @cached_property
    def _ports(self) -> tuple[Input, ...]:
        """What the graph takes, in its own names."""
        from recalibrate.graph.base import read_base
        from recalibrate.graph.inputs import Input

        graph = read_base(self, None)
        taken, proto = graph.inputs, graph.proto
        if taken.columns or proto is None:
            return tuple(
                Input(
                    n,
                    kind,
                    ("N", 1),
                    (n,),
                    ("base",),
                    values=taken.values,
                    known={n: taken.known[n]} if n in taken.known else {},
                )
                for n, kind in taken.columns
            )
        name = proto.graph.input[0].name
        if taken.matrix is not None:
            shape = ("N", len(taken.matrix))
            port = Input(name, taken.precision, shape, taken.matrix, ("base",))
            told = replace(port, values=taken.values, known=taken.known, absent=taken.absent)
            return (told,)
        kind, sizes = taken.tensor or ("float32", ("N",))
        return (Input(name, kind, sizes, (), ("base",)),)

    @cached_property
    def _runner(self) -> GraphRunner:
        return GraphRunner(self.content)
