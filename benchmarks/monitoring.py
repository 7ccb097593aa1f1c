"""The monitor: false alarms over whole streams, delay of true ones, and time per row.

    python benchmarks/monitoring.py false-alarms   # 1,000 calibrated streams, 50 looks, 40 groups
    python benchmarks/monitoring.py power          # a gap of .1 in 5 % of 100,000 rows
    python benchmarks/monitoring.py rare           # scores of .005, calibrated and with gaps
    python benchmarks/monitoring.py speed          # 10 million rows in 200 batches, 100 groups

With `--runs`, `--rows` (of a look or batch), `--batches` and `--tolerance` it is made smaller or
harder. Everything is seeded.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd

import recalibrate as rc
from recalibrate.monitoring.files import to_bytes

LOOKS, DAY = 50, 25
SHARES = (0.05, 0.1, 0.2, 0.3, 0.35)
"""Of the five values of each of eight columns: 40 groups, which overlap."""
COLUMNS = [f"c{k}" for k in range(8)]
ALPHA, GAP = 0.05, 0.1


def simulate(rng: np.random.Generator, n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and scores of the rows of a look."""
    edges = np.cumsum(SHARES)[:-1]
    values = np.searchsorted(edges, rng.random((n, len(COLUMNS))), side="right")
    return pd.DataFrame(values.astype(np.float32), columns=COLUMNS), rng.uniform(0.1, 0.9, n)


@dataclass(frozen=True)
class Rate:
    """Streams that ever raised an alarm, or a hint from the scores alone."""

    tolerance: float
    runs: int
    alarms: int
    hints: int

    @property
    def limit(self) -> float:
        """Alpha and two Monte Carlo errors."""
        return float(ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / self.runs))


def false_alarms(runs: int, n: int, tolerance: float) -> Rate:
    """Calibrated streams; with tolerance 0 they lie on the edge of the hypothesis."""
    alarms = hints = 0
    for seed in range(runs):
        rng = np.random.default_rng([1, seed])
        monitor = rc.Monitor(groups=COLUMNS, tolerance=tolerance, alpha=ALPHA)
        for look in range(LOOKS + 1):
            X, p = simulate(rng, n)
            if look == 0:
                monitor.start(X, scores=p)
            else:
                monitor.update(X, rng.random(n) < p, scores=p)
        alarms += monitor.alarm
        hints += bool(np.isfinite(monitor._known().shift.first).any())
    return Rate(tolerance, runs, alarms, hints)


@dataclass(frozen=True)
class Power:
    """Streams in which a planted gap was found, and how long it took.

    Delays are in looks after the day of the change (0: the look of that day); ``known`` are those
    of a z-test that knows the day and the direction's groups, each at level alpha / 82.
    """

    runs: int
    found: int
    others: int
    delays: np.ndarray
    known: np.ndarray
    since: np.ndarray


def power(runs: int, n: int, tolerance: float) -> Power:
    """From the 26th of 50 looks on, the outcomes of c0 = 0 (5 % of rows) are .1 more frequent."""
    delays, known, since = [], [], []
    others = 0
    for seed in range(runs):
        rng = np.random.default_rng([2, seed])
        monitor = rc.Monitor(groups=COLUMNS, tolerance=tolerance, alpha=ALPHA)
        test = KnownDay(tolerance)
        delay = np.nan
        for look in range(LOOKS):
            X, p = simulate(rng, n)
            inside = X["c0"].to_numpy() == 0
            y = rng.random(n) < p + GAP * (inside & (look >= DAY))
            new = monitor.update(X, y, scores=p, time=look)
            if look >= DAY:
                test.add((y - p)[inside])
                if "c0 = 0" in new:
                    delay = look - DAY
        table = monitor.table.set_index("group")
        others += int(table["alarm"].drop("c0 = 0").any())
        if np.isfinite(delay):
            delays.append(delay)
            since.append(float(table.loc["c0 = 0", "since"]))
        known.append(test.delay)
    return Power(runs, len(delays), others, *map(np.array, (delays, known, since)))


RARE_LOOKS = 35
RARE_SCORES = {
    "all .005": lambda rng, n: np.full(n, 0.005),
    "lognormal with mean .005": lambda rng, n: np.clip(
        0.005 * np.exp(rng.normal(-0.32, 0.8, n)), 0.0, 0.5
    ),
    "beta(.3, 20), mean .015": lambda rng, n: rng.beta(0.3, 20.0, n),
}
"""Scores of rare events, of which a tenth of the rows are in the group with a gap."""


@dataclass(frozen=True)
class Rare:
    """Streams of rare events that raised an alarm, for the group with the gap and for any."""

    scores: str
    gap: float
    tolerance: float
    runs: int
    found: int
    alarms: int
    looks: float


def rare_events(scores: str, gap: float, tolerance: float, runs: int, n: int) -> Rare:
    """Ten groups of one column, the first of which has a gap; a stream ends with its alarm."""
    found = alarms = 0
    looks = []
    for seed in range(runs):
        rng = np.random.default_rng([4, seed])
        monitor = rc.Monitor(groups="c0", tolerance=tolerance, alpha=ALPHA)
        reference = pd.DataFrame({"c0": rng.choice(list("abcdefghij"), 2000)})
        monitor.start(reference, scores=RARE_SCORES[scores](rng, 2000))
        named: set[str] = set()
        for _ in range(RARE_LOOKS):
            X = pd.DataFrame({"c0": rng.choice(list("abcdefghij"), n)})
            p = RARE_SCORES[scores](rng, n)
            y = rng.random(n) < p + gap * (X["c0"] == "a").to_numpy()
            named |= set(monitor.update(X, y, scores=p))
            if "c0 = a" in named:
                break
        found, alarms = found + ("c0 = a" in named), alarms + bool(named)
        looks.append(monitor._known().n_batches)
    return Rare(scores, gap, tolerance, runs, found, alarms, float(np.mean(looks)))


