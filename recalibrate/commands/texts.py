"""Short texts of the command line: classes of functions, groups, lists of names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recalibrate.core.kinds import read_text as read_class
from recalibrate.support.shorthand import split_commas

if TYPE_CHECKING:
    from recalibrate.classes.groups.spec import Groups

__all__ = ["read_class", "read_groups", "read_names"]
_CALL = re.compile(r"\s*groups\s*\((.*)\)\s*", re.DOTALL)


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
    return Groups.read(split_commas(called[1] if called else text), text)
