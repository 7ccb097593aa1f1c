"""ONNX models of any exporter as base models: a path, the bytes of a file, or a ModelProto.

Which output is the score, and what its numbers mean, follows the rules of
`recalibrate_adapters.onnx`. Columns are found by name where every input is one column, by
position otherwise (or name them: ``OnnxBase(model, columns=[...])``).

The base's own graph is the user's with its labels and maps removed, in the operator versions that
the rest of the graph needs. The first rows that are scored decide whether it still gives the
original's numbers (see `recalibrate_adapters.agreement`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.classes import NOTHING_KNOWN
from recalibrate.graph.facts import MARK, Facts, read_facts
from recalibrate.scores import Link
from recalibrate.support.checks import ModelFileError
from recalibrate.support.notices import listed
from recalibrate.support.onnxfile import BLOCK_ROWS, open_session, read_graph, run_session
from recalibrate.support.onnxgraph import (
    ML_DOMAIN,
    ML_OPSET,
    OPSET,
    SCORE,
    TYPES,
    GraphBuilder,
    own_inputs,
    pruned,
    value_info,
)
from recalibrate.support.threads import reraise_interruption
from recalibrate_adapters.agreement import (
    ENOUGH_ROWS,
    Candidate,
    DecidedBase,
    Decision,
    Feed,
    check_finite,
    first_line,
    rows_to_compare,
)
from recalibrate_adapters.classes import EVERY, choose_class, class_score
from recalibrate_adapters.filechecks import read_content
from recalibrate_adapters.forest import CALLED_SCORE
from recalibrate_adapters.frames import InputKind, column_feed, matrix_feed, read_frame
from recalibrate_adapters.treeops import RewriteError, rewrite_trees

if TYPE_CHECKING:
    import onnx
    import pandas as pd


# --- Brings a foreign graph to the operator versions that the rest of our graphs use ------------


class _ConversionError(Exception):
    """A graph cannot be brought to our versions; the message says why."""


def _modernise(model: onnx.ModelProto, tensor: str) -> onnx.ModelProto:
    """A copy in our versions, with only the nodes that a tensor needs.

    Labels and maps from classes are dropped with the nodes that make them. Operators of a newer
    version than ours are left as they are: new versions mostly add types of numbers, and a graph
    that means something else in our version is refused by onnxruntime or by its results.

    Raises
    ------
    ConversionError
        If an operator has no counterpart in our versions.
    """
    import onnx
    from onnx import version_converter

    result = pruned(model, [tensor])
    del result.graph.value_info[:]
    del result.graph.output[:]
    result.graph.output.append(onnx.ValueInfoProto(name=tensor))
    versions = {entry.domain: entry.version for entry in model.opset_import}
    if versions.get(ML_DOMAIN, 0) > ML_OPSET:
        raise _ConversionError(
            f"the graph uses {ML_DOMAIN} {versions[ML_DOMAIN]}, above {ML_OPSET}"
        )
    try:
        result = rewrite_trees(result)
        if versions.get("", OPSET) < OPSET:
            result = version_converter.convert_version(result, OPSET)
    except RewriteError as error:
        raise _ConversionError(f"the graph cannot be rewritten: {error}") from error
    except Exception as error:  # the converter raises plain RuntimeErrors
        reraise_interruption(error)
        raise _ConversionError(
            f"the graph uses version {versions.get('')} of ONNX's operators, which cannot be "
            f"converted to version {OPSET}: {first_line(error)}"
        ) from error
    return result


# --- The inputs of a foreign ONNX graph: how a table's columns become its tensors ---------------


MOST_NUMBERS = 1 << 24
MOST_COLUMNS = 1 << 17
"""A row's numbers in a tensor, and in a table, whose columns are looked at one by one."""


