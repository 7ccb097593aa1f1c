"""Error by round: full steps overfit, small ones less; held-out rows choose the round."""

from __future__ import annotations

import numpy as np
from drawing import AFTER, BEFORE, GREY, Axes, Drawing, ticks

import recalibrate as rc
from recalibrate.simulate import census

ROUNDS, ROWS = 12, 8_000
FULL = rc.Loop(levels=40, rounded=True, step=1.0, tolerance=0.0, patience=50, max_rounds=ROUNDS)
SMALL = rc.Loop(levels=10, rounded=False, step=0.2, patience=50, max_rounds=ROUNDS)


def base(X: object) -> np.ndarray:
    """A model that knows nothing."""
    return np.full(len(X), 0.4)  # type: ignore[arg-type]


def draw() -> str:
    """Trees of depth 2 on a simulated census; log loss."""
    fitted, new = (census(ROWS, seed=seed) for seed in (1, 2))
    full, small = (
        rc.fit(
            base, fitted.X, fitted.y, H=rc.Trees(depth=2), loop=loop, validation=(new.X, new.y)
        ).history_
        for loop in (FULL, SMALL)
    )
    drawing = Drawing(760, 360, "Log loss by round")
    axes = Axes(drawing, 70, 50, 440, 240, x=(0, ROUNDS), y=(0.4, 0.72))
    axes.frame(
        ticks(range(0, ROUNDS + 1, 2)),
        ticks((0.4, 0.5, 0.6, 0.7), ".1f"),
        x_label="round",
        y_label="log loss",
    )
    curves = [
        ("full steps, fitted rows", full.errors, GREY, "4 4"),
        ("full steps, new rows", full.held_out, BEFORE, "none"),
        ("steps of a fifth, new rows", small.held_out, AFTER, "none"),
    ]
    for name, errors, colour, dashes in curves:
        axes.curve(list(enumerate(errors)), colour, stroke_dasharray=dashes)
        x, y = axes.at(ROUNDS, errors[-1])
        drawing.text(x + 8, y + 4, name, fill=colour, size=12.5)
        if errors is not full.errors:
            best = int(np.argmin(errors))
            cx, cy = axes.at(best, errors[best])
            drawing.shape("circle", cx=cx, cy=cy, r=6, fill="none", stroke=colour, stroke_width=2)
    drawing.text(
        70, 346, "Circles: the round that held-out rows choose; later rounds fit noise.",
        fill=GREY,
    )  # fmt: skip
    return drawing.svg()
