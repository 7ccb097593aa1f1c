"""Which class of a classifier is scored, and by which of its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.notices import listed

EVERY = -1
"""In the place of a class's position: all of them, a column each."""


def choose_class(classes: Sequence[Any], target_class: Any, name: str) -> int:
    """Position of the class whose probability is the score; of two the second by default.

    Examples
    --------
    >>> choose_class(["no", "yes"], None, "model")
    1
    >>> choose_class([0, 1, 2], 2, "model")
    2
    >>> choose_class([0, 1, 2], None, "model") == EVERY
    True
    """
    if target_class is not None:
        if target_class not in classes:
            raise ValueError(
                f"target_class={target_class!r} is not a class of {name}; these are: "
                f"{listed(classes)}."
            )
        return list(classes).index(target_class)
    if len(classes) >= 2:
        return 1 if len(classes) == 2 else EVERY
    raise ValueError(f"{name} has one class: {listed(classes)}. A classifier needs at least two.")


def class_score(
    outputs: NDArray[np.float64], position: int, *, logits: bool
) -> NDArray[np.float64]:
    """Of one output per class: that of one class, or from logits its log-odds; or all as they are.

    Examples
    --------
    >>> class_score(np.array([[0.5, 1.5]]), 1, logits=True)
    array([1.])
    """
    if position == EVERY:
        return outputs
    own = outputs[:, position]
    if not logits:
        return own
    with np.errstate(invalid="ignore"):  # scores that are not finite are refused later
        rest = np.logaddexp.reduce(np.delete(outputs, position, axis=1), axis=1)
        return np.asarray(own - rest)
