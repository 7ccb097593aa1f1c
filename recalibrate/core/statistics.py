"""What the loop asks its rows beside the statistics that H learns from: losses and level cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import QUANTILE_CELLS
from recalibrate.core.part import Draft, Part, Sums
from recalibrate.core.rounds import Rounds, Step
from recalibrate.core.source import StatsSource
from recalibrate.kernels.rows import count_cells


@dataclass(frozen=True, eq=False)
class Losses:
    """Statistic: summed loss under a model."""

    log: Rounds

    def of(self, part: Part) -> Sums:
        return (part.loss(self.log), _weight_of(part))


@dataclass(frozen=True, eq=False)
class LevelLosses:
    """Statistic: losses by level set before and after a step that is not taken yet."""

    draft: Draft
    step: Step
    levels: int

    def of(self, part: Part) -> Sums:
        family = self.draft.log.family
        level, output = part.levels(self.draft), self.draft.output
        before = part.margin(self.draft.log, output)
        after = part.after(self.draft, self.step)
        return (
            part.losses(before, family, level, self.levels, output),
            part.losses(after, family, level, self.levels, output),
        )


@dataclass(frozen=True, eq=False)
class ScoreCells:
    """Statistic: weight in equal cells of the score's range, for quantile levels."""

    log: Rounds
    low: float
    high: float
    output: int = 0

    def of(self, part: Part) -> Sums:
        out = np.zeros(QUANTILE_CELLS, dtype=np.int64)
        scale = QUANTILE_CELLS / (self.high - self.low)
        count_cells(part.margin(self.log, self.output), part.weight, self.low, scale, out)
        return (out,)


def _weight_of(part: Part) -> NDArray[np.int64]:
    weight = int(part.weight.sum()) if len(part.weight) else part.n_rows
    return np.array([weight], dtype=np.int64)


def mean_loss(source: StatsSource, log: Rounds) -> float:
    """Mean loss of a model on the rows: see ``core.family``."""
    return mean_of(source, *source.sums(Losses(log)))


def mean_of(source: StatsSource, loss: NDArray[np.int64], weight: NDArray[np.int64]) -> float:
    """Mean of summed losses, which are in fixed point."""
    return float(int(loss[0]) * 2.0**-source.scale.loss_bits / int(weight[0]))
