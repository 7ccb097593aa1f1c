"""Gaps of every class in every group before and after, as colours."""

from __future__ import annotations

from drawing import GREY, Drawing
from pages import run

CELL, LEFT = 74, 110


def colour(gap: float, reach: float) -> str:
    """Blue below zero, orange above."""
    share = min(abs(gap) / reach, 1.0)
    full = (194, 86, 10) if gap > 0 else (0, 103, 166)
    return "#" + "".join(f"{round(255 + share * (c - 255)):02x}" for c in full)


def draw() -> str:
    """The audit of the page's first two blocks."""
    names = run("several-classes.md", 2)
    report = names["report"]
    groups = [group for group in report.reports[0].groups if group.name != "all"]
    cells = {
        (when, k, j): (mine.gap, mine.off)
        for k, each in enumerate(report.reports)
        for j, group in enumerate(g for g in each.groups if g.name != "all")
        for when, mine in (("before", group.before), ("after", group.after))
    }
    reach = max(abs(gap) for gap, _ in cells.values())
    width = CELL * len(groups)
    drawing = Drawing(LEFT * 2 + 2 * width + 60, 120 + 52 * len(report.reports), "Class by group")
    for n, when in enumerate(("before", "after")):
        left = LEFT + n * (width + 90)
        drawing.text(left + width / 2, 26, when, size=14, font_weight="bold", text_anchor="middle")
        for j, group in enumerate(groups):
            drawing.text(left + CELL * (j + 0.5), 48, group.name.split("= ")[-1], fill=GREY,
                         text_anchor="middle")  # fmt: skip
        for k in range(len(report.reports)):
            y = 58 + 52 * k
            drawing.text(left - 10, y + 28, f"class {k}", text_anchor="end", fill=GREY)
            for j in range(len(groups)):
                gap, off = cells[when, k, j]
                drawing.shape("rect", x=left + CELL * j, y=y, width=CELL - 3, height=49,
                              fill=colour(gap, reach), stroke="#1d2433" if off else "none",
                              stroke_width=1.6)  # fmt: skip
                drawing.text(left + CELL * (j + 0.48), y + 29, f"{gap:+.3f}", size=12.5,
                             fill="#ffffff" if abs(gap) > 0.6 * reach else "#1d2433",
                             text_anchor="middle")  # fmt: skip
    drawing.text(LEFT, 58 + 52 * len(report.reports) + 30,
                 "share of the class minus mean probability, by group; framed: more than noise",
                 fill=GREY)  # fmt: skip
    return drawing.svg()
