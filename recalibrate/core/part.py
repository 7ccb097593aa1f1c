"""A block of rows with its labels: the unit that every source works on.

A part's scores are a cache of the list of steps: a part that was lost, or never saw the newest
steps, replays them. All it gives are sums of integers, so that parts can be cut anywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.family import Family
from recalibrate.core.fixedpoint import INT64_BITS, Scale
from recalibrate.core.levels import Levels
from recalibrate.core.rounds import Rounds, Scores, State, Step
from recalibrate.kernels import rows as kernels
from recalibrate.kernels.classes import add_class_losses
from recalibrate.support.hashing import mix

Sums = tuple[NDArray[np.int64], ...]
Buffers = dict[str, NDArray[Any]]
"""Arrays that are free for reuse, by what they were for: a step writes to those of the step before,
whose memory pages are mapped already."""
LABELS: Literal["labels"] = "labels"
NO_KEYS = np.empty(0, dtype=np.uint64)
NO_LEVELS = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Draw:
    """The rows that a step is learned on: a share of them, by their keys.

    Rows with gradients below ``least`` are drawn in proportion to these, and stand for several.
    """

    share: float
    seed: int
    step: int
    least: float = 0.0

    @property
    def salt(self) -> np.uint64:
        """What rows' keys are hashed with."""
        return _salt(self.seed, self.step)


@lru_cache(maxsize=10_000)
def _salt(seed: int, step: int) -> np.uint64:
    """Remembered, because every fold draws by the same ones."""
    return np.uint64(mix(np.zeros(1, np.uint64), seed, step)[0])


@dataclass(frozen=True, eq=False)
class PendingStep:
    """A model about to take a step: the steps so far and the level sets drawn for the next.

    ``partition`` None keeps the level sets of the newest step; ``draw`` None takes all rows.
    ``output`` is the class that the step will be about.
    """

    model: Rounds
    partition: Levels | None
    replace: bool = False
    draw: Draw | None = None
    output: int = 0


class Statistic(Protocol):
    """Integers that can be worked out for a part and summed over parts."""

    def of(self, part: Part) -> Sums:
        """The part's share of the sums."""


class _Descent(Protocol):
    """Where rows were sent while a table was learned: their leaves need not be looked up."""

    @property
    def trees(self) -> Any:
        """What grew, with the table that was ``learned``."""

    def scores(self, codes: Any, f: Scores, replaces: bool) -> Scores:
        """Scores after the step with that table."""

    def levels(self, codes: Any, level: NDArray[np.int32], grid: Levels) -> NDArray[np.int32]:
        """Levels after it, where it replaces scores and rounds them."""


@dataclass(frozen=True, eq=False)
class Memo:
    """What a part has worked out so far. A part without it replays the steps.

    ``words_of`` says what the words were made of: "labels", the "state", or nothing current.
    """

    model: Rounds | None
    state: State
    before: State | None = None
    words: NDArray[np.int64] | None = None
    words_of: Literal["labels", "state"] | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """Encoded rows: arrays, or whatever stands for arrays (files, for instance).

    Attributes
    ----------
    blocks
        What every encoder makes of the rows.
    y
        Labels, scaled to [0, 1]; of several classes the share of each, a column per class.
    base
        Base scores on the link's scale; of several classes a column per class.
    weight
        Quantised weights; empty: each one.
    keys
        Hashes of what the rows say, by which steps draw some of them; empty: they take all.
    """

    blocks: tuple[Any, ...]
    y: Any
    base: Any
    weight: Any
    keys: Any = field(default_factory=lambda: NO_KEYS)

    def __len__(self) -> int:
        return len(self.y)

    def map(self, change: Callable[[Any], Any]) -> Rows:
        """The same with something else in the place of every array."""
        blocks = tuple(change(block) for block in self.blocks)
        return Rows(blocks, *map(change, (self.y, self.base, self.weight, self.keys)))

    def take(self, at: slice | NDArray[np.intp]) -> Rows:
        """Some of the rows; a slice copies nothing."""
        return self.map(lambda array: array[at] if len(array) else array)


