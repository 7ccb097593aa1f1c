"""C0: stumps learn four bowls, of which each stump sees next to nothing.

    python examples/paper/c0.py
    python examples/paper/c0.py --rows 100000 --rounds 50 --out figures

A target on the plane with a bowl in each quadrant, 500 levels, trees of depth 1. Prints after
how many rounds each stop rule ends the run, with the errors there, beside the paper's 199.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from common import LEARNERS, RULES, Trial, boost, options, save
from matplotlib.figure import Figure
from surfaces import C0, Data, draw_map, sample

PAPER_ROUNDS = 199
SHOWN_ROUNDS = (2, 4, 6, 8, 10)


def show_table(trial: Trial, most: int) -> None:
    print(f"{'stop rule':<32} {'rounds':>7} {'training error':>15} {'test error':>11} {'R2':>7}")
    for name, gamma in RULES.items():
        rounds, error, explained = trial.at(gamma, most)
        stop = trial.stop(gamma)
        trained = trial.train[most if stop is None else stop]
        print(
            f"{f'{name} (gamma {gamma:g})':<32} {rounds:>7} {trained:>15.2e} "
            f"{error:>11.2e} {explained:>7.4f}"
        )
    print(f"{'paper (gamma not stated)':<32} {PAPER_ROUNDS:>7} {'-':>15} {'-':>11} {'-':>7}")


def draw_maps(data: Data, trial: Trial, folder: Path) -> Path:
    """The predicted map after some rounds, at the authors' stop, at the end, and the truth."""
    X, truth = data.map
    stages = list(trial.model.staged_predict(X))
    last = len(stages) - 1
    titles = {t: f"round {t}" for t in SHOWN_ROUNDS if t < last}
    stop = trial.stop(RULES["authors' code"])
    if stop is not None:
        titles[stop] = f"round {stop}, the authors' stop"
    titles[last] = f"round {last}"
    figure = Figure(figsize=(10.0, 5.2), layout="constrained")
    panels = figure.subplots(2, 4).ravel()
    for axes, t in zip(panels, sorted(titles), strict=False):
        draw_map(axes, data, stages[t], titles[t])
    image = draw_map(panels[len(titles)], data, truth, "C0 itself")
    for axes in panels[len(titles) + 1 :]:
        axes.set_axis_off()
    figure.colorbar(image, ax=list(panels), shrink=0.8)
    return save(figure, folder, "c0_maps")


def draw_errors(trial: Trial, folder: Path) -> Path:
    """Errors by round, with the rounds at which the rules stop."""
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.semilogy(trial.train, label="training")
    axes.semilogy(trial.test, "--", label="test")
    for (name, gamma), colour in zip(RULES.items(), ("0.1", "0.4", "0.65"), strict=True):
        stop = trial.stop(gamma)
        if stop is not None:
            label = f"{name} stops ({stop})" if gamma else f"nothing falls any more ({stop})"
            axes.axvline(stop, color=colour, linestyle=":", label=label)
    if len(trial.train) > PAPER_ROUNDS:
        axes.axvline(PAPER_ROUNDS, color="tab:red", linestyle=":", label=f"paper ({PAPER_ROUNDS})")
    axes.set_xlabel("round")
    axes.set_ylabel("mean squared error (labels in [0, 1])")
    axes.set_title("C0: stumps, error by round")
    axes.legend(fontsize=9)
    return save(figure, folder, "c0_errors")


def main(argv: Sequence[str] | None = None) -> Trial:
    parser = options(__doc__, rows=1_000_000, test_rows=100_000, rounds=200, levels=500)
    chosen = parser.parse_args(argv)
    data = sample(C0, chosen.rows, chosen.test_rows, chosen.seed)
    print(
        f"C0: {chosen.rows:,} points (seed {chosen.seed}), {chosen.test_rows:,} test points, "
        f"stumps, {chosen.levels} levels\n",
        flush=True,
    )
    trial = boost(
        LEARNERS["depth 1"], data.train, data.test, levels=chosen.levels, rounds=chosen.rounds
    )
    show_table(trial, chosen.rounds)
    print(
        f"\nWhat to look for: the first stump explains {trial.explained(1):.0%} of the variance, "
        f"all {chosen.rounds} rounds {trial.explained(chosen.rounds):.1%},\nand the test error "
        "falls along with the training error. The four bowls appear in the first ten\nrounds; "
        "later ones only polish.\n"
    )
    draw_maps(data, trial, chosen.out)
    draw_errors(trial, chosen.out)
    return trial


if __name__ == "__main__":
    main()
