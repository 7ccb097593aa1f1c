"""The gap that an audit of one group finds in 80 of 100 cases, by rows and outcome rate."""

from __future__ import annotations

from math import log10, sqrt

from drawing import AFTER, BEFORE, THIRD, Axes, Drawing

ERRORS = 1.96 + 0.84  # standard errors: a test at 5 % with a power of 80 %
RATES = {0.5: BEFORE, 0.1: AFTER, 0.02: THIRD}
LEAST, MOST = 50, 20_000


def draw() -> str:
    """Both axes are logarithmic."""
    drawing = Drawing(720, 340, "Detectable gap by number of rows")
    axes = Axes(
        drawing, 80, 50, 440, 220, x=(log10(LEAST), log10(MOST)), y=(log10(0.002), log10(0.3))
    )
    axes.frame(
        [(log10(n), f"{n:,}") for n in (100, 300, 1000, 3000, 10_000)],
        [(log10(gap), f"{gap:g}") for gap in (0.003, 0.01, 0.03, 0.1, 0.3)],
        x_label="rows of the group",
        y_label="smallest gap that an audit finds in 80 of 100 cases",
    )
    for rate, colour in RATES.items():
        ends = [(log10(n), log10(ERRORS * sqrt(rate * (1 - rate) / n))) for n in (LEAST, MOST)]
        axes.curve(ends, colour)
        x, y = axes.at(*ends[1])
        drawing.text(x + 8, y + 4, f"outcome rate {rate:.0%}", fill=colour, size=12.5)
    return drawing.svg()
