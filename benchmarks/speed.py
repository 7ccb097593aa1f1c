"""What speed is judged by, in one table: our times beside a peer's, measured side by side.

    python benchmarks/speed.py --quick --json out.json  # without what takes more than a few minutes

A ratio is ours divided by the peer's, by the clock and by processor time; the last column is what
is aimed at. On busy cores ``--threads 1`` and processor time tell most: LightGBM's threads wait
actively for each other. Needs lightgbm and xgboost.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cold_start
import lgbmcv
import numpy as np
import paper_table
import scale
import serving
from measuring import Seconds, best_of, held_bytes, measure_in_child, numbers, peak_bytes
from quality import warm_up
from quality_cases import Case

import recalibrate as rc
from recalibrate.graph import export_model, load_served
from recalibrate.simulate import census
from recalibrate.support.onnxfile import open_session

ROWS, QUICK_ROWS = [5000, 20_000, 100_000, 500_000, 1_000_000], 100_000
MANY_ROWS = 100_000
LEARNERS = 1000
BATCHES = {1: 5000, 1000: 300}
"""Rows of a batch, and how often it is run."""


@dataclass(frozen=True)
class Line:
    """Ours and a peer's: seconds by the clock and of processor time, or (``unit``) megabytes.

    ``goal`` is the largest ratio that is aimed at.
    """

    what: str
    peer: str
    ours: Seconds
    theirs: Seconds
    goal: float | None = None
    unit: str = "s"

    @property
    def ratios(self) -> tuple[float, float]:
        """By the clock, and by processor time."""
        return self.ours.wall / self.theirs.wall, self.ours.cpu / self.theirs.cpu


@dataclass(frozen=True)
class Order:
    """What a child process fits: rows with a column of so many categories."""

    rows: int
    categories: int
    threads: int


def same(value: float) -> Seconds:
    """A number that is not measured in two ways."""
    return Seconds(value, value)


def default_fits(arguments: argparse.Namespace) -> Iterator[Line]:
    """The default fit beside LightGBM by hand, on the simulated census with its own scores."""
    warm_up(arguments.threads)
    for rows in arguments.rows:
        data = census(rows, seed=1, categorical=True)
        pair = (data.scores, data.scores)
        case = Case("census", "binary", (data.X,) * 2, (data.y,) * 2, (), (), {"own": pair})
        found = lgbmcv.measure(case, "own", arguments.threads, arguments.repeats)
        goal = 1.0 if rows < MANY_ROWS else 0.25
        yield Line(f"default fit, {rows:,} rows", "lgbmcv", found.ours, found.theirs, goal)


def paper_runs(arguments: argparse.Namespace) -> Iterator[Line]:
    """Algorithm 1 beside one scikit-learn tree per level set, which runs on one thread."""
    X, y = paper_table.make_data(arguments.paper_rows)
    for depth, levels in (
        ((1, 300), (3, 300)) if arguments.quick else ((1, 50), (1, 300), (3, 50), (3, 300))
    ):
        how = {"depth": depth, "levels": levels, "threads": arguments.threads, "authors": None}
        ((cell,), _) = paper_table.measure_cell(X, y, [LEARNERS], None, **how)
        what = f"Algorithm 1, depth {depth}, {levels} levels"
        yield Line(what, "scikit-learn trees", same(cell.ours.seconds), same(cell.plain), 1 / 60)


def pieces(arguments: argparse.Namespace) -> Iterator[Line]:
    """Rows in pieces beside rows in memory."""
    for rows, default in ((arguments.scale_rows, False), (10 * arguments.scale_rows, True)):
        if default and arguments.quick:
            return
        given = ["--threads", str(arguments.threads), *["--default"] * default]
        own = scale.parser().parse_args(given)
        memory, blocks = (scale.in_child(where, rows, own) for where in ("memory", "blocks"))
        if memory.model != blocks.model:
            raise RuntimeError(f"{rows:,} rows in pieces give another model")
        what = f"{'default fit' if default else '10 rounds'} of pieces, {rows:,} rows"
        times = (Seconds(each.seconds, each.cpu_seconds) for each in (blocks, memory))
        yield Line(what, "rows in memory", *times, 1.2)


def served(arguments: argparse.Namespace) -> Iterator[Line]:
    """The exported graph beside its base's, on one thread; then one row in Python."""
    cases, X = serving.make_cases(arguments.serving_rows, 200)
    for case in cases:
        model = case.model
        base = open_session(model.base.graph().SerializeToString(), threads=1)
        whole = load_served(export_model(model).SerializeToString(), threads=1)
        for rows, repeats in BATCHES.items():
            feed = whole.feed(X.sample(rows, replace=True, random_state=0))
            sessions = [(whole.session, feed), (base, {base.get_inputs()[0].name: feed["X"]})]
            ours, theirs = map(same, serving.time_in_turns(sessions, repeats))
            goal = 1.5 if rows == max(BATCHES) else None
            yield Line(f"graph, {case.name}, batch {rows:,}", "its base", ours, theirs, goal)
    row, model = X.iloc[[0]], cases[3].model
    ours, theirs = (
        best_of(300, lambda work=work: work(row)) for work in (model.predict, model.base.scores)
    )
    yield Line("one row in Python, default fit", "its base", ours, theirs)