class KnownDay:
    """A one-sided z-test of the rows since the day of the change, looked at after every batch."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance, self.delay = tolerance, np.nan
        self.critical = NormalDist().inv_cdf(1 - ALPHA / (2 * (5 * len(COLUMNS) + 1)))
        self._residuals: list[np.ndarray] = []

    def add(self, residual: np.ndarray) -> None:
        self._residuals.append(residual)
        x = np.concatenate(self._residuals) - self.tolerance
        if np.isnan(self.delay) and x.mean() > self.critical * x.std() / np.sqrt(len(x)):
            self.delay = len(self._residuals) - 1


@dataclass(frozen=True)
class Speed:
    """Seconds of CPU in updates, and what grew."""

    rows: int
    groups: int
    cpu: float
    first: float
    last: float
    state_kb: float
    grown_kb: float


def speed(batches: int, n: int) -> Speed:
    """Ten columns of ten values each; making the rows is not counted."""
    rng = np.random.default_rng(3)
    names = [f"c{k}" for k in range(10)]
    monitor = rc.Monitor(groups=names)
    seconds, sizes = [], []
    for batch in range(batches):
        X = pd.DataFrame(rng.integers(0, 10, (n, 10)).astype(np.float32), columns=names)
        p = rng.uniform(0.05, 0.95, n)
        y = rng.random(n) < p
        start = time.process_time()
        monitor.update(X, y, scores=p, time=batch)
        seconds.append(time.process_time() - start)
        if batch in (batches // 2, batches - 1):
            sizes.append(len(to_bytes(monitor._known())) / 1024)
    tenth = max(batches // 10, 1)
    first, last = np.mean(seconds[tenth : 2 * tenth] or seconds), np.mean(seconds[-tenth:])
    groups = len(monitor._known().watched.names) - 1
    grown = sizes[-1] - sizes[0]
    return Speed(batches * n, groups, sum(seconds), first, last, sizes[-1], grown)


def report_rates(given: argparse.Namespace) -> list[Rate]:
    found = []
    for tolerance in given.tolerance or (0.0, 0.01):
        rate = false_alarms(given.runs, given.rows or 500, tolerance)
        found.append(rate)
        print(
            f"tolerance {tolerance:g}: {rate.alarms} of {rate.runs} calibrated streams ever raised "
            f"an alarm ({rate.alarms / rate.runs:.4f}, limit {rate.limit:.4f}); hints from scores "
            f"alone: {rate.hints}",
            flush=True,
        )
    return found


def report_power(given: argparse.Namespace) -> Power:
    found = power(given.runs, given.rows or 2000, (given.tolerance or (0.01,))[0])
    print(f"found in {found.found} of {found.runs} streams; other groups in {found.others}")
    for name, delays in (("monitor", found.delays), ("test that knows the day", found.known)):
        quarters = np.nanpercentile(delays, [25, 50, 75, 90]) if len(delays) else []
        print(f"{name}: delay in looks, quartiles and 90 %: {[float(q) for q in quarters]}")
    off = np.abs(found.since - DAY)
    print(
        f"estimated day within one look: {np.mean(off <= 1):.3f}, "
        f"within three: {np.mean(off <= 3):.3f}"
    )
    return found


def report_rare(given: argparse.Namespace) -> list[Rare]:
    results = []
    for scores in RARE_SCORES:
        for tolerance in given.tolerance or (0.0, 0.005, 0.01):
            for gap in (0.0, 0.02, 0.05):
                result = rare_events(scores, gap, tolerance, given.runs, given.rows or 300)
                results.append(result)
                print(
                    f"scores {scores}, gap {gap:g}, tolerance {tolerance:g}: found in "
                    f"{result.found} of {result.runs} streams, any alarm in {result.alarms}; "
                    f"mean looks {result.looks:.1f}",
                    flush=True,
                )
    return results


def report_speed(given: argparse.Namespace) -> Speed:
    found = speed(given.batches, given.rows or 50_000)
    print(
        f"{found.rows:,} rows in {given.batches} batches, {found.groups} groups: {found.cpu:.1f} s "
        f"of CPU ({1e6 * found.cpu / found.rows:.2f} s a million rows); a batch early "
        f"{1000 * found.first:.0f} ms, late {1000 * found.last:.0f} ms; state {found.state_kb:.0f} "
        f"KB, since the middle {found.grown_kb:+.1f} KB; peak memory "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )
    return found


def main(argv: Sequence[str] | None = None) -> list[Rate] | list[Rare] | Power | Speed:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("false-alarms", "power", "rare", "speed"))
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rows", type=int, help="of a look; default 500, 2,000, 300 and 50,000")
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--tolerance", type=float, nargs="+")
    given = parser.parse_args(argv)
    views = {
        "false-alarms": report_rates,
        "power": report_power,
        "rare": report_rare,
        "speed": report_speed,
    }
    return views[given.what](given)


if __name__ == "__main__":
    main()
