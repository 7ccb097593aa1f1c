"""Gaps of all groups before and after: the picture of README and home page."""

from __future__ import annotations

from typing import Any

from drawing import AFTER, BEFORE, GREY, GROUND, Axes, Drawing, legend, ticks
from pages import run

ROW, WIDTH, LETTER = 27, 860, 6.6
STEPS = (0.05, 0.1, 0.2)  # between ticks


def draw() -> str:
    """The audit that the README's first block makes."""
    return gaps(run("../README.md")["report"], "base model")


def gaps(report: Any, before: str) -> str:
    """A forest plot of a report with a baseline, which is called like this."""
    table = report.full_table
    table = table[table["low"].notna()]
    height = 96 + ROW * len(table)
    left = 46 + LETTER * table["group"].str.len().max()
    drawing = Drawing(WIDTH, height + 30, "Gap of every group before and after recalibration")
    reach = float(abs(table[["before_low", "before_high", "low", "high"]].to_numpy()).max())
    axes = Axes(
        drawing, left, 58, WIDTH - left - 38, height - 96, x=(-reach, reach), y=(len(table), 0)
    )
    drawing.text(20, 28, "Mean outcome minus mean prediction", size=16, font_weight="bold")
    legend(drawing, 470, 28, [(BEFORE, before), (AFTER, "recalibrated")])
    step = next((step for step in STEPS if reach < 4 * step), STEPS[-1])
    marks = [k * step for k in range(-3, 4) if abs(k * step) <= reach]
    axes.frame(
        ticks(marks, "+.2f"),
        x_label="gap on new rows, with 95 % limits for all groups at once; filled: more than noise",
    )
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
