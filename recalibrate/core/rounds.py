"""Rounds: the fitted model, an append-only list of steps, and what they mean.

A step freezes a partition of the scores into level sets and changes the score of every row by
what a small table says for the row's level set and features. Prediction, files, serving graphs
and certificates are translations of this list; :meth:`Rounds.apply` is its only meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.family import Family, family
from recalibrate.core.levels import Levels
from recalibrate.data.table import Table
from recalibrate.support.threads import cut, share_out, threads_for

if TYPE_CHECKING:
    pass


# --- Scores of some rows at a point of a model's list of steps, and the level sets drawn last ---


@dataclass(frozen=True, eq=False)
class State:
    """Scores of some rows at a point of the list, with the level sets drawn last.

    ``kept`` has a column for every output. ``partition`` is what ``level`` numbers, by the scores
    of ``output``. After rounding it is the grid, so that drawing the same grid again costs nothing,
    and the scores need not be kept: they are its values.
    """

    kept: tuple[Scores, ...] | None
    level: NDArray[np.int32] | None = None
    partition: Levels | None = None
    output: int = 0

    @classmethod
    def of(cls, scores: Scores) -> State:
        """Scores before any level sets: one number per row, or a column for every class."""
        return cls((scores,) if scores.ndim == 1 else tuple(np.asfortranarray(scores).T))

    @classmethod
    def on_grid(cls, level: NDArray[np.int32], grid: Levels) -> State:
        """Rounded scores."""
        return cls(None, level, grid)

    @property
    def values(self) -> Scores | None:
        """The grid's values where scores are rounded: the score of a row is values[level]."""
        return None if self.kept is not None or self.partition is None else self.partition.values

    @property
    def f(self) -> Scores:
        """The scores, shape (n,), or (n, K) where every class has one."""
        if self.kept is not None and len(self.kept) > 1:
            return np.stack(self.kept).T
        return self.column(0)

    def column(self, output: int) -> Scores:
        """The scores of one output."""
        if self.kept is not None:
            return self.kept[output]
        if self.values is None:
            raise ValueError("rounded scores need a grid that has values")
        return self.values[self.drawn_level]

    def margin(self, output: int) -> Scores:
        """What level sets are drawn from: the score, or a class's log-odds against the rest."""
        if self.kept is None or len(self.kept) == 1:
            return self.column(0)
        return np.asarray(self._margins[output])

    @cached_property
    def _margins(self) -> NDArray[np.float64]:
        """Log-odds of every class against the rest, a row per class."""
        from recalibrate.kernels.classes import class_margins

        scores = np.stack(self.kept or ())
        out = np.empty(scores.shape)
        class_margins(scores, out)
        return out

    def draw(self, partition: Levels, output: int = 0) -> State:
        """The same scores, with their level sets under a partition."""
        if partition is self.partition and (output == self.output or partition.count == 1):
            return self
        kept = (self.column(0),) if self.kept is None else self.kept
        return State(kept, partition.index(self.margin(output)), partition, output)

    def advance(self, step: Step, block: Block) -> State:
        """After one step."""
        state = self if step.partition is None else self.draw(step.partition, step.output)
        before = state.column(step.output)
        f = step.table.update(block, state.drawn_level, before, step.replace)
        return state.rounded(f, step.grid, step.output)

    def advance_all(self, steps: Sequence[Step], blocks: Sequence[Block]) -> State:
        """After several steps, parts of the rows side by side where they are many."""
        n_rows = len(self.column(0) if self.kept is not None else self.drawn_level)
        pieces = cut(n_rows, None, threads_for(n_rows))

        def work(rows: slice) -> State:
            state = self._take(rows)
            for step in steps:
                state = state.advance(step, blocks[step.encoder][rows])
            return state

        return _join(share_out(work, pieces, len(pieces)))

    def _take(self, rows: slice) -> State:
        kept = None if self.kept is None else tuple(column[rows] for column in self.kept)
        level = None if self.level is None else self.level[rows]
        return replace(self, kept=kept, level=level)

    def rounded(self, f: Scores, grid: Levels | None, output: int = 0) -> State:
        """New scores, on the grid if there is one; without it the level sets stay as drawn."""
        if grid is not None:
            return State.on_grid(grid.index(f), grid)
        kept: tuple[Scores, ...] = (f,)
        if self.kept is not None and len(self.kept) > 1:
            kept = (*self.kept[:output], f, *self.kept[output + 1 :])
        return State(kept, self.level, self.partition, self.output)

    @property
    def drawn_level(self) -> NDArray[np.int32]:
        """Level sets of the rows; an error before any were drawn."""
        if self.level is None:
            raise ValueError("the first step of a model has to draw its level sets")
        return self.level


