"""The outputs of a foreign ONNX graph: which one is the score, and what its numbers mean.

The rules, in order; whatever they leave open is an error that says how to decide.

1. ``output=`` names the output.
2. A file that recalibrate exported: its calibrated score.
3. Outputs of integers, texts or flags are labels. If one output is left, it is the one; if
   several are left and one has "prob" in its name, it is that one.
4. One number per row is the prediction, or what ``link=`` says it is.
5. Several numbers per row are the classes' probabilities if the graph says so: by a map from
   classes, by an output of labels, by "prob" in the name, by a final Softmax. If not, ``link=``
   must be declared: "identity" for probabilities, "logit" for logits (before a softmax). It may
   be declared against a name, too: skl2onnx calls raw scores probabilities. Its raw scores of two
   classes are the log-odds and the same with the other sign.
6. Of two classes the second is scored; of more, ``target_class=`` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.scores import Link
from recalibrate.support.onnxgraph import GraphBuilder
from recalibrate_adapters.classes import choose_class, class_score

if TYPE_CHECKING:
    import onnx

    from recalibrate.graph.facts import Facts

Scores = NDArray[np.float64]
SOFTMAX = "it comes from a softmax"
_SLACK = 1e-4
"""Probabilities of float32 graphs are off by as much, at most."""


@dataclass(frozen=True)
class Output:
    """The output that holds the score.

    Attributes
    ----------
    name
        Its name.
    tensor
        The tensor behind it: a map from classes has one.
    classes
        The classes, if the graph tells.
    speaks_of_classes
        What says that its numbers are probabilities of classes; empty if nothing does.
    """

    name: str
    tensor: str
    classes: tuple[Any, ...]
    speaks_of_classes: str


@dataclass(frozen=True)
class Reading:
    """From an output's numbers to the score.

    Attributes
    ----------
    kind
        "single": one number per row; "column": that of one class; "logits": the log-odds of one
        class from the logits of all.
    position
        The class.
    width
        Numbers per row.
    probability
        Whether they must be probabilities.
    shift, span
        The score is ``shift + span * number``.
    """

    kind: Literal["single", "column", "logits"]
    position: int = 0
    width: int = 1
    probability: bool = False
    shift: float = 0.0
    span: float = 1.0

    def scores(self, values: NDArray[Any]) -> Scores:
        """Scores from the output, as the graph gives it."""
        rows = values.astype(np.float64).reshape(len(values), -1)
        if self.kind == "single":
            return np.asarray(self.shift + self.span * rows[:, 0])
        return class_score(rows, self.position, logits=self.kind == "logits")

    def write(self, builder: GraphBuilder, tensor: str) -> str:
        """The same as nodes."""
        if self.kind != "single":
            return builder.class_score(
                tensor, self.position, self.width, logits=self.kind == "logits"
            )
        if (self.shift, self.span) == (0.0, 1.0):
            return tensor
        size = builder.number(self.span)
        scaled = builder.op("Mul", builder.cast(tensor, "float64"), size)
        return builder.op("Add", scaled, builder.number(self.shift))


def choose_output(model: onnx.ModelProto, wanted: str | None, *, ours: bool) -> Output:
    """Rules 1 to 3.

    Raises
    ------
    ValueError
        If the outputs leave open which one is the score.
    """
    outputs = {value.name: value for value in model.graph.output}
    if ours and wanted is None:
        wanted = "score_margin"
    if wanted is not None:
        if wanted not in outputs:
            raise ValueError(
                f"The ONNX graph has no output {wanted!r}. It has: {_described(outputs)}."
            )
        return _output(model, outputs[wanted])
    numbers = [value for value in outputs.values() if not _is_label(value)]
    if len(numbers) > 1:
        numbers = [value for value in numbers if "prob" in value.name.lower()]
    if len(numbers) != 1:
        only = "only labels" if all(map(_is_label, outputs.values())) else "no single score"
        raise ValueError(
            f"The ONNX graph has {only} among its outputs: {_described(outputs)}. Choose one: "
            "recalibrate_adapters.onnx.OnnxBase(model, output=...)."
        )
    return _output(model, numbers[0])


def read_output(
    output: Output, values: NDArray[Any], link: Link | None, target_class: Any, facts: Facts | None
) -> Reading:
    """Rules 4 to 6, for an output that holds such numbers for some rows."""
    rows = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    width = rows.shape[1]
    if width == 1:
        if target_class is not None:
            raise ValueError(
                f"target_class={target_class!r} was given, but output {output.name!r} has one "
                "number per row."
            )
        return (
            Reading("single")
            if facts is None
            else Reading("single", shift=facts.shift, span=facts.span)
        )
    classes = output.classes if len(output.classes) == width else tuple(range(width))
    position = choose_class(classes, target_class, f"The ONNX graph's output {output.name!r}")
    chosen = Reading("column", position, width)
    if output.speaks_of_classes and link != "logit":
        return replace(chosen, probability=True)
    if output.speaks_of_classes:
        if output.speaks_of_classes == SOFTMAX or are_shares(rows):
            raise ValueError(
                f"link='logit' was declared, but output {output.name!r} holds probabilities "
                f"({output.speaks_of_classes}). Leave the link out, or choose another output."
            )
        if width == 2 and are_opposite(rows):
            return chosen
    if link is None:
        raise ValueError(
            f"Output {output.name!r} of the ONNX graph has {width} numbers per row, and nothing "
            "tells whether they are probabilities or logits. Declare the link (base_link of fit): "
            "'identity' for probabilities, 'logit' for logits."
        )
    if link == "logit":
        return replace(chosen, kind="logits")
    return replace(chosen, probability=True)


def are_shares(rows: Scores) -> bool:
    """Whether numbers are the probabilities of classes: of every row they add up to one."""
    inside = (rows >= -_SLACK) & (rows <= 1.0 + _SLACK)
    return bool(inside.all() and (np.abs(rows.sum(axis=1) - 1.0) <= _SLACK).all())


def are_opposite(rows: Scores) -> bool:
    """Whether both numbers of every row are the same, one with the other sign."""
    return bool(np.allclose(rows[:, 0], -rows[:, 1], rtol=1e-5, atol=0.0))


def _output(model: onnx.ModelProto, value: onnx.ValueInfoProto) -> Output:
    name, tensor, classes, why = value.name, value.name, (), ""
    producers = {result: node for node in model.graph.node for result in node.output}
    node = producers.get(name)
    if value.type.HasField("sequence_type"):
        if node is None or node.op_type != "ZipMap":
            raise ValueError(f"Output {name!r} of the ONNX graph is not a tensor of numbers.")
        tensor, classes, why = node.input[0], _classes(node), "it maps classes to numbers"
        node = producers.get(tensor)
    while node is not None and node.op_type in ("Cast", "Identity"):
        node = producers.get(node.input[0])
    if not why and node is not None and node.op_type == "Softmax":
        why = SOFTMAX
    if not why and "prob" in name.lower():
        why = "its name says so"
    if not why and any(_is_label(other) for other in model.graph.output):
        why = "there is an output of labels beside it"
    return Output(name, tensor, classes or _any_classes(model), why)


def _any_classes(model: onnx.ModelProto) -> tuple[Any, ...]:
    """Classes that a classifier inside of the graph tells, if there is exactly one."""
    found = {_classes(node) for node in model.graph.node} - {()}
    return found.pop() if len(found) == 1 else ()


def _classes(node: onnx.NodeProto) -> tuple[Any, ...]:
    for attribute in node.attribute:
        if attribute.name in ("classlabels_int64s", "classlabels_ints"):
            return tuple(attribute.ints)
        if attribute.name == "classlabels_strings":
            return tuple(text.decode() for text in attribute.strings)
    return ()


def _is_label(value: onnx.ValueInfoProto) -> bool:
    from onnx import TensorProto

    if not value.type.HasField("tensor_type"):
        return False
    floats = (
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
    )
    return value.type.tensor_type.elem_type not in floats


def _described(outputs: dict[str, onnx.ValueInfoProto]) -> str:
    from onnx import helper

    return ", ".join(
        f"{name!r} ({helper.printable_type(value.type)})" for name, value in outputs.items()
    )


def as_matrix(values: Any, classes: Sequence[Any]) -> NDArray[Any]:
    """An output as onnxruntime gives it, as an array with rows: maps become columns."""
    if not isinstance(values, list):
        return np.asarray(values)
    keys = list(classes) if classes else sorted(values[0])
    return np.array([[row[key] for key in keys] for row in values])