@dataclass(frozen=True)
class _Entry:
    """One input of the foreign graph.

    Attributes
    ----------
    name
        Its name.
    type
        Its element type, a number of ``onnx.TensorProto``.
    shape
        Its dimensions; None where they are open.
    """

    name: str
    type: int
    shape: tuple[int | None, ...]

    @property
    def is_text(self) -> bool:
        return self.type == TYPES["string"]

    @property
    def dtype(self) -> np.dtype[Any]:
        from onnx import helper

        return np.dtype(helper.tensor_dtype_to_np_dtype(self.type))

    @property
    def kind(self) -> InputKind:
        """Type of our inputs that hold its columns: a precision that loses nothing."""
        if self.is_text:
            return "string"
        return "float64" if self.dtype == np.float64 or self.dtype.kind in "iu" else "float32"

    @property
    def width(self) -> int | None:
        """Columns that it takes; None if that is open."""
        return 1 if len(self.shape) == 1 else self.shape[1]

    def tensor(self, frame: pd.DataFrame) -> NDArray[Any]:
        """Its columns as the tensor that the graph wants."""
        kind: InputKind = "int64" if self.dtype.kind in "iu" else self.kind
        feed = column_feed(frame, dict.fromkeys(map(str, frame.columns), kind))
        block = np.concatenate(list(feed.values()), axis=1).astype(self.dtype, copy=False)
        return block.reshape(-1) if len(self.shape) == 1 else block


@dataclass(frozen=True)
class _Layout:
    """All inputs, and the columns of X that they hold, input by input.

    Attributes
    ----------
    entries
        The inputs.
    names
        Names of the columns; None if they are known by position.
    """

    entries: tuple[_Entry, ...]
    names: tuple[str, ...] | None

    @property
    def is_tensor(self) -> bool:
        """Whether the only input is no table, such as images."""
        return len(self.entries) == 1 and len(self.entries[0].shape) > 2

    @property
    def by_column(self) -> bool:
        """Whether our graph has one input per column: a matrix cannot hold text."""
        return any(entry.is_text for entry in self.entries)

    @property
    def precision(self) -> InputKind:
        """Type of our matrix or tensor."""
        kinds = {entry.kind for entry in self.entries}
        return "float64" if "float64" in kinds else "float32"

    @property
    def n_columns(self) -> int | None:
        """Columns of all inputs; None if that is open."""
        widths = [entry.width for entry in self.entries]
        return None if None in widths else sum(width or 0 for width in widths)

    @property
    def batch(self) -> int | None:
        """The number of rows that the graph is fixed to, if it is."""
        return next((entry.shape[0] for entry in self.entries if entry.shape[0]), None)

    def read(self, X: Any) -> Any:
        """Rows: a frame of the graph's own columns, or an array for a tensor."""
        if self.is_tensor:
            tensor = np.asarray(X, dtype=self.precision)
            if len(tensor) == 0:
                raise ValueError("X is empty: 0 rows.")
            if tensor.ndim != len(self.entries[0].shape):
                raise ValueError(
                    f"The base model takes an array of {len(self.entries[0].shape)} dimensions, "
                    f"got one of shape {tensor.shape}."
                )
            return tensor
        width = self.n_columns or np.shape(X)[1]
        return read_frame(X, self.names, width, wide=self.precision == "float64")

    def original_feed(self, rows: Any) -> dict[str, NDArray[Any]]:
        """What the foreign graph is fed with."""
        if self.is_tensor:
            return {self.entries[0].name: rows.astype(self.entries[0].dtype)}
        feed, start = {}, 0
        for entry in self.entries:
            stop = start + (entry.width or rows.shape[1])
            feed[entry.name] = entry.tensor(rows.iloc[:, start:stop])
            start = stop
        return feed

    def feed(self, rows: Any) -> Feed:
        """What our graph is fed with."""
        if self.is_tensor:
            return {"X": np.asarray(rows)}
        if self.by_column:
            return column_feed(rows, self._kinds)
        return matrix_feed(rows, self.precision)

    def inputs(self) -> list[onnx.ValueInfoProto]:
        """Inputs of our graph."""
        if self.by_column:
            return [value_info(name, kind, ["N", 1]) for name, kind in self._kinds.items()]
        sizes = self.entries[0].shape[1:] if self.is_tensor else (self.n_columns,)
        return [value_info("X", self.precision, ["N", *sizes])]

    def write(self, builder: GraphBuilder) -> dict[str, str]:
        """Tensors for the inputs of the foreign graph, made of our inputs."""
        feed, start = {}, 0
        for entry in self.entries:
            stop = start + (entry.width or 0)
            source = "X"
            if self.by_column:
                source = builder.concat(list(self._kinds)[start:stop])
            elif len(self.entries) > 1:
                source = builder.columns(source, range(start, stop))
            if len(entry.shape) == 1:
                source = builder.flat(source)
            feed[entry.name] = source if entry.is_text else builder.cast(source, entry.type)
            start = stop
        return feed

    @cached_property
    def _kinds(self) -> dict[str, InputKind]:
        kinds: list[InputKind] = []
        for entry in self.entries:
            kinds += [entry.kind] * (entry.width or 0)
        return dict(zip(self.names or (), kinds, strict=True))


