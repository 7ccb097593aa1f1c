"""The audit: time and memory against MCGrad's metric, and coverage of its limits.

    python benchmarks/audit.py speed                          # 1,000,000 rows, 529 groups
    python benchmarks/audit.py speed --mcgrad PATH/bin/python # side by side with MCGrad 0.1.5
    python benchmarks/audit.py coverage --runs 1000           # simulated data sets of known truth

``speed`` audits all values of 11 columns and all their pairs; MCGrad (in an environment of its
own: ``pip install torch==2.13.0``, then ``pip install mcgrad``) finds the largest ECCE of the same
segments. Every measurement is a fresh process; CPU seconds are the fairer ones on busy machines.
``coverage`` counts the data sets of known truth in which the limits of all groups hold at once,
and those of right predictions in which a test raises an alarm; `audit_kinds.py` has the kinds.
Columns: groups; share of them with limits; data sets in which no limit misses; mean width of
limits of groups of 20 to 99 and of 100 and more rows, as multiple of those of an oracle that knows
how residuals vary; groups whose limits, verdict and adjusted p-value contradict each other (must be
0); false alarms of the verdict, of the calibration slopes and of the ECCE, of
``check(alpha=.05)``, of the bands (share of curves), and of discovery.

    python benchmarks/audit.py power --runs 300               # planted gaps that are found
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from audit_kinds import KINDS, Rows, Truth, sigmoid, truths

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


COLUMNS_SHOWN = (
    *("groups", "limits", "covered", "20-99", "100+", "clashes", "off", "slope", "ecce", "check"),
    *("bands", "found"),
)


def cover(name: str, runs: int, first: int = 0) -> dict[str, float]:
    """Shares of data sets without a miss, and with a false alarm (NaN where gaps are real).

    Seeds are the numbers of the runs, from ``first``, with the number of the kind.
    """
    import recalibrate as rc

    kind, number = KINDS[name], list(KINDS).index(name)
    known = truths(kind)
    found = []
    for seed in range(first, first + runs):
        rng = np.random.default_rng([seed, number])
        X = kind.table(rng, kind.rows)
        rows = kind.draw(rng, X)
        report = rc.audit(rows.f, X, rows.y, groups=True, depth=2, **rows.options)
        table = report.full_table
        truth = np.array([known[group].gap for group in table["group"]])
        missed = (table["low"] > truth) | (table["high"] < truth)
        outside = (table["low"] > 0) | (table["high"] < 0)
        clashes = (outside != table["off"]) | ((table["p_holm"] < report.alpha) != table["off"])
        found.append(
            [
                len(table),
                table["low"].notna().mean(),
                not missed.any(),
                *widths(report, known),
                clashes.sum(),
                *(alarms(report, rows, X) if kind.calibrated else [np.nan] * 6),
            ]
        )
    columns = np.array(found, dtype=float).T
    means = [
        float(np.mean(own[~np.isnan(own)])) if (own == own).any() else np.nan for own in columns
    ]
    return dict(zip(COLUMNS_SHOWN, means, strict=True))


def widths(report: Any, known: dict[str, Truth]) -> list[float]:
    """Mean width of limits over the oracle's, for groups of 20 to 99 and of at least 100 rows."""
    table = report.full_table
    spread = np.array([known[group].spread for group in table["group"]])
    oracle = 2.0 * report.critical * spread / np.sqrt(table["effective_rows"])
    width, rows = (table["high"] - table["low"]) / oracle, table["effective_rows"]
    sizes = (rows >= 20) & (rows < 100), rows >= 100
    return [float(width[size].mean()) for size in sizes]


def alarms(report: Any, rows: Rows, X: Any) -> list[float]:
    """What is called wrong although all predictions are right; of bands, the share of curves."""
    table = report.full_table
    curves = [group.after.curve for group in report.groups]
    return [
        table["off"].any(),
        ((table["slope_low"] > 1) | (table["slope_high"] < 1)).any(),
        table["ecce_p_holm"].min() < 0.05,
        len(report.violations(alpha=0.05)) > 0,
        np.mean([_misses(curve) for curve in curves]),
        _finds(rows, X),
    ]


