"""What a class H adds to a graph: every step as an update of the score.

A class has its form in its module ``graph``, as ``FORM``; :func:`form_of` finds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.kinds import CLASSES, part_of, say_classes
from recalibrate.core.levels import Levels
from recalibrate.core.rounds import Step
from recalibrate.data.table import Schema
from recalibrate.graph.errors import ExportError
from recalibrate.graph.features import FeatureList
from recalibrate.graph.runner import Runner
from recalibrate.graph.trees import Leaf, Node, by_level, relabelled

Table = TypeVar("Table")
Encoder = TypeVar("Encoder")


class Update(ABC):
    """A change of the score."""

    rounded: bool = False
    """Whether the new scores are on the step's grid already."""

    @abstractmethod
    def write(self, runner: Runner) -> None:
        """Write its nodes."""


@dataclass(frozen=True)
class Draw(Update):
    """From here on, level sets are those of the score as it is now."""

    def write(self, runner: Runner) -> None:
        runner.draw()


@dataclass(frozen=True)
class Turn(Update):
    """From here on, the score is that of another class."""

    output: int

    def write(self, runner: Runner) -> None:
        runner.output = self.output


@dataclass(frozen=True)
class AddTrees(Update):
    """The score plus a sum of trees, which is cut at +-limit."""

    trees: tuple[Node, ...]
    limit: float = inf

    def write(self, runner: Runner) -> None:
        runner.add(runner.trees(self.trees), self.limit)


@dataclass(frozen=True)
class SetTrees(Update):
    """The sum of trees in place of the score."""

    trees: tuple[Node, ...]
    rounded: bool = False

    def write(self, runner: Runner) -> None:
        runner.score = runner.trees(self.trees)


@dataclass(frozen=True, eq=False)
class Place:
    """Where a step stands.

    Attributes
    ----------
    step
        The step.
    levels, known
        Its level sets, and their scores if these are rounded.
    schema
        Columns of H.
    features
        Features that trees may ask for.
    """

    step: Step
    levels: Levels
    known: NDArray[np.float64] | None
    schema: Schema
    features: FeatureList

    def one_tree(self, trees: Sequence[Node | None]) -> Update:
        """One tree per level set; None leaves it alone."""
        if self.known is None:
            zero = Leaf(0.0)
            return AddTrees((by_level(self.levels, [zero if t is None else t for t in trees]),))
        new = [
            Leaf(self._finish(score)) if own is None else relabelled(own, self._new_score(score))
            for score, own in zip(self.known.tolist(), trees, strict=True)
        ]
        return SetTrees((by_level(self.levels, new),), rounded=self.step.grid is not None)

    def _finish(self, score: float) -> float:
        """A new score, rounded if the step does so."""
        grid = self.step.grid
        return score if grid is None else float(grid.round(np.array([score]))[0])

    def _new_score(self, score: float) -> Callable[[float], float]:
        """From a learner's value to the new score of a row that had ``score``."""
        if self.step.replace:
            return self._finish
        return lambda value: self._finish(score + value)


class Form(ABC, Generic[Table, Encoder]):
    """How graphs of a class are made and checked."""

    @abstractmethod
    def update(self, table: Table, encoder: Encoder, place: Place) -> Update:
        """What a step does to the score."""

    @abstractmethod
    def thresholds(self, encoder: Encoder, tables: Sequence[Table]) -> Iterable[tuple[str, float]]:
        """Columns, and numbers at which what was learned of them may change."""

    def try_out(self, H: Any, problem: Problem) -> None:
        """Refuse, before a fit, what could not be exported; most classes always can."""


def form_of(kind: str) -> Form[Any, Any]:
    """The form of a class."""
    if kind not in CLASSES:
        raise ExportError(f"{kind!r} has no ONNX form; {say_classes()} has one")
    form: Form[Any, Any] = part_of(kind, "graph").FORM
    return form
