"""Classes H in a file: each describes itself in ``recalibrate/classes/<kind>/files.py``.

Such a module has one name that is looked for, ``FILES``; the list of classes is that of
:mod:`recalibrate.core.kinds`. With a line there and such a module, whatever the class makes can
be saved and loaded. For a class whose table holds one weight per column and level set::

    from recalibrate.files import codec
    from recalibrate.files.classes import ClassFiles, are_scores, find_column

    def check_matrix(encoder: Matrix, schema: Schema) -> None:
        for name in encoder.names:
            find_column(schema, name)

    def check_weights(table: WeightTable, encoder: Matrix, levels: int) -> None:
        if table.weight.shape != (levels, len(encoder.names)):
            raise ModelFileError("there must be a weight per column and level set")
        if not are_scores(table.weight):
            raise ModelFileError("weights must be finite numbers")

    FILES = ClassFiles(
        spec=codec.Record(Weights, {"ridge": codec.number(0.0)}),
        encoder_kind="weight columns",
        encoder=codec.Record(Matrix),
        check_encoder=check_matrix,
        table=codec.Record(WeightTable, {"weight": codec.Array(np.float64, 2)}),
        check_table=check_weights,
    )

A record follows the types of its dataclass; what they do not say (limits, dimensions) is said
beside it, see :mod:`recalibrate.files.codec`. Every value is checked by its description, and then
the two checks see what has to hold between the parts. Kernels follow indices without a check:
whatever they could follow out of an array has to be refused there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.kinds import CLASSES, part_of
from recalibrate.core.rounds import Encoder, Learned
from recalibrate.data.table import Column, Schema
from recalibrate.files.codec import OneOf, Record
from recalibrate.support.errors import ModelFileError

LARGEST_VALUE = 2.0**60
"""Far above any score; sums of such numbers stay finite, and finite scores have a level."""


def _as_it_is(table: Any, encoder: Any) -> Any:
    return table


@dataclass(frozen=True)
class ClassFiles:
    """How everything that a class H makes is stored.

    Attributes
    ----------
    spec
        H as the user describes it; in the file its kind is the class's own.
    encoder_kind, encoder
        What turns a table into numbers. A class that works on the numbers of another's encoder
        names that one's kind and record.
    check_encoder
        Called with an encoder and the model's schema; raises a ModelFileError if they do not fit.
    table
        What a step learned; in the file its kind is the class's own.
    check_table
        Called with a table, its encoder (of the type above) and the number of level sets; raises
        a ModelFileError if they do not fit.
    storable
        Called with a table and its encoder before it is written; gives the table that ``table``
        describes, where that differs from the one that was learned.
    """

    spec: Record
    encoder_kind: str
    encoder: Record
    check_encoder: Callable[[Any, Schema], None]
    table: Record
    check_table: Callable[[Any, Any, int], None]
    storable: Callable[[Any, Any], Any] = _as_it_is


@cache
def registered() -> dict[str, ClassFiles]:
    """The files of every class, by its kind."""
    return {kind: part_of(kind, "files").FILES for kind in CLASSES}


SPEC = OneOf(lambda: {kind: own.spec for kind, own in registered().items()})
ENCODER = OneOf(lambda: {own.encoder_kind: own.encoder for own in registered().values()})
TABLE = OneOf(lambda: {kind: own.table for kind, own in registered().items()})


def files_of(part: Literal["encoder", "table"], value: Any) -> tuple[str, ClassFiles]:
    """Kind and files of the class that an encoder or a table belongs to."""
    for kind, own in registered().items():
        if getattr(own, part).type is type(value):
            return kind, own
    raise TypeError(f"no class H makes a {type(value).__name__}, so it cannot be saved")


def as_storable(table: Learned, encoder: Encoder) -> Learned:
    """The table in the form in which it is stored."""
    return files_of("table", table)[1].storable(table, encoder)  # type: ignore[no-any-return]


def check_encoder(encoder: Encoder, schema: Schema) -> None:
    """Refuse an encoder that does not fit the model's columns."""
    files_of("encoder", encoder)[1].check_encoder(encoder, schema)


def check_table(table: Learned, encoder: Encoder, levels: int) -> None:
    """Refuse a table that does not fit its encoder or its level sets."""
    kind, own = files_of("table", table)
    if own.encoder.type is not type(encoder):
        raise ModelFileError(f"{kind} cannot work on what a {type(encoder).__name__} makes")
    own.check_table(table, encoder, levels)


# --- what checks of several classes ask ---------------------------------------------------------


def find_column(schema: Schema, name: str) -> Column:
    """Column of the model that an encoder reads."""
    if name not in schema.names:
        raise ModelFileError(f"the model has no column {name!r}")
    return schema.columns[schema.index(name)]


def are_scores(values: NDArray[np.float64]) -> bool:
    """Whether all are finite and of a size that scores can have; False for NaN."""
    return bool((np.abs(values) <= LARGEST_VALUE).all())


def check_coefficients(
    present: NDArray[np.bool_], coefficient: NDArray[np.float64], levels: int
) -> None:
    """Refuse coefficients that are not one row of finite numbers per level set."""
    if len(present) != levels or len(coefficient) != levels or not coefficient.shape[1]:
        raise ModelFileError(f"coefficients are not for {levels} level sets")
    if not are_scores(coefficient):
        raise ModelFileError("coefficients must be finite numbers")
