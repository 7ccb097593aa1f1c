"""Why a linear function moved a row, in words."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np

from recalibrate.classes.linear.spec import LinearTable
from recalibrate.core.rounds import Encoder
from recalibrate.explain.reasons import Floats, Reasons


class Design(Encoder, Protocol):
    """An encoder that makes the columns of a linear function."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What every column stands for; nothing: for the level set."""


class LinearReasons(Reasons[LinearTable, Design]):
    """The terms of a row's linear function."""

    additive = True

    @property
    def kind(self) -> str:
        return "line" if len(set(self.encoder.labels)) == 2 else self.table.kind

    @cached_property
    def _parts(self) -> dict[str, Floats]:
        coefficient = np.where(self.table.present[:, None], self.table.coefficient, 0.0)
        products = coefficient[self.level] * self.block
        added: dict[str, Floats] = {}
        for j, label in enumerate(self.encoder.labels):
            if label:
                added[label] = added.get(label, 0.0) + products[:, j]
        return added

    def words(self, row: int) -> str:
        return "a linear function" if self.table.present[self.level[row]] else ""

    def parts(self) -> dict[str, Floats]:
        return self._parts


REASONS = LinearReasons