def _read_layout(
    model: onnx.ModelProto, columns: Sequence[str] | None, facts: Facts | None
) -> _Layout:
    """The layout of a graph's inputs.

    Parameters
    ----------
    model
        The foreign graph.
    columns
        Names of the columns of X, in the order of the inputs, if the user gave them.
    facts
        What a file of our own says about itself.

    Raises
    ------
    ValueError
        If the inputs are of a kind that a table cannot feed, or need names.
    """
    entries = tuple(_read_entry(value) for value in own_inputs(model))
    if not entries:
        raise ValueError("The ONNX graph has no inputs, so it cannot score rows.")
    layout = _Layout(entries, None)
    if layout.is_tensor:
        return layout
    wide = [entry.name for entry in entries if len(entry.shape) > 2]
    if wide:
        raise ValueError(
            f"The ONNX graph has several inputs, and these are no columns or tables: "
            f"{listed(wide)}. Use a function that runs the graph and returns scores."
        )
    if len(entries) > 1 and layout.n_columns is None:
        raise ValueError(
            "The ONNX graph has several inputs whose number of columns is open: "
            f"{listed([e.name for e in entries if e.width is None])}. Export it with fixed widths."
        )
    if (layout.n_columns or 0) > MOST_COLUMNS:
        raise ModelFileError(
            f"The ONNX graph takes {layout.n_columns:,} columns, more than {MOST_COLUMNS:,}."
        )
    return replace(layout, names=_names(layout, columns, facts))


def _read_entry(value: onnx.ValueInfoProto) -> _Entry:
    if not value.type.HasField("tensor_type"):
        raise ValueError(f"Input {value.name!r} of the ONNX graph is not a tensor.")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return _Entry(value.name, tensor.elem_type, (None, None))
    shape = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
    if not shape:
        raise ValueError(f"Input {value.name!r} of the ONNX graph is a single value, not rows.")
    size = 1
    for each in shape[1:]:
        size *= each or 1
    if not 0 < size <= MOST_NUMBERS:
        raise ModelFileError(
            f"Input {value.name!r} of the ONNX graph takes {size:,} numbers for every row, more "
            f"than {MOST_NUMBERS:,}."
        )
    return _Entry(value.name, tensor.elem_type, shape)


def _names(
    layout: _Layout, columns: Sequence[str] | None, facts: Facts | None
) -> tuple[str, ...] | None:
    if columns is not None:
        names = tuple(str(name) for name in columns)
        if len(set(names)) != len(names) or layout.n_columns not in (None, len(names)):
            raise ValueError(
                f"columns= must name each of the graph's {layout.n_columns} columns once, in the "
                f"order of its inputs; got {listed(names)}."
            )
        return names
    if facts is not None:
        return _told_names(layout, facts)
    if all(entry.width == 1 for entry in layout.entries) and (
        len(layout.entries) > 1 or layout.by_column
    ):
        return tuple(entry.name for entry in layout.entries)
    if layout.by_column:
        raise ValueError(
            "The ONNX graph takes a matrix of texts, whose columns have no names. Name them, in "
            "their order: recalibrate_adapters.onnx.OnnxBase(model, columns=[...])."
        )
    return None


def _told_names(layout: _Layout, facts: Facts) -> tuple[str, ...] | None:
    """Names of the columns of a file of our own."""
    known = {port.name: port.columns for port in facts.inputs}
    names = tuple(name for entry in layout.entries for name in known.get(entry.name, ()))
    if len(set(names)) != len(names) or layout.n_columns not in (None, len(names)):
        raise ModelFileError(
            f"The ONNX graph says that it takes {listed(names)}, but has {layout.n_columns} columns"
        )
    return names if facts.named or layout.by_column else None


# --- The outputs of a foreign ONNX graph: which one is the score, and what its numbers mean -----
#
# The rules, in order; whatever they leave open is an error that says how to decide.
#
# 1. ``output=`` names the output.
# 2. A file that recalibrate exported: its calibrated score.
# 3. Outputs of integers, texts or flags are labels. If one output is left, it is the one; if
#    several are left and one has "prob" in its name, it is that one.
# 4. One number per row is the prediction, or what ``link=`` says it is.
# 5. Several numbers per row are the classes' probabilities if the graph says so: by a map from
#    classes, by an output of labels, by "prob" in the name, by a final Softmax. If not, ``link=``
#    must be declared: "identity" for probabilities, "logit" for logits (before a softmax). It may
#    be declared against a name, too: skl2onnx calls raw scores probabilities. Its raw scores of two
#    classes are the log-odds and the same with the other sign.
# 6. Of two classes the second is scored; of more, ``target_class=`` chooses.


