"""Census income: squared and calibration error by round, LSBoost against gradient boosting.

    python examples/paper/census_income.py
    python examples/paper/census_income.py --file data/2018/1-Year/psam_p06.csv

Without --file the census is simulated. A file is a person file of the American Community Survey
(CSV or Parquet, several with commas between them), as folktables downloads it:

    from folktables import ACSDataSource
    ACSDataSource(2018, "1-Year", "person", root_dir="data").get_data(["CA"], download=True)

Both boosters get the same weak learners and the same numeric codes, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import LEARNERS, RULES, Features, Floats, LevelKind, Trial, boost, count, options, save
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from survey import read_income

import recalibrate as rc
from recalibrate.simulate import census

TEST_SHARE = 0.2
LEARNING_RATE = 0.1
PAPER_ROUNDS = {"linear": 41, "depth 1": 23, "depth 2": 39, "depth 3": 20}
STOP_RULE = RULES["authors' code"]

Split = tuple[tuple[Features, Floats], tuple[Features, Floats]]


@dataclass(frozen=True, eq=False)
class Curve:
    """Errors on the test rows by round; index 0 is the constant before round 1."""

    mse: Floats
    msce: Floats
    noise: float
    """What the calibration error of the last round would be on so many rows without any bias."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Both boosters with the same learner."""

    trial: Trial
    lsboost: Curve
    gradient: Curve


def make_curve(stages: Iterable[Floats], y: Floats, edges: Floats) -> Curve:
    mse, msce = [], []
    for stage in stages:
        mse.append(np.mean((stage - y) ** 2))
        msce.append(rc.metrics.msce(stage, y, bins=edges))
    noise = msce[-1] - float(rc.metrics.k2_unbiased(stage, y, bins=edges))
    return Curve(np.array(mse), np.array(msce), noise)


def gradient_boosting(name: str, data: Split, rounds: int) -> Iterable[Floats]:
    """Predictions for the test rows by round, beginning with the constant."""
    (X, y), (X_test, y_test) = data
    constant = np.full(len(y_test), y.mean())
    yield constant
    if name == "linear":
        # A sum of lines is a line: each round goes the same share of what is left of the way to
        # least squares.
        line = LinearRegression().fit(X.astype(np.float64), y).predict(X_test)
        for t in range(1, rounds + 1):
            yield line + (1.0 - LEARNING_RATE) ** t * (constant - line)
    else:
        model = HistGradientBoostingRegressor(
            max_iter=rounds,
            learning_rate=LEARNING_RATE,
            max_depth=LEARNERS[name].depth,
            max_leaf_nodes=None,
            min_samples_leaf=1,
            early_stopping=False,
            random_state=0,
        )
        yield from model.fit(X, y).staged_predict(X_test)


def compare(name: str, data: Split, *, levels: int, rounds: int, level_kind: LevelKind) -> Pair:
    """Both boosters; calibration errors of both on the level sets that LSBoost used."""
    trial = boost(LEARNERS[name], *data, levels=levels, rounds=rounds, level_kind=level_kind)
    X, y = data[1]
    stages = list(trial.model.staged_predict(X))
    values = np.unique(stages)
    edges = (values[:-1] + values[1:]) / 2
    return Pair(
        trial,
        make_curve(stages, y, edges),
        make_curve(gradient_boosting(name, data, rounds), y, edges),
    )


def show_line(name: str, pair: Pair) -> str:
    rounds = len(pair.lsboost.mse) - 1
    stops = [pair.trial.stop(gamma) for gamma in (STOP_RULE, RULES["authors' notebook"])]
    line = f"{name:<8} {PAPER_ROUNDS[name]:>7} {count(stops[0], rounds):>7}"
    line += f" {count(stops[1], rounds):>9}"
    at = rounds if stops[0] is None else stops[0]
    best = int(np.argmin(pair.lsboost.mse))
    for curve, t in ((pair.lsboost, at), (pair.lsboost, best), (pair.gradient, rounds)):
        line += f" | {t:>5} {curve.mse[t]:.5f} {curve.msce[t]:.1e}"
    return line


