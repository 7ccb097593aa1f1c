"""A model that predicts through onnxruntime: an exported graph, read back."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.wrappers import select_columns
from recalibrate.graph.decisions import ACTION
from recalibrate.graph.errors import ExportError
from recalibrate.graph.feeds import Feed, make_feed
from recalibrate.graph.inputs import Input
from recalibrate.support.ort import open_session

FORMATS = ("1",)
MARK = "recalibrate_format"
"""Key of the metadata that says that a graph is one of ours, and which version."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A recalibrated model as a file serves it; made by :func:`recalibrate.load`.

    Attributes
    ----------
    session
        The onnxruntime session.
    metadata
        What the file says about itself: versions, H, rounds, training rows, audit.
    inputs
        Inputs of the graph. Those that only H uses (``used_by == ("H",)``) are columns that the
        base model does not need, sensitive attributes for example.
    """

    session: Any
    metadata: dict[str, str]
    inputs: tuple[Input, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(output.name for output in self.session.get_outputs())

    def feed(self, X: Any, base: Any = None, Z: Any = None) -> Feed:
        """Rows as the tensors that the graph takes, by input name."""
        columns = json.loads(self.metadata["columns"])
        order = columns.get("order") or ()
        if len(order) == len(columns["names"]):
            X = select_columns(X, order)
        return make_feed(
            self.inputs,
            X,
            base=base,
            Z=Z,
            array_columns=() if columns["named"] else columns["names"],
            own_table=json.loads(self.metadata["own_table"]),
        )

    def answer(self, feed: Feed) -> dict[str, NDArray[Any]]:
        """All outputs for such tensors, by name."""
        return dict(zip(self.outputs, self.session.run(None, feed), strict=True))

    def run(self, X: Any, base: Any = None, Z: Any = None) -> dict[str, NDArray[Any]]:
        """All outputs for some rows, by name."""
        return self.answer(self.feed(X, base, Z))

    def predict(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Calibrated mean, or probability of label 1 (float32 numbers, as the graph gives them).

        Parameters
        ----------
        X
            New rows, a DataFrame or array as for the model itself.
        base
            Their base scores, for a graph that takes them.
        Z
            H's own table, where ``fit`` was given one.
        """
        return self.run(X, base, Z)["score"].astype(np.float64)

    def predict_proba(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Probabilities of labels 0 and 1, shape (n, 2)."""
        outputs = self.run(X, base, Z)
        if "probabilities" not in outputs:
            raise AttributeError(
                "predict_proba is for labels in [0, 1]; this model is a regression: use predict"
            )
        return outputs["probabilities"].astype(np.float64)

    def margins(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Scores on the link's own scale (log-odds, or means scaled to [0, 1])."""
        margins: NDArray[np.float64] = self.run(X, base, Z)["score_margin"]
        return margins

    def actions(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Best action for every row, from a graph that was exported with ``decide=``."""
        outputs = self.run(X, base, Z)
        if ACTION not in outputs:
            raise AttributeError(
                "this graph decides nothing: export the model again with to_onnx(decide=loss)"
            )
        return outputs[ACTION].astype(np.float64)

    def __repr__(self) -> str:
        facts = self.metadata
        return f"<ServedModel: {facts['base']}, H={facts['H']}, {facts['rounds']} rounds>"


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
    shown = "these bytes" if isinstance(source, bytes) else repr(os.fspath(source))
    try:
        session = open_session(data, threads)
    except Exception as error:  # onnxruntime has exceptions of its own for each kind of fault
        raise ExportError(f"onnxruntime cannot read {shown}: {error}") from error
    metadata = dict(session.get_modelmeta().custom_metadata_map)
    if metadata.get(MARK) not in FORMATS:
        found = metadata.get(MARK)
        raise ExportError(
            f"{shown} is an ONNX graph, but not one that recalibrate exported"
            if found is None
            else f"{shown} has format version {found}, but this version reads {FORMATS}; upgrade"
        )
    try:
        inputs = tuple(Input.from_dict(entry) for entry in json.loads(metadata["inputs"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ExportError(f"{shown} has damaged metadata: {error!r}") from error
    return ServedModel(session, metadata, inputs)
