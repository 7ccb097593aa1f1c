"""How time and memory of a fit grow with rows and features; a fresh process per measurement.

The table is census-like (numeric codes, float32); a fit trains a fixed number of rounds on it,
so that time per row and per feature can be compared. Memory is the process's high-water mark
during the fit minus what it held before, the input included, as a multiple of the float32 table.
Run with ``--help`` for options.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from measuring import fit_rounds, held_bytes, measure_in_child, numbers, peak_bytes

LINEAR_ROWS = 1.5
"""10 million rows may cost this many times as much per row as 1 million."""

MEMORY_LIMIT = 3.0
CHUNK = 250_000


@dataclass(frozen=True)
class Order:
    """What a child process measures."""

    folder: str
    depth: int
    levels: int
    rounds: int
    threads: int
    repeats: int


@dataclass(frozen=True)
class Result:
    """What it found: best and first seconds, bytes of the table and above what was held."""

    rows: int
    features: int
    seconds: float
    learners: int
    table_bytes: int
    extra_bytes: int

    @property
    def memory(self) -> float:
        """High-water mark above the input, in tables."""
        return self.extra_bytes / self.table_bytes

    @property
    def per_row(self) -> float:
        """Nanoseconds a row."""
        return self.seconds / self.rows * 1e9

    @property
    def per_cell(self) -> float:
        """Nanoseconds a row and feature."""
        return self.per_row / self.features


def write_data(folder: Path, rows: int, features: int) -> None:
    """The table and its labels as files, made in chunks so that making them needs no memory.

    Feature j is column j % 10 of the census; every further ten are an independent sample.
    """
    from recalibrate.simulate import census

    X = np.lib.format.open_memmap(
        folder / "X.npy", mode="w+", dtype=np.float32, shape=(rows, features)
    )
    y = np.lib.format.open_memmap(folder / "y.npy", mode="w+", dtype=np.float64, shape=(rows,))
    for chunk, start in enumerate(range(0, rows, CHUNK)):
        stop = min(start + CHUNK, rows)
        for copy, first in enumerate(range(0, features, 10)):
            sample = census(stop - start, seed=1000 * chunk + copy, task="income")
            last = min(first + 10, features)
            X[start:stop, first:last] = sample.X.to_numpy(np.float32)[:, : last - first]
            if copy == 0:
                y[start:stop] = sample.y
    X.flush()
    y.flush()


def measure(order: Order) -> Result:
    """Body of a child: warm on a few rows, load the table, fit, look at clock and memory."""
    folder = Path(order.folder)

    def fit() -> tuple[float, int]:
        how = {"depth": order.depth, "levels": order.levels, "rounds": order.rounds}
        seconds, model = fit_rounds(X, y, **how, threads=order.threads)
        return seconds, model.n_learners_

    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")
    n_warm = min(len(y), 2000)
    X, y = np.array(X[:n_warm]), np.array(y[:n_warm])
    fit()
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    before = held_bytes()
    seconds, learners = fit()
    extra = max(0, peak_bytes() - before)
    for _ in range(order.repeats - 1):
        seconds = min(seconds, fit()[0])
    return Result(X.shape[0], X.shape[1], seconds, learners, X.nbytes, extra)


def in_child(order: Order) -> Result:
    """The same in a fresh process."""
    return Result(**measure_in_child(__file__, order))


HEADER = (
    "      rows features |  seconds learners | ns/row ns/row/feature "
    "| table MB extra MB  times table"
)


def show(result: Result) -> str:
    """One line of the table, as printed."""
    return (
        f"{result.rows:10,d} {result.features:8d} | {result.seconds:8.2f} {result.learners:8d} "
        f"| {result.per_row:6.0f} {result.per_cell:14.1f} | {result.table_bytes / 1e6:8.0f} "
        f"{result.extra_bytes / 1e6:8.0f} {result.memory:12.2f}"
    )


def verdicts(by_rows: Sequence[Result], by_features: Sequence[Result]) -> list[str]:
    """What the lines say about growth and memory."""
    lines = []
    for small, large in pairwise(by_rows):
        ratio = large.per_row / small.per_row
        text = f"{large.rows:,} rows cost {ratio:.2f} times as much a row as {small.rows:,}"
        if (small.rows, large.rows) == (1_000_000, 10_000_000):
            text += f"; limit {LINEAR_ROWS}: {'kept' if ratio <= LINEAR_ROWS else 'EXCEEDED'}"
        lines.append(text)
    for few, many in pairwise(by_features):
        ratio = many.per_cell / few.per_cell
        lines.append(
            f"{many.features} features cost {ratio:.2f} times as much a feature as {few.features}"
        )
    everything = [*by_rows, *by_features]
    if everything:
        largest = max(everything, key=lambda result: result.table_bytes)
        state = "kept" if largest.memory < MEMORY_LIMIT else "EXCEEDED"
        lines.append(
            f"largest table: {largest.memory:.2f} times its float32 size on top of the input; "
            f"limit {MEMORY_LIMIT:.0f}: {state}"
        )
    return lines


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--rows", type=numbers, default=[100_000, 1_000_000, 10_000_000])
    made.add_argument("--features", type=numbers, default=[5, 10, 20, 40])
    made.add_argument("--rows-for-features", type=int, default=500_000)
    made.add_argument("--depth", type=int, default=2)
    made.add_argument("--levels", type=int, default=50)
    made.add_argument("--rounds", type=int, default=10)
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--repeats", type=int, default=3, help="fits per size; the fastest counts")
    made.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    return made


def main(argv: Sequence[str] | None = None) -> tuple[list[Result], list[Result]]:
    """Measure and print; returns the results by rows and by features."""
    arguments = parser().parse_args(argv)
    if arguments.measure is not None:
        print(json.dumps(asdict(measure(Order(**arguments.measure)))))
        return [], []
    print(
        f"{arguments.rounds} rounds, depth {arguments.depth}, {arguments.levels} levels, "
        f"{arguments.threads} threads; best of {arguments.repeats} fits, compiled before; "
        "memory of the first fit\n"
    )
    print(HEADER, flush=True)

    def one(rows: int, features: int) -> Result:
        with tempfile.TemporaryDirectory() as folder:
            write_data(Path(folder), rows, features)
            result = in_child(
                Order(
                    folder,
                    arguments.depth,
                    arguments.levels,
                    arguments.rounds,
                    arguments.threads,
                    arguments.repeats,
                )
            )
        print(show(result), flush=True)
        return result

    by_rows = [one(rows, 10) for rows in arguments.rows]
    by_features = [one(arguments.rows_for_features, count) for count in arguments.features]
    print("\n" + "\n".join(verdicts(by_rows, by_features)))
    return by_rows, by_features


if __name__ == "__main__":
    main()