Scores = NDArray[np.float64]
SOFTMAX = "it comes from a softmax"
_SLACK = 1e-4
"""Probabilities of float32 graphs are off by as much, at most."""


@dataclass(frozen=True)
class _Output:
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
class _ScoreOutput:
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


def _choose_output(model: onnx.ModelProto, wanted: str | None, *, ours: bool) -> _Output:
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


def _read_output(
    output: _Output, values: NDArray[Any], link: Link | None, target_class: Any, facts: Facts | None
) -> _ScoreOutput:
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
            _ScoreOutput("single")
            if facts is None
            else _ScoreOutput("single", shift=facts.shift, span=facts.span)
        )
    classes = output.classes if len(output.classes) == width else tuple(range(width))
    position = choose_class(classes, target_class, f"The ONNX graph's output {output.name!r}")
    chosen = _ScoreOutput("column", position, width)
    if output.speaks_of_classes and link != "logit":
        return replace(chosen, probability=True)
    if output.speaks_of_classes:
        if output.speaks_of_classes == SOFTMAX or _are_shares(rows):
            raise ValueError(
                f"link='logit' was declared, but output {output.name!r} holds probabilities "
                f"({output.speaks_of_classes}). Leave the link out, or choose another output."
            )
        if width == 2 and _are_opposite(rows):
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


def _are_shares(rows: Scores) -> bool:
    """Whether numbers are the probabilities of classes: of every row they add up to one."""
    inside = (rows >= -_SLACK) & (rows <= 1.0 + _SLACK)
    return bool(inside.all() and (np.abs(rows.sum(axis=1) - 1.0) <= _SLACK).all())


def _are_opposite(rows: Scores) -> bool:
    """Whether both numbers of every row are the same, one with the other sign."""
    return bool(np.allclose(rows[:, 0], -rows[:, 1], rtol=1e-5, atol=0.0))


def _output(model: onnx.ModelProto, value: onnx.ValueInfoProto) -> _Output:
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
    return _Output(name, tensor, classes or _any_classes(model), why)


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


def _as_matrix(values: Any, classes: Sequence[Any]) -> NDArray[Any]:
    """An output as onnxruntime gives it, as an array with rows: maps become columns."""
    if not isinstance(values, list):
        return np.asarray(values)
    keys = list(classes) if classes else sorted(values[0])
    return np.array([[row[key] for key in keys] for row in values])


# --- ONNX models of any exporter as base models: a path, the bytes of a file, or a ModelProto ---


_INNER = "inner/"  # before all names of the user's graph
# Probabilities in float32 may be off by a little.


