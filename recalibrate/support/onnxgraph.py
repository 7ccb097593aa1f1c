"""A graph under construction: nodes, constants and names, for exported models and for bases.

Which operators a graph may hold is said here, once: ai.onnx 18 and ai.onnx.ml 5.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx

    from recalibrate.ensemble import Ensemble

OPSET = 18
ML_OPSET = 5
ML_DOMAIN = "ai.onnx.ml"
IR_VERSION = 10

PREFIX = "rc/"
"""Inner names begin with this, so that they cannot meet a column's name."""

BASE_PREFIX = "base/"
"""Names inside of the base model's graph begin with this."""

VALUES = "recalibrate_values"
"""Metadata of a base model's graph: numbers that the model takes, others than any."""

KNOWN = "recalibrate_known"
"""Metadata of a base model's graph: by column the only categories that the model takes (JSON)."""

ABSENT = "recalibrate_absent"
"""Metadata of a base model's graph: the number for entries that a sparse matrix does not store."""

SCORE = "score"
"""The output of a base model's graph."""

# Numbers of onnx.TensorProto, which never change; onnx itself is imported when it is needed.
TYPES = {"float32": 1, "float64": 11, "int64": 7, "string": 8}
INVERSE = {number: name for name, number in TYPES.items()}


class GraphBuilder:
    """Collects nodes in the order they are computed; every method returns a tensor's name.

    Parameters
    ----------
    prefix
        Beginning of all new names.
    """

    def __init__(self, prefix: str = PREFIX) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._prefix = prefix
        self._domains: dict[str, int] = {}
        self._constants: dict[tuple[Any, ...], str] = {}
        self._count = 0

    def name(self, hint: str) -> str:
        """A name that is not taken yet."""
        self._count += 1
        return f"{self._prefix}{hint}_{self._count}"

    def op(self, op_type: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """One node with one output."""
        from onnx import helper

        output = self.name(op_type)
        node = helper.make_node(
            op_type, list(inputs), [output], name=output, domain=domain, **attributes
        )
        self.nodes.append(node)
        return output

    def same(self, tensor: str, name: str) -> None:
        """Give a tensor a second name."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [tensor], [name], name=self.name("same")))

    def constant(self, values: Any) -> str:
        """A constant tensor; equal ones are stored once."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(values).reshape(np.shape(values))
        content = tuple(array.flat) if array.dtype == object else array.tobytes()
        key = (array.dtype.str, array.shape, content)
        if key not in self._constants:
            name = self.name("constant")
            self.initializers.append(numpy_helper.from_array(array, name))
            self._constants[key] = name
        return self._constants[key]

    def number(self, value: float) -> str:
        """A float64 scalar."""
        return self.constant(np.array(value, dtype=np.float64))

    def cast(self, tensor: str, to: str | int) -> str:
        """The same numbers in another type: one of the names in :data:`TYPES`, or onnx's number."""
        return self.op("Cast", tensor, to=TYPES[to] if isinstance(to, str) else to)

    def columns(self, tensor: str, positions: NDArray[Any] | Sequence[int]) -> str:
        """Some columns of a matrix."""
        index = self.constant(np.asarray(positions, dtype=np.int64))
        return self.op("Gather", tensor, index, axis=1)

    def concat(self, tensors: Sequence[str]) -> str:
        """Columns side by side."""
        return tensors[0] if len(tensors) == 1 else self.op("Concat", *tensors, axis=1)

    def flat(self, tensor: str) -> str:
        """A column [N, 1] as a vector [N]."""
        return self.op("Reshape", tensor, self.constant(np.array([-1], dtype=np.int64)))

    def column(self, tensor: str) -> str:
        """A vector [N] as a column [N, 1]."""
        return self.op("Reshape", tensor, self.constant(np.array([-1, 1], dtype=np.int64)))

    def clip(self, tensor: str, low: float, high: float) -> str:
        """Values cut at both ends."""
        return self.op("Clip", tensor, self.number(low), self.number(high))

    def within(self, tensor: str, low: float, high: float) -> str:
        """Whether low <= tensor <= high."""
        above = self.op("GreaterOrEqual", tensor, self.number(low))
        return self.op("And", above, self.op("LessOrEqual", tensor, self.number(high)))

    def snap(self, tensor: str, step: float) -> str:
        """Nearest multiples of a power of two; ``Round`` takes ties to even, as Python does."""
        scaled = self.op("Mul", tensor, self.number(1.0 / step))
        return self.op("Mul", self.op("Round", scaled), self.number(step))

    def sigmoid(self, margin: str) -> str:
        """1 / (1 + exp(-margin)).

        Not ``Sigmoid``: onnxruntime's has an absolute error of an ulp of 1, which is a relative
        error of 2**-30 at a probability of 1e-7 and shows in float32.
        """
        small = self.op("Exp", self.op("Neg", margin))
        return self.op("Div", self.number(1.0), self.op("Add", small, self.number(1.0)))

    def softmax(self, scores: str) -> str:
        """Probabilities of classes: `recalibrate.core.levels.softmax` as nodes."""
        axis = self.constant(np.array([1], dtype=np.int64))
        top = self.op("ReduceMax", scores, axis, keepdims=1)
        shares = self.op("Exp", self.op("Sub", scores, top))
        return self.op("Div", shares, self.op("ReduceSum", shares, axis, keepdims=1))

    def class_score(self, outputs: str, position: int, width: int, *, logits: bool) -> str:
        """Of one output per class: that of one class, or from logits its log-odds.

        A negative position stands for all classes, as they are.
        """
        if position < 0:
            return outputs
        own = self.columns(outputs, [position])
        if not logits:
            return own
        others = self.cast(self.columns(outputs, np.delete(np.arange(width), position)), "float64")
        axis = self.constant(np.array([1], dtype=np.int64))
        rest = self.op("ReduceLogSumExp", others, axis, keepdims=1)
        return self.op("Sub", self.cast(own, "float64"), rest)

    def lookup(
        self,
        source: str,
        keys: NDArray[Any],
        values: NDArray[np.float64],
        default: float = np.nan,
    ) -> str:
        """Values of texts or of float64 numbers by their keys; a default for all others."""
        from onnx import numpy_helper

        return self.op(
            "LabelEncoder",
            source,
            domain=ML_DOMAIN,
            keys_tensor=numpy_helper.from_array(keys),
            values_tensor=numpy_helper.from_array(values),
            default_tensor=numpy_helper.from_array(np.array([default])),
        )

    def trees(self, ensemble: Ensemble, matrix: str) -> str:
        """Sum of trees over a float64 matrix, as a column."""
        output = self.name("trees")
        self.nodes.append(ensemble.node(matrix, output, output))
        return output

    def include(self, model: onnx.ModelProto, prefix: str, feed: Mapping[str, str]) -> None:
        """Nodes of another graph, all of whose names get a prefix.

        Parameters
        ----------
        model
            The graph, in our versions of operators.
        prefix
            Beginning of its names, so that none can occur twice.
        feed
            The tensor for every one of its inputs.
        """
        from onnx import ModelProto, compose, inliner

        inner = ModelProto()
        inner.CopyFrom(model)
        if inner.functions:
            inner = inliner.inline_local_functions(inner)
        del inner.graph.value_info[:]  # shapes in there may speak of one fixed batch size
        graph = compose.add_prefix(inner, prefix, inplace=True).graph
        for name, tensor in feed.items():
            self.same(tensor, prefix + name)
        self.initializers += [*graph.initializer, *map(_dense, graph.sparse_initializer)]
        self.nodes += list(graph.node)
        used = {node.domain for node in graph.node}  # not those of functions, which are inlined
        self._domains |= {o.domain: o.version for o in inner.opset_import if o.domain in used}

    def model(
        self,
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[onnx.ValueInfoProto],
        metadata: dict[str, str],
    ) -> onnx.ModelProto:
        """The finished model."""
        from onnx import helper

        from recalibrate import __version__

        graph = helper.make_graph(
            self.nodes, "recalibrate", inputs, outputs, initializer=self.initializers
        )
        opsets = {**self._domains, "": OPSET, ML_DOMAIN: ML_OPSET}
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(d, v) for d, v in sorted(opsets.items())],
            ir_version=IR_VERSION,
            producer_name="recalibrate",
            producer_version=__version__,
        )
        helper.set_model_props(model, metadata)
        return model

    def score_model(
        self,
        inputs: Sequence[onnx.ValueInfoProto],
        tensor: str,
        values: str = "any",
        known: Mapping[str, Sequence[Any]] = {},
        width: int = 1,
    ) -> onnx.ModelProto:
        """A base model's graph: what is needed for one number per row, a float64 vector.

        Of ``width`` classes: a matrix with a column for each. A graph refuses nothing, or in words
        of its own; ``values`` and ``known`` (by column the only categories that are taken) tell
        those who feed it what the model would refuse.
        """
        wide = self.cast(tensor, "float64")
        self.same(self.flat(wide) if width == 1 else wide, SCORE)
        self.nodes = _needed_nodes(self.nodes, [SCORE])
        used = {name for node in self.nodes for name in _names_read(node)}
        self.initializers = [tensor for tensor in self.initializers if tensor.name in used]
        facts = {} if values == "any" else {VALUES: values}
        if known:
            facts[KNOWN] = json.dumps({name: list(taken) for name, taken in known.items()})
        shape: list[str | int] = ["N"] if width == 1 else ["N", width]
        return self.model(inputs, [value_info(SCORE, "float64", shape)], facts)


