"""What the scripts of this folder share: LSBoost round by round, stop rules, options, pictures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.base import clone

import recalibrate as rc

Floats = NDArray[np.float64]
Features = NDArray[np.float32]
LevelKind = Literal["uniform", "quantile"]

RULES = {"authors' code": 0.1, "authors' notebook": 0.005, "any fall": 0.0}
"""gamma: the run is over, once a round lowers the training error by at most gamma / levels, but
not before the third (the weak learner on all rows, and two more). That round stays. The authors'
code as it comes adds an update that is not rounded, their notebook does not. The paper does not say
which gamma its figures have."""
LEAST_ROUNDS = 3

LEARNERS: dict[str, Any] = {
    "linear": rc.Linear(),
    "depth 1": rc.Trees(depth=1),
    "depth 2": rc.Trees(depth=2),
    "depth 3": rc.Trees(depth=3),
}
COLOURS = dict(zip(LEARNERS, ("tab:red", "tab:blue", "tab:green", "tab:purple"), strict=True))


@dataclass(frozen=True, eq=False)
class Trial:
    """A run without stop rule. Index 0 of the errors is the constant before round 1."""

    model: rc.LSBoostRegressor
    levels: int
    train: Floats
    test: Floats
    authors: tuple[int, float]
    """Rounds of a run by the authors' rule as it comes, and the test error in the end."""

    def stop(self, gamma: float) -> int | None:
        """Rounds that a run with this gamma keeps; None if it would go on beyond ours."""
        return stopping_round(self.train, gamma / self.levels)

    def explained(self, rounds: int) -> float:
        """Share of the test labels' variance that is explained after some rounds."""
        return float(1.0 - self.test[rounds] / self.test[0])

    def at(self, gamma: float, most: int) -> tuple[str, float, float]:
        """Rounds by a rule, test error there, and share of the variance explained."""
        stop = self.stop(gamma)
        error = float(self.test[most if stop is None else stop])
        if gamma == RULES["authors' code"] and stop is not None:
            error = self.authors[1]
        return count(stop, most), error, float(1.0 - error / self.test[0])


def stopping_round(errors: Sequence[float] | Floats, tolerance: float) -> int | None:
    """The first round from the third on that lowers the error by at most the tolerance."""
    last = np.flatnonzero(-np.diff(errors)[LEAST_ROUNDS - 1 :] <= tolerance)
    return int(last[0]) + LEAST_ROUNDS if len(last) else None


def boost(
    H: Any,
    train: tuple[Features, Floats],
    test: tuple[Features, Floats],
    *,
    levels: int,
    rounds: int,
    level_kind: LevelKind = "uniform",
) -> Trial:
    """LSBoost from a constant, rounded to its levels, with errors after every round.

    One run without a stop rule shows what every stop rule would have kept: rounds do not depend
    on when the run ends.
    """
    loop = rc.Loop(levels=levels, level_kind=level_kind, rounded=True, max_rounds=rounds)
    model = rc.LSBoostRegressor(H, loop=loop, validation=False, n_jobs=-1).fit(*train)
    X, y = test
    errors = np.array([np.mean((stage - y) ** 2) for stage in model.staged_predict(X)])
    theirs = clone(model).set_params(
        loop__tolerance="authors", loop__keep_unrounded=True, loop__max_rounds=100
    )
    theirs.fit(*train)
    authors = theirs.n_rounds_ - 1, float(np.mean((theirs.predict(X) - y) ** 2))
    return Trial(model, levels, np.asarray(model.history_.errors), errors, authors)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


def numbers(text: str) -> list[int]:
    """Whole numbers with commas between them."""
    return [positive(part) for part in text.split(",")]


ABOUT = {
    "rows": "rows in all, or points to train on",
    "test_rows": "points to test on",
    "rounds": "rounds of boosting",
    "levels": "level sets",
    "threads": "threads of recalibrate",
}


def options(doc: str | None, **defaults: int) -> argparse.ArgumentParser:
    """A command line with whole numbers as options, a seed and a folder for the pictures."""
    about = (doc or "").split("\n\n")[0]
    made = argparse.ArgumentParser(
        description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    for name, value in defaults.items():
        flag = "--" + name.replace("_", "-")
        made.add_argument(flag, type=positive, default=value, help=ABOUT[name])
    made.add_argument("--seed", type=int, default=0, help="for the rows that are drawn")
    made.add_argument(
        "--out", type=Path, default=Path("paper_figures"), help="folder for the pictures"
    )
    return made


def save(figure: Figure, folder: Path, name: str) -> Path:
    """Write a figure and say where."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"paper_{name}.png"
    figure.savefig(path, dpi=90)
    print(f"picture: {path}")
    return path


def count(rounds: int | None, most: int) -> str:
    """A stopping round in a table."""
    return f"> {most}" if rounds is None else str(rounds)
