"""Stages of a default fit: classes with the settings they are boosted with, and runs of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.boost import Boosted, Settings, boost
from recalibrate.classes.base import Learner
from recalibrate.engines.memory import StatsSource
from recalibrate.rounds import Rounds


@dataclass(frozen=True, eq=False)
class Stage:
    """A class, bound, with the settings it is boosted with."""

    learner: Learner
    settings: Settings
    encoder: int

    def run(
        self,
        source: StatsSource,
        log: Rounds,
        *,
        progress: bool | None = False,
        keep_if_interrupted: bool = False,
        **changes: Any,
    ) -> Boosted:
        """Boost from ``log`` on, with some settings changed."""
        return boost(
            source,
            self.learner,
            replace(self.settings, **changes),
            log,
            encoder=self.encoder,
            progress=progress,
            keep_if_interrupted=keep_if_interrupted,
        )


@dataclass(frozen=True, eq=False)
class Path:
    """All steps fitted without a fold's rows, and what those rows say.

    ``ends[k]`` is the number of steps before stage k; ``curve`` the held-out loss by step of
    the last stage.
    """

    log: Rounds
    ends: tuple[int, ...]
    curve: tuple[float, ...]
    held_out: NDArray[np.intp]

    @property
    def best(self) -> int:
        """Steps of the last stage with the lowest held-out loss."""
        return int(np.argmin(self.curve))
