"""A fit's rows, encoded once, and the runs of the loop on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem, base_margin, count_scores, read_features
from recalibrate.bases.protocol import Base
from recalibrate.core.boost import Boosted, Settings, boost
from recalibrate.core.fixedpoint import Scale, label_bits, make_scale
from recalibrate.core.learning import FunctionClass, Learner
from recalibrate.core.rounds import Rounds, Scores
from recalibrate.core.source import StatsSource
from recalibrate.data.labels import read_more_labels
from recalibrate.data.table import Table
from recalibrate.rows.memory import Rows, rows_in_memory


class HeldOutRows(Protocol):
    """Rows that only validate, wherever they are."""

    @property
    def y(self) -> Scores:
        """Their labels, scaled to [0, 1]."""

    @property
    def weight(self) -> NDArray[np.int64]:
        """Their quantised weights; empty: each one."""


R = TypeVar("R", bound=HeldOutRows)


@dataclass(frozen=True, eq=False)
class Bench(ABC, Generic[R]):
    """What every run of the loop needs, wherever the rows are.

    Attributes
    ----------
    problem
        The checked input; where rows are elsewhere, without any.
    learner
        The class, bound to the columns.
    scale
        Fixed point of all sums.
    threads
        For work in this process; does not change a result.
    """

    problem: Problem
    learner: Learner
    scale: Scale
    threads: int

    def start(self, settings: Settings) -> Rounds:
        """The model before its first step."""
        return Rounds(settings.link, settings.grid, (self.learner.encoder,))

    def run(
        self, settings: Settings, *, held_out: R | None = None, progress: bool | None = None
    ) -> Boosted:
        """One run of the loop on all rows."""
        with self.open(held_out) as source:
            return boost(source, self.learner, settings, self.start(settings), progress=progress)

    @abstractmethod
    def open(self, held_out: R | None = None) -> AbstractContextManager[StatsSource]:
        """The rows as a source."""

    @abstractmethod
    def open_alone(self, held_out: R) -> AbstractContextManager[StatsSource]:
        """Held-out rows as a source of their own, with a scale made for them."""

    @abstractmethod
    def keep(self, rows: Rows) -> R:
        """Held-out rows from memory, as this bench takes them."""

    def read_held_out(self, base: Base, given: Any, clip: bool) -> R:
        """Validation rows that the user gave, encoded like the others."""
        parts = _validation_parts(given)
        problem, labels = self.problem, self.problem.labels
        X = parts["X"]
        scores = parts["base"] if parts.get("base") is not None else base.scores(X)
        n_rows = count_scores(scores)
        margin = base_margin(base, scores, labels, problem.link, n_rows, clip=clip)
        features = X if parts.get("Z") is None else parts["Z"]
        table = read_features(problem.table.schema, self.learner.encoder.names, features, margin)
        own = read_more_labels(
            labels,
            parts["y"],
            n_rows=n_rows,
            sample_weight=parts.get("sample_weight"),
            what="y of validation=",
        )
        self._check_weights(own.weight)
        return self.keep(self._encode_held_out(table, own.values, margin, own.weight))

    def _encode_held_out(
        self, table: Table, y: Scores, margin: Scores, weight: NDArray[np.float64] | None
    ) -> Rows:
        block = self.learner.encoder.encode(table, self.threads)
        ones = np.ones(len(y)) if weight is None else weight
        return Rows((block,), y, margin, self.scale.quantise_held_out(ones))

    def _check_weights(self, weight: NDArray[np.float64] | None) -> None:
        """Held-out weights need the room that weights of the fitted rows make."""
        if weight is None or self.scale.weighted:
            return
        if not self.problem.given.weighted:
            raise ValueError(
                "validation= has a sample_weight but the calibration rows have none; give both "
                "or neither"
            )
        if (weight != weight[0]).any():
            raise ValueError(
                "validation= has rows of different sample_weight, but all calibration rows weigh "
                "the same; let both differ or neither"
            )


@dataclass(frozen=True, eq=False)
class Workbench(Bench[Rows]):
    """Encoded rows of a problem for one class H, in memory.

    Attributes
    ----------
    rows
        The encoded rows.
    blocks
        How many blocks the rows are cut into; does not change a result.
    """

    rows: Rows
    blocks: int | None

    def open(self, held_out: Rows | None = None) -> AbstractContextManager[StatsSource]:
        return rows_in_memory(
            self.rows, self.scale, held_out=held_out, blocks=self.blocks, threads=self.threads
        )

    def open_alone(self, held_out: Rows) -> AbstractContextManager[StatsSource]:
        # Their number and weights are not those that the fit's scale was made for.
        scale, weight = alone_scale(held_out)
        return rows_in_memory(replace(held_out, weight=weight), scale, threads=self.threads)

    def keep(self, rows: Rows) -> Rows:
        return rows

    def take_held_out(self, problem: Problem) -> Rows:
        """Rows of the same table that were set aside, encoded like the others."""
        labels = problem.labels
        return self._encode_held_out(problem.table, labels.values, problem.base, labels.weight)


def alone_scale(held_out: HeldOutRows) -> tuple[Scale, NDArray[np.int64]]:
    """A scale for held-out rows by themselves, and their weights on it."""
    weight = held_out.weight.astype(np.float64) if len(held_out.weight) else None
    y = held_out.y
    scale = make_scale(len(y), weight, newton=False, exact_bits=label_bits(y))
    return scale, scale.quantise_weight(weight)


def make_workbench(
    problem: Problem,
    function_class: FunctionClass,
    settings: Settings,
    *,
    threads: int,
    blocks: int | None,
) -> Workbench:
    """Bind the class to the table and encode all rows."""
    labels = problem.labels
    bits = label_bits(labels.values) if settings.replaces else None
    scale = make_scale(
        problem.n_rows, labels.weight, newton=settings.link == "logit", exact_bits=bits
    )
    weight = scale.quantise_weight(labels.weight)
    table = problem.table.gathered()
    learner = function_class.bind(table, weight, threads=threads)
    block = learner.encoder.encode(table, threads)
    del table  # the fit itself works on the block alone
    rows = Rows((block,), labels.values, problem.base, weight)
    return Workbench(problem, learner, scale, threads, rows, blocks)


def _validation_parts(given: Any) -> Mapping[str, Any]:
    keys = ("X", "y", "base", "Z", "sample_weight")
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - set(keys))
        if unknown or "X" not in given or "y" not in given:
            raise ValueError(
                f"validation= needs the entries 'X' and 'y' (optional: 'base', 'Z', "
                f"'sample_weight'), got {sorted(given)}"
            )
        return given
    if isinstance(given, Sequence) and len(given) == 2:
        return {"X": given[0], "y": given[1]}
    raise TypeError(
        "validation= must be a pair (X, y), a dict with 'X' and 'y', a share such as 0.2, or "
        f"False; got {type(given).__name__}"
    )
