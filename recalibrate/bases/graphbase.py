"""A base model that is the bytes of its ONNX graph, as files hold it and as it travels.

A graph is a program of numeric operators: parsed and looked at when it comes out of a file, run by
onnxruntime only when asked to score. It may not refer to other files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.protocol import Base, class_of
from recalibrate.core.levels import Link
from recalibrate.data.scores import read_scores
from recalibrate.data.values import Value
from recalibrate.support.errors import ModelFileError
from recalibrate.support.interruptions import reraise_interruption
from recalibrate.support.ort import GraphRunner

if TYPE_CHECKING:
    from recalibrate.graph.inputs import Input


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
