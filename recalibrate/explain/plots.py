"""Figures of a fitted model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalibrate.core.boost import History
from recalibrate.explain.notes import NamedLoss
from recalibrate.support.optional import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (6.0, 4.0)


def plot_errors(history: History, loss: NamedLoss) -> Figure:
    """Training and held-out loss by round.

    Parameters
    ----------
    history
        What happened; index 0 is before the first round.
    loss
        What was minimised.

    Raises
    ------
    ValueError
        If no error was recorded, because nothing was fitted.
    """
    curves = {"training": history.errors, "held out": history.held_out}
    if not any(curves.values()):
        raise ValueError("there are no losses to plot: nothing was fitted")
    figure: Figure = require("matplotlib.figure", "report").Figure(
        figsize=SIZE, layout="constrained"
    )
    axes = figure.add_subplot()
    for name, errors in curves.items():
        if errors:
            values = [loss.unit * error for error in errors]
            marker = "." if len(errors) < 30 else ""
            axes.plot(range(len(errors)), values, label=name, marker=marker)
    if history.held_out:
        best = min(range(len(history.held_out)), key=history.held_out.__getitem__)
        axes.axvline(best, color="0.6", linestyle=":", label=f"lowest held out ({best})")
    axes.set_xlabel("steps" if history.held_out else "rounds")
    axes.set_ylabel(loss.name)
    axes.set_title(f"{loss.name[0].upper()}{loss.name[1:]} by round")
    axes.legend()
    return figure
