"""The inputs of a foreign ONNX graph: how a table's columns become its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.errors import ModelFileError
from recalibrate.support.notices import listed
from recalibrate.support.onnxgraph import TYPES, GraphBuilder, own_inputs, value_info
from recalibrate_adapters.agreement import Feed
from recalibrate_adapters.frames import InputKind, column_feed, matrix_feed, read_frame

if TYPE_CHECKING:
    import onnx
    import pandas as pd

    from recalibrate.graph.facts import Facts


MOST_NUMBERS = 1 << 24
MOST_COLUMNS = 1 << 17
"""A row's numbers in a tensor, and in a table, whose columns are looked at one by one."""


@dataclass(frozen=True)
class Entry:
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
class Layout:
    """All inputs, and the columns of X that they hold, input by input.

    Attributes
    ----------
    entries
        The inputs.
    names
        Names of the columns; None if they are known by position.
    """

    entries: tuple[Entry, ...]
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


def read_layout(
    model: onnx.ModelProto, columns: Sequence[str] | None, facts: Facts | None
) -> Layout:
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
    layout = Layout(entries, None)
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


def _read_entry(value: onnx.ValueInfoProto) -> Entry:
    if not value.type.HasField("tensor_type"):
        raise ValueError(f"Input {value.name!r} of the ONNX graph is not a tensor.")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return Entry(value.name, tensor.elem_type, (None, None))
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
    return Entry(value.name, tensor.elem_type, shape)


def _names(
    layout: Layout, columns: Sequence[str] | None, facts: Facts | None
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


def _told_names(layout: Layout, facts: Facts) -> tuple[str, ...] | None:
    """Names of the columns of a file of our own."""
    known = {port.name: port.columns for port in facts.inputs}
    names = tuple(name for entry in layout.entries for name in known.get(entry.name, ()))
    if len(set(names)) != len(names) or layout.n_columns not in (None, len(names)):
        raise ModelFileError(
            f"The ONNX graph says that it takes {listed(names)}, but has {layout.n_columns} columns"
        )
    return names if facts.named or layout.by_column else None
