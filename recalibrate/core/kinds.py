"""Which classes H there are: one line each, and one folder with everything that is special to it.

A folder has four modules, each imported when somebody needs it, so that nobody else asks what
kind of H it has before it:

``spec``
    the class as the user describes it (``CLASS``, see
    :class:`recalibrate.core.learning.FunctionClass`), its encoder, its learner, what it learns;
``files``
    all of these in a model file;
``graph``
    what was learned as part of a serving graph (``FORM``, see :mod:`recalibrate.graph.forms`);
``reasons``
    what was learned in words (``REASONS``, see :mod:`recalibrate.explain.reasons`).
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from recalibrate.support.notices import either
from recalibrate.support.shorthand import split_commas

if TYPE_CHECKING:
    from recalibrate.core.learning import FunctionClass

CLASSES = {
    "trees": "recalibrate.classes.trees",
    "linear": "recalibrate.classes.linear",
    "polynomial": "recalibrate.classes.polynomial",
    "groups": "recalibrate.classes.groups",
    "estimator": "recalibrate.classes.estimator",
}
"""Folder of every class, by the ``kind`` of what it learns."""


def part_of(kind: str, name: Literal["spec", "files", "graph", "reasons"]) -> Any:
    """One of the modules of a class.

    Examples
    --------
    >>> part_of("linear", "spec").Linear()
    Linear(features=None, ridge=0.0, base_score=False)
    """
    return import_module(f"{CLASSES[kind]}.{name}")


def class_of(kind: str) -> type[FunctionClass]:
    """The class itself.

    Examples
    --------
    >>> class_of("linear")()
    Linear(features=None, ridge=0.0, base_score=False)
    """
    found: type[FunctionClass] = part_of(kind, "spec").CLASS
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
