"""How often does discovery find a planted subgroup, and how often does it invent one?

    python benchmarks/discovery.py --runs 200
    python benchmarks/discovery.py --size 1000000 --columns 20   # time only

Every run simulates 50,000 rows of census-like columns whose scores are right (base rate .3,
scores from .1 to .9). Half of the runs then plant one wrong subgroup: a random rule of one or two
conditions that holds for 1.8 to 2.2 % of the rows, whose outcomes are .1 more or less frequent
than predicted. It counts as found if a reported rule and the planted one have at least half of
their rows in common (Jaccard index of the rows).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from recalibrate.auditing.discovery import discover
from recalibrate.auditing.records import Discoveries
from recalibrate.data.labels import read_labels
from recalibrate.data.table import Table, read_table
from recalibrate.groups.groupset import bind
from recalibrate.simulate import census

CATEGORIES = ("COW", "MAR", "RELP", "SEX", "RAC1P")
FOUND = 0.5


@dataclass(frozen=True, eq=False)
class Planted:
    """Simulated rows, and which of them are mispredicted."""

    table: Table
    scores: np.ndarray
    y: np.ndarray
    rows: np.ndarray
    rule: str


def simulate(
    n_rows: int, seed: int, *, gap: float, share: float = 0.02, base_rate: float = 0.3
) -> Planted:
    """Right scores, except for a gap of random sign in a random subgroup."""
    rng = np.random.default_rng([seed, 1])
    data = census(n_rows, seed=seed)
    margin = np.log(data.probability / (1.0 - data.probability))
    scores = 0.1 + 0.8 / (1.0 + np.exp(-shift_to(margin, (base_rate - 0.1) / 0.8)))
    rows, rule = plant(rng, data.X, share)
    truth = scores + gap * rng.choice([-1.0, 1.0]) * rows
    y = (rng.random(n_rows) < truth).astype(np.float64)
    return Planted(read_table(data.X, categorical=CATEGORIES), scores, y, rows, rule)


def shift_to(margin: np.ndarray, mean: float) -> np.ndarray:
    """Log-odds moved so that the mean probability is as given."""
    low, high = -10.0, 10.0
    for _ in range(50):
        middle = (low + high) / 2.0
        too_low = np.mean(1.0 / (1.0 + np.exp(-(margin + middle)))) < mean
        low, high = (middle, high) if too_low else (low, middle)
    return margin + low


def plant(rng: np.random.Generator, X: pd.DataFrame, share: float) -> tuple[np.ndarray, str]:
    """A rule of one or two conditions that holds for about a share of the rows."""
    while True:
        names = rng.choice(X.columns, size=rng.integers(1, 3), replace=False)
        rows, said = np.ones(len(X), dtype=bool), []
        for name in names:
            values = X[name].to_numpy()
            if name in CATEGORIES:
                value = rng.choice(np.unique(values))
                rows &= values == value
                said.append(f"{name} == {value!s}")
            else:
                edge = np.quantile(values, rng.uniform(0.02, 0.98))
                below = rng.random() < 0.5
                rows &= (values <= edge) if below else (values > edge)
                said.append(f"{name} {'<=' if below else '>'} {edge:g}")
        if 0.9 * share <= rows.mean() <= 1.1 * share:
            return rows, " and ".join(said)


def run(case: Planted, seed: int) -> Discoveries:
    labels = read_labels(case.y, n_rows=len(case.y))
    return discover(case.scores, case.table, labels, seed=seed)


def reported_rows(found: Discoveries, case: Planted) -> list[np.ndarray]:
    """Rows of every reported subgroup, from its rule as it is printed."""
    masks = []
    for each in found.subgroups:
        rows = np.ones(len(case.y), dtype=bool)
        if each.expression:
            ((_, rows),) = bind([each.expression], case.table).masks(case.table)
        low = -np.inf if each.score_low is None else each.score_low
        high = np.inf if each.score_high is None else each.score_high
        masks.append(rows & (case.scores >= low) & (case.scores < high))
    return masks


def jaccard(a: np.ndarray, b: np.ndarray) -> float:
    return float((a & b).sum() / (a | b).sum())


def measure(runs: int, n_rows: int, first_seed: int, verbose: bool) -> None:
    overlaps, firsts, counts = [], [], []
    start = time.perf_counter()
    for seed in range(first_seed, first_seed + runs):
        case = simulate(n_rows, seed, gap=0.1)
        found = run(case, seed)
        shared = [jaccard(rows, case.rows) for rows in reported_rows(found, case)]
        overlaps.append(max(shared, default=0.0))
        firsts.append(shared[0] if shared else 0.0)
        counts.append(len(shared))
        if verbose and overlaps[-1] < FOUND:
            print(f"  seed {seed}: planted {case.rule}; reported:")
            print("\n".join(f"    {each}" for each in found.subgroups) or "    nothing")
    alarms = 0
    for seed in range(first_seed + runs, first_seed + 2 * runs):
        alarms += bool(run(simulate(n_rows, seed, gap=0.0), seed).subgroups)
    hits = float(np.mean([value >= FOUND for value in overlaps]))
    print(f"{runs} runs each of {n_rows:,} rows, {time.perf_counter() - start:.0f} s")
    print(f"planted subgroup found (Jaccard >= {FOUND}): {hits:.1%}")
    print(f"  reported first:        {np.mean([value >= FOUND for value in firsts]):.1%}")
    print(f"  anything reported:     {np.mean([count > 0 for count in counts]):.1%}")
    print(f"  subgroups reported:    {np.mean(counts):.2f} on average")
    print(f"  median Jaccard index:  {np.median(overlaps):.2f}")
    print(f"calibrated data, something reported: {alarms / runs:.1%}")


def time_it(n_rows: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, columns)).astype(np.float32)
    scores = np.clip(0.3 + 0.05 * X[:, 0], 0.05, 0.95).astype(np.float64)
    y = (rng.random(n_rows) < scores).astype(np.float64)
    case = Planted(read_table(X), scores, y, np.zeros(n_rows, dtype=bool), "")
    run(Planted(read_table(X[:5000]), scores[:5000], y[:5000], case.rows, ""), 0)  # compile
    start = time.perf_counter()
    found = run(case, 0)
    seconds = time.perf_counter() - start
    print(f"{n_rows:,} rows x {columns} columns: {seconds:.1f} s, {found.candidates} candidates")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="runs with and without a subgroup")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--verbose", action="store_true", help="show what was missed")
    parser.add_argument("--size", type=int, help="only time a search of so many rows")
    parser.add_argument("--columns", type=int, default=20, help="columns of that search")
    given = parser.parse_args(argv)
    if given.size is not None:
        time_it(given.size, given.columns)
    else:
        measure(given.runs, given.rows, given.seed, given.verbose)


if __name__ == "__main__":
    main()
