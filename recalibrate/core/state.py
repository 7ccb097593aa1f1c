"""Scores of some rows at a point of a model's list of steps, and the level sets drawn last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import Levels
from recalibrate.support.threads import cut, share_out, threads_for

if TYPE_CHECKING:
    from recalibrate.core.rounds import Block, Scores, Step


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
