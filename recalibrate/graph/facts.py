"""What an exported graph says about itself, checked: its metadata as the values that we use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from typing import Any, get_args

from recalibrate.core.family import Family, family
from recalibrate.data.classes import NOTHING_KNOWN, Known, sort_classes
from recalibrate.data.values import Taken
from recalibrate.graph.inputs import Input
from recalibrate.support.checks import ModelFileError
from recalibrate.support.strictjson import parse

FORMATS = ("1",)
MARK = "recalibrate_format"
"""Key of the metadata that says that a graph is one of ours, and which version."""
KINDS = ("float32", "float64", "int64", "string")
TEXTS = ("base", "H", "rounds")
ABSENTS = ("nan", "0.0")
"""What entries can be that a sparse matrix does not store."""


@dataclass(frozen=True)
class Facts:
    """The metadata of an exported graph.

    Attributes
    ----------
    inputs
        Inputs of the graph.
    named
        Whether the columns of the fitted table had names; if not, they are found by position.
    names
        Columns of the fitted table.
    order
        Names by which tables have the columns of the fitted array; none if it had names itself.
    own_table
        Whether H had a table of its own.
    link
        Scale of the margins.
    low, high
        The range of the labels of a regression, on which margins are scaled; else 0 and 1.
    classes
        The classes that labels name, in the order of the graph's columns, where they have names;
        of one against the rest False and True.
    known
        How labels are to be read that predictions are compared with.
    exposed
        Whether predictions are rates per unit of an exposure.
    kind
        Kind of the labels: "binary", "soft", "regression" or "classes".
    """

    inputs: tuple[Input, ...]
    named: bool
    names: tuple[str, ...]
    order: tuple[str, ...]
    own_table: bool
    link: str
    low: float
    high: float
    classes: tuple[Any, ...] = ()
    known: Known = NOTHING_KNOWN
    exposed: bool = False
    kind: str = ""

    @property
    def family(self) -> Family:
        """The link and the loss."""
        return family(self.link)

    @property
    def shift(self) -> float:
        """What is added to margins to have them in the labels' own unit."""
        return log(self.high) if self.family.positive else self.low

    @property
    def span(self) -> float:
        """What margins are multiplied by before."""
        return 1.0 if self.family.positive else self.high - self.low


def read_facts(metadata: Mapping[str, str], shown: str) -> Facts:
    """The facts of a graph; a :class:`ModelFileError` if it is not one of ours, or damaged."""
    if metadata.get(MARK) not in FORMATS:
        found = metadata.get(MARK)
        raise ModelFileError(
            f"{shown} is an ONNX graph, but not one that recalibrate exported"
            if found is None
            else f"{shown} has format version {found[:40]!r}, but this version reads "
            f"{', '.join(FORMATS)}; upgrade"
        )
    for key in TEXTS:
        _entry(metadata, key, shown)
    columns = _value(metadata, "columns", shown, lambda value: isinstance(value, dict))
    labels = _value(metadata, "labels", shown, _are_labels)
    order = columns.get("order") or []
    texts = _are_texts(columns.get("names")) and _are_texts(order)
    if not isinstance(columns.get("named"), bool) or not texts:
        raise _damaged(shown, "columns")
    link = _entry(metadata, "link", shown)
    try:
        family(link)
    except ValueError:
        raise _damaged(shown, "link") from None
    scaled = labels["kind"] == "regression"
    classes = (False, True) if "chosen" in labels else tuple(labels.get("classes", ()))
    return Facts(
        tuple(map(_input, _value(metadata, "inputs", shown, _are_inputs))),
        columns["named"],
        tuple(columns["names"]),
        tuple(order),
        _value(metadata, "own_table", shown, lambda value: isinstance(value, bool)),
        link,
        float(labels["low"]) if scaled else 0.0,
        float(labels["high"]) if scaled else 1.0,
        classes,
        _known(labels),
        labels.get("exposed", False),
        labels["kind"],
    )


def _known(labels: Mapping[str, Any]) -> Known:
    """How further labels are to be read, as `Labels.audited` of the exported model says."""
    classes = tuple(labels.get("classes", ()))
    if "chosen" in labels:
        return Known(classes, 1, labels["chosen"])
    if len(classes) > 2:
        return Known(sort_classes(classes), len(classes))
    if len(classes) == 2:
        event = labels.get("positive", classes[1])
        return Known((next(c for c in classes if c != event), event))
    return Known((0, 1)) if labels["kind"] == "binary" else NOTHING_KNOWN


def _entry(metadata: Mapping[str, str], key: str, shown: str) -> str:
    if key not in metadata:
        raise ModelFileError(f"{shown} has damaged metadata: there is no entry {key!r}")
    return metadata[key]


def _value(
    metadata: Mapping[str, str], key: str, shown: str, accepts: Callable[[Any], bool]
) -> Any:
    """The value of an entry that is JSON."""
    text = _entry(metadata, key, shown).encode("utf-8", "surrogatepass")
    value = parse(text, f"{shown} has damaged metadata: {key!r}")
    if not accepts(value):
        raise _damaged(shown, key)
    return value


def _damaged(shown: str, key: str) -> ModelFileError:
    return ModelFileError(f"{shown} has damaged metadata: {key!r} is not what an export writes")


def is_known(value: Any) -> bool:
    """Whether a value says by column which categories are taken."""
    return isinstance(value, dict) and all(
        isinstance(taken, list)
        and all(entry is None or type(entry) in (str, int, float, bool) for entry in taken)
        for taken in value.values()
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _are_labels(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        return False
    ends: list[Any] = [value.get("low"), value.get("high")]
    classes = value.get("classes", [])
    if not isinstance(value.get("exposed", False), bool):
        return False
    if not isinstance(classes, list) or not all(
        type(c) in (str, int, float, bool) for c in classes
    ):
        return False
    if "chosen" in value and (len(set(classes)) < 3 or value["chosen"] not in classes):
        return False
    if "positive" in value and (len(set(classes)) != 2 or value["positive"] not in classes):
        return False
    return all(type(end) in (int, float) and abs(end) < 1e300 for end in ends)


def _are_inputs(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_input, value))


def _is_input(state: Any) -> bool:
    """Whether `Input.from_dict` can read it, and feeds can be made of it."""
    return (
        isinstance(state, dict)
        and isinstance(state.get("name"), str)
        and state.get("type") in KINDS
        and isinstance(state.get("shape"), list)
        and all(type(size) in (int, str) for size in state["shape"])
        and _are_texts(state.get("columns"))
        and _are_texts(state.get("used_by"))
        and isinstance(state.get("missing", ""), str)
        and state.get("values", "any") in get_args(Taken)
        and is_known(state.get("known", {}))
        and state.get("absent", ABSENTS[0]) in ABSENTS
    )


def _input(state: dict[str, Any]) -> Input:
    return Input.from_dict(state)
