"""Columns inside of a graph: from its inputs to the numbers that H works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recalibrate.data.table import Column, Schema
from recalibrate.graph.inputs import ExportError, Inputs
from recalibrate.groups.expressions import Condition
from recalibrate.support.onnxgraph import ML_DOMAIN, GraphBuilder


@dataclass(frozen=True)
class Number:
    """A numeric column as it is."""

    name: str


@dataclass(frozen=True)
class Code:
    """Codes from 1 of a categorical column's values, NaN where missing or unknown.

    ``bins`` gives the code of every category (0: none), or is empty for their own numbers.
    """

    column: Column
    bins: tuple[int, ...] = ()

    @property
    def codes(self) -> tuple[int, ...]:
        """Code of every category."""
        return self.bins or tuple(range(1, len(self.column.categories) + 1))


@dataclass(frozen=True)
class Rank:
    """Place of a column's code in some order, NaN where there is no code.

    ``ranks`` holds the place of every code, from code 1. Trees that split many categories by sets
    are several times faster on places: runtimes look members of a set up one by one.
    """

    code: Code
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Truth:
    """1 where a condition holds, else 0."""

    condition: Condition
    columns: tuple[Column, ...]


Feature = Number | Code | Rank | Truth


def feature_of(name: str, schema: Schema) -> Number | Code:
    """A column of H as a feature: its numbers, or the codes of its categories."""
    column = schema.columns[schema.index(name)]
    return Code(column) if column.kind == "categorical" else Number(name)


@dataclass(frozen=True)
class Block:
    """A matrix of features: its name, where each feature is in it, and its number of columns."""

    tensor: str
    places: tuple[int, ...]
    width: int


class FeatureList:
    """Numbers the features that trees ask for, before any node is written."""

    def __init__(self) -> None:
        self.features: list[Feature] = []
        self._numbers: dict[Feature, int] = {}

    def number(self, feature: Feature) -> int:
        """The feature's number, a new one when it is asked for first."""
        if feature not in self._numbers:
            self._numbers[feature] = len(self.features)
            self.features.append(feature)
        return self._numbers[feature]


@dataclass(frozen=True, eq=False)
class Columns:
    """Writes the nodes that make columns of the inputs.

    ``scores`` are the base model's, as H sees them: float64 columns [N, 1] by name.
    """

    builder: GraphBuilder
    inputs: Inputs
    scores: Mapping[str, str]
    truth: Callable[[Truth, Columns], str]
    _made: dict[Feature, str] = field(default_factory=dict)
    _indexes: dict[Code, str] = field(default_factory=dict)

    def column(self, feature: Feature) -> str:
        """A float32 column [N, 1]."""
        if feature not in self._made:
            self._made[feature] = self._make(feature)
        return self._made[feature]

    def block(self, features: Sequence[Feature]) -> Block:
        """A float32 matrix that holds the features, perhaps among other columns."""
        matrix, places = None, {}
        for at, feature in enumerate(features):
            port, position = self._place(feature)
            if port is not None and len(self.inputs.ports[port].columns) > 1:
                matrix, places[at] = port, position
        parts: list[str] = []
        width = 0
        if matrix is not None:
            port_ = self.inputs.ports[matrix]
            tensor, width = port_.name, len(port_.columns)
            # Taking a matrix whole is cheaper than picking half of its columns.
            if 2 * len(places) < width:
                picked = sorted(set(places.values()))
                tensor, width = self.builder.columns(tensor, picked), len(picked)
                places = {at: picked.index(position) for at, position in places.items()}
            wide = port_.kind == "float64"  # H reads float32 in any case
            parts.append(self.builder.cast(tensor, "float32") if wide else tensor)
        for at, feature in enumerate(features):
            if at not in places:
                parts.append(self.column(feature))
                places[at] = width
                width += 1
        in_order = tuple(places[at] for at in range(len(features)))
        return Block(self.builder.concat(parts), in_order, width)

    def matrix(self, features: Sequence[Feature]) -> str:
        """A float32 matrix of just these features, in this order."""
        block = self.block(features)
        if block.places == tuple(range(block.width)):
            return block.tensor
        return self.builder.columns(block.tensor, list(block.places))

    def _place(self, feature: Feature) -> tuple[int | None, int]:
        if isinstance(feature, Number) and feature.name not in self.scores:
            return self.inputs.features[feature.name]
        return None, 0

    def _make(self, feature: Feature) -> str:
        if isinstance(feature, Rank):
            raise TypeError("places are made many at a time, see ranks()")
        if isinstance(feature, Number) and feature.name in self.scores:
            return self.builder.cast(self.scores[feature.name], "float32")
        if isinstance(feature, Truth):
            return self.builder.cast(self.truth(feature, self), "float32")
        if isinstance(feature, Code):
            codes = [float(code) if code else np.nan for code in feature.codes]
            return self._encode(feature.column, values_floats=codes, default_float=np.nan)
        return self.inputs.column(self.builder, self.inputs.features[feature.name], "float32")

    def ranks(self, features: Sequence[Rank]) -> tuple[str, dict[Rank, int]]:
        """A float64 matrix of places, and the position of each feature in it."""
        by_code: dict[Code, list[Rank]] = {}
        for feature in features:
            by_code.setdefault(feature.code, []).append(feature)
        parts, order = [], []
        for code, own in by_code.items():
            missing = np.full((1, len(own)), np.nan)
            table = np.concatenate([missing, np.array([f.ranks for f in own], dtype=float).T])
            index = self._index(code)
            parts.append(self.builder.op("Gather", self.builder.constant(table), index, axis=0))
            order += own
        return self.builder.concat(parts), {feature: k for k, feature in enumerate(order)}

    def _index(self, code: Code) -> str:
        """Codes as whole numbers [N], 0 where there is none."""
        if code not in self._indexes:
            found = self._encode(code.column, values_int64s=list(code.codes), default_int64=0)
            self._indexes[code] = self.builder.flat(found)
        return self._indexes[code]

    def _encode(self, column: Column, **values: Any) -> str:
        """Look a column's values up among its categories."""
        place = self.inputs.features[column.name]
        kind = self.inputs.ports[place[0]].kind
        kind = "float32" if kind == "float64" else kind
        keys: dict[str, list[Any]] = {}
        if not column.categories:
            raise ExportError(f"column {column.name!r} has no category; leave it out of H")
        if kind == "string":
            keys["keys_strings"] = list(column.categories)
        elif kind == "int64":
            keys["keys_int64s"] = [int(value) for value in column.categories]
        else:
            numbers = np.array([float(v) for v in column.categories]).astype(np.float32)
            if len(np.unique(numbers)) < len(numbers):
                raise ExportError(
                    f"column {column.name!r} has categories that are the same number in float32, "
                    "the type of the graph's input; make them text before fitting"
                )
            keys["keys_floats"] = numbers.tolist()
        raw = self.inputs.column(self.builder, place, kind)
        return self.builder.op("LabelEncoder", raw, domain=ML_DOMAIN, **keys, **values)