def categories(arguments: argparse.Namespace) -> Iterator[Line]:
    """The default fit with a column of many categories beside one of ten: time and peak memory."""
    rows = arguments.categories
    many, few = (
        measure_in_child(__file__, Order(rows, count, arguments.threads)) for count in (rows, 10)
    )
    what = f"{rows:,} categories, default fit"
    yield Line(what, "10 categories", *(Seconds(*each["seconds"]) for each in (many, few)))
    yield Line(
        what, "10 categories", *(same(each["bytes"] / 1e6) for each in (many, few)), unit="MB"
    )


def fit_categories(order: Order) -> dict[str, Any]:
    """Body of a child: warm on a few rows, then fit."""

    def table(rows: int) -> tuple[Any, ...]:
        data = census(rows, seed=1, categorical=True)
        names = np.array([f"c{k}" for k in range(order.categories)], dtype=object)
        number = np.random.default_rng(0).permutation(rows) % order.categories
        return data.scores, data.X.assign(name=names[number]), data.y

    how = {"engine": rc.Engine(order.threads), "progress": False}
    rc.fit(*table(3000), **how)
    given = table(order.rows)
    before, begun = held_bytes(), Seconds.now()
    rc.fit(*given, **how)
    return {"seconds": list(vars(Seconds.now() - begun).values()), "bytes": peak_bytes() - before}


def cold_starts(arguments: argparse.Namespace) -> Iterator[Line]:
    """First steps with nothing compiled beside the same with compiled code: processor time."""
    order = cold_start.Order(5000, 0)
    cold, warm = cold_start.measure_both(order, 1 if arguments.quick else 3)
    for name in cold_start.STEPS:
        ours, theirs = (same(each["seconds"][name]) for each in (cold, warm))
        yield Line(f"first {name}", "compiled before", ours, theirs)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Line]]] = {
    "default": default_fits,
    "paper": paper_runs,
    "pieces": pieces,
    "serving": served,
    "categories": categories,
    "cold": cold_starts,
}
HEADER = f"{'what':<46}{'beside':<20}{'ours':>12}{'peer':>12}{'ratio':>9}{'by CPU':>9}{'goal':>8}"


def show(line: Line) -> str:
    """A line of the table."""

    def number(value: float) -> str:
        units = (("s", 1.0), ("ms", 1e3), ("us", 1e6)) if line.unit == "s" else ((line.unit, 1.0),)
        name, factor = next((each for each in units if value * each[1] >= 0.1), units[-1])
        return (
            f"{value * factor:.3g} {name}"
            if value * factor < 1000
            else f"{value * factor:.0f} {name}"
        )

    clock, cpu = (f"{ratio:.3g}" for ratio in line.ratios)
    goal = "" if line.goal is None else f"{line.goal:.3g}"
    return (
        f"{line.what:<46}{line.peer:<20}{number(line.ours.wall):>12}{number(line.theirs.wall):>12}"
        f"{clock:>9}{cpu:>9}{goal:>8}"
    )


def parser() -> argparse.ArgumentParser:
    """Options."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--quick", action="store_true")
    made.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--repeats", type=int, default=2, help="default fits; the best counts")
    made.add_argument("--rows", type=numbers, default=ROWS, help="of default fits")
    made.add_argument("--paper-rows", type=int, default=400_000)
    made.add_argument("--scale-rows", type=int, default=1_000_000)
    made.add_argument("--serving-rows", type=int, default=60_000)
    made.add_argument("--categories", type=int, default=1_000_000)
    made.add_argument("--json", type=Path, help="file to write all figures to")
    made.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    return made


def main(argv: Sequence[str] | None = None) -> list[Line]:
    """Measure and print."""
    arguments = parser().parse_args(argv)
    if arguments.measure is not None:
        print(json.dumps(fit_categories(Order(**arguments.measure))))
        return []
    if unknown := sorted(set(arguments.only) - set(PARTS)):
        raise SystemExit(f"--only takes {', '.join(PARTS)}; got {', '.join(unknown)}")
    if arguments.quick:
        arguments.rows = [rows for rows in arguments.rows if rows <= QUICK_ROWS]
        arguments.categories = min(arguments.categories, QUICK_ROWS)
        arguments.serving_rows = min(arguments.serving_rows, 20_000)
    print(HEADER, flush=True)
    lines = []
    for name in arguments.only:
        for line in PARTS[name](arguments):
            lines.append(line)
            print(show(line), flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(line) for line in lines], indent=1))
    return lines


if __name__ == "__main__":
    main()
