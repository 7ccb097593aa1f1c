"""Why a step moved a row: its rule in words, and what every feature added.

A class has its reasons in its module ``reasons``, as ``REASONS``; :func:`reasons_of` finds them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.kinds import part_of
from recalibrate.core.rounds import Block, Encoder, Learned
from recalibrate.data.table import Schema

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
T = TypeVar("T", bound=Learned)
E = TypeVar("E", bound=Encoder)


class Reasons(ABC, Generic[T, E]):
    """One step on some rows, whose encoded features and level sets are given."""

    additive: ClassVar[bool] = False
    """Whether the rule is a sum, which is told by what its terms add."""

    def __init__(self, table: T, encoder: E, schema: Schema, block: Block, level: Ints) -> None:
        self.table, self.encoder, self.schema = table, encoder, schema
        self.block, self.level = block, level

    @property
    def kind(self) -> str:
        """What the step's learners are."""
        return self.table.kind

    @abstractmethod
    def words(self, row: int) -> str:
        """The rule that a row met."""

    @abstractmethod
    def parts(self) -> dict[str, Floats]:
        """What every feature (or group term) added to the rows; the rest is the level set's."""


def reasons_of(table: T, encoder: E, schema: Schema, block: Block, level: Ints) -> Reasons[T, E]:
    """Why a step moved some rows."""
    reasons: type[Reasons[T, E]] = part_of(table.kind, "reasons").REASONS
    return reasons(table, encoder, schema, block, level)
