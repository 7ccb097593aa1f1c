"""What the first fit, predictions and audit cost where no compiled code is kept yet.

A fresh process with an empty cache, then another one with the cache that the first has filled.
Prints the processor time of each step, and every function that numba compiles, its own helpers for
numpy's functions included. Events nest: a function's seconds are without those of the functions
that it has compiled meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from measuring import ask_child, timed

STEPS = ("import", "fit", "predict", "audit")


@dataclass(frozen=True)
class Order:
    """What a fresh process measures."""

    rows: int
    seed: int


@dataclass
class Compiled:
    """A function that numba has compiled: how often, and the processor time."""

    name: str
    module: str
    times: int = 0
    seconds: float = 0.0


def listen(found: dict[tuple[str, str], Compiled]) -> None:
    """Write down whatever numba compiles from now on."""
    from numba.core import event

    running: list[tuple[float, list[float]]] = []

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            running.append((process_time(), []))

        def on_end(self, event: Any) -> None:
            begun, inner = running.pop()
            seconds = process_time() - begun
            if running:
                running[-1][1].append(seconds)
            function = event.data["dispatcher"].py_func
            key = (function.__qualname__, function.__module__)
            compiled = found.setdefault(key, Compiled(*key))
            compiled.times += 1
            compiled.seconds += seconds - sum(inner)

    event.register("numba:compile", Listener())


def measure(order: Order) -> dict[str, Any]:
    """Take the steps in this process."""
    found: dict[tuple[str, str], Compiled] = {}
    listen(found)  # which imports numba
    seconds: dict[str, float] = {}

    def step(name: str, work: Any) -> Any:
        result, taken = timed(work)
        seconds[name] = taken.cpu
        return result

    def load() -> Any:
        import recalibrate as rc
        from recalibrate.simulate import census

        return rc, census

    rc, census = step("import", load)
    data, test = (census(order.rows, order.seed + part, categorical=True) for part in range(2))
    model = step("fit", lambda: rc.fit(data.scores, data.X, data.y, progress=False))
    step("predict", lambda: model.predict(test.X, base=test.scores))
    step("audit", lambda: rc.audit(model, test.X, test.y, groups="SEX*RAC1P", base=test.scores))
    return {"seconds": seconds, "compiled": [asdict(each) for each in found.values()]}


def show(cold: dict[str, Any], warm: dict[str, Any], most: int) -> str:
    """Steps, then functions: ours and numba's, the slowest first."""
    lines = [f"{'processor seconds':<20}{'cold':>8}{'warm':>8}"]
    for name in STEPS:
        lines.append(f"{name:<20}{cold['seconds'][name]:>8.2f}{warm['seconds'][name]:>8.2f}")
    compiled = [Compiled(**each) for each in cold["compiled"]]
    for whose in ("recalibrate", "numba"):
        own = [
            each for each in compiled if each.module.startswith("recalibrate") is (whose != "numba")
        ]
        own.sort(key=lambda each: -each.seconds)
        lines.append(
            f"\n{whose}: {len(own)} functions, {sum(each.times for each in own)} signatures, "
            f"{sum(each.seconds for each in own):.2f} s"
        )
        lines += [
            f"{each.seconds:>8.3f}{each.times:>4}  {each.name}  ({each.module})"
            for each in own[:most]
        ]
    return "\n".join(lines)


def measure_both(order: Order, repeats: int) -> list[dict[str, Any]]:
    """The best of runs with an empty cache, and with the one that they have filled."""
    command = [sys.executable, __file__, "--measure", json.dumps(asdict(order))]
    found = []
    for _ in range(repeats):
        with TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            found.append([ask_child("measuring", command, environment) for _ in range(2)])
    kinds = zip(*found, strict=True)
    return [min(runs, key=lambda run: sum(run["seconds"].values())) for runs in kinds]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--rows", type=int, default=5000)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--repeats", type=int, default=1, help="runs of each; the best counts")
    made.add_argument("--most", type=int, default=200, help="functions to print")
    made.add_argument("--json", type=Path, help="file to write all figures to")
    made.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = made.parse_args(argv)
    if arguments.measure is not None:
        print(json.dumps(measure(Order(**json.loads(arguments.measure)))))
        return
    cold, warm = measure_both(Order(arguments.rows, arguments.seed), arguments.repeats)
    print(show(cold, warm, arguments.most))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"cold": cold, "warm": warm}, indent=1))


if __name__ == "__main__":
    main()
