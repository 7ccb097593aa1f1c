"""The audit: time and memory against MCGrad's metric, and coverage of its limits.

    python benchmarks/audit.py speed                          # 1,000,000 rows, 529 groups
    python benchmarks/audit.py speed --mcgrad PATH/bin/python # side by side with MCGrad 0.1.5
    python benchmarks/audit.py coverage --runs 1000           # simulated calibrated data sets

``speed`` audits all values of 11 columns and all their pairs; MCGrad (in an environment of its
own: ``pip install torch==2.13.0``, then ``pip install mcgrad``) finds the largest ECCE of the same
segments. Every measurement is a fresh process; CPU seconds are the fairer ones on busy machines.
``coverage`` counts the calibrated data sets in which the limits of all groups hold at once.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

COLUMNS, VALUES = 11, 3
TARGET = 10.0
"""How many times as long MCGrad should take."""


@dataclass(frozen=True)
class Measured:
    """One process: seconds of the clock and of the processor, memory, and what it found."""

    what: str
    groups: int
    seconds: float
    cpu: float
    input_mb: float
    peak_mb: float
    mce_sigma: float


def draw(rows: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """A table of small categories, predictions, and labels that are off for one value."""
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"c{j}": rng.integers(0, VALUES, rows) for j in range(COLUMNS)})
    f = rng.beta(2, 4, rows)
    y = rng.random(rows) < f + 0.01 * (table["c0"].to_numpy() == 1)
    return table, f, y.astype(float)


def run_recalibrate(table: Any, f: np.ndarray, y: np.ndarray) -> tuple[int, float]:
    """A whole audit."""
    import recalibrate as rc

    report = rc.audit(f, table, y, groups=True, depth=2)
    return len(report.groups), report.overall.mce_sigma


def run_mcgrad(table: Any, f: np.ndarray, y: np.ndarray) -> tuple[int, float]:
    """The largest ECCE of all segments."""
    from mcgrad.metrics import MulticalibrationError

    metric = MulticalibrationError(
        table.assign(score=f, label=y.astype(int)),
        "label",
        "score",
        categorical_segment_columns=list(table.columns),
        max_depth=2,
        max_values_per_segment_feature=VALUES,
        max_n_segments=None,
    )
    largest = float(metric.mce_sigma)
    return len(metric.segments_ecce), largest


RUNNERS: dict[str, Callable[[Any, np.ndarray, np.ndarray], tuple[int, float]]] = {
    "recalibrate": run_recalibrate,
    "mcgrad": run_mcgrad,
}


def peak_mb() -> float:
    """High-water mark of resident memory; Linux counts in kilobytes, macOS in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def measure(what: str, rows: int) -> Measured:
    """Body of a child: compile on a few rows, make the data, run once."""
    run = RUNNERS[what]
    table, f, y = draw(5_000)
    run(table, f, y)
    table, f, y = draw(rows)
    before = peak_mb()
    start, cpu = time.perf_counter(), time.process_time()
    groups, sigma = run(table, f, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return Measured(what, groups, seconds, cpu, before, peak_mb(), sigma)


def in_child(python: str, what: str, rows: int) -> Measured:
    """The same in a fresh process."""
    done = subprocess.run(
        [python, __file__, "child", what, "--rows", str(rows)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{what} failed:\n{done.stderr[-2000:]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def show(found: Measured) -> str:
    """One line, as printed."""
    return (
        f"{found.what:12s} {found.groups:5d} groups {found.seconds:8.2f} s {found.cpu:8.2f} s CPU "
        f"{found.peak_mb:7.0f} MB at most ({found.input_mb:.0f} before)  "
        f"mce_sigma {found.mce_sigma:.4f}"
    )


def speed(rows: int, mcgrad: str | None) -> list[Measured]:
    """Measure and print."""
    print(f"{rows:,} rows")
    found = [in_child(sys.executable, "recalibrate", rows)]
    print(show(found[0]), flush=True)
    if mcgrad is not None:
        found.append(in_child(mcgrad, "mcgrad", rows))
        print(show(found[1]))
        ratios = (found[1].seconds / found[0].seconds, found[1].cpu / found[0].cpu)
        state = "kept" if min(ratios) >= TARGET else "MISSED"
        print(
            f"MCGrad takes {ratios[0]:.1f} times as long, {ratios[1]:.1f} times the CPU; "
            f"target {TARGET:.0f}: {state}"
        )
    return found


# --- coverage -----------------------------------------------------------------------------------


def draw_binary(rng: np.random.Generator, rows: int) -> tuple[Any, ...]:
    f = rng.beta(2, 4, rows)
    return f, (rng.random(rows) < f).astype(float), {}


def draw_rare(rng: np.random.Generator, rows: int) -> tuple[Any, ...]:
    """Outcomes of 1 in 20, so that many groups expect a handful."""
    f = rng.beta(1, 19, rows)
    return f, (rng.random(rows) < f).astype(float), {}


def draw_weighted(rng: np.random.Generator, rows: int) -> tuple[Any, ...]:
    f = rng.beta(2, 4, rows)
    return f, (rng.random(rows) < f).astype(float), {"sample_weight": rng.exponential(1, rows)}


def draw_soft(rng: np.random.Generator, rows: int) -> tuple[Any, ...]:
    f = rng.beta(2, 4, rows)
    return f, rng.beta(3 * f, 3 * (1 - f)), {}


def draw_skewed(rng: np.random.Generator, rows: int) -> tuple[Any, ...]:
    """Regression with skewed noise that grows with the prediction."""
    f = rng.uniform(10, 100, rows)
    return f, f * rng.gamma(2, 0.5, rows), {}


def draw_clusters(rng: np.random.Generator, rows: int) -> tuple[Any, ...]:
    """Households of four with dependent outcomes."""
    from scipy.special import ndtr

    household = np.arange(rows) // 4
    f = rng.beta(2, 4, rows)
    shared = rng.normal(size=household[-1] + 1)[household]
    u = ndtr(np.sqrt(0.4) * shared + np.sqrt(0.6) * rng.normal(size=rows))
    return f, (u < f).astype(float), {"cluster": household}


CASES = {
    "binary": draw_binary,
    "rare": draw_rare,
    "weighted": draw_weighted,
    "soft": draw_soft,
    "skewed": draw_skewed,
    "clusters": draw_clusters,
}


def people(rng: np.random.Generator, rows: int) -> Any:
    """Four columns; crossed in pairs they make about a hundred groups, some of a few rows."""
    import pandas as pd

    return pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], rows),
            "race": rng.choice(list("abcde"), rows, p=[0.6, 0.25, 0.1, 0.04, 0.01]),
            "age": rng.uniform(18, 90, rows),
            "job": rng.choice(list("pqrs"), rows),
        }
    )


