"""The base model that knows nothing: the same score for every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import Link


@dataclass(frozen=True)
class Constant:
    """A base model that gives every row the same score.

    Examples
    --------
    >>> Constant(0.3).scores([["a row"], ["another"]])
    array([0.3, 0.3])
    """

    value: float
    link: Link = "identity"
    why_no_graph: str = "the base model is a constant; the graph takes it as an input of scores"
    exact: bool = True

    @property
    def name(self) -> str:
        return f"the constant {self.value:g}"

    def columns(self) -> tuple[str, ...] | None:
        """Nothing is needed from X."""
        return ()

    def scores(self, X: Any) -> NDArray[np.float64]:
        """The constant, once per row."""
        return np.full(len(X), self.value)

    def graph(self) -> object | None:
        """There is none: a constant has no inputs to make a graph of."""
        return None
