"""The base model that knows nothing: the same score for every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import Link


@dataclass(frozen=True)
class Constant:
    """A base model that gives every row the same score, or the same scores of classes.

    Examples
    --------
    >>> Constant(0.3).scores([["a row"], ["another"]])
    array([0.3, 0.3])
    >>> Constant(0.5, others=(0.25, 0.25)).scores([["a row"]])
    array([[0.5 , 0.25, 0.25]])
    """

    value: float
    link: Link = "identity"
    why_no_graph: str = "the base model is a constant; the graph takes it as an input of scores"
    exact: bool = True
    others: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return "constant class probabilities" if self.others else f"constant {self.value:g}"

    def columns(self) -> tuple[str, ...] | None:
        """Nothing is needed from X."""
        return ()

    def scores(self, X: Any) -> NDArray[np.float64]:
        """The constant, once per row."""
        if self.others:
            return np.tile([self.value, *self.others], (len(X), 1))
        return np.full(len(X), self.value)

    def graph(self) -> object | None:
        """There is none: a constant has no inputs to make a graph of."""
        return None