def cover(case: str, runs: int, rows: int) -> dict[str, float]:
    """Shares of data sets without a miss, and with a false alarm by adjusted p-values."""
    import recalibrate as rc

    inside = gap = cumulative = groups = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        f, y, options = CASES[case](rng, rows)
        X = people(rng, rows)
        if "cluster" in options:  # a household shares its groups
            X = X.iloc[options["cluster"]].reset_index(drop=True)
        table = rc.audit(f, X, y, groups=True, depth=2, **options).table
        inside += bool(((table["low"] <= 0) & (table["high"] >= 0)).all())
        gap += bool(table["p_holm"].min() < 0.05)
        cumulative += bool(table["ecce_p_holm"].min() < 0.05)
        groups = len(table)
    return {
        "groups": groups,
        "covered": inside / runs,
        "gap alarms": gap / runs,
        "ecce alarms": cumulative / runs,
    }


def coverage(cases: Sequence[str], runs: int, rows: int) -> dict[str, dict[str, float]]:
    """Measure and print."""
    error = np.sqrt(0.95 * 0.05 / runs)
    print(f"{runs} calibrated data sets of {rows:,} rows; 95 % limits, standard error {error:.3f}")
    found = {}
    for case in cases:
        found[case] = cover(case, runs, rows)
        numbers = "  ".join(f"{name} {value:.3g}" for name, value in found[case].items())
        print(f"{case:10s} {numbers}", flush=True)
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = made.add_subparsers(dest="command", required=True)
    fast = commands.add_parser("speed")
    fast.add_argument("--rows", type=int, default=1_000_000)
    fast.add_argument("--mcgrad", help="python of an environment with mcgrad")
    honest = commands.add_parser("coverage")
    honest.add_argument("--runs", type=int, default=1000)
    honest.add_argument("--rows", type=int, default=2000)
    honest.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    child = commands.add_parser("child")
    child.add_argument("what", choices=list(RUNNERS))
    child.add_argument("--rows", type=int, required=True)
    return made


def main(argv: Sequence[str] | None = None) -> Any:
    """Run a command; returns what it found."""
    arguments = parser().parse_args(argv)
    if arguments.command == "child":
        print(json.dumps(asdict(measure(arguments.what, arguments.rows))))
        return None
    if arguments.command == "speed":
        return speed(arguments.rows, arguments.mcgrad)
    return coverage(arguments.cases, arguments.runs, arguments.rows)


if __name__ == "__main__":
    main()