def _join(parts: Sequence[State]) -> State:
    """Parts of the rows that took the same steps, as one."""
    if len(parts) == 1:
        return parts[0]
    columns: Any = [part.kept for part in parts if part.kept is not None]
    level = [part.level for part in parts if part.level is not None]
    return replace(
        parts[0],
        kept=tuple(map(np.concatenate, zip(*columns, strict=True))) if columns else None,
        level=np.concatenate(level) if level else None,
    )


Block = NDArray[Any]
Scores = NDArray[np.float64]


class Encoder(Protocol):
    """Turns a table into the block of numbers that a class of learners works on."""

    @property
    def kind(self) -> str:
        """The class that it belongs to, see :mod:`recalibrate.core.kinds`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that the class looks at."""

    def encode(self, table: Table, threads: int = 1) -> Block:
        """One row of numbers per row of the table."""


class Learned(Protocol):
    """What a class learned in one step: a small model per level set."""

    @property
    def kind(self) -> str:
        """The class that learned it, see :mod:`recalibrate.core.kinds`."""

    @property
    def exact(self) -> bool:
        """Whether other runtimes give the same numbers to the last bit."""

    @property
    def n_learners(self) -> int:
        """Number of level sets that have a model."""

    def update(self, block: Block, level: NDArray[np.int32], f: Scores, replaces: bool) -> Scores:
        """New scores: the model's value (replaces) or the score plus it."""

    def keep(self, levels: NDArray[np.bool_]) -> Learned:
        """The same on some level sets only; the others are left as they are."""

    def scaled(self, factor: float) -> Learned:
        """The same with all values multiplied, for tables whose values are added."""


class _Joined(Protocol):
    """Tables of several steps as one."""

    def add(self, block: Block, f: Scores) -> Scores:
        """Scores after the last of the steps."""


@runtime_checkable
class _Selective(Protocol):
    """An encoder that can leave out columns which nothing looks at."""

    def encode_some(self, table: Table, columns: Sequence[int], threads: int = 1) -> Block:
        """A block of which only these columns are read."""


@runtime_checkable
class _Joinable(Protocol):
    """A table that can be added together with others of its kind, quicker than one by one."""

    @staticmethod
    def join(tables: Sequence[Any], encoder: Any) -> _Joined:
        """Tables of one encoder, each with a single level set, in the order of their steps."""

    @property
    def looks_at(self) -> set[int]:
        """Columns of the block that the table looks at."""


@dataclass(frozen=True, eq=False)
class Step:
    """One update of the scores.

    Attributes
    ----------
    partition
        Level sets, frozen by the scores before this step; None keeps those of the step before,
        so that a round may hold several tables.
    table
        The learned models, one per level set.
    encoder
        Which of the encoders the table's block comes from.
    replace
        Whether the table's value replaces the score (Algorithm 1) or is added to it.
    grid
        Rounds the new scores, or None.
    output
        The class whose score it changes, by its log-odds against the rest; 0 where there is one
        score only.
    """

    partition: Levels | None
    table: Learned
    encoder: int
    replace: bool
    grid: Levels | None
    output: int = 0

    def along(self, slope: float, shift: float = 0.0) -> Step:
        """The step for scores that are ``slope * f + shift`` before it instead of f.

        Afterwards they are so too: level sets keep their rows, and what is added is scaled.
        """
        if self.replace or self.grid is not None:
            raise ValueError("only steps that add to unrounded scores can be scaled")
        partition = None if self.partition is None else self.partition.along(slope, shift)
        return replace(self, partition=partition, table=self.table.scaled(slope))


