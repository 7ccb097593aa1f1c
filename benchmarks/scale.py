"""Rows in blocks on disk against rows in memory, and growth; a fresh process per measurement.

Census-like rows are made block by block and handed to ``fit`` as an iterable of DataFrames, or
collected first and handed over as one table. Making them is not counted. Memory is the process's
high-water mark (peak), and that minus what it held before the fit (extra), mapped files included.
Both ways must end with the same model, by a checksum of its steps. Said is also what rows cost more
in a larger table, and the memory as a multiple of the float32 table. ``--help`` shows options.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measuring import Seconds, held_bytes, measure_in_child, numbers, peak_bytes

CHUNK = 250_000
POOL = 8
"""Chunks of rows that are simulated; blocks are shuffles of them with other labels."""
MOST_RATIO = 1.2
"""Blocks may cost this many times as much a row as rows in memory."""
MOST_GROWTH = 1.5
"""A row of a table of ten times as many rows may cost this many times as much."""
MOST_TABLES = 3.0
"""Memory beside the input may be this many times the float32 table."""
FEATURES = 10


@dataclass(frozen=True)
class Order:
    """What a child process measures."""

    where: str
    rows: int
    depth: int
    levels: int
    rounds: int
    threads: int
    block_rows: int
    memory: int | None
    cache: str
    default: bool


@dataclass(frozen=True)
class Result:
    """What it found."""

    where: str
    rows: int
    seconds: float
    cpu_seconds: float
    extra_bytes: int
    peak_bytes: int
    disk_bytes: int
    learners: int
    model: str

    @property
    def rows_per_second(self) -> float:
        """Rows fitted a second, all rounds and the preparation included."""
        return self.rows / self.seconds

    @property
    def per_row(self) -> float:
        """Nanoseconds of processor time a row, which other processes disturb less."""
        return 1e9 * self.cpu_seconds / self.rows


class Source:
    """Makes blocks of rows, and counts the time that takes."""

    def __init__(self, rows: int) -> None:
        from recalibrate.simulate import census

        self.rows = rows
        self.spent = Seconds(0.0, 0.0)
        self.chunk = min(CHUNK, rows)
        chunks = min(POOL, -(-rows // CHUNK))
        samples = [census(self.chunk, seed=seed, task="income") for seed in range(chunks)]
        self._pool = [sample.X.assign(label=sample.y) for sample in samples]

    def blocks(self) -> Iterator[pd.DataFrame]:
        """All rows, block by block."""
        for number, start in enumerate(range(0, self.rows, CHUNK)):
            begun = Seconds.now()
            block = self._block(number, min(CHUNK, self.rows - start))
            self.spent += Seconds.now() - begun
            yield block

    def _block(self, number: int, rows: int) -> pd.DataFrame:
        rng = np.random.default_rng(number)
        block = self._pool[number % len(self._pool)].iloc[rng.permutation(self.chunk)[:rows]]
        label = np.clip(block["label"] + rng.normal(0, 0.02, rows), 0.0, 1.0)
        return block.assign(label=label.astype(np.float32), score=np.float32(0.4))


def measure(order: Order) -> Result:
    """Body of a child: warm on a few rows, then fit and look at clock, memory and disk."""
    import recalibrate as rc

    where = {"cache": order.cache, "block_rows": order.block_rows, "memory": order.memory}
    engine = rc.Engine(order.threads, **where)
    options: dict[str, Any] = {"engine": engine, "progress": False}
    if not order.default:
        options |= {
            "H": rc.Trees(depth=order.depth),
            "validation": False,
            "loop": rc.Loop(order.levels, "uniform", rounded=True, max_rounds=order.rounds),
        }

    def fit(source: Source) -> tuple[Any, Seconds, int]:
        if order.where == "blocks":
            before, begun = held_bytes(), Seconds.now()
            model = rc.fit("score", source.blocks(), "label", **options)
            return model, Seconds.now() - begun - source.spent, before
        table = pd.concat(source.blocks(), ignore_index=True)
        X, y, score = table.drop(columns=["label", "score"]), table["label"], table["score"]
        before, begun = held_bytes(), Seconds.now()
        model = rc.fit(score.to_numpy(), X, y.to_numpy(), **options)
        return model, Seconds.now() - begun, before

    warm = Source(3000)
    fit(warm)
    source = Source(order.rows)
    with Watch(order.cache) as watch:
        model, spent, before = fit(source)
    peak = peak_bytes()
    return Result(
        order.where,
        order.rows,
        spent.wall,
        spent.cpu,
        max(0, peak - before),
        peak,
        watch.most,
        model.n_learners_,
        _checksum(model),
    )


def _checksum(model: Any) -> str:
    """Of all steps; the two ways differ in what they call the base."""
    digest = hashlib.sha256()
    for step in model.rounds.steps:
        for value in vars(step.table).values():
            digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()[:12]


class Watch:
    """Looks at the size of a folder while something runs."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            self.most = max(self.most, sum(map(_size, self.folder.rglob("*.bin"))))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # removed since it was listed
        return 0


