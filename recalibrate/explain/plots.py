"""Figures of a fitted model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalibrate.core.boost import History
from recalibrate.core.family import Family
from recalibrate.support.optional import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (6.0, 4.0)


def plot_errors(history: History, family: Family, span: float = 1.0) -> Figure:
    """Training and held-out error by round.

    Parameters
    ----------
    history
        What happened; index 0 is before the first round.
    family
        Decides the error: log loss, squared error or a deviance.
    span
        Unit of the scaled labels, in the user's own.

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
    unit = span ** (2.0 - family.power)
    for name, errors in curves.items():
        if errors:
            axes.plot(
                range(len(errors)),
                [unit * e for e in errors],
                label=name,
                marker="." if len(errors) < 30 else "",
            )
    if history.held_out:
        best = min(range(len(history.held_out)), key=history.held_out.__getitem__)
        axes.axvline(best, color="0.6", linestyle=":", label=f"lowest held out ({best})")
    axes.set_xlabel("steps" if history.held_out else "rounds")
    axes.set_ylabel(family.loss)
    axes.set_title(f"Error by round; stopped by {history.stopped}")
    axes.legend()
    return figure