def value_info(name: str, kind: str, shape: Sequence[int | str | None]) -> onnx.ValueInfoProto:
    """An input or output: its name, type and shape (text is a dynamic size)."""
    from onnx import helper

    return helper.make_tensor_value_info(name, TYPES[kind], shape)


def own_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Inputs that have to be fed: old files list initializers among the inputs."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def _needed_nodes(nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """The nodes that the outputs depend on, in their order."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(_names_read(node))
    return kept[::-1]


def pruned(model: onnx.ModelProto, outputs: Iterable[str]) -> onnx.ModelProto:
    """A copy with only the nodes that some tensors need."""
    from onnx import ModelProto

    result = ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    result.graph.node.extend(_needed_nodes(list(model.graph.node), outputs))
    return result


def _names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Tensors that a node reads, also those that its subgraphs take from outside."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                yield from _names_read(inner)
            yield from (value.name for value in graph.output)


def _dense(tensor: onnx.SparseTensorProto) -> onnx.TensorProto:
    from onnx import numpy_helper

    values, index = numpy_helper.to_array(tensor.values), numpy_helper.to_array(tensor.indices)
    dense = np.zeros(list(tensor.dims), dtype=values.dtype)
    places = tuple(index.T) if index.ndim == 2 else np.unravel_index(index, dense.shape)
    dense[places] = values
    return numpy_helper.from_array(dense, tensor.values.name)
