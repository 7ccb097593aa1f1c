"""Objects as short texts, such as ``trees(depth=2, features=[age, sex])``; nothing is evaluated."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from recalibrate.support.notices import listed

MOST_DEPTH = 10
_CLOSING = {"(": ")", "[": "]"}
_PARAMETER = re.compile(r"\s*(\w+)\s*=(?!=)\s*(.*\S)\s*", re.DOTALL)


def split_commas(text: str) -> list[str]:
    r"""Parts between commas that stand outside of brackets, quotes and backticks.

    Examples
    --------
    >>> split_commas("sex, race in ('a, b', 'c') * sex, `a,b`")
    ['sex', "race in ('a, b', 'c') * sex", '`a,b`']
    >>> split_commas("age in [25, 40), sex")
    ['age in [25, 40)', 'sex']
    >>> split_commas(r"race == 'a\\', sex")[1]
    'sex'
    """
    parts: list[str] = []
    awaited: list[str] = []
    start, escaped = 0, False
    for k, char in enumerate(text):
        if awaited and awaited[-1] in "'\"`":
            # A backslash keeps a quote from closing a text, as in group expressions.
            if char == awaited[-1] and (char == "`" or not escaped):
                awaited.pop()
            escaped = char == "\\" and not escaped
        elif char in "'\"`":
            awaited.append(char)
        elif char in _CLOSING:
            awaited.append(_CLOSING[char])
        elif awaited and (char == awaited[-1] or awaited[-1] + char == "])"):
            awaited.pop()  # an interval, [25, 40), does not contain its upper end
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


def read_parameters(known: Sequence[str], arguments: Sequence[str], text: str) -> dict[str, Any]:
    """Arguments of the form name=value, of which the names are known; ``text`` holds them all.

    Examples
    --------
    >>> read_parameters(["depth", "features"], ["depth=2", "features=[age, 'the sex']"], "...")
    {'depth': 2, 'features': ['age', 'the sex']}
    """
    given: dict[str, Any] = {}
    for argument in arguments:
        found = _PARAMETER.fullmatch(argument)
        if found is None or found[1] not in known:
            raise ValueError(
                f"cannot read {argument!r} in {text!r}: write name=value with one of "
                f"{listed(known)}"
            )
        if found[1] in given:
            raise ValueError(f"{found[1]} is given twice in {text!r}")
        given[found[1]] = _value(found[2], text)
    return given


def _value(text: str, whole: str, depth: int = 0) -> Any:
    """A number, True, False, None, a text with or without quotes, or a list of these."""
    if depth > MOST_DEPTH:
        raise ValueError(f"lists are nested deeper than {MOST_DEPTH} levels in {whole[:80]!r}...")
    if text.startswith("[") and text.endswith("]"):
        return [_value(part, whole, depth + 1) for part in split_commas(text[1:-1])]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = text.strip("`")
    if not isinstance(value, bool | int | float | str | None):
        raise ValueError(f"cannot read the value {text!r} in {whole!r}")
    return value
