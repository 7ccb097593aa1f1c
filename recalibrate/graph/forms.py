"""What a class H adds to a graph: every step as an update of the score.

A class has its form in its module ``graph``, as ``FORM``; :func:`form_of` finds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem
from recalibrate.core.kinds import CLASSES, graph_module_of, say_classes
from recalibrate.core.levels import MARGIN_LIMIT, MARGIN_STEP, Levels
from recalibrate.core.rounds import Encoder, Step
from recalibrate.data.table import Schema
from recalibrate.graph.features import Block, Columns, Feature, FeatureList, Number, Rank
from recalibrate.graph.inputs import ExportError
from recalibrate.graph.trees import MARGIN, Leaf, Node, by_level, columns_of, flatten, relabelled

TableT = TypeVar("TableT")
EncoderT = TypeVar("EncoderT")


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


class Form(ABC, Generic[TableT, EncoderT]):
    """How graphs of a class are made and checked."""

    @abstractmethod
    def update(self, table: TableT, encoder: EncoderT, place: Place) -> Update:
        """What a step does to the score."""

    @abstractmethod
    def thresholds(
        self, encoder: EncoderT, tables: Sequence[TableT]
    ) -> Iterable[tuple[str, float]]:
        """Columns, and numbers at which what was learned of them may change."""

    def try_out(self, H: Any, problem: Problem) -> None:
        """Refuse, before a fit, what could not be exported; most classes always can."""


def form_of(kind: str) -> Form[Any, Any]:
    """The form of a class."""
    if kind not in CLASSES:
        raise ExportError(f"{kind!r} has no ONNX form; {say_classes()} has one")
    form: Form[Any, Any] = graph_module_of(kind).FORM
    return form


# --- Writes the updates of a score as nodes, one after the other --------------------------------


E = TypeVar("E", bound=Encoder)

MOST_RANKS = 48
"""Columns of places that one ensemble may have; they cost memory, 8 bytes a row each."""

NARROW = 48
"""Columns up to which a matrix is copied rather than written into."""


@dataclass(eq=False)
class Runner:
    """The score at a point of the list, and what was computed on the way.

    Attributes
    ----------
    columns, features, schema
        What nodes find, what trees look at, and what H knows of columns.
    score_limit
        The base model's score is at most this far from zero.
    builder
        Where nodes go.
    output
        The class whose score is changed; 0 where there is one score only.
    """

    columns: Columns
    features: Sequence[Feature]
    schema: Schema
    score_limit: float

    def __post_init__(self) -> None:
        self.builder = self.columns.builder
        self.scores = list(self.columns.scores.values())
        self.output = 0
        self._drawn = self.scores[0]
        self._block: Block | None = None
        self._block_64 = ""
        self._joined: str | None = None
        self._joined_drawn = ""
        self._place: str | None = None
        self._ranks = {k: f for k, f in enumerate(self.features) if isinstance(f, Rank)}
        plain = [k for k, f in enumerate(self.features) if not isinstance(f, Rank)]
        self._plain = {number: position for position, number in enumerate(plain)}
        self._encoded: dict[Encoder, str] = {}

    def draw(self) -> None:
        """Level sets are those of the score as it is now."""
        self._drawn = self.score if len(self.scores) == 1 else self._margin()

    @property
    def score(self) -> str:
        """The score now, a float64 column [N, 1]."""
        return self.scores[self.output]

    @score.setter
    def score(self, score: str) -> None:
        self.scores[self.output] = score

    def _margin(self) -> str:
        """Log-odds of the class against the rest: ``kernels.classes.class_margins`` as nodes."""
        builder, own = self.builder, self.output
        others = [score for k, score in enumerate(self.scores) if k != own]
        rest = builder.concat(others)
        axis = builder.constant(np.array([1], dtype=np.int64))
        top = builder.op("ReduceMax", rest, axis, keepdims=1)
        shares = builder.op("Exp", builder.op("Sub", rest, top))
        total = builder.op("Log", builder.op("ReduceSum", shares, axis, keepdims=1))
        margin = builder.op("Sub", builder.op("Sub", self.score, top), total)
        return builder.snap(builder.clip(margin, -MARGIN_LIMIT, MARGIN_LIMIT), MARGIN_STEP)

    def add(self, value: str, limit: float = inf) -> None:
        """Add to the score, at most +-limit."""
        if limit != inf:
            value = self.builder.clip(value, -limit, limit)
        self.score = self.builder.op("Add", self.score, value)

    def once(self, encoder: E, write: Callable[[E, Runner], str]) -> str:
        """What an encoder makes of the columns; written at its first use."""
        if encoder not in self._encoded:
            self._encoded[encoder] = write(encoder, self)
        return self._encoded[encoder]

    def trees(self, trees: Sequence[Node]) -> str:
        """Sum of trees; in several parts where they need many columns of their own."""
        parts = [self._ensemble(part) for part in self._parts(trees)]
        return reduce(lambda a, b: self.builder.op("Add", a, b), parts)

    def _parts(self, trees: Sequence[Node]) -> list[list[Node]]:
        parts: list[list[Node]] = [[]]
        ranks: set[int] = set()
        for tree in trees:
            more = {k for k in columns_of([tree]) if k in self._ranks}
            if parts[-1] and len(ranks | more) > MOST_RANKS:
                parts.append([])
                ranks = set()
            parts[-1].append(tree)
            ranks |= more
        return parts

    def _ensemble(self, trees: Sequence[Node]) -> str:
        used = columns_of(trees)
        if used <= {MARGIN}:
            return self.builder.trees(flatten(trees, 1, lambda column: 0), self._drawn)
        block = self._made_block()
        matrix, width = self._block_64, block.width
        places = {number: block.places[k] for number, k in self._plain.items()}
        ranks = [self._ranks[number] for number in sorted(used) if number in self._ranks]
        if ranks:
            own, positions = self.columns.ranks(ranks)
            places |= {
                number: width + positions[rank]
                for number, rank in self._ranks.items()
                if rank in positions
            }
            matrix, width = self.builder.concat([matrix, own]), width + len(ranks)
        if MARGIN in used:
            places[MARGIN] = width
            matrix, width = self._with_margin(matrix), width + 1
        return self.builder.trees(flatten(trees, width, places.__getitem__), matrix)

    def _made_block(self) -> Block:
        """The matrix of all features that any tree looks at."""
        if self._block is None:
            plain = [f for f in self.features if not isinstance(f, Rank)]
            self._block = self.columns.block(plain or [Number(next(iter(self.columns.scores)))])
            self._block_64 = self.builder.cast(self._block.tensor, "float64")
        return self._block

    def _with_margin(self, matrix: str) -> str:
        """The matrix with the drawn score as its last column.

        Copying a narrow matrix takes a third of the time of overwriting a column. In a wide one,
        that column is overwritten after the first time, which runtimes do in place.
        """
        if matrix != self._block_64:
            return self.builder.concat([matrix, self._drawn])
        if self._joined is not None and self._joined_drawn == self._drawn:
            return self._joined
        if self._joined is None or self._made_block().width <= NARROW:
            joined = self.builder.concat([matrix, self._drawn])
        else:
            place = self._last_column()
            joined = self.builder.op("ScatterElements", self._joined, place, self._drawn, axis=1)
        self._joined, self._joined_drawn = joined, self._drawn
        return joined

    def _last_column(self) -> str:
        """The number of the last column, once per row."""
        if self._place is None:
            number = self.builder.constant(np.array([[self._made_block().width]], dtype=np.int64))
            self._place = self.builder.op("Expand", number, self.builder.op("Shape", self.score))
        return self._place

    def level(self, levels: Levels) -> str | None:
        """Numbers of the level sets, [N] int64; None if there is only one."""
        if levels.count == 1:
            return None
        tree = by_level(levels, [Leaf(float(v)) for v in range(levels.count)])
        found = self.builder.trees(flatten([tree], 1, lambda column: 0), self._drawn)
        return self.builder.cast(self.builder.flat(found), "int64")