def take_buffer(buffers: Buffers, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array to write to: a free buffer if there is one that fits."""
    known = buffers.pop(name, None)
    if known is None or known.shape != shape or known.dtype != dtype:
        known = np.empty(shape, dtype)
    return known


class Part:
    """Rows of one block, and their scores under the steps applied so far."""

    def __init__(self, rows: Rows, scale: Scale) -> None:
        self.blocks = rows.blocks
        self.base: Scores = rows.base
        self._y = _columns(rows.y)
        self.weight: NDArray[np.int64] = rows.weight
        self.keys: NDArray[np.uint64] = rows.keys
        self.scale = scale
        self.buffers: Buffers = {}
        self._descents: deque[_Descent] = deque(maxlen=len(self._y))
        self._log: Rounds | None = None
        self._state = State.of(self.base)
        self._before: State | None = None
        self._words: tuple[object, int, NDArray[np.int64]] | None = None

    @property
    def n_rows(self) -> int:
        return len(self.base)

    @property
    def descent(self) -> _Descent | None:
        """Where rows are in the trees that grow, or grew last."""
        return self._descents[-1] if self._descents else None

    @descent.setter
    def descent(self, descent: _Descent) -> None:
        self._descents.append(descent)  # one for every class, whose trees may grow in turn

    def labels(self, output: int = 0) -> Scores:
        """Labels, or whether rows are of a class."""
        return self._y[output]

    def sums(self, statistic: Statistic) -> Sums:
        """The part's share of the sums."""
        return statistic.of(self)

    def memo(self) -> Memo:
        """What to keep of this part when its arrays have to go."""
        key, output, words = (None, 0, None) if self._words is None else self._words
        current: Literal["labels", "state"] | None = None
        if key is LABELS:
            current = LABELS
        elif key is _scores_of(self._state) and output == 0:
            current = "state"
        return Memo(self._log, self._state, self._before, words, current)

    def recall(self, memo: Memo) -> None:
        """Go on from where a part of the same rows was."""
        self._log, self._state, self._before = memo.model, memo.state, memo.before
        if memo.words is not None:
            stale = object()
            known = {LABELS: LABELS, "state": _scores_of(memo.state), None: stale}
            self._words = (known[memo.words_of], 0, memo.words)

    def scores(self, model: Rounds) -> Scores:
        """Scores after the last step of ``model``."""
        return self._bring(model).f

    def margin(self, model: Rounds, output: int = 0) -> Scores:
        """The scores that level sets are drawn from: of a class its log-odds against the rest."""
        return self._bring(model).margin(output)

    def levels(self, draft: PendingStep) -> NDArray[np.int32]:
        """Level set of every row under a draft's partition."""
        state = self._bring(draft.model)
        if draft.partition is not None:
            state = self._state = state.draw(draft.partition, draft.output)
        return state.drawn_level

    def words(self, draft: PendingStep) -> NDArray[np.int64]:
        """The statistics of every row, as the scale packs them; zero for those not drawn."""
        state = self._bring(draft.model)
        draw = draft.draw if len(self.keys) else None
        key: object = draw or (LABELS if draft.replace else _scores_of(state))
        known = self._words
        if known is not None and known[0] is key and known[1] == draft.output:
            return known[2]
        scale, y = self.scale, self.labels(draft.output)
        words = np.empty((self.n_rows, scale.words), dtype=np.int64) if known is None else known[2]
        kernels.respond(
            y,
            y if draft.replace else state.margin(draft.output),
            self.weight,
            draft.model.family.curve,
            draft.replace,
            draft.model.family.response_limit,
            scale,
            words,
        )
        if draw is not None and draw.least > 0:
            how = draw.salt, draw.share, draw.least
            kernels.thin_out(self.keys, *how, self.weight, scale, words)
        elif draw is not None:
            kernels.leave_out(self.keys, draw.salt, draw.share, words)
        self._words = (key, draft.output, words)
        return words

    def losses(
        self, f: Scores, family: Family, level: NDArray[np.int32], levels: int, output: int = 0
    ) -> NDArray[np.int64]:
        """Summed losses of the scores ``f`` by level set."""
        return self._sum_losses(f, NO_LEVELS, level, family, levels, output)

    def squares(
        self, draft: PendingStep, level: NDArray[np.int32], levels: int
    ) -> NDArray[np.int64]:
        """Summed squares of weighted responses by level set, in units of :func:`square_step`."""
        out = np.zeros(levels, dtype=np.int64)
        np.add.at(out, level, self.squared(draft))
        return out

    def squared(self, draft: PendingStep) -> NDArray[np.int64]:
        """Squared weighted response of every row, in units of :func:`square_step`."""
        _, _, g = self.scale.unpack(self.words(draft))
        root = 2.0 ** -_bits_to_cut(self.scale)
        return np.asarray(np.rint((g * root) ** 2), dtype=np.int64)

    def loss(self, model: Rounds) -> NDArray[np.int64]:
        """Summed loss of the scores after the last step of ``model``."""
        state = self._bring(model)
        if state.kept is not None and len(state.kept) > 1:
            out, scale = np.zeros(1, dtype=np.int64), 2.0**self.scale.loss_bits
            y, z = np.stack(self._y), np.stack(state.kept)
            add_class_losses(y, z, self.weight, scale, model.family.loss_limit, out)
            return out
        f, at = (state.f, NO_LEVELS) if state.values is None else (state.values, state.drawn_level)
        return self._sum_losses(f, at, NO_LEVELS, model.family, 1, 0)

    def _sum_losses(
        self,
        f: Scores,
        at: NDArray[np.int32],
        level: NDArray[np.int32],
        family: Family,
        levels: int,
        output: int,
    ) -> NDArray[np.int64]:
        out, scale = np.zeros(levels, dtype=np.int64), 2.0**self.scale.loss_bits
        y = self.labels(output)
        curve, limit = family.curve, family.loss_limit
        kernels.add_losses(y, f, at, self.weight, level, curve, scale, limit, out)
        return out

    def after(self, draft: PendingStep, step: Step) -> Scores:
        """Scores that a step would give, without taking it; of a class its log-odds."""
        self.levels(draft)
        return self._state.advance(step, self.blocks[step.encoder]).margin(step.output)

    def _bring(self, model: Rounds) -> State:
        """Apply what ``model`` has beyond the steps applied so far; step back if it has less."""
        if self._log is not None and model.encoders is not self._log.encoders:
            self._log = None
        done = 0 if self._log is None else len(self._log.steps)
        if self._log is None or not self._extends(model, done):
            undone = done - 1
            if self._before is not None and undone >= 0 and self._extends(model, undone):
                self._state, done = self._before, undone
            else:
                self._state, done = model.begin(self.base), 0
            self._before = None
        for step in model.steps[done:]:
            self._before, self._state = self._state, self._advance(step)
        self._log = model
        return self._state

    def _advance(self, step: Step) -> State:
        """The next state; by the nodes that rows are known to be in, where this part helped."""
        state, block = self._state, self.blocks[step.encoder]
        known = [each for each in self._descents if each.trees.learned is step.table]
        if not known:
            self._descents.clear()
            return state.advance(step, block)
        descent, output = known[0], step.output
        self._descents.remove(descent)
        drawn = state if step.partition is None else state.draw(step.partition, output)
        if step.replace and step.grid is not None and drawn.partition is step.grid:
            return State.on_grid(descent.levels(block, drawn.drawn_level, step.grid), step.grid)
        f = descent.scores(block, drawn.column(output), step.replace)
        return drawn.rounded(f, step.grid, output)

    def _extends(self, model: Rounds, done: int) -> bool:
        """Whether the first ``done`` steps applied are the first steps of ``model``."""
        if len(model.steps) < done or self._log is None:
            return False
        return done == 0 or model.steps[done - 1] is self._log.steps[done - 1]


def _bits_to_cut(scale: Scale) -> int:
    """Bits taken off responses before they are squared, so that no sum can overflow."""
    largest = scale.response_bits + scale.response_limit
    return -(-(scale.square_bits + 2 * largest - INT64_BITS) // 2)


def square_step(scale: Scale) -> float:
    """Real value of one unit of :meth:`Part.squares`."""
    return float((scale.response_step * 2.0 ** _bits_to_cut(scale)) ** 2)


def _scores_of(state: State) -> object:
    """What stands for the scores: it is replaced whenever they change."""
    return state.level if state.kept is None else state.kept


def _columns(y: Any) -> tuple[Scores, ...]:
    """Labels by output."""
    return (y,) if y.ndim == 1 else tuple(np.asfortranarray(y).T)
