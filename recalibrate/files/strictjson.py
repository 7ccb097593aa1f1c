"""JSON with one meaning: no repeated keys, no NaN, no deep nesting, one spelling when written."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, NoReturn

import numpy as np

from recalibrate.support.errors import ModelFileError

MOST_NESTING = 64
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


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


def parse(text: bytes) -> Any:
    """Value of a text; a :class:`ModelFileError` if it has none, or more than one.

    Examples
    --------
    >>> parse(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    recalibrate.support.errors.ModelFileError: the header repeats the key 'a'
    """
    _check_nesting(text)
    try:
        # bytes could also be UTF-16 to json, which the check above would not have understood
        return json.loads(
            text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the header is not JSON: {error}") from error


def _check_nesting(text: bytes) -> None:
    """Before parsing, because the parser recurses: its stack is not ours to spend."""
    plain = np.frombuffer(_STRING.sub(b"", text), dtype=np.uint8)
    opening = (plain == ord("[")) | (plain == ord("{"))
    closing = (plain == ord("]")) | (plain == ord("}"))
    depth = np.cumsum(opening.astype(np.int8) - closing.astype(np.int8), dtype=np.int64)
    if len(depth) and int(depth.max()) > MOST_NESTING:
        raise ModelFileError(f"the header is nested deeper than {MOST_NESTING} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ModelFileError(f"the header repeats the key {repeated!r}")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ModelFileError(f"the header holds {name}, which JSON does not have")
