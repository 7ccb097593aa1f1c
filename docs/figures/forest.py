"""Gaps of all groups before and after: the picture of README and home page."""

from __future__ import annotations

from drawing import AFTER, BEFORE, GREY, GROUND, Axes, Drawing, legend, ticks
from pages import run

ROW, LEFT = 27, 262


def draw() -> str:
    """The audit that the README's first block makes."""
    table = run("../README.md")["report"].full_table
    table = table[table["low"].notna()]
    height = 96 + ROW * len(table)
    drawing = Drawing(860, height + 30, "Gap of every group before and after recalibration")
    reach = max(abs(table[["before_low", "before_high", "low", "high"]].to_numpy()).max(), 0.1)
    axes = Axes(drawing, LEFT, 58, 560, height - 96, x=(-reach, reach), y=(len(table), 0))
    drawing.text(20, 28, "Mean outcome minus mean prediction", size=16, font_weight="bold")
    legend(drawing, 470, 28, [(BEFORE, "base model"), (AFTER, "recalibrated")])
    axes.frame(
        ticks((-0.15, -0.1, -0.05, 0, 0.05, 0.1, 0.15), "+.2f") if reach > 0.15
        else ticks((-0.1, -0.05, 0, 0.05, 0.1), "+.2f"),
        x_label="gap on new rows, with limits that hold for all groups at once (95 %); "
        "filled: more than noise",
    )  # fmt: skip
    axes.curve([(0, 0), (0, len(table))], GREY)
    for k, row in enumerate(table.to_dict("records")):
        x, y = axes.at(-reach, k + 0.5)
        drawing.text(x - 12, y + 4, f"{row['group']}", text_anchor="end")
        for colour, name, place in ((BEFORE, "before_", k + 0.32), (AFTER, "", k + 0.7)):
            gap, low, high = (row[f"{name}{each}"] for each in ("gap", "low", "high"))
            drawing.line(axes.at(low, place), axes.at(high, place), stroke=colour, stroke_width=2)
            cx, cy = axes.at(gap, place)
            fill = colour if row[f"{name}off"] else GROUND
            drawing.shape("circle", cx=cx, cy=cy, r=4, fill=fill, stroke=colour, stroke_width=2)
    return drawing.svg()
