"""Short texts of the command line: classes of functions, groups, lists of names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recalibrate.core.kinds import CLASSES, class_of
from recalibrate.support.shorthand import split_commas

if TYPE_CHECKING:
    from recalibrate.classes.groups.spec import Groups
    from recalibrate.core.learning import FunctionClass

_CALL = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*", re.DOTALL)


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
    from recalibrate.classes.groups.spec import Groups

    called = _CALL.fullmatch(text)
    inside = called[2] if called and called[1] == "groups" and called[2] is not None else text
    return Groups.read(split_commas(inside), text)


def read_class(text: str) -> FunctionClass:
    """A class of functions from its short text; nothing is evaluated.

    Examples
    --------
    >>> read_class("trees(depth=3, features=[age, sex])")
    Trees(depth=3, features=('age', 'sex'))
    """
    called = _CALL.fullmatch(text)
    kind = "" if called is None else called[1].lower()
    if called is None or kind not in CLASSES:
        wrong = f"{text!r} is not a class of functions"
        if called is not None:
            wrong = f"there is no class {called[1]!r}"
        known = [each for kind in CLASSES for each in class_of(kind).shorthand]
        raise ValueError(f"{wrong}; write for example {', '.join(known)}")
    return class_of(kind).read(split_commas(called[2] or ""), text)
