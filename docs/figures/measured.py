"""Loss of MCGrad, LightGBM and this package against the base's, case by case, from the table."""

from __future__ import annotations

from drawing import AFTER, BEFORE, GREY, THIRD, Axes, Drawing, legend, ticks
from pages import table, value

METHODS = {"MCGrad": THIRD, "LightGBM": BEFORE, "recalibrate": AFTER}
ROW = 26


def draw() -> str:
    """A line per case; further to the left is better."""
    rows = table("default.md", "loss: base")
    drawing = Drawing(820, 110 + ROW * len(rows), "Loss against the base's, twelve cases")
    axes = Axes(drawing, 190, 50, 590, ROW * len(rows), x=(0.5, 1.0), y=(len(rows), 0))
    legend(drawing, 200, 28, [(colour, name) for name, colour in METHODS.items()])
    axes.frame(
        ticks((0.5, 0.6, 0.7, 0.8, 0.9, 1.0), ".0%"),
        x_label="loss on test rows as a share of the base model's; lower is better",
    )
    for k, row in enumerate(rows):
        x, y = axes.at(0.5, k + 0.5)
        drawing.text(x - 12, y + 4, row["data, base"], text_anchor="end")
        drawing.line((x, y), (x + 590, y), stroke="#eceff4")
        for name, colour in METHODS.items():
            ratio = value(row[name]) / value(row["loss: base"])
            cx, cy = axes.at(max(ratio, 0.5), k + 0.5)
            drawing.shape("circle", cx=cx, cy=cy, r=5, fill=colour, fill_opacity=0.85)
    drawing.line(axes.at(1, 0), axes.at(1, len(rows)), stroke=GREY)
    return drawing.svg()
