"""The registry of classes H: one line for each, and two modules with everything special about it.

``recalibrate/classes/<kind>.py``
    the class as the user describes it (``CLASS``, see
    :class:`recalibrate.core.learning.FunctionClass`), its encoder and learner and what it learns,
    all of these in a model file (``FILES``, see :mod:`recalibrate.files.codec`), and what was
    learned in words (``REASONS``, see :class:`recalibrate.core.learning.Reasons`);
``recalibrate/classes/<kind>_graph.py``
    what was learned as part of a serving graph (``FORM``, see :mod:`recalibrate.graph.forms`).

Both are imported when they are needed, so that nobody else has to ask which class it deals with.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from recalibrate.support.notices import either, listed

if TYPE_CHECKING:
    from recalibrate.core.learning import FunctionClass


# --- Objects as short texts, such as ``trees(depth=2, features=[age, sex])``; nothing is
# evaluated


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


CLASSES = {
    "trees": "recalibrate.classes.trees",
    "linear": "recalibrate.classes.linear",
    "polynomial": "recalibrate.classes.polynomial",
    "groups": "recalibrate.classes.groups",
    "estimator": "recalibrate.classes.estimator",
}
"""Module of every class, by the ``kind`` of what it learns."""


def module_of(kind: str) -> Any:
    """The module of a class.

    Examples
    --------
    >>> module_of("linear").Linear()
    Linear(features=None, ridge=0.0, base_score=False)
    """
    return import_module(CLASSES[kind])


def graph_module_of(kind: str) -> Any:
    """The module that writes what a class learned as part of a serving graph."""
    return import_module(f"{CLASSES[kind]}_graph")


def class_of(kind: str) -> type[FunctionClass]:
    """The class itself.

    Examples
    --------
    >>> class_of("linear")()
    Linear(features=None, ridge=0.0, base_score=False)
    """
    found: type[FunctionClass] = module_of(kind).CLASS
    return found


def say_classes() -> str:
    """All classes, for messages.

    Examples
    --------
    >>> say_classes().split(", ")[0]
    'Trees(...)'
    """
    return either([f"{class_of(kind).__name__}(...)" for kind in CLASSES])


_CALL = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*", re.DOTALL)


def read_class(H: Any) -> FunctionClass:
    """H as given, as a list of group expressions, or as a short text.

    Examples
    --------
    >>> read_class(["sex", "race*sex"])
    Groups('sex', 'race*sex')
    >>> read_class("trees(depth=3, features=[age, sex])")
    Trees(depth=3, features=('age', 'sex'))
    """
    from recalibrate.core.learning import FunctionClass  # numba comes with it

    if isinstance(H, str):
        return read_text(H)
    if isinstance(H, list | tuple):
        wrong = [each for each in H if not isinstance(each, str)]
        if wrong or not H:
            raise TypeError(
                f"H={H!r} as a list must hold group expressions, such as ['sex', 'race*sex']; "
                + (f"got {type(wrong[0]).__name__}" if wrong else "it is empty")
            )
        return class_of("groups")(*H)
    if isinstance(H, type):
        raise TypeError(f"H={H.__name__} is the class itself; make one: H={H.__name__}(...)")
    if isinstance(H, FunctionClass):
        return H
    if hasattr(H, "fit") and hasattr(H, "predict"):
        raise TypeError(f"H={H!r} is a model; wrap it as H=Estimator({type(H).__name__}(...))")
    raise TypeError(f"H={H!r} is not a class of functions; use {say_classes()}")


def read_text(text: str) -> FunctionClass:
    """A class of functions from its short text; nothing is evaluated."""
    called = _CALL.fullmatch(text)
    kind = "" if called is None else called[1].lower()
    if called is None or kind not in CLASSES:
        wrong = f"{text!r} is not a class of functions"
        if called is not None:
            wrong = f"there is no class {called[1]!r}"
        known = [each for kind in CLASSES for each in class_of(kind).shorthand]
        raise ValueError(
            f"{wrong}; write for example {', '.join(known)}, or a list of group expressions: "
            f"[{text!r}]"
        )
    return class_of(kind).read(split_commas(called[2] or ""), text)
