"""A model that predicts through onnxruntime: an exported graph, read back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import has_no_rows
from recalibrate.bases.protocol import Base, as_base
from recalibrate.bases.wrappers import select_columns
from recalibrate.data.classes import Known, sort_classes
from recalibrate.graph.decisions import ACTION
from recalibrate.graph.facts import Facts, read_facts
from recalibrate.graph.inputs import Feed, Input, make_feed
from recalibrate.support.checks import ModelFileError
from recalibrate.support.notices import listed, printable
from recalibrate.support.onnxfile import open_session, read_graph, run_session
from recalibrate.support.threads import reraise_interruption

ALWAYS = ({"score", "score_margin"}, {"probabilities", "score_margin"})
"""Outputs of which every exported graph has one or the other pair."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A recalibrated model as a file serves it; made by :func:`recalibrate.load`.

    Attributes
    ----------
    content
        The graph.
    metadata
        What the file says about itself: versions, H, rounds, training rows, audit.
    facts
        The same as far as it is needed to predict, checked.
    threads
        Threads of onnxruntime; None: its own choice.
    """

    content: bytes
    metadata: dict[str, str]
    facts: Facts
    threads: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A session cannot be copied or sent to another process; it is made anew there.
        return {key: value for key, value in self.__dict__.items() if key != "session"}

    @cached_property
    def session(self) -> Any:
        """The onnxruntime session."""
        return open_session(self.content, self.threads)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the graph.

        Those that only H uses (``used_by == ("H",)``) are columns that the base model does not
        need, sensitive attributes for example.
        """
        return self.facts.inputs

    @property
    def predicts_rates(self) -> bool:
        """Whether the model was fitted with ``exposure=``: it predicts y per unit of exposure."""
        return self.facts.exposed

    def as_base(self) -> Base:
        """The graph as a base: `fit` appends rounds to it on new labels."""
        return as_base(self.content)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(output.name for output in self.session.get_outputs())

    def feed(self, X: Any, base: Any = None, Z: Any = None) -> Feed:
        """Rows as the tensors that the graph takes, by input name."""
        facts = self.facts
        if len(facts.order) == len(facts.names):
            X = select_columns(X, facts.order)
        return make_feed(
            facts.inputs,
            X,
            base=base,
            Z=Z,
            array_columns=() if facts.named else facts.names,
            own_table=facts.own_table,
        )

    def answer(self, feed: Feed) -> dict[str, NDArray[Any]]:
        """All outputs for such tensors, by name."""
        try:
            found = run_session(self.session, feed)
        except Exception as error:  # onnxruntime has a class for each kind of fault
            reraise_interruption(error)
            raise ModelFileError(f"the exported graph does not run: {error}") from error
        rows = {len(values) for values in feed.values()}
        if any(np.shape(values)[:1] != (n,) for values in found for n in rows):
            raise ModelFileError("the exported graph does not give one answer per row")
        return dict(zip(self.outputs, found, strict=True))

    def run(self, X: Any, base: Any = None, Z: Any = None) -> dict[str, NDArray[Any]]:
        """All outputs for some rows, by name."""
        if has_no_rows(X, base):
            return {each.name: _no_values(each) for each in self.session.get_outputs()}
        return self.answer(self.feed(X, base, Z))

    def predict(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Calibrated mean, or probability of the class that counts as 1 (float32 numbers).

        Of more than two classes: the probabilities of all, as :meth:`predict_proba`.

        Parameters
        ----------
        X
            New rows, a DataFrame or array as for the model itself.
        base
            Their base scores, for a graph that takes them.
        Z
            H's own table, where ``fit`` was given one.
        """
        outputs = self.run(X, base, Z)
        if "score" in outputs:
            return outputs["score"].astype(np.float64)
        return self._in_columns(outputs["probabilities"].astype(np.float64))

    def predict_proba(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Probabilities of :attr:`classes_`, shape (n, K)."""
        outputs = self.run(X, base, Z)
        if "probabilities" not in outputs:
            raise AttributeError(
                "predict_proba is for labels in [0, 1]; this model is a regression: use predict"
            )
        return self._in_columns(outputs["probabilities"].astype(np.float64))

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted: the order of the columns of :meth:`predict_proba`."""
        if "probabilities" not in self.outputs:
            raise AttributeError("a regression model has no classes")
        return np.array(sort_classes(self.facts.classes) or (0, 1))

    @property
    def known(self) -> Known:
        """How labels are to be read that predictions are compared with."""
        return self.facts.known

    def _in_columns(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Columns in the order of :attr:`classes_`: files of version 0.2 may have another."""
        classes = self.facts.classes
        places = [classes.index(label) for label in sort_classes(classes)]
        return values if places == sorted(places) else values[:, places]

    def margins(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Scores on the link's own scale (log-odds, or means scaled to [0, 1])."""
        margins: NDArray[np.float64] = self.run(X, base, Z)["score_margin"]
        return self._in_columns(margins) if margins.ndim == 2 else margins

    def actions(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Best action for every row, from a graph that was exported with ``decide=``."""
        outputs = self.run(X, base, Z)
        if ACTION not in outputs:
            raise AttributeError(
                "this graph has no decision output: export the model with to_onnx(decide=loss)"
            )
        return outputs[ACTION].astype(np.float64)

    def __repr__(self) -> str:
        facts = self.metadata
        return printable(
            f"<ServedModel: {facts['base']}, H={facts['H']}, {facts['rounds']} rounds>"
        )


def _no_values(output: Any) -> NDArray[Any]:
    """An output of the graph for no rows."""
    kinds = {"tensor(string)": "O", "tensor(int64)": "i8", "tensor(double)": "f8"}
    shape = [size for size in output.shape[1:] if isinstance(size, int)]
    return np.empty((0, *shape), kinds.get(output.type, "f4"))


def load_served(source: str | os.PathLike[str] | bytes, threads: int | None = None) -> ServedModel:
    """An exported graph, ready to predict.

    Parameters
    ----------
    source
        Path of the file, or its bytes.
    threads
        Threads of onnxruntime; its own choice by default. The numbers are the same.
    """
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    shown = "the file" if isinstance(source, bytes) else repr(os.fspath(source))
    graph = read_graph(data, shown)
    metadata = {entry.key: entry.value for entry in graph.metadata_props}
    model = ServedModel(data, metadata, read_facts(metadata, shown), threads)
    try:
        taken = {value.name for value in model.session.get_inputs()}
    except Exception as error:  # onnxruntime has exceptions of its own for each kind of fault
        reraise_interruption(error)
        raise ModelFileError(f"onnxruntime cannot read {shown}: {error}") from error
    told = {port.name for port in model.inputs}
    if taken != told or not any(pair <= set(model.outputs) for pair in ALWAYS):
        raise ModelFileError(
            f"{shown} has damaged metadata: its inputs {listed(sorted(taken))} and outputs "
            f"{listed(model.outputs)} are not those of an export"
        )
    return model
