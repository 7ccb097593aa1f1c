"""Time to train n weak learners: the timing table of the paper, side by side in one run.

Every cell trains on the same census-like table (ten columns of numeric codes, income scaled to
[0, 1]), and everything that `recalibrate.fit` does is in its time: reading the table, binning,
training. Compilation is not: a first run, not timed, warms it. Run with ``--help`` for options.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from recalibrate.simulate import census

sys.path.insert(0, str(Path(__file__).resolve().parent))  # also when loaded by another script
from measuring import fit_rounds, numbers

Floats = NDArray[np.float64]
Features = NDArray[np.float32]

PASSES = 3
"""Our fits and the plain loop are timed in turns and the best pass of each counts: a shared
machine is never equally busy for long."""

PLAIN_TARGET = 60.0
GBR_TARGET = 500.0
TARGET_LEARNERS = 1000


@dataclass(frozen=True)
class Ours:
    """Our fit up to a number of learners: whole rounds, so at least as many as asked for."""

    learners: int
    rounds: int
    trained: int
    seconds: float = float("inf")


@dataclass(frozen=True)
class Plain:
    """One tree fit per level set in a loop: seconds by learners, training error by round."""

    seconds: dict[int, float]
    errors: tuple[float, ...]


@dataclass(frozen=True)
class Line:
    """One line of the table; ``authors`` and ``gbr`` are None when not run."""

    depth: int
    levels: int
    ours: Ours
    plain: float
    authors: float | None
    gbr: float | None

    def ratio(self, other: float | None) -> float | None:
        """How many times as long the other one takes."""
        return None if other is None else other / self.ours.seconds


def make_data(rows: int, seed: int = 0) -> tuple[Features, Floats]:
    """Numeric codes as float32 (what scikit-learn's trees use as well) and labels in [0, 1]."""
    data = census(rows, seed=seed, task="income")
    return np.ascontiguousarray(data.X.to_numpy(np.float32)), data.y


def plan_ours(
    X: Features, y: Floats, marks: Sequence[int], *, depth: int, levels: int, threads: int
) -> tuple[list[Ours], tuple[float, ...]]:
    """Rounds needed for every number of learners, from a run that is not timed, and its errors."""
    rounds = 8
    while True:
        _, model = fit_rounds(X, y, depth=depth, levels=levels, rounds=rounds, threads=threads)
        if model.n_learners_ >= max(marks):
            break
        rounds *= 2
    trained = np.cumsum([step.table.n_learners for step in model.rounds.steps])
    plan = []
    for n in marks:
        last = int(np.searchsorted(trained, n))
        plan.append(Ours(n, last + 1, int(trained[last])))
    return plan, model.history_.errors


def time_ours(
    plan: list[Ours], X: Features, y: Floats, *, depth: int, levels: int, threads: int
) -> list[Ours]:
    """One pass over the plan; a faster time than before is kept."""
    timed = []
    for item in plan:
        seconds, model = fit_rounds(
            X, y, depth=depth, levels=levels, rounds=item.rounds, threads=threads
        )
        if model.n_learners_ != item.trained:
            raise RuntimeError(f"planned {item.trained} learners, trained {model.n_learners_}")
        best = min(seconds, item.seconds)
        timed.append(Ours(item.learners, item.rounds, item.trained, best))
    return timed


def time_plain(X: Features, y: Floats, marks: Sequence[int], *, depth: int, levels: int) -> Plain:
    """LSBoost as one would write it: mask, fit, predict, round; stops at the last learner."""
    seconds: dict[int, float] = {}
    start = time.perf_counter()
    level = np.rint(np.full(len(y), y.mean()) * levels).astype(np.int64)
    f = level / levels
    errors = [float(np.mean((y - f) ** 2))]
    learners = 0
    while True:
        for v in np.unique(level):
            rows = level == v
            tree = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(X[rows], y[rows])
            f[rows] = tree.predict(X[rows])
            learners += 1
            if learners in marks:
                seconds[learners] = time.perf_counter() - start
            if learners == max(marks):
                return Plain(seconds, tuple(errors))
        level = np.rint(f * levels).astype(np.int64)
        f = level / levels
        errors.append(float(np.mean((y - f) ** 2)))


def time_gbr(
    X: Features, y: Floats, marks: Sequence[int], *, depth: int, measured: int
) -> dict[int, float]:
    """Scikit-learn's gradient boosting, extrapolated along its straight line in learners."""

    def seconds(learners: int) -> float:
        start = time.perf_counter()
        GradientBoostingRegressor(n_estimators=learners, max_depth=depth, random_state=0).fit(X, y)
        return time.perf_counter() - start

    seconds(1)  # warms caches and lazy imports
    one, many = seconds(1), seconds(measured)
    each = max(0.0, many - one) / (measured - 1)
    return {n: one + (n - 1) * each for n in marks}


def time_authors(
    folder: Path,
    X: Features,
    y: Floats,
    marks: Sequence[int],
    *,
    depth: int,
    levels: int,
    threads: int,
) -> dict[int, float]:
    """The authors' own code in a process of its own, timed at the ends of its rounds."""
    with tempfile.TemporaryDirectory() as scratch:
        data, result = Path(scratch) / "data.npz", Path(scratch) / "result.json"
        np.savez(data, X=X, y=y)
        order = {
            "folder": str(folder.resolve()),
            "data": str(data),
            "result": str(result),
            "depth": depth,
            "levels": levels,
            "threads": threads,
            "learners": max(marks),
        }
        run = subprocess.run(
            [sys.executable, __file__, "--authors-run", json.dumps(order)],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode or not result.exists():
            raise RuntimeError(f"the authors' code in {folder} failed:\n{run.stderr[-2000:]}")
        history: list[tuple[int, float]] = json.loads(result.read_text())
    return {n: next(seconds for trained, seconds in history if trained >= n) for n in marks}


def run_authors(order: dict[str, Any]) -> None:
    """Body of the authors' process: train until there are enough learners, note the times."""
    sys.path.insert(0, order["folder"])
    from LSBoost import LSBoostingRegressor  # type: ignore[import-not-found]

    with np.load(order["data"]) as data:
        X, y = data["X"].astype(np.float64), data["y"]
    history: list[tuple[int, float]] = []

    class Counted(LSBoostingRegressor):  # type: ignore[misc]
        def update(self) -> bool:
            super().update()
            history.append((int(self.updates), time.perf_counter() - start))
            if self.updates >= order["learners"]:
                raise KeyboardInterrupt  # its fit() ends cleanly on this, and on nothing else
            return True

    model = Counted(
        T=10**6,
        num_bins=order["levels"],
        global_gamma=-1e9,  # no early stop: the number of learners decides
        weak_learner=DecisionTreeRegressor(max_depth=order["depth"]),
        n_jobs=order["threads"],
    )
    start = time.perf_counter()
    model.fit(X, y)
    Path(order["result"]).write_text(json.dumps(history))


def measure_cell(
    X: Features,
    y: Floats,
    marks: Sequence[int],
    gbr: dict[int, float] | None,
    *,
    depth: int,
    levels: int,
    threads: int,
    authors: Path | None,
) -> tuple[list[Line], str]:
    """All numbers of learners of one depth and number of levels, and a word on the errors."""
    plan, errors = plan_ours(X, y, marks, depth=depth, levels=levels, threads=threads)

    def again(plan: list[Ours]) -> list[Ours]:
        return time_ours(plan, X, y, depth=depth, levels=levels, threads=threads)

    theirs: dict[int, float] | None = None
    plain = Plain({}, ())
    for turn in range(PASSES):
        plan = again(plan)
        other = time_plain(X, y, marks, depth=depth, levels=levels)
        best = {
            n: min(seconds, plain.seconds.get(n, seconds)) for n, seconds in other.seconds.items()
        }
        plain = Plain(best, other.errors)
        if authors is not None and turn == 0:
            theirs = time_authors(authors, X, y, marks, depth=depth, levels=levels, threads=threads)
    lines = []
    for ours in plan:
        n = ours.learners
        others = [None if by_n is None else by_n[n] for by_n in (theirs, gbr)]
        lines.append(Line(depth, levels, ours, plain.seconds[n], *others))
    last = min(len(plain.errors), len(errors)) - 1
    note = (
        f"depth {depth}, {levels} levels: training error after {last} rounds "
        f"{errors[last]:.6f} (recalibrate), {plain.errors[last]:.6f} (plain)"
    )
    return lines, note


HEADER = (
    "depth levels learners | recalibrate s (trained, rounds) |    plain s  ratio "
    "|  authors s  ratio |      GBR s  ratio"
)


def show_line(line: Line) -> str:
    """One line of the table, as printed."""

    def pair(seconds: float | None) -> str:
        ratio = line.ratio(seconds)
        if seconds is None or ratio is None:
            return f"{'-':>10} {'-':>6}"
        return f"{seconds:10.2f} {ratio:6.0f}"

    ours = line.ours
    return (
        f"{line.depth:5d} {line.levels:6d} {ours.learners:8d} | {ours.seconds:13.3f} "
        f"({ours.trained:7d}, {ours.rounds:6d}) | {pair(line.plain)} "
        f"| {pair(line.authors)} | {pair(line.gbr)}"
    )


def show_summary(lines: Sequence[Line]) -> list[str]:
    """Smallest and largest ratios by number of learners, and whether the targets are reached."""
    shown = []
    contenders: list[tuple[str, Callable[[Line], float | None], float | None]] = [
        ("plain", lambda line: line.plain, PLAIN_TARGET),
        ("authors", lambda line: line.authors, None),
        ("GBR", lambda line: line.gbr, GBR_TARGET),
    ]
    for n in sorted({line.ours.learners for line in lines}):
        for name, seconds, target in contenders:
            at_n = [line for line in lines if line.ours.learners == n]
            ratios = [ratio for line in at_n if (ratio := line.ratio(seconds(line))) is not None]
            if not ratios:
                continue
            text = f"{n} learners, {name}: {min(ratios):.0f} to {max(ratios):.0f} times as long"
            if target is not None and n == TARGET_LEARNERS:
                verdict = "reached" if min(ratios) >= target else "NOT reached"
                text += f"; target {target:.0f} in every cell: {verdict}"
            shown.append(text)
    return shown


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--rows", type=int, default=400_000)
    made.add_argument("--learners", type=numbers, default=[100, 300, 500, 1000])
    made.add_argument("--depths", type=numbers, default=[1, 2, 3])
    made.add_argument("--levels", type=numbers, default=[50, 100, 300])
    made.add_argument("--threads", type=int, default=2)
    where = "folder with LSBoost.py of Declancharrison/Level-Set-Boosting"
    made.add_argument("--authors", type=Path, help=where)
    about = "learners of GradientBoostingRegressor that are measured; the rest is extrapolated"
    made.add_argument("--gbr-learners", type=int, default=20, help=about)
    made.add_argument("--skip-gbr", action="store_true")
    made.add_argument("--quick", action="store_true", help="20,000 rows, four small cells")
    made.add_argument("--authors-run", type=json.loads, help=argparse.SUPPRESS)
    return made


def main(argv: Sequence[str] | None = None) -> list[Line]:
    """Measure and print; returns the lines of the table."""
    arguments = parser().parse_args(argv)
    if arguments.authors_run is not None:
        run_authors(arguments.authors_run)
        return []
    if arguments.quick:
        arguments.rows, arguments.learners = 20_000, [100, 300]
        arguments.depths, arguments.levels, arguments.gbr_learners = [1, 2], [50, 100], 5
    if arguments.gbr_learners < 2:
        raise SystemExit("--gbr-learners must be at least 2: a line needs two points")
    X, y = make_data(arguments.rows)
    line = f"measured at 1 and {arguments.gbr_learners} learners, then along their line"
    gbr_note = "skipped" if arguments.skip_gbr else f"once, {line}"
    print(
        f"{len(y):,} rows, {X.shape[1]} features, {arguments.threads} threads\n"
        f"recalibrate: whole fits with binning, whole rounds, compiled before, best of {PASSES}\n"
        f"plain: one process, best of {PASSES}; authors: once; GBR: {gbr_note}\n"
        "ratio: times as long as recalibrate\n"
    )
    print(HEADER, flush=True)
    lines: list[Line] = []
    notes: list[str] = []
    for depth in arguments.depths:
        gbr = None
        if not arguments.skip_gbr:
            gbr = time_gbr(X, y, arguments.learners, depth=depth, measured=arguments.gbr_learners)
        for levels in arguments.levels:
            cell, note = measure_cell(
                X,
                y,
                arguments.learners,
                gbr,
                depth=depth,
                levels=levels,
                threads=arguments.threads,
                authors=arguments.authors,
            )
            lines += cell
            notes.append(note)
            print("\n".join(map(show_line, cell)), flush=True)
    print("\n" + "\n".join(show_summary(lines)) + "\n\n" + "\n".join(notes))
    return lines


if __name__ == "__main__":
    warnings.simplefilter("ignore", FutureWarning)
    main()
