"""A monitor week by week: evidence against "still right" for some groups."""

from __future__ import annotations

from math import log10

from drawing import AFTER, BEFORE, GREY, THIRD, Axes, Drawing, ticks
from pages import run

GROUPS = {"SEX = female": BEFORE, "all": THIRD, "SEX = male": AFTER}
LEAST, MOST = -3.0, 9.0


def draw() -> str:
    """The stream of the page's first block."""
    report = run("monitoring.md")["monitor"].report()
    drawing = Drawing(760, 380, "Evidence of a monitor over 15 weeks")
    axes = Axes(drawing, 80, 50, 480, 260, x=(0, len(report.ends) - 1), y=(LEAST, MOST))
    axes.frame(
        ticks(range(0, len(report.ends), 2)),
        [(k, f"{10.0**k:,.10g}") for k in range(-2, 9, 2)],
        x_label="week",
        y_label="evidence that the gap exceeds the tolerance",
    )
    line = 1 / report.alpha
    edge = log10(line)
    axes.curve([(0, edge), (len(report.ends) - 1, edge)], GREY, stroke_dasharray="4 4")
    x, y = axes.at(0, edge)
    drawing.text(x + 6, y - 6, f"alarm from {line:g} on", fill=GREY)
    for status, history in zip(report.groups, report.history, strict=True):
        colour = GROUPS.get(status.name)
        if colour is None:
            continue
        shown = [(k, max(e, LEAST)) for k, e in enumerate(history.log10_evidence)]
        shown = shown[: next((k + 1 for k, e in shown if e > MOST), len(shown))]
        shown = [(k, min(e, MOST)) for k, e in shown]
        axes.curve(shown, colour, marks=True)
        x, y = axes.at(*shown[-1])
        drawing.text(x + 10, y + 4, status.name, fill=colour, size=12.5)
    x, y = axes.at(7.5, 6)
    drawing.text(x - 8, y, "week 8: something", fill=BEFORE, text_anchor="end")
    drawing.text(x - 8, y + 15, "changes for women", fill=BEFORE, text_anchor="end")
    return drawing.svg()
