"""Which classes H there are: one line each, and one folder with everything that is special to it.

A folder has up to four modules, each imported when somebody needs it, so that nobody else asks
what kind of H it has before it:

``spec``
    the class as the user describes it, its encoder, its learner and what it learns;
``files``
    all of these in a model file;
``graph``
    what was learned as part of a serving graph;
``reasons``
    what was learned in words.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

CLASSES = {
    "trees": "recalibrate.classes.trees",
    "linear": "recalibrate.classes.linear",
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
