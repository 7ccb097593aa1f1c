"""Squared error on new rows by the class H, as the page prints it."""

from __future__ import annotations

from drawing import AFTER, BEFORE, GREY, Drawing
from pages import printed

SAID = {
    "base": "the base model alone",
    "own columns": "trees on the base model's own columns",
    "named groups": "SEX, MAR, AGEP < 25",
    "anything": "no H: trees on all columns",
}


def draw() -> str:
    """A bar for every line of the output."""
    lines = [line.rsplit(maxsplit=1) for line in printed("choosing-h.md", "base  ")]
    errors = {name.strip(): float(error) for name, error in lines}
    least, most = 0.9 * min(errors.values()), max(errors.values())
    drawing = Drawing(760, 54 + 44 * len(errors), "Squared error by H")
    drawing.text(24, 28, "Squared error on new rows (the axis does not start at 0)", size=13.5,
                 font_weight="bold")  # fmt: skip
    for k, (name, error) in enumerate(errors.items()):
        y, width = 46 + 44 * k, 330 * (error - least) / (most - least)
        drawing.text(24, y + 14, name, size=13)
        drawing.text(24, y + 29, SAID[name], size=11, fill=GREY)
        colour = BEFORE if name == "base" else AFTER
        drawing.shape("rect", x=300, y=y + 4, width=width, height=22, rx=3, fill=colour)
        drawing.text(308 + width, y + 20, f"{error:.3f}", size=13)
    return drawing.svg()
