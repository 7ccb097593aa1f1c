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

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from recalibrate.support.notices import either

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


def read_class(H: Any) -> FunctionClass:
    """H as given, or by its short name."""
    from recalibrate.core.learning import FunctionClass  # numba comes with it

    if isinstance(H, str):
        short = [kind for kind in CLASSES if kind in class_of(kind).shorthand]
        if H not in short:
            names = either([repr(kind) for kind in short])
            raise ValueError(
                f"H={H!r} is not a short name of a class; use {names}, or an object such as "
                f"{say_classes()}"
            )
        return class_of(H)()
    if isinstance(H, type):
        raise TypeError(f"H={H.__name__} is the class itself; make one: H={H.__name__}(...)")
    if isinstance(H, FunctionClass):
        return H
    if hasattr(H, "fit") and hasattr(H, "predict"):
        raise TypeError(f"H={H!r} is a model; wrap it as H=Estimator({type(H).__name__}(...))")
    raise TypeError(f"H={H!r} is not a class of functions; use {say_classes()}")