@dataclass(frozen=True, eq=False)
class Rounds:
    """The fitted model: where scores start, and all steps since.

    Attributes
    ----------
    link
        Scale of the scores inside and the loss: the name of a family, see ``core.family``.
    start
        Grid that the base scores are rounded to first, or None.
    encoders
        Blocks of numbers that the steps refer to.
    steps
        The updates, oldest first.
    outputs
        Scores of a row: one, or one for every class.
    """

    link: str
    start: Levels | None = None
    encoders: tuple[Encoder, ...] = ()
    steps: tuple[Step, ...] = ()
    outputs: int = 1

    @property
    def family(self) -> Family:
        """The link and the loss."""
        return family(self.link)

    def append(self, *steps: Step) -> Rounds:
        """The list with more steps."""
        more = (*self.steps, *steps)
        return Rounds(self.link, self.start, self.encoders, more, self.outputs)

    def first(self, n_steps: int) -> Rounds:
        """The model after its first ``n_steps`` steps."""
        return replace(self, steps=self.steps[:n_steps])

    def first_rounds(self, n_rounds: int) -> Rounds:
        """The model after its first ``n_rounds`` rounds."""
        drawn = [k for k, step in enumerate(self.steps) if step.partition is not None]
        return self if n_rounds >= len(drawn) else self.first(drawn[n_rounds])

    def pruned(self) -> Rounds:
        """The same model without tables that nobody learned, and encoders that no step needs."""
        kept = list(self.steps) if self.outputs == 1 else _with_tables(self.steps)
        used = sorted({step.encoder for step in kept})
        place = {encoder: k for k, encoder in enumerate(used)}
        steps = tuple(replace(step, encoder=place[step.encoder]) for step in kept)
        return replace(self, encoders=tuple(self.encoders[k] for k in used), steps=steps)

    @property
    def n_rounds(self) -> int:
        """Number of rounds: steps that drew new level sets."""
        return sum(step.partition is not None for step in self.steps)

    @property
    def n_learners(self) -> int:
        """Number of models over all steps and level sets."""
        return sum(step.table.n_learners for step in self.steps)

    @property
    def exact(self) -> bool:
        """Whether other runtimes give the same numbers to the last bit."""
        return all(step.table.exact for step in self.steps)

    def encode(self, table: Table, threads: int = 1) -> list[Block]:
        """Blocks of all encoders, as far as the steps look at them."""
        encoders: Sequence[Any] = self.encoders
        return [
            encoder.encode(table, threads)
            if columns is None
            else encoder.encode_some(table, columns, threads)
            for encoder, columns in zip(encoders, self._columns, strict=True)
        ]

    @cached_property
    def _columns(self) -> tuple[Sequence[int] | None, ...]:
        """Columns that the steps look at, by encoder; None: all, or the encoder has no choice."""
        found: list[set[int]] = [set() for _ in self.encoders]
        whole: set[int] = set()
        for step in self.steps:
            table: Any = step.table
            if type(table) in self._joinable:
                found[step.encoder] |= table.looks_at
            else:
                whole.add(step.encoder)
        whole.update(k for k, each in enumerate(self.encoders) if not isinstance(each, _Selective))
        return tuple(None if k in whole else sorted(own) for k, own in enumerate(found))

    @cached_property
    def _joinable(self) -> set[type[Any]]:
        """Types of tables that can be joined: asked once each, because asking is slow."""
        samples = {type(step.table): step.table for step in self.steps}
        return {kind for kind, table in samples.items() if isinstance(table, _Joinable)}

    def begin(self, base: Scores) -> State:
        """Scores before the first step."""
        state = State.of(base)
        return state if self.start is None else state.rounded(base, self.start)

    def apply(self, blocks: Sequence[Block], base: Scores) -> Scores:
        """Scores after the last step, from the base scores (on the link's scale)."""
        state = self.begin(base)
        for steps, joined in self._stretches:
            if joined is None:
                state = state.advance_all(steps, blocks)
            else:
                output = steps[0].output
                f = joined.add(blocks[steps[0].encoder], state.column(output))
                drawn = steps[-1].partition or state.partition
                state = replace(state, level=np.zeros(len(f), np.int32), partition=drawn)
                state = state.rounded(f, None, output)
        return state.f

    @cached_property
    def by_class(self) -> tuple[Step, ...]:
        """The steps in an order that gives the same scores: where none looks at them, by class."""
        if self.outputs == 1:
            return self.steps
        drawn = self.start
        found: list[tuple[bool, Step]] = []
        for step in self.steps:
            drawn = step.partition or drawn
            looks = drawn is None or drawn.count > 1
            found.append((looks, step if looks else replace(step, partition=drawn)))
        order: list[Step] = []
        for looks, group in groupby(found, key=lambda pair: pair[0]):
            steps = [step for _, step in group]
            order += steps if looks else sorted(steps, key=lambda step: step.output)
        return tuple(order)

    @cached_property
    def _stretches(self) -> tuple[tuple[Sequence[Step], _Joined | None], ...]:
        """All steps in order, those that can be taken together with what they are together."""
        drawn = self.start
        ordered = self.by_class
        kinds: list[tuple[int, type[_Joinable], int] | None] = []
        for step in ordered:
            drawn = step.partition or drawn
            alone = drawn is None or drawn.count > 1 or step.replace or step.grid is not None
            kind: Any = type(step.table)
            joins = not alone and kind in self._joinable
            kinds.append((step.output, kind, step.encoder) if joins else None)
            drawn = step.grid or drawn
        found: list[tuple[Sequence[Step], _Joined | None]] = []
        for own, at in groupby(range(len(kinds)), kinds.__getitem__):
            steps = [ordered[k] for k in at]
            joined = None
            if own is not None and len(steps) > 1:
                tables = [step.table for step in steps]
                joined = own[1].join(tables, self.encoders[own[2]])
            found.append((steps, joined))
        return tuple(found)

    def __getstate__(self) -> dict[str, Any]:
        """What travels to other processes: the fields, not what was derived from them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _with_tables(steps: Sequence[Step]) -> list[Step]:
    """The steps whose tables have learned something; level sets are drawn as before."""
    kept: list[Step] = []
    drawn: Levels | None = None
    for step in steps:
        drawn = step.partition or drawn
        if step.table.n_learners:
            kept.append(replace(step, partition=drawn))
            drawn = None
    return kept