def show_table(pairs: dict[str, Pair]) -> None:
    blocks = ("LSBoost, gamma .1", "LSBoost, lowest MSE", "gradient boosting")
    print(f"{'':<8} {'rounds by gamma':>25}" + "".join(f" | {block:<21}" for block in blocks))
    print(
        f"{'learner':<8} {'paper':>7} {'.1':>7} {'.005':>9}"
        + f" | {'round':>5} {'MSE':<7} {'MSCE':<7}" * 3
    )
    for name, pair in pairs.items():
        print(show_line(name, pair))
    noise = max(pair.gradient.noise for pair in pairs.values())
    print(f"\nNoise alone makes an MSCE of up to {noise:.1e} on these test rows.")


def draw(pairs: dict[str, Pair], folder: Path) -> Path:
    """MSE above, MSCE below, a column per learner."""
    figure = Figure(figsize=(13.0, 6.0), layout="constrained")
    panels = figure.subplots(2, len(pairs), sharex=True, sharey="row")
    for (name, pair), (above, below) in zip(pairs.items(), panels.T, strict=True):
        above.plot(pair.trial.train, color="tab:blue", linestyle=":", label="LSBoost, training")
        for axes, measure in ((above, "mse"), (below, "msce")):
            _draw_curves(axes, pair, measure)
        above.set_title(name)
        below.set_yscale("log")
        below.set_xlabel("round")
    panels[0, 0].set_ylabel("mean squared error")
    panels[1, 0].set_ylabel("mean squared calibration error")
    panels[0, 0].legend(fontsize=8, loc="upper right")
    return save(figure, folder, "census")


def _draw_curves(axes: Axes, pair: Pair, measure: str) -> None:
    ours = getattr(pair.lsboost, measure)
    axes.plot(ours, color="tab:blue", label="LSBoost, test")
    axes.plot(getattr(pair.gradient, measure), color="tab:orange", label="gradient boosting, test")
    stop = pair.trial.stop(STOP_RULE)
    if stop is not None:
        axes.plot(stop, ours[stop], "*", color="black", markersize=10, label="LSBoost stops")


def simulated(rows: int, seed: int) -> tuple[Features, Floats]:
    data = census(rows, seed=seed, task="income")
    return data.X.to_numpy(np.float32), data.y


def split(X: Features, y: Floats, seed: int) -> Split:
    """Shuffled rows, four fifths to train on."""
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = np.split(order, [int(TEST_SHARE * len(y))])
    return (X[train], y[train]), (X[test], y[test])


def main(argv: Sequence[str] | None = None) -> dict[str, Pair]:
    parser = options(__doc__, rows=500_000, rounds=100, levels=100)
    parser.add_argument("--file", help="person files of the survey instead of simulated rows")
    parser.add_argument(
        "--drop-above-cap",
        action="store_true",
        help="leave out incomes above 100,000, as the authors' published code does, instead of "
        "capping them",
    )
    kinds = ("uniform", "quantile")
    parser.add_argument("--level-kind", choices=kinds, default="quantile", help="kind of levels")
    chosen = parser.parse_args(argv)
    if chosen.file:
        paths = [Path(name) for name in chosen.file.split(",")]
        rows, source = read_income(paths, drop_above_cap=chosen.drop_above_cap), "survey"
    else:
        rows, source = simulated(chosen.rows, chosen.seed), "simulated census"
    data = split(*rows, chosen.seed)
    (_, y), (_, y_test) = data
    print(
        f"{source}: {len(y):,} rows to train on, {len(y_test):,} to test on (seed {chosen.seed}), "
        f"{chosen.levels} {chosen.level_kind} levels\n",
        flush=True,
    )
    pairs = {
        name: compare(
            name,
            data,
            levels=chosen.levels,
            rounds=chosen.rounds,
            level_kind=chosen.level_kind,
        )
        for name in LEARNERS
    }
    show_table(pairs)
    print(
        "\nWhat to look for, as in the paper: with stumps LSBoost has the lower test "
        "MSE all the way. With deeper\ntrees it gets there first and then overfits, and gradient "
        "boosting overtakes it. Lines cannot be boosted by gradients\nbeyond one line. Where "
        "LSBoost stops by its own rule, its MSCE is lower than gradient boosting ever gets.\n"
    )
    draw(pairs, chosen.out)
    return pairs


if __name__ == "__main__":
    main()