class OnnxBase(DecidedBase):
    """An ONNX model as a base.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
        A model that keeps its weights in files of their own must be given by its path.
    output : str, optional
        Name of the output that is the score.
    columns : sequence of str, optional
        Names of the columns of X, in the order of the graph's inputs.
    link : {"identity", "logit"}, optional
        Scale of the output's numbers; where it is needed an error says so.
    target_class : optional
        Class whose probability is the score; needed where there are more than two.

    Raises
    ------
    ValueError
        If it is no valid ONNX model, or its inputs and outputs leave open how to use it.

    Examples
    --------
    >>> from onnx import TensorProto, helper
    >>> X = helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 1])
    >>> p = helper.make_tensor_value_info("p", TensorProto.FLOAT, [None, 1])
    >>> graph = helper.make_graph([helper.make_node("Sigmoid", ["X"], ["p"])], "g", [X], [p])
    >>> model = helper.make_model(
    ...     graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    ... )
    >>> OnnxBase(model).scores(np.array([[0.0]]))
    array([0.5])
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | onnx.ModelProto,
        *,
        output: str | None = None,
        columns: Sequence[str] | None = None,
        link: Link | None = None,
        target_class: Any = None,
    ) -> None:
        source = _Source(model)
        proto = source.proto
        self.name = f"ONNX {source.shown}"
        self._facts = _read_ours(proto, source.shown) if output is None else None
        self.predicts_rates = self._facts is not None and self._facts.exposed
        self._layout = _read_layout(proto, columns, self._facts)
        chosen = _choose_output(proto, output, ours=self._facts is not None)
        # An object of its own: methods of the base, bound to the decision, would keep the base
        # with its weights until the garbage collector finds the cycle.
        self._asked = _Asked(source, self._layout, chosen)
        self._declared = link
        self.target_class = target_class
        self.unnamed_outputs = False
        self.classes: Sequence[Any] | None = None
        self._wanted = target_class  # of several outputs
        known = NOTHING_KNOWN if self._facts is None else self._facts.known
        if self._facts is not None and self._facts.classes and known.outputs == 1:
            self.classes = known.classes  # of two the second is what the score is about
            self.target_class = known.chosen if target_class is None else target_class
            self._wanted = None if target_class == known.chosen else target_class
        self.link: Link = self._read_link(link)
        values = self._try_zeros()
        if values is not None:
            self._read(values, made=True)
        probes = _first_rows if self._layout.is_tensor else rows_to_compare
        self._decision = Decision(self.link, self._asked.native, self._asked.propose, probes)

    def columns(self) -> tuple[str, ...] | None:
        """Columns that the graph takes, if they have names."""
        return self._layout.names

    def scores(self, X: Any) -> NDArray[np.float64]:
        """One score per row of X."""
        rows = self._layout.read(X)
        if self._asked.reading is None:
            self._read(self._asked.run(rows[:ENOUGH_ROWS]))
        scores = self._decision.scores(rows)
        self._check(scores)
        return scores

    def _read_link(self, link: Link | None) -> Link:
        if self._facts is None:
            return link or "identity"
        own = self._facts.family
        if link not in (None, own.link):
            raise ValueError(f"link={link!r} was given, but the file says link={own.link!r}.")
        self.deviance = own.deviance if own.positive else ""
        return own.link

    def _try_zeros(self) -> NDArray[Any] | None:
        """The output for a row of zeros; None if that cannot be tried."""
        layout = self._layout
        if layout.n_columns is None or (layout.is_tensor and None in layout.entries[0].shape[1:]):
            return None
        if layout.is_tensor:
            sizes = [size or 1 for size in layout.entries[0].shape[1:]]
            rows: Any = np.zeros([1, *sizes], dtype=np.float32)
        else:
            text = np.array([""], dtype=object)
            kinds = [e.is_text for e in layout.entries for _ in range(e.width or 0)]
            rows = _frame(layout.names, [text if is_text else np.zeros(1) for is_text in kinds])
        try:
            return self._asked.run(rows)
        except Exception as error:  # onnxruntime has no common class; real rows may well be fine
            reraise_interruption(error)
            return None

    def _read(self, values: NDArray[Any], *, made: bool = False) -> None:
        """Decide what the output's numbers are, by those of some rows, the user's or ``made``."""
        output, link = self._asked.output, self._declared
        width = int(np.prod(values.shape[1:]))
        if self._facts is not None and width > 1:  # logits of classes, which the file names
            output = replace(output, classes=self._facts.classes, speaks_of_classes="")
            self._asked.output, link = output, "logit"
        reading = _read_output(output, values, link, self._wanted, self._facts)
        # A row of zeros does not tell logits of two classes from log-odds with either sign.
        open_still = made and width == 2 and link == "logit" and output.speaks_of_classes
        self._asked.reading = None if open_still else reading
        if width > 1:
            own = self._asked.output.classes
            known = len(own) == width
            self.classes = own if known else range(width)
            self.unnamed_outputs = width == 2 and not known

    def _check(self, scores: NDArray[np.float64]) -> None:
        check_finite(scores, self.name)
        outside = (scores < -_SLACK) | (scores > 1 + _SLACK)
        if self._asked.reading is not None and self._asked.reading.probability and outside.any():
            raise ValueError(
                f"Output {self._asked.output.name!r} of the ONNX graph should hold probabilities "
                f"({self._asked.output.speaks_of_classes or 'declared'}), but one is "
                f"{scores[outside][0]:g}. If they are raw scores (skl2onnx's option raw_scores), "
                "declare that they are log-odds: link='logit' (base_link of fit). Or choose "
                "another output: recalibrate_adapters.onnx.OnnxBase(model, output=...)."
            )


@dataclass(eq=False)
class _Asked:
    """The user's graph, and what it is asked for.

    Attributes
    ----------
    source
        The graph.
    layout
        How rows become its inputs.
    output
        The output that scores are read from.
    reading
        What its numbers are; None until some are seen.
    """

    source: _Source
    layout: _Layout
    output: _Output
    reading: _ScoreOutput | None = None

    def run(self, rows: Any) -> NDArray[Any]:
        """The chosen output by the user's own graph."""
        feed = self.layout.original_feed(rows)
        size = self.layout.batch or BLOCK_ROWS
        parts = []
        for start in range(0, len(rows), size):
            part = {name: values[start : start + size] for name, values in feed.items()}
            count = len(next(iter(part.values())))
            if self.layout.batch:  # the last batch is filled up with copies of its last row
                fill = [(0, size - count)]
                part = {
                    n: np.pad(v, fill + [(0, 0)] * (v.ndim - 1), "edge") for n, v in part.items()
                }
            found = self.source.run(self.output.name, part)
            parts.append(_as_matrix(found, self.output.classes)[:count])
        return np.concatenate(parts)

    def native(self, rows: Any) -> NDArray[np.float64]:
        """Scores by the user's own graph."""
        if self.reading is None:
            raise RuntimeError("the output has not been read yet")
        return self.reading.scores(self.run(rows))

    def propose(self, rows: Any) -> Iterator[Candidate | str]:
        """Graphs to try."""
        if self.layout.by_column and SCORE in (self.layout.names or ()):
            yield CALLED_SCORE
            return
        if self.reading is None:
            return
        try:
            model = _modernise(self.source.proto, self.output.tensor)
        except _ConversionError as error:
            yield str(error)
            return
        builder = GraphBuilder()
        builder.include(model, _INNER, self.layout.write(builder))
        score = self.reading.write(builder, _INNER + self.output.tensor)
        width = self.reading.width if self.reading.position == EVERY else 1
        model = builder.score_model(self.layout.inputs(), score, width=width)
        yield Candidate(model, self.layout.feed)


