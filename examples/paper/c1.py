"""C1: trees learn a rugged map, lines get stuck half-way.

    python examples/paper/c1.py
    python examples/paper/c1.py --rows 50000 --levels 50 --out figures

LSBoost learns whatever its class weakly learns on every level set. Trees do, lines do not: once
no line improves on a level set, more rounds do not help. Prints the share of the test labels'
variance explained (R2) where each stop rule ends the run, for few levels and for many.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from common import COLOURS, LEARNERS, RULES, Trial, boost, numbers, options, save
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from surfaces import C1, Data, draw_map, sample

Trials = dict[str, Trial]
DRAWN_RULE = RULES["authors' code"]
DRAWN_VALUES = {"vmin": 0.15, "vmax": 0.75}  # few points lie beyond
DRAWN_ERRORS = {"vmin": -0.2, "vmax": 0.2, "cmap": "RdBu"}


def show_line(name: str, trial: Trial, most: int) -> str:
    """A class's stopping rounds and R2, one pair for every rule."""
    line = f"{trial.levels:>6}  {name:<8}"
    for gamma in RULES.values():
        rounds, _, explained = trial.at(gamma, most)
        line += f"  {rounds:>14} {explained:>7.3f}"
    return line


def show_table(by_levels: dict[int, Trials], most: int) -> None:
    rules = "".join(f"  {name:>22}" for name in RULES)
    print(f"{'':>16}{rules}")
    print(f"{'levels':>6}  {'class':<8}" + f"  {'rounds':>14} {'R2':>7}" * len(RULES))
    for trials in by_levels.values():
        for name, trial in trials.items():
            print(show_line(name, trial, most))
        print()


def draw_classes(data: Data, trials: Trials, most: int, folder: Path) -> Path:
    """The truth and what each class made of it by the authors' rule; below, what is missing."""
    X, truth = data.map
    figure = Figure(figsize=(13.0, 5.4), layout="constrained")
    panels = figure.subplots(2, len(trials) + 1)
    value = draw_map(panels[0, 0], data, truth, "C1 itself", **DRAWN_VALUES)
    for axes, below, (name, trial) in zip(
        panels[0, 1:], panels[1, 1:], trials.items(), strict=True
    ):
        stop = trial.stop(DRAWN_RULE)
        rounds = most if stop is None else stop
        stage = list(trial.model.staged_predict(X))[rounds]
        title = f"{name}: {rounds} rounds, R2 {trial.explained(rounds):.2f}"
        draw_map(axes, data, stage, title, **DRAWN_VALUES)
        error = draw_map(below, data, stage - truth, "error", **DRAWN_ERRORS)
    figure.colorbar(value, ax=list(panels[0]), shrink=0.9, extend="both")
    figure.colorbar(error, ax=list(panels[1]), shrink=0.9, extend="both")
    draw_errors(panels[1, 0], trials)
    panels[1, 0].set_title("test error by round", fontsize=10)
    panels[1, 0].tick_params(labelsize=8)
    return save(figure, folder, "c1_classes")


def draw_errors(axes: Axes, trials: Trials) -> None:
    for name, trial in trials.items():
        axes.semilogy(trial.test, color=COLOURS[name], label=name)
    axes.legend(fontsize=8)


def draw_stuck(by_levels: dict[int, Trials], folder: Path) -> Path:
    """Test error by round, a panel per number of levels."""
    figure = Figure(figsize=(4.5 * len(by_levels), 3.6), layout="constrained")
    panels = figure.subplots(1, len(by_levels), sharey=True, squeeze=False)[0]
    for axes, (levels, trials) in zip(panels, by_levels.items(), strict=True):
        draw_errors(axes, trials)
        axes.set_title(f"C1, {levels} levels")
        axes.set_xlabel("round")
    panels[0].set_ylabel("test error (labels in [0, 1])")
    return save(figure, folder, "c1_levels")


def main(argv: Sequence[str] | None = None) -> dict[int, Trials]:
    parser = options(__doc__, rows=1_000_000, test_rows=100_000, rounds=100)
    about = "numbers of levels; the last one is drawn"
    parser.add_argument("--levels", type=numbers, default=[50, 500], help=about)
    chosen = parser.parse_args(argv)
    data = sample(C1, chosen.rows, chosen.test_rows, chosen.seed)
    print(
        f"C1: {chosen.rows:,} points (seed {chosen.seed}), {chosen.test_rows:,} test points, "
        f"at most {chosen.rounds} rounds\n",
        flush=True,
    )
    by_levels: dict[int, Trials] = {}
    for levels in chosen.levels:
        by_levels[levels] = {
            name: boost(H, data.train, data.test, levels=levels, rounds=chosen.rounds)
            for name, H in LEARNERS.items()
        }
    show_table(by_levels, chosen.rounds)
    print("What to look for: trees learn C1, on new points too; lines fall far behind.")
    for levels, trials in by_levels.items():
        end = {name: trial.explained(chosen.rounds) for name, trial in trials.items()}
        lines, worst = end.pop("linear"), min(end.values())
        print(
            f"After {chosen.rounds} rounds on {levels} levels lines leave {1 - lines:.1%} of the "
            f"variance unexplained, the weakest trees {1 - worst:.1%}."
        )
    print(
        "Few levels stop lines for good. Many levels are thin strips, along which lines creep on "
        "slowly:\nwhat a class can weakly learn depends on the level sets that it is asked on.\n"
    )
    draw_classes(data, by_levels[chosen.levels[-1]], chosen.rounds, chosen.out)
    draw_stuck(by_levels, chosen.out)
    return by_levels


if __name__ == "__main__":
    main()
