"""What is in a file, described once: a codec writes a value and reads it back.

A description says how a value is stored and what is allowed in its place; writing and reading
both follow it, and nothing is used before it was checked:

>>> from dataclasses import dataclass
>>> @dataclass
... class Stump:
...     column: str
...     cut: float
...     children: int
>>> STUMP = Record(Stump, {"children": whole(0, 2)}, since={"children": (2, 0)})
>>> STUMP.encode(Stump("age", float("inf"), 2), Writer())
{'column': 'age', 'cut': 'inf', 'children': 2}
>>> STUMP.decode({"column": "age", "cut": 30.5}, "model.stump", Reader(version=1))
Stump(column='age', cut=30.5, children=0)
>>> STUMP.decode({"column": "age", "cut": "high", "children": 2}, "model.stump", Reader())
Traceback (most recent call last):
...
recalibrate.support.checks.ModelFileError: model.stump.cut must be a number, got 'high'

A record is described by the types of its dataclass, as far as they say enough (`by_type`), and by
codecs for the fields where they do not: limits, dimensions, parts with rules of their own. There
are `whole`, `number`, `text`, `choice`, `FLAG`, `TEXTS` and `own_form` for values of the header,
`Array` for what is stored behind it; `Optional`, `Items`, `Record` and `OneOf` put them together.
What has to hold between fields is up to the ``make`` of a record: it raises a ModelFileError, to
which the place in the file is added here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from math import inf, isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.kinds import CLASSES, module_of
from recalibrate.core.rounds import Encoder, Learned
from recalibrate.data.table import Column, Schema
from recalibrate.files.container import VERSION
from recalibrate.support.checks import ModelFileError

# --- A model on its way into a file or out of it: its arrays, shared objects, and where errors
# are


@dataclass(frozen=True)
class Writer:
    """A model on its way into a file: its arrays, and objects that several of its parts share."""

    arrays: list[NDArray[Any]] = field(default_factory=list)
    shared: dict[int, tuple[int, Any]] = field(default_factory=dict)

    def share(self, value: Any) -> int:
        """Number of an object among those that are written once, however often referred to."""
        return self.shared.setdefault(id(value), (len(self.shared), value))[0]


@dataclass
class Reader:
    """A file that is being read: its version, and what its parts refer to by number."""

    version: int = VERSION
    arrays: list[NDArray[Any] | None] = field(default_factory=list)
    folder: Path = Path()
    trust: bool = False
    build: Callable[..., Any] = dict
    shared: tuple[Any, ...] = ()

    def take(self, index: object, where: str) -> NDArray[Any]:
        """Array of a number; nothing else may ask for it again."""
        if type(index) is not int or not 0 <= index < len(self.arrays):
            raise ModelFileError(f"{where} must be the number of an array, got {str(index)[:80]}")
        array, self.arrays[index] = self.arrays[index], None
        if array is None:
            raise ModelFileError(f"{where} uses array {index} for a second time")
        return array

    def check_empty(self) -> None:
        """Refuse arrays that nothing asked for."""
        left = sum(array is not None for array in self.arrays)
        if left:
            raise ModelFileError(f"{left} arrays of the file belong to nothing")


@contextmanager
def located(where: str) -> Iterator[None]:
    """Let errors of a check say where in the file they are."""
    try:
        yield
    except ValueError as error:
        raise ModelFileError(f"{where}: {error}") from error


def wrong(where: str, wanted: str, got: object) -> ModelFileError:
    """The error that says what should be where."""
    return ModelFileError(f"{where} must be {wanted}, got {repr(got)[:80]}")


LARGEST = 2**53
"""Whole numbers in the header stay where every reader of JSON is exact."""
MOST_TEXT = 1 << 16
NON_FINITE = {"nan": float("nan"), "inf": inf, "-inf": -inf}
"""How the header spells what JSON has no numbers for."""


class Codec(Protocol):
    """How a value is stored."""

    def encode(self, value: Any, writer: Writer) -> Any:
        """The value for the header; its arrays go to the writer."""

    def decode(self, data: Any, where: str, reader: Reader) -> Any:
        """The value of what is in the header, checked; ``where`` it is, for errors."""


# --- values of the header -----------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Value:
    """A value of the header: what is wanted, whether something is it, and the way there and back.

    ``load`` may refuse what ``accepts`` let pass, by a ValueError.
    """

    wanted: str
    accepts: Callable[[Any], bool]
    store: Callable[[Any], Any] = _same
    load: Callable[[Any], Any] | None = None

    def encode(self, value: Any, writer: Writer) -> Any:
        return self.store(value)

    def decode(self, data: Any, where: str, reader: Reader) -> Any:
        if not self.accepts(data):
            raise wrong(where, self.wanted, data)
        if self.load is None:
            return data
        with located(where):
            return self.load(data)


def whole(least: int, most: int = LARGEST) -> Value:
    """Whole numbers."""
    return Value(
        f"a whole number from {least} to {most}",
        lambda data: type(data) is int and least <= data <= most,
        int,
    )


def number(least: float = -inf, most: float = inf) -> Value:
    """Numbers; NaN only where there are no limits."""
    free = least == -inf and most == inf

    def accepts(data: Any) -> bool:
        value = _as_float(data)
        return value is not None and (free or least <= value <= most)

    return Value(
        "a number" if free else f"a number from {least:g} to {most:g}",
        accepts,
        lambda value: float(value) if isfinite(value) else str(float(value)),
        _as_float,
    )


def _as_float(data: Any) -> float | None:
    """A number of the header; None for anything else. To JSON 1e999 is infinite."""
    if isinstance(data, str):
        return NON_FINITE.get(data)
    known = isfinite(data) if type(data) is float else type(data) is int and abs(data) < LARGEST
    return float(data) if known else None


def text(most: int = MOST_TEXT) -> Value:
    """Texts."""
    return Value(
        f"a text of at most {most} characters",
        lambda data: isinstance(data, str) and len(data) <= most,
    )


def choice(*options: str) -> Value:
    """One of some texts."""
    return Value(
        f"one of {', '.join(options)}", lambda data: isinstance(data, str) and data in options
    )


def own_form(kind: Any) -> Value:
    """Objects of a class with ``to_dict`` and ``from_dict``, which checks what it gets."""
    return Value(f"a saved {kind.__name__}", lambda data: True, kind.to_dict, kind.from_dict)


FLAG = Value("true or false", lambda data: isinstance(data, bool), bool)
TEXTS = Value(
    "a list of texts",
    lambda data: isinstance(data, list) and all(isinstance(entry, str) for entry in data),
    lambda value: [str(entry) for entry in value],
    tuple,
)


# --- what is put together -----------------------------------------------------------------------


@dataclass(frozen=True)
class Array:
    """An array of a type and a number of dimensions; in the header is its number."""

    dtype: type[Any]
    ndim: int = 1

    def encode(self, value: Any, writer: Writer) -> int:
        writer.arrays.append(value.astype(self.dtype, casting="safe", copy=False))
        return len(writer.arrays) - 1

    def decode(self, data: Any, where: str, reader: Reader) -> NDArray[Any]:
        array = reader.take(data, where)
        if array.dtype != self.dtype or array.ndim != self.ndim:
            wanted = f"{self.ndim}-d array of {np.dtype(self.dtype)}"
            raise wrong(where, wanted, f"{array.ndim}-d array of {array.dtype}")
        return array


@dataclass(frozen=True)
class Optional:
    """Something or nothing: None is null."""

    codec: Codec

    def encode(self, value: Any, writer: Writer) -> Any:
        return None if value is None else self.codec.encode(value, writer)

    def decode(self, data: Any, where: str, reader: Reader) -> Any:
        return None if data is None else self.codec.decode(data, where, reader)


@dataclass(frozen=True)
class Items:
    """A list of values that are stored alike; read as a tuple."""

    codec: Codec
    wanted: str = "a list"

    def encode(self, value: Any, writer: Writer) -> list[Any]:
        return [self.codec.encode(entry, writer) for entry in value]

    def decode(self, data: Any, where: str, reader: Reader) -> tuple[Any, ...]:
        if not isinstance(data, list):
            raise wrong(where, self.wanted, data)
        return tuple(
            self.codec.decode(entry, f"{where}[{k}]", reader) for k, entry in enumerate(data)
        )


@dataclass(frozen=True)
class Record:
    """A dataclass as an object of the header, field by field.

    Fields are written in their order, and read from the last to the first: what is shared is
    written after all that refers to it, and must be known before they are read.

    Attributes
    ----------
    type
        The class of what is stored.
    special
        How fields are stored whose type does not say all; others than those of the class are
        for ``take`` and ``make``.
    without
        Fields of the class that are not stored.
    names
        Names in the file, where they are not those of the fields.
    since
        Fields that came with a format version: its number, and what older files mean.
    absent
        Fields that are left out where they have this value.
    take
        Fields of an object, by name.
    make
        The object of its fields, by default the class itself; a ValueError (a ModelFileError is
        one) says what is wrong with them.
    """

    type: Any
    special: Mapping[str, Codec] = field(default_factory=dict)
    without: Collection[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    since: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    absent: Mapping[str, Any] = field(default_factory=dict)
    take: Callable[[Any], Mapping[str, Any]] = vars
    make: Callable[..., Any] | None = None

    @cached_property
    def fields(self) -> dict[str, Codec]:
        """How every field is stored; in a file no other may be there, and none be missing."""
        names = [own.name for own in fields(self.type)] if is_dataclass(self.type) else []
        known = dict.fromkeys(name for name in names if name not in self.without)
        hints = get_type_hints(self.type) if known.keys() - self.special else {}
        derived = {name: self.special.get(name) or by_type(hints[name]) for name in known}
        return {**derived, **self.special}

    def encode(self, value: Any, writer: Writer) -> dict[str, Any]:
        taken = self.take(value)
        return {
            self.names.get(name, name): codec.encode(taken[name], writer)
            for name, codec in self.fields.items()
            if name not in self.absent or taken[name] != self.absent[name]
        }

    def decode(self, data: Any, where: str, reader: Reader) -> Any:
        left = _as_fields(data, where)
        values = {}
        for name, codec in reversed(self.fields.items()):
            stored = self.names.get(name, name)
            if stored in left:
                values[name] = codec.decode(left.pop(stored), f"{where}.{stored}", reader)
            elif name in self.since and reader.version < self.since[name][0]:
                values[name] = self.since[name][1]
            elif name in self.absent:
                values[name] = self.absent[name]
            else:
                raise ModelFileError(f"{where} has no field {stored!r}")
        if left:
            raise ModelFileError(f"{where} has unknown fields: {str(sorted(left))[:80]}")
        with located(where):
            return (self.make or self.type)(**values)


@dataclass(frozen=True)
class OneOf:
    """Objects of one of several classes; in the header a field ``kind`` says of which.

    ``find`` lists records by kind. The list is read only as far as the record that is wanted, so
    that classes that a file does not mention need not be imported.
    """

    find: Callable[[], Iterable[tuple[str, Record]]]

    def encode(self, value: Any, writer: Writer) -> dict[str, Any]:
        for kind, record in self.find():
            if type(value) is record.type:
                return {"kind": kind, **record.encode(value, writer)}
        known = ", ".join(record.type.__name__ for _, record in self.find())
        raise TypeError(
            f"{type(value).__name__} is not one of the library's own classes ({known}), so a file "
            "could not say what it means"
        )

    def decode(self, data: Any, where: str, reader: Reader) -> Any:
        left = _as_fields(data, where)
        wanted = left.pop("kind", None)
        for kind, record in self.find():
            if kind == wanted:
                return record.decode(left, where, reader)
        kinds = [kind for kind, _ in self.find()]
        return choice(*kinds).decode(wanted, f"{where}.kind", reader)  # refuses it


def _as_fields(data: Any, where: str) -> dict[str, Any]:
    """A copy of an object of the header."""
    if not isinstance(data, dict):
        raise ModelFileError(f"{where} must be an object with fields")
    return dict(data)


# --- what types say -----------------------------------------------------------------------------

PLAIN: dict[Any, Codec] = {
    bool: FLAG,
    int: whole(0),
    float: number(),
    str: text(),
    tuple[str, ...]: TEXTS,
    Sequence[str]: TEXTS,
    tuple[float, ...]: Items(number(), "a list of numbers"),
}


def by_type(hint: Any) -> Codec:
    """How values of a type are stored where nothing else is said; whole numbers are from 0 on.

    Examples
    --------
    >>> by_type(tuple[str, ...] | None)
    Optional(codec=Value(wanted='a list of texts', ...))
    """
    if hint in PLAIN:
        return PLAIN[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return choice(*inner)
    if origin in (Union, UnionType) and len(inner) == 2 and inner[1] is NoneType:
        return Optional(by_type(inner[0]))
    if hasattr(origin, "__value__"):  # numpy 2.5 and later: NDArray is an alias with a parameter
        return by_type(origin.__value__[inner])
    if origin is np.ndarray:
        return Array(get_args(inner[1])[0])
    if is_dataclass(hint):
        return Record(hint)
    raise TypeError(f"the type {hint} does not say how its values are stored")


# --- Classes H in a file: each describes itself in ``recalibrate/classes/<kind>.py`` ------------
#
# Such a module has one name that is looked for, ``FILES``; the list of classes is that of
# :mod:`recalibrate.core.kinds`. With a line there and such a module, whatever the class makes can
# be saved and loaded. For a class whose table holds one weight per column and level set::
#
#     from recalibrate.files import codec
#     from recalibrate.files.codec import ClassFiles, are_scores, find_column
#
#     def check_matrix(encoder: Matrix, schema: Schema) -> None:
#         for name in encoder.names:
#             find_column(schema, name)
#
#     def check_weights(table: WeightTable, encoder: Matrix, levels: int) -> None:
#         if table.weight.shape != (levels, len(encoder.names)):
#             raise ModelFileError("there must be a weight per column and level set")
#         if not are_scores(table.weight):
#             raise ModelFileError("weights must be finite numbers")
#
#     FILES = ClassFiles(
#         spec=codec.Record(Weights, {"ridge": codec.number(0.0)}),
#         encoder_kind="weight columns",
#         encoder=codec.Record(Matrix),
#         check_encoder=check_matrix,
#         table=codec.Record(WeightTable, {"weight": codec.Array(np.float64, 2)}),
#         check_table=check_weights,
#     )
#
# A record follows the types of its dataclass; what they do not say (limits, dimensions) is said
# beside it. Every value is checked by its description, and then the two checks see what has to
# hold between the parts. Kernels follow indices without a check: whatever they could follow out
# of an array has to be refused there.


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


def _registered() -> Iterator[tuple[str, ClassFiles]]:
    """Kind and files of every class; a class is imported when its turn comes."""
    return ((kind, module_of(kind).FILES) for kind in CLASSES)


SPEC = OneOf(lambda: ((kind, own.spec) for kind, own in _registered()))
ENCODER = OneOf(lambda: ((own.encoder_kind, own.encoder) for _, own in _registered()))
TABLE = OneOf(lambda: ((kind, own.table) for kind, own in _registered()))


def _files_of(part: Literal["encoder", "table"], value: Any) -> tuple[str, ClassFiles]:
    """Kind and files of the class that an encoder or a table belongs to."""
    for kind, own in _registered():
        if getattr(own, part).type is type(value):
            return kind, own
    raise TypeError(f"no class H makes a {type(value).__name__}, so it cannot be saved")


def as_storable(table: Learned, encoder: Encoder) -> Learned:
    """The table in the form in which it is stored."""
    return _files_of("table", table)[1].storable(table, encoder)  # type: ignore[no-any-return]


def check_encoder(encoder: Encoder, schema: Schema) -> None:
    """Refuse an encoder that does not fit the model's columns."""
    _files_of("encoder", encoder)[1].check_encoder(encoder, schema)


def check_table(table: Learned, encoder: Encoder, levels: int) -> None:
    """Refuse a table that does not fit its encoder or its level sets."""
    kind, own = _files_of("table", table)
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
