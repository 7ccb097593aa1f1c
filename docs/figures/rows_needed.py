"""How many calibration rows are worth what: the table of the page as curves."""

from __future__ import annotations

from math import log10

from drawing import AFTER, BEFORE, FOURTH, GREY, THIRD, Axes, Drawing
from pages import table, value

METHODS = {"Platt": THIRD, "isotonic": FOURTH, "LightGBM": BEFORE, "recalibrate": AFTER}
TOP = 4.0  # isotonic regression on few rows is far above


def draw() -> str:
    """Mean change of the loss in per cent by number of rows."""
    rows = table("default.md", "rows")
    places = [log10(value(row["rows"])) for row in rows]
    least = min(value(row[name]) for row in rows for name in METHODS)
    drawing = Drawing(760, 380, "Change of the loss by number of calibration rows")
    axes = Axes(drawing, 80, 50, 480, 260, x=(places[0], places[-1]), y=(least - 1, TOP))
    axes.frame(
        [(place, row["rows"]) for place, row in zip(places, rows, strict=True)],
        [(k, f"{k:+d} %" if k else "0") for k in range(int(least), int(TOP) + 1, 2)],
        x_label="calibration rows",
        y_label="loss on new rows against the base model's, mean of twelve cases",
    )
    axes.curve([(places[0], 0), (places[-1], 0)], GREY, stroke_dasharray="4 4")
    for name, colour in METHODS.items():
        values = [value(row[name]) for row in rows]
        shown = [(x, y) for x, y in zip(places, values, strict=True) if y <= TOP]
        axes.curve(shown, colour, marks=True)
        x, y = axes.at(*shown[-1])
        drawing.text(x + 10, y + 4 - 9 * (name == "isotonic") + 5 * (name == "Platt"), name,
                     fill=colour, size=12.5)  # fmt: skip
    return drawing.svg()
