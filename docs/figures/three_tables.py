"""Three tables for three purposes, and what each call takes."""

from __future__ import annotations

from drawing import Drawing

FILL = ("#e8e8ee", "#fdf1d0", "#e6f0f8")


def draw() -> str:
    """Rows above, calls below."""
    drawing = Drawing(860, 250, "Training, calibration and test rows")
    steps = [
        ("Training rows", "trained the base model", ["your framework", "base model"]),
        ("Calibration rows", "labelled, new to the model", ["rc.fit(base, X, y)", "correction"]),
        ("Test rows", "labelled, new to both", ["rc.audit(model, X, y)", "gaps with limits"]),
    ]
    for k, (name, said, call) in enumerate(steps):
        x = 24 + 284 * k
        drawing.box(x, 24, 244, 62, [name, said], FILL[k])
        drawing.arrow((x + 122, 88), (x + 122, 128))
        drawing.box(x, 130, 244, 62, call, "#dff0e2")
        if k:
            drawing.arrow((x - 38, 161), (x - 2, 161))
    drawing.text(
        430, 228, "No row serves two purposes: on its own training rows a model looks better "
        "calibrated than it is.", size=13, text_anchor="middle",
    )  # fmt: skip
    return drawing.svg()
