"""Observed over expected claims before and after, as the page prints them."""

from __future__ import annotations

import re

from drawing import AFTER, BEFORE, GREY, Axes, Drawing, legend, ticks
from pages import printed

LINE = re.compile(r"(.+?)\s+observed / expected: ([\d.]+) before, ([\d.]+) after")
ROW = 34


def draw() -> str:
    """A line per group; 1 is right."""
    lines = [LINE.fullmatch(line) for line in printed("how-to/counts.md", "everyone")]
    rows = [(found[1], float(found[2]), float(found[3])) for found in lines if found]
    drawing = Drawing(640, 110 + ROW * len(rows), "Observed over expected claims by group")
    axes = Axes(drawing, 120, 50, 480, ROW * len(rows), x=(0.8, 1.5), y=(len(rows), 0))
    legend(drawing, 126, 28, [(BEFORE, "tariff"), (AFTER, "recalibrated")])
    axes.frame(ticks((0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5), ".1f"),
               x_label="observed claims divided by expected claims")  # fmt: skip
    axes.curve([(1, 0), (1, len(rows))], GREY)
    for k, (name, *ratios) in enumerate(rows):
        x, y = axes.at(0.8, k + 0.5)
        drawing.text(x - 12, y + 4, name, text_anchor="end")
        for ratio, colour in zip(ratios, (BEFORE, AFTER), strict=True):
            cx, cy = axes.at(ratio, k + 0.5)
            drawing.shape("circle", cx=cx, cy=cy, r=6, fill=colour)
    return drawing.svg()