def in_child(where: str, rows: int, arguments: argparse.Namespace) -> Result:
    """The same in a fresh process."""
    how = vars(arguments)
    with tempfile.TemporaryDirectory(dir=arguments.cache) as folder:
        given = {"where": where, "rows": rows, "cache": folder}
        names = [field.name for field in fields(Order)]
        order = Order(**{name: given.get(name, how.get(name)) for name in names})
        return Result(**measure_in_child(__file__, order))


HEADER = (
    "where         rows |  seconds   rows/s  CPU s CPU ns/row | extra MB  peak MB  disk MB | "
    "learners model"
)


def show(result: Result) -> str:
    """One line of the table, as printed."""
    return (
        f"{result.where:6s} {result.rows:11,d} | {result.seconds:8.1f} "
        f"{result.rows_per_second:8.0f} {result.cpu_seconds:6.1f} {result.per_row:10.0f} | "
        f"{result.extra_bytes / 1e6:8.0f} {result.peak_bytes / 1e6:8.0f} "
        f"{result.disk_bytes / 1e6:8.0f} | "
        f"{result.learners:8d} {result.model}"
    )


def verdict(memory: Result, blocks: Result) -> str:
    """What two ways of fitting the same rows say."""
    ratio = blocks.cpu_seconds / memory.cpu_seconds
    same = "the same model" if blocks.model == memory.model else "ANOTHER MODEL"
    kept = "kept" if ratio <= MOST_RATIO else "EXCEEDED"
    return (
        f"{blocks.rows:,} rows: blocks on disk cost {ratio:.2f} times as much processor time as "
        f"memory ({blocks.seconds / memory.seconds:.2f} times on the clock), limit "
        f"{MOST_RATIO}: {kept}; {same}"
    )


def growth(results: Sequence[Result]) -> list[str]:
    """What larger tables in memory cost beside smaller ones, and what memory the largest takes."""
    lines = []
    for small, large in pairwise(results):
        ratio = large.per_row / small.per_row
        kept = "kept" if ratio <= MOST_GROWTH else "EXCEEDED"
        lines.append(
            f"{large.rows:,} rows cost {ratio:.2f} times as much a row as {small.rows:,}, limit "
            f"{MOST_GROWTH}: {kept}"
        )
    tables = results[-1].extra_bytes / (4 * FEATURES * results[-1].rows)
    kept = "kept" if tables <= MOST_TABLES else "EXCEEDED"
    lines.append(
        f"{results[-1].rows:,} rows take {tables:.2f} times their float32 table beside the input, "
        f"limit {MOST_TABLES:.0f}: {kept}"
    )
    return lines


def parser() -> argparse.ArgumentParser:
    """Options."""
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--both", type=numbers, default=[1_000_000, 10_000_000])
    made.add_argument("--blocks", type=numbers, default=[], help="rows only done in blocks")
    made.add_argument("--default", action="store_true", help="fit() without knobs instead")
    made.add_argument("--depth", type=int, default=2)
    made.add_argument("--levels", type=int, default=50)
    made.add_argument("--rounds", type=int, default=10)
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--block-rows", type=int, default=500_000)
    made.add_argument("--memory", type=int, help="bytes of encoded rows that stay in memory")
    made.add_argument("--cache", default=None, help="folder for temporary files")
    made.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    return made


def main(argv: Sequence[str] | None = None) -> list[Result]:
    """Measure and print."""
    arguments = parser().parse_args(argv)
    if arguments.measure is not None:
        print(json.dumps(asdict(measure(Order(**arguments.measure)))))
        return []
    what = f"{arguments.rounds} rounds, depth {arguments.depth}, {arguments.levels} levels"
    print(
        f"{'the default' if arguments.default else what}, {arguments.threads} threads, "
        f"blocks of {arguments.block_rows:,} rows\n\n{HEADER}",
        flush=True,
    )

    def one(where: str, rows: int) -> Result:
        result = in_child(where, rows, arguments)
        print(show(result), flush=True)
        return result

    results = []
    for rows in arguments.both:
        pair = one("memory", rows), one("blocks", rows)
        print(verdict(*pair), flush=True)
        results.extend(pair)
    if results and not arguments.default:
        print("\n".join(growth(results[::2])), flush=True)
    return results + [one("blocks", rows) for rows in arguments.blocks]


if __name__ == "__main__":
    main()