class _Source:
    """The graph, with all its weights, and a session on it."""

    def __init__(self, model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> None:
        import onnx

        folder = None
        if isinstance(model, onnx.ModelProto):
            self.shown, content = "model", model.SerializeToString()
        elif isinstance(model, bytes):
            self.shown, content = "bytes", model
        else:
            folder = Path(model).parent
            self.shown, content = f"file {Path(model).name!r}", read_content(model)
        self.proto = read_graph(content, f"the ONNX {self.shown}", folder)
        self._session: Any = None
        self.session  # noqa: B018 - a model that onnxruntime refuses is refused here

    def __getstate__(self) -> dict[str, Any]:
        # A session cannot be copied or sent to another process; it is made anew there.
        return {**self.__dict__, "_session": None}

    def run(self, output: str, feed: dict[str, NDArray[Any]]) -> Any:
        """An output for some tensors; a ValueError where the graph does not run on them."""
        try:
            return run_session(self.session, feed, [output])[0]
        except Exception as error:  # onnxruntime has no common class for its errors
            reraise_interruption(error)
            raise ValueError(
                f"The ONNX {self.shown} does not run on these rows: {error}"
            ) from error

    @property
    def session(self) -> Any:
        if self._session is None:
            try:
                self._session = open_session(self.proto.SerializeToString(), threads=1)
            except Exception as error:  # onnxruntime has no common class for its errors
                reraise_interruption(error)
                raise ModelFileError(
                    f"onnxruntime refuses the ONNX {self.shown}: {error}"
                ) from error
        return self._session


def _read_ours(proto: onnx.ModelProto, shown: str) -> Facts | None:
    """The facts of a file of ours; refused if it cannot score rows alone."""
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    if MARK not in metadata:
        return None
    facts = read_facts(metadata, f"the ONNX {shown}")
    if any(value.name == "base_score" for value in proto.graph.input):
        raise ValueError(
            "The file was exported for scores that the user computes (input 'base_score'), so it "
            "cannot score rows alone. Pass its predictions as the base instead."
        )
    if facts.own_table:
        raise ValueError(
            "The model in the file was fitted with a table of its own for H (Z=), so it cannot "
            "score X alone. Pass its predictions as the base instead."
        )
    return facts


def _frame(names: Sequence[str] | None, columns: Sequence[NDArray[Any]]) -> Any:
    import pandas as pd

    known = [f"x{j}" for j in range(len(columns))] if names is None else names
    return pd.DataFrame(dict(zip(known, columns, strict=True)))


def _first_rows(rows: NDArray[Any]) -> list[NDArray[Any]]:
    return [rows[:ENOUGH_ROWS]]
