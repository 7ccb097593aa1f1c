"""Which class of a classifier is scored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recalibrate.support.notices import listed


def choose_class(classes: Sequence[Any], target_class: Any, name: str) -> int:
    """Position of the class whose probability is the score; of two the second by default.

    Examples
    --------
    >>> choose_class(["no", "yes"], None, "model")
    1
    >>> choose_class([0, 1, 2], 2, "model")
    2
    """
    if target_class is not None:
        if target_class not in classes:
            raise ValueError(
                f"target_class={target_class!r} is not a class of {name}; these are: "
                f"{listed(classes)}."
            )
        return list(classes).index(target_class)
    if len(classes) == 2:
        return 1
    raise ValueError(
        f"{name} has {len(classes)} class{'es' if len(classes) != 1 else ''}: {listed(classes)}. "
        "Choose the one that is recalibrated against the rest with target_class=, and let the "
        "labels be 1 for it and 0 otherwise."
    )
