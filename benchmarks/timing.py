"""Seconds that some work takes, as the speed benchmarks count them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Seconds:
    """Least time of several runs: on the clock, and of all processors together."""

    wall: float
    cpu: float

    def best(self, other: Seconds) -> Seconds:
        return Seconds(min(self.wall, other.wall), min(self.cpu, other.cpu))


def timed(work: Callable[[], Any]) -> tuple[Any, Seconds]:
    """What work returns, and how long it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, Seconds(time.perf_counter() - wall, time.process_time() - cpu)


def best_of(runs: int, work: Callable[[], Any]) -> Seconds:
    """The best of so many runs."""
    found = timed(work)[1]
    for _ in range(runs - 1):
        found = found.best(timed(work)[1])
    return found
