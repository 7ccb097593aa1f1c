"""Rows written down while they are read: each column at the end of a file of its own.

A one-shot iterable can be read only once, so its rows are kept: float32 columns, labels, base
scores and weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.rounds import Scores
from recalibrate.rows.files import Scratch, Stored


@dataclass(frozen=True)
class SpooledFiles:
    """The columns of a finished spool; ``cut`` see `recalibrate.bases.problem.cut_losses`."""

    columns: tuple[Stored, ...]
    y: Stored
    score: Stored
    weight: Stored | None
    cut: Stored | None = None


class Spool:
    """Columns that grow at the end, each in a file.

    Parameters
    ----------
    scratch
        Where the files are.
    features
        Number of float32 columns beside labels, scores and (if ``weighted``) weights.
    outputs
        Scores of a row.
    """

    def __init__(self, scratch: Scratch, features: int, outputs: int, *, weighted: bool) -> None:
        self._features, self._outputs = features, outputs
        self._types = ["<f4"] * features + ["<f8"] * (3 if weighted else 2)
        self._paths = [scratch.reserve() for _ in self._types]
        self._stack = ExitStack()
        self._files = [self._stack.enter_context(path.open("wb")) for path in self._paths]
        self.n_rows = 0

    def append(
        self,
        columns: Sequence[NDArray[np.float32]],
        y: Scores,
        score: Scores,
        weight: Scores | None,
    ) -> None:
        """Add rows."""
        vectors = [y, score] if weight is None else [y, score, weight]
        for file, type_, values in zip(self._files, self._types, [*columns, *vectors], strict=True):
            file.write(np.ascontiguousarray(values, type_).data)
        self.n_rows += len(y)

    def close(self) -> SpooledFiles:
        """The files."""
        self._stack.close()
        stored = [
            Stored(path, type_, (self.n_rows,))
            for path, type_ in zip(self._paths, self._types, strict=True)
        ]
        y, score, *weight = stored[self._features :]
        if self._outputs > 1:
            score = replace(score, shape=(self.n_rows, self._outputs))
        columns = tuple(stored[: self._features])
        return SpooledFiles(columns, y, score, weight[0] if weight else None)
