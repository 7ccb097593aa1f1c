"""Worst-group smECE: figures that others published, and ours in their protocol."""

from __future__ import annotations

from drawing import AFTER, BEFORE, FOURTH, GREY, THIRD, Axes, Drawing, legend, ticks
from pages import table, value

METHODS = {
    "ERM": GREY,
    "HKRR": FOURTH,
    "HJZ": THIRD,
    "isotonic": BEFORE,
    "recalibrate": AFTER,
}
ROW = 46


def draw() -> str:
    """A line per case; further to the left is better."""
    rows = table("comparison.md", "HKRR")
    drawing = Drawing(820, 116 + ROW * len(rows), "Worst-group smECE on test rows")
    axes = Axes(drawing, 210, 52, 570, ROW * len(rows), x=(0.02, 0.1), y=(len(rows), 0))
    legend(drawing, 216, 28, [(colour, name) for name, colour in METHODS.items()])
    axes.frame(
        ticks((0.02, 0.04, 0.06, 0.08, 0.1)),
        x_label="largest smoothed calibration error (smECE) of a group; "
        "bars: a perfect model, by noise",
    )
    for k, row in enumerate(rows):
        x, y = axes.at(0.02, k + 0.5)
        noise, _ = axes.at(value(row["perfect"].split("±")[0]), k)
        drawing.line((noise, y - 17), (noise, y + 17), stroke="#1d2433", stroke_width=2)
        drawing.text(x - 12, y + 4, row["data, base model"], text_anchor="end")
        drawing.line((x, y), (x + 570, y), stroke="#eceff4")
        for name, colour in METHODS.items():
            cx, cy = axes.at(value(row[name].split("±")[0]), k + 0.5)
            drawing.shape("circle", cx=cx, cy=cy, r=7 if name == "recalibrate" else 5, fill=colour)
    return drawing.svg()
