"""Seconds, memory and fresh processes, as the benchmarks count them.

Needs the standard library alone, because MCGrad's part runs in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Seconds:
    """Seconds on the clock, and of this process's processor time."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Seconds:
        """The time."""
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall - other.wall, self.cpu - other.cpu)

    def best(self, other: Seconds) -> Seconds:
        """Least of both."""
        return Seconds(min(self.wall, other.wall), min(self.cpu, other.cpu))


def timed(work: Callable[[], Any]) -> tuple[Any, Seconds]:
    """What work returns, and how long it took."""
    begun = Seconds.now()
    result = work()
    return result, Seconds.now() - begun


def best_of(runs: int, work: Callable[[], Any]) -> Seconds:
    """The best of so many runs."""
    found = timed(work)[1]
    for _ in range(runs - 1):
        found = found.best(timed(work)[1])
    return found


def peak_bytes() -> int:
    """High-water mark of resident memory so far.

    ``ru_maxrss`` only where there is nothing else: on Linux a new process inherits it from the
    one that started it, and after writing a large table that is more than a small fit needs.
    """
    peak = _status_bytes("VmHWM")
    if peak is not None:
        return peak
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else usage * 1024


def held_bytes() -> int:
    """Resident memory now."""
    held = _status_bytes("VmRSS")
    return peak_bytes() if held is None else held


def _status_bytes(field: str) -> int | None:
    """A memory field of Linux's own account of this process, or None elsewhere."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    found = [line for line in status.read_text().splitlines() if line.startswith(field + ":")]
    return int(found[0].split()[1]) * 1024 if found else None


def ask_child(what: str, command: Sequence[str], env: dict[str, str] | None = None) -> Any:
    """The JSON that a fresh process prints as its last line."""
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if run.returncode:
        raise RuntimeError(f"{what} failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def measure_in_child(script: str, order: Any) -> Any:
    """What a benchmark's own ``--measure`` finds for an order, in a fresh process."""
    return ask_child("measuring", [sys.executable, script, "--measure", json.dumps(vars(order))])


def numbers(text: str) -> list[int]:
    """Comma-separated whole numbers; empty for none."""
    values = sorted({int(part) for part in text.split(",") if part})
    if values and values[0] < 1:
        raise argparse.ArgumentTypeError(f"numbers must be positive, got {text!r}")
    return values


def fit_rounds(
    X: Any, y: Any, *, depth: int, levels: int, rounds: int, threads: int
) -> tuple[float, Any]:
    """Seconds of a complete fit of so many rounds of trees, from the mean label, and the model."""
    import numpy as np

    import recalibrate as rc

    start = time.perf_counter()
    model = rc.fit(
        np.full(len(y), y.mean()),
        X,
        y,
        H=rc.Trees(depth=depth),
        validation=False,
        loop=rc.Loop(
            rounded=True, level_kind="uniform", levels=levels, tolerance=None, max_rounds=rounds
        ),
        engine=rc.Engine(threads=threads),
        progress=False,
    )
    return time.perf_counter() - start, model
