"""A fit's rows, encoded once, and the runs of the loop on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.boost import Boosted, Settings, boost
from recalibrate.classes.base import FunctionClass, Learner
from recalibrate.engines.memory import Rows, rows_in_memory
from recalibrate.fixedpoint import Scale, label_bits, make_scale
from recalibrate.labels import read_more_labels
from recalibrate.problem import Problem, base_margin, count_scores, read_features
from recalibrate.rounds import Rounds, Scores
from recalibrate.scores import Base
from recalibrate.table import Table


@dataclass(frozen=True, eq=False)
class Workbench:
    """Encoded rows of a problem for one class H.

    Attributes
    ----------
    problem
        The checked input.
    learner
        The class, bound to the table.
    scale
        Fixed point of all sums.
    rows
        The encoded rows.
    threads, blocks
        How the rows are worked on; neither changes a result.
    """

    problem: Problem
    learner: Learner
    scale: Scale
    rows: Rows
    threads: int
    blocks: int | None

    def start(self, settings: Settings) -> Rounds:
        """The model before its first step."""
        return Rounds(settings.link, settings.grid, (self.learner.encoder,))

    def run(
        self,
        settings: Settings,
        *,
        held_out: Rows | None = None,
        progress: bool | None = None,
    ) -> Boosted:
        """One run of the loop on all rows."""
        with rows_in_memory(
            self.rows, self.scale, held_out=held_out, blocks=self.blocks, threads=self.threads
        ) as source:
            return boost(source, self.learner, settings, self.start(settings), progress=progress)

    def read_held_out(self, base: Base, given: Any, clip: bool) -> Rows:
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
        return self._held_out(table, own.values, margin, own.weight)

    def take_held_out(self, problem: Problem) -> Rows:
        """Rows of the same table that were set aside, encoded like the others."""
        labels = problem.labels
        return self._held_out(problem.table, labels.values, problem.base, labels.weight)

    def _held_out(
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
    return Workbench(problem, learner, scale, rows, threads, blocks)


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
