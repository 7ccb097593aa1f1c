"""Puts graphs into the form that the core expects of ``Base.graph()``.

That form: opset 18, ai.onnx.ml 5, inputs of float32, int64 or string with a first dimension
called "N", and one output called "score", a float64 vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import onnx

OPSET, ML_OPSET, IR_VERSION = 18, 5, 10
ML_DOMAIN = "ai.onnx.ml"
INNER = "inner_"
"""Prefix of all names that come from an enclosed graph."""

InputKind = Literal["float", "int64", "string"]


def value_info(name: str, kind: InputKind, width: int | None) -> onnx.ValueInfoProto:
    """An input of shape [N, width]; None leaves the width open."""
    from onnx import TensorProto, helper

    types = {
        "float": TensorProto.FLOAT,
        "int64": TensorProto.INT64,
        "string": TensorProto.STRING,
    }
    return helper.make_tensor_value_info(name, types[kind], ["N", width])


def constant(name: str, values: Any) -> onnx.TensorProto:
    """An initializer."""
    from onnx import numpy_helper

    return numpy_helper.from_array(np.asarray(values), name)


def cast(source: str, target: str, kind: Literal["float", "double", "int64"]) -> onnx.NodeProto:
    """A node that converts numbers."""
    from onnx import TensorProto, helper

    types = {
        "float": TensorProto.FLOAT,
        "double": TensorProto.DOUBLE,
        "int64": TensorProto.INT64,
    }
    return helper.make_node("Cast", [source], [target], to=types[kind])


def score_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    """A model around nodes that end in ``score``, a float64 vector."""
    from onnx import TensorProto, helper

    score = helper.make_tensor_value_info("score", TensorProto.DOUBLE, ["N"])
    graph = helper.make_graph(list(nodes), "base", list(inputs), [score], list(initializers))
    return helper.make_model(graph, opset_imports=_opsets(), ir_version=IR_VERSION)


def as_vector(source: str, target: str = "score") -> tuple[list[Any], list[Any]]:
    """Nodes and initializers that turn one number per row, of any shape, into a float64 vector."""
    from onnx import helper

    nodes = [
        cast(source, f"{target}_wide", "double"),
        helper.make_node("Reshape", [f"{target}_wide", f"{target}_shape"], [target]),
    ]
    return nodes, [constant(f"{target}_shape", np.array([-1], dtype=np.int64))]


def enclose(
    model: onnx.ModelProto,
    inputs: Sequence[onnx.ValueInfoProto],
    before: Sequence[onnx.NodeProto],
    after: Sequence[onnx.NodeProto],
    initializers: Sequence[onnx.TensorProto],
) -> onnx.ModelProto:
    """A foreign graph between nodes of ours, reduced to what ``score`` needs.

    Parameters
    ----------
    model
        Its names get the prefix `INNER`, so that no name can occur twice.
    inputs
        Inputs of the result.
    before
        Nodes that compute the foreign graph's inputs (under their prefixed names).
    after
        Nodes that compute ``score`` from its tensors (under their prefixed names).
    initializers
        Constants of ``before`` and ``after``.
    """
    import onnx

    inner = onnx.ModelProto()
    inner.CopyFrom(model)
    del inner.graph.value_info[:]  # shapes in there may speak of one fixed batch size
    inner = onnx.compose.add_prefix(inner, INNER)
    nodes = needed_nodes([*before, *inner.graph.node, *after], ["score"])
    used = {name for node in nodes for name in names_read(node)}
    kept = [t for t in [*inner.graph.initializer, *initializers] if t.name in used]
    result = score_model(nodes, inputs, kept)
    for tensor in inner.graph.sparse_initializer:
        result.graph.sparse_initializer.append(tensor)
    result.functions.extend(inner.functions)
    known = {entry.domain for entry in result.opset_import}
    result.opset_import.extend(e for e in inner.opset_import if (e.domain or "") not in known)
    return result


def needed_nodes(nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """The nodes that the outputs depend on, in their order."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(names_read(node))
    return kept[::-1]


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Tensors that a node reads, also those that its subgraphs take from outside."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                yield from names_read(inner)
            yield from (value.name for value in graph.output)


def own_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Inputs that have to be fed: old files list initializers among the inputs."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def _opsets() -> list[Any]:
    from onnx import helper

    return [helper.make_opsetid("", OPSET), helper.make_opsetid(ML_DOMAIN, ML_OPSET)]
