"""Figures of a fitted model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalibrate.core.boost import History
from recalibrate.core.levels import Link
from recalibrate.support.optional import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (6.0, 4.0)


def plot_errors(history: History, link: Link) -> Figure:
    """Training and held-out error by round.

    Parameters
    ----------
    history
        What happened; index 0 is before the first round.
    link
        Scale of the updates, which decides the error: log loss under "logit".

    Raises
    ------
    ValueError
        If no error was recorded, because nothing was fitted.
    """
    curves = {"training": history.errors, "held out": history.held_out}
    if not any(curves.values()):
        raise ValueError("there are no errors to plot: the model was made without a fit")
    figure: Figure = require("matplotlib.figure", "report").Figure(
        figsize=SIZE, layout="constrained"
    )
    axes = figure.add_subplot()
    for name, errors in curves.items():
        if errors:
            axes.plot(
                range(len(errors)), errors, label=name, marker="." if len(errors) < 30 else ""
            )
    if history.held_out:
        best = min(range(len(history.held_out)), key=history.held_out.__getitem__)
        axes.axvline(best, color="0.6", linestyle=":", label=f"lowest held out ({best})")
    axes.set_xlabel("steps" if history.held_out else "rounds")
    axes.set_ylabel("log loss" if link == "logit" else "squared error (labels in [0, 1])")
    axes.set_title(f"Error by round; stopped by {history.stopped}")
    axes.legend()
    return figure