def _misses(curve: Any) -> bool:
    low, truth, high = (np.array(x) for x in (curve.low, curve.prediction, curve.high))
    return bool(((low > truth + 1e-12) | (high < truth - 1e-12)).any())


def _finds(rows: Rows, X: Any) -> bool:
    from recalibrate.auditing.discovery import discover
    from recalibrate.auditing.measure.sweep import read_clusters
    from recalibrate.data.labels import read_labels
    from recalibrate.data.table import read_table

    weight, cluster = rows.options.get("sample_weight"), rows.options.get("cluster")
    exposure = rows.options.get("exposure")
    labels = read_labels(rows.y, n_rows=len(rows.y), sample_weight=weight, exposure=exposure)
    own = None if cluster is None else read_clusters(cluster, len(rows.y))
    found = discover(rows.f, read_table(X), labels, cluster=own, exposure=exposure)
    return bool(found.subgroups)


def coverage(names: Sequence[str], runs: int, first: int, processes: int) -> dict[str, Any]:
    """Measure and print."""
    error = np.sqrt(0.95 * 0.05 / runs)
    print(f"{runs} data sets of a kind from seed {first}; 95 % limits, standard error {error:.3f}")
    print(f"{'kind':22s}" + "".join(f"{column:>9s}" for column in COLUMNS_SHOWN))
    found = {}
    with ProcessPoolExecutor(processes) as pool:
        every = pool.map(cover, names, [runs] * len(names), [first] * len(names))
        for name, own in zip(names, every, strict=True):
            found[name] = own
            print(f"{name:22s}" + "".join(f"{own[c]:9.3f}" for c in COLUMNS_SHOWN), flush=True)
    return found


# --- power ---------------------------------------------------------------------------------------

PLANTS = ((0.4, "b", 0.06), (0.4, "d", 0.15), (0.2, "b", 0.05), (0.2, "c", 0.08),
          (0.05, "b", 0.03), (0.05, "c", 0.04), (0.05, "b", -0.03), (0.01, "b", 0.015))  # fmt: skip
"""Base rate, race, and by how much its outcomes are more frequent than predicted."""


def find_planted(plant: int, runs: int, first: int) -> tuple[float, float]:
    """Shares of data sets in which a planted gap is found: by us, by a z-test that knows p."""
    from audit_kinds import people

    import recalibrate as rc

    rate, race, size = PLANTS[plant]
    ours, known = 0, 0
    for seed in range(first, first + runs):
        rng = np.random.default_rng([seed, plant, 7])
        X = people(rng, 2_000)
        f = sigmoid(np.log(rate / (1.0 - rate)) + rng.normal(0, 0.8, len(X)))
        inside = (X["race"] == race).to_numpy()
        p = np.clip(f + size * inside, 0.0, 1.0)
        y = (rng.random(len(X)) < p).astype(float)
        table = rc.audit(f, X, y, groups=True, depth=2).full_table.set_index("group")
        ours += bool(table.loc[f"race = {race}", "off"])
        z = (y - f)[inside].sum() / np.sqrt((p * (1.0 - p))[inside].sum())
        known += bool(abs(z) > 3.3)
    return ours / runs, known / runs


def power(runs: int, first: int) -> list[tuple[float, float]]:
    """Measure and print."""
    print(f"{runs} data sets a plant from seed {first}: found, and by a z-test of critical 3.3")
    found = []
    for plant, (rate, race, size) in enumerate(PLANTS):
        found.append(find_planted(plant, runs, first))
        shares = " ".join(f"{share:7.3f}" for share in found[-1])
        print(f"rate {rate:g}, race {race}, gap {size:+.3f} {shares}", flush=True)
    print(f"mean {np.mean(found, axis=0).round(3)}")
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
    honest.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    honest.add_argument("--first", type=int, default=0, help="number of the first data set")
    honest.add_argument("--processes", type=int, default=1)
    strong = commands.add_parser("power")
    strong.add_argument("--runs", type=int, default=300)
    strong.add_argument("--first", type=int, default=0, help="number of the first data set")
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
    if arguments.command == "power":
        return power(arguments.runs, arguments.first)
    return coverage(arguments.kinds, arguments.runs, arguments.first, arguments.processes)


if __name__ == "__main__":
    main()
