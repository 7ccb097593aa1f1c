"""Time to train n weak learners: the paper's table beside ours.

    python examples/paper/timing.py
    python examples/paper/timing.py --rows 400000

Measures with benchmarks/paper_table.py, whose description says what is in the times. Seconds
depend on the machine; ratios inside one run are what can be compared.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from common import numbers, options, positive, save
from matplotlib.figure import Figure

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "paper_table.py"

# Seconds in the paper by (learners, depth): LSBoost at 50, 100 and 300 levels, and scikit-learn's
# GradientBoostingRegressor.
PAPER = {
    (100, 1): ((9.1, 7.2, 5.9), 12.0),
    (100, 2): ((5.9, 5.3, 9.2), 23.0),
    (100, 3): ((6.9, 5.1, 6.5), 32.9),
    (1000, 1): ((46.7, 42.0, 32.8), 116.5),
    (1000, 2): ((42.9, 36.3, 36.6), 231.7),
    (1000, 3): ((46.4, 40.9, 27.1), 336.9),
}
PAPER_LEVELS = (50, 100, 300)

Lines = list[Any]  # of the benchmark's Line


def load_benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("paper_table", BENCHMARK)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{BENCHMARK} is missing: run this in a checkout of the repository")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def paper_ratio(learners: int, depth: int, levels: int) -> float | None:
    """How many times as long gradient boosting took in the paper."""
    if (learners, depth) not in PAPER or levels not in PAPER_LEVELS:
        return None
    lsboost, gradient = PAPER[learners, depth]
    return gradient / lsboost[PAPER_LEVELS.index(levels)]


HEADER = (
    "depth levels learners | recalibrate s | plain loop s | gradient boosting s "
    "| GB / LSBoost: here  paper"
)


def show_line(line: Any) -> str:
    paper = paper_ratio(line.ours.learners, line.depth, line.levels)
    return (
        f"{line.depth:>5} {line.levels:>6} {line.ours.learners:>8} | {line.ours.seconds:>13.3f} "
        f"| {line.plain:>12.2f} | {line.gbr:>19.1f} | {line.ratio(line.gbr):>18.0f}  "
        f"{'-' if paper is None else f'{paper:.1f}':>5}"
    )


def measure(benchmark: Any, chosen: argparse.Namespace) -> Lines:
    """Every cell of the table, printed as it comes."""
    X, y = benchmark.make_data(chosen.rows, chosen.seed)
    lines: Lines = []
    for depth in chosen.depths:
        gradient = benchmark.time_gbr(
            X, y, chosen.learners, depth=depth, measured=chosen.gbr_learners
        )
        for levels in chosen.levels:
            cell, _ = benchmark.measure_cell(
                X,
                y,
                chosen.learners,
                gradient,
                depth=depth,
                levels=levels,
                threads=chosen.threads,
                authors=None,
            )
            print("\n".join(map(show_line, cell)), flush=True)
            lines += cell
    return lines


def draw(lines: Lines, folder: Path) -> Path:
    """Seconds by learners, a panel per depth."""
    depths = sorted({line.depth for line in lines})
    figure = Figure(figsize=(4.0 * len(depths) + 1.0, 4.0), layout="constrained")
    panels = figure.subplots(1, len(depths), sharey=True, squeeze=False)[0]
    for axes, depth in zip(panels, depths, strict=True):
        own = [line for line in lines if line.depth == depth]
        gradient = {line.ours.learners: line.gbr for line in own}
        label = "GradientBoostingRegressor"
        axes.loglog(*zip(*gradient.items(), strict=True), "s-", color="tab:orange", label=label)
        for levels, shade in zip(sorted({line.levels for line in own}), _shades(own), strict=True):
            at = [line for line in own if line.levels == levels]
            learners = [line.ours.learners for line in at]
            plain = [line.plain for line in at]
            axes.loglog(learners, plain, "^--", color=shade, label=f"plain loop, {levels} levels")
            ours = [line.ours.seconds for line in at]
            axes.loglog(learners, ours, "o-", color=shade, label=f"recalibrate, {levels} levels")
        axes.set_title(f"depth {depth}")
        axes.set_xlabel("weak learners")
    panels[0].set_ylabel("seconds")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return save(figure, folder, "timing")


def _shades(lines: Lines) -> list[str]:
    shades = ("tab:blue", "tab:green", "tab:purple", "tab:brown", "tab:pink")
    return [shades[i % len(shades)] for i in range(len({line.levels for line in lines}))]


def main(argv: Sequence[str] | None = None) -> Lines:
    parser = options(__doc__, rows=50_000, threads=2)
    about = "learners of gradient boosting that are measured; the rest is along a straight line"
    parser.add_argument("--gbr-learners", type=positive, default=10, help=about)
    parser.add_argument(
        "--learners", type=numbers, default=[100, 1000], help="numbers of weak learners"
    )
    parser.add_argument("--depths", type=numbers, default=[1, 2, 3], help="depths of the trees")
    parser.add_argument(
        "--levels", type=numbers, default=list(PAPER_LEVELS), help="numbers of level sets"
    )
    chosen = parser.parse_args(argv)
    if chosen.gbr_learners < 2:
        parser.error("--gbr-learners must be at least 2: a line needs two points")
    print(
        f"{chosen.rows:,} rows of a simulated census (seed {chosen.seed}), {chosen.threads} "
        f"threads; gradient boosting measured at 1 and {chosen.gbr_learners}\nlearners, then "
        "along their line; plain loop: one scikit-learn tree per level set\n\n" + HEADER,
        flush=True,
    )
    lines = measure(load_benchmark(), chosen)
    print(
        "\nWhat to look for: one pass over the rows trains a learner on every level set, so a "
        "round costs little more\nthan a single learner; gradient boosting pays a pass for "
        "each. Deeper trees and more levels change little.\n"
    )
    draw(lines, chosen.out)
    return lines


if __name__ == "__main__":
    main()
