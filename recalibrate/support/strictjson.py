"""JSON with one meaning: no repeated keys, no NaN, no deep nesting, one spelling when written."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

import numpy as np

from recalibrate.support.checks import ModelFileError

MOST_NESTING = 64
MOST_PARTS = 1 << 22
"""Lists and objects, and texts: an empty list takes the memory of twenty times its characters."""
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A string, closed or not: looking for the end of each quote anew would take quadratic time."""
_PIECE = 1 << 20


def dump(value: Any) -> bytes:
    """Canonical text: sorted keys, no spaces, ASCII; non-finite numbers are an error.

    Examples
    --------
    >>> dump({"b": 1.5, "a": [True, None]})
    b'{"a":[true,null],"b":1.5}'
    """
    text = json.dumps(
        value, allow_nan=False, ensure_ascii=True, separators=(",", ":"), sort_keys=True
    )
    return text.encode("ascii")


def parse(text: bytes, what: str = "the header", *, finite: bool = True) -> Any:
    """Value of a text; a :class:`ModelFileError` if it has none, or more than one.

    Parameters
    ----------
    text
        The text.
    what
        What it is, for messages.
    finite
        Whether to refuse NaN and Infinity, which some writers of JSON have, and numbers that are
        too large, which would be read as infinite.

    Examples
    --------
    >>> parse(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    recalibrate.support.checks.ModelFileError: the header repeats the key 'a'
    """

    def refuse_constant(name: str) -> NoReturn:
        raise ModelFileError(f"{what} holds {name}, which JSON does not have")

    def finite_number(text: str) -> float:
        number = float(text)
        if math.isinf(number):
            raise ModelFileError(f"{what} holds {text[:80]}, which is beyond all numbers")
        return number

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise ModelFileError(f"{what} repeats the key {repeated[:80]!r}")
        return found

    _check_nesting(text, what)
    hooks: dict[str, Any] = {"object_pairs_hook": unique}
    if finite:
        hooks |= {"parse_constant": refuse_constant, "parse_float": finite_number}
    try:
        # bytes could also be UTF-16 to json, which the check above would not have understood
        return json.loads(text.decode("utf-8"), **hooks)
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{what} is not JSON: {error}") from error


def _check_nesting(text: bytes, what: str) -> None:
    """Before parsing, because the parser recurses: its stack is not ours to spend."""
    if text.count(b'"') > 2 * MOST_PARTS:
        raise ModelFileError(f"{what} has more than {MOST_PARTS:,} texts")
    plain = np.frombuffer(_STRING.sub(b"", text), dtype=np.uint8)
    depth = containers = 0
    for start in range(0, len(plain), _PIECE):
        piece = plain[start : start + _PIECE]
        opening = (piece == ord("[")) | (piece == ord("{"))
        closing = (piece == ord("]")) | (piece == ord("}"))
        depths = depth + np.cumsum(
            opening.astype(np.int8) - closing.astype(np.int8), dtype=np.int32
        )
        if int(depths.max()) > MOST_NESTING:
            raise ModelFileError(f"{what} is nested deeper than {MOST_NESTING} levels")
        depth, containers = int(depths[-1]), containers + int(opening.sum())
        if containers > MOST_PARTS:
            raise ModelFileError(f"{what} has more than {MOST_PARTS:,} lists and objects")
