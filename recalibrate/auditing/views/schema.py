"""The JSON Schema of a report, made from the records that it consists of."""

from __future__ import annotations

import math
import re
from dataclasses import fields, is_dataclass
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from recalibrate.auditing.records import Difference
from recalibrate.auditing.slices import COLUMNS

# --- Records as plain data for JSON -------------------------------------------------------------


def plain(value: Any) -> Any:
    """Turn records, tuples and numpy numbers into dicts, lists and Python's own numbers.

    What is not finite becomes None: JSON has no NaN.

    Examples
    --------
    >>> plain((1.5, float("nan"), {"rows": np.int64(3)}))
    [1.5, None, {'rows': 3}]
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: plain(getattr(value, each.name))
            for each in fields(value)
            if each.metadata.get("json", True)
        }
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


Schema = dict[str, Any]

_NAMES = {"n_rows": "rows", "n_clusters": "clusters"}
_ENTRY = re.compile(r"^(\w+(?:, \w+)*)(?: : .*)?$")


def report_schema(report: type, name: str, version: int) -> Schema:
    """Schema (draft 2020-12) of what `AuditReport.to_json` writes.

    Keys may be added within a version, so that others than these are allowed.
    """
    known: dict[str, Schema] = {}
    own = _properties(report, known)
    for old, new in _NAMES.items():
        own[new] = own.pop(old)
    both = {"after": own.pop("overall"), "before": own.pop("overall_before")}
    own |= {
        "schema": {"const": name},
        "schema_version": {"const": version},
        "verdict": {"type": "string", "description": "The result in a few sentences."},
        "overall": _object({**both, "differences": _differences(known)}),
        "slices": _slices(known),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{name.replace('.', ':')}:{version}",
        "title": "Audit of calibration",
        "description": "Null stands for what the rows cannot tell.",
        **_object(dict(sorted(own.items()))),
        "$defs": dict(sorted(known.items())),
    }


def _slices(known: dict[str, Schema]) -> Schema:
    """Rows of the table of slices."""
    kinds = {"slice": str, "group": str, "rows": int, "off": bool}
    row = {name: _of(kinds.get(name, float), known) for name in ("slice", *COLUMNS)}
    return {
        "anyOf": [{"type": "array", "items": _object(row)}, {"type": "null"}],
        "description": "The main numbers by slice of time and group.",
    }


def _object(properties: dict[str, Schema], **more: Any) -> Schema:
    return {"type": "object", **more, "properties": properties, "required": list(properties)}


def _of(hint: Any, known: dict[str, Schema]) -> Schema:
    """What a value of some type looks like."""
    if hint is float:
        return {"type": ["number", "null"]}
    plain = {int: "integer", bool: "boolean", str: "string", NoneType: "null"}
    if hint in plain:
        return {"type": plain[hint]}
    if get_origin(hint) is tuple:
        item, *_ = get_args(hint)
        return _differences(known) if item is Difference else _array(item, known)
    if get_origin(hint) in (Union, UnionType):
        return {"anyOf": [_of(each, known) for each in get_args(hint)]}
    if is_dataclass(hint) and isinstance(hint, type):
        if hint.__name__ not in known:
            known[hint.__name__] = {}  # it may refer to itself
            text = (hint.__doc__ or "").split("\n\n")[0]
            about = " ".join(text.split())
            known[hint.__name__] = _object(_properties(hint, known), description=about)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    raise TypeError(f"{hint!r} has no form in JSON")


def _array(item: Any, known: dict[str, Schema]) -> Schema:
    return {"type": "array", "items": _of(item, known)}


def _differences(known: dict[str, Schema]) -> Schema:
    """Differences by the name of their measure."""
    known["Difference"] = _object(
        {name: {"type": ["number", "null"]} for name in ("value", "se")},
        description=" ".join((Difference.__doc__ or "").split()),
    )
    return {"type": "object", "additionalProperties": {"$ref": "#/$defs/Difference"}}


def _properties(kind: Any, known: dict[str, Schema]) -> dict[str, Schema]:
    """Schemas of the fields of a record, with their meanings."""
    # These are known to type checkers only, and no part of JSON.
    hints = get_type_hints(kind, localns={"NDArray": list, "np": np, "Slices": list})
    texts = _meanings(kind.__doc__ or "")
    found = {}
    for each in fields(kind):
        if not each.metadata.get("json", True):
            continue
        meaning = texts.get(each.name)
        found[each.name] = _of(hints[each.name], known)
        if meaning:
            found[each.name] = found[each.name] | {"description": meaning}
    return found


def _meanings(docstring: str) -> dict[str, str]:
    """Meanings of attributes from a docstring in numpy's form.

    Python 3.13 removes the common indentation of docstrings when it compiles them, earlier
    versions keep it; `cleandoc` makes both the same.
    """
    _, _, section = cleandoc(docstring).partition("Attributes\n----------\n")
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line.startswith(" ") or not line:
            for name in names:
                found.setdefault(name, []).append(line.strip())
            continue
        entry = _ENTRY.match(line)
        if entry is None:
            break  # the next section
        names = entry[1].split(", ")
    return {name: " ".join(" ".join(lines).split()) for name, lines in found.items()}
