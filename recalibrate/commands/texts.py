"""Short texts of the command line: classes of functions, groups, lists of names."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from recalibrate.support.notices import listed

if TYPE_CHECKING:
    from recalibrate.classes import Groups, Linear, Trees
    from recalibrate.core.learning import FunctionClass

T = TypeVar("T", "Trees", "Linear")

_CLOSING = {"(": ")", "[": "]"}
_CALL = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*(\w+)\s*=(?!=)\s*(.*\S)\s*", re.DOTALL)
_MIN_ROWS = re.compile(r"\s*min_rows\s*=\s*(\d+)\s*")
_HOW = (
    "write for example trees, trees(depth=2, features=[age, sex]), linear, "
    "groups(sex, race*sex, age < 25, min_rows=100)"
)


def split_commas(text: str) -> list[str]:
    """Parts between commas that stand outside of brackets, quotes and backticks.

    Examples
    --------
    >>> split_commas("sex, race in ('a, b', 'c') * sex, `a,b`")
    ['sex', "race in ('a, b', 'c') * sex", '`a,b`']
    """
    parts: list[str] = []
    awaited: list[str] = []
    start = 0
    for k, char in enumerate(text):
        if awaited and awaited[-1] in "'\"`":
            # A backslash keeps a quote from closing a text, as in group expressions.
            if char == awaited[-1] and (char == "`" or text[k - 1] != "\\"):
                awaited.pop()
        elif char in "'\"`":
            awaited.append(char)
        elif char in _CLOSING:
            awaited.append(_CLOSING[char])
        elif awaited and char == awaited[-1]:
            awaited.pop()
        elif char == "," and not awaited:
            parts.append(text[start:k])
            start = k + 1
    parts.append(text[start:])
    if awaited:
        raise ValueError(f"a closing {awaited[-1]} is missing in {text!r}")
    stripped = [part.strip() for part in parts]
    if stripped == [""]:
        return []
    if "" in stripped:
        raise ValueError(f"nothing stands between two commas in {text!r}")
    return stripped


def read_names(texts: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Names of columns from lists with commas; a column may itself have a comma in its name.

    Examples
    --------
    >>> read_names(["id,name", "city, state"], ["id", "name", "city, state"])
    ['id', 'name', 'city, state']
    """
    known = set(columns)
    names = (
        name
        for text in texts
        for name in ([text] if text in known else [part.strip() for part in text.split(",")])
    )
    return [name for name in dict.fromkeys(names) if name]


def read_groups(text: str) -> Groups:
    """Groups from their terms, with or without ``groups(...)`` around them.

    Examples
    --------
    >>> read_groups("sex, race*sex, age < 25")
    Groups('sex', 'race*sex', 'age < 25')
    """
    called = _CALL.fullmatch(text)
    inside = called[2] if called and called[1] == "groups" and called[2] is not None else text
    return _groups(inside, text)


def read_class(text: str) -> FunctionClass:
    """A class of functions from its short text; nothing is evaluated.

    Examples
    --------
    >>> read_class("trees(depth=3, features=[age, sex])")
    Trees(depth=3, features=('age', 'sex'))
    """
    from recalibrate.classes import Linear, Trees

    called = _CALL.fullmatch(text)
    if called is None:
        raise ValueError(f"{text!r} is not a class of functions; {_HOW}")
    name, inside = called[1].lower(), called[2] or ""
    if name == "trees":
        return _with_parameters(Trees, inside, text)
    if name == "linear":
        return _with_parameters(Linear, inside, text)
    if name == "groups":
        return _groups(inside, text)
    if name == "estimator":
        raise ValueError("estimator(...) needs Python: the command line cannot make the regressor")
    raise ValueError(f"there is no class {called[1]!r}; {_HOW}")


def _groups(inside: str, text: str) -> Groups:
    from recalibrate.classes import Groups

    terms, min_rows = [], 1
    for part in split_commas(inside):
        found = _MIN_ROWS.fullmatch(part)
        if found:
            min_rows = int(found[1])
        else:
            terms.append(part)
    if not terms:
        raise ValueError(f"{text!r} names no group; {_HOW}")
    return Groups(*terms, min_rows=min_rows)


def _with_parameters(kind: type[T], inside: str, text: str) -> T:
    known = [field.name for field in fields(kind)]
    given: dict[str, Any] = {}
    for part in split_commas(inside):
        found = _PARAMETER.fullmatch(part)
        if found is None or found[1] not in known:
            raise ValueError(
                f"cannot read {part!r} in {text!r}: write name=value with one of {listed(known)}"
            )
        given[found[1]] = _value(found[2], text)
    return kind(**given)


def _value(text: str, whole: str) -> Any:
    """A number, True, False, None, a text with or without quotes, or a list of these."""
    if text.startswith("[") and text.endswith("]"):
        return [_value(part, whole) for part in split_commas(text[1:-1])]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text.strip("`")
    if not isinstance(value, bool | int | float | str | None):
        raise ValueError(f"cannot read the value {text!r} in {whole!r}")
    return value
