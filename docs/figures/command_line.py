"""The commands and the files between them."""

from __future__ import annotations

from drawing import GREY, Drawing

FILE, COMMAND = "#e8e8ee", "#fdf1d0"


def draw() -> str:
    """From left to right."""
    drawing = Drawing(900, 270, "Commands and files")
    drawing.box(20, 28, 150, 54, ["rows.csv", "calibration rows"], FILE)
    drawing.box(20, 96, 150, 54, ["xgb.json", "model, or a score column"], FILE)
    drawing.box(214, 60, 130, 54, ["fit", "recalibrate fit"], COMMAND)
    drawing.box(388, 60, 130, 54, ["model.rcal", "model and correction"], FILE)
    drawing.arrow((172, 56), (212, 80))
    drawing.arrow((172, 122), (212, 96))
    drawing.arrow((346, 87), (386, 87))
    after = [
        ("predict", "predictions.csv", ""),
        ("audit", "audit.html, exit code 0 or 1", "the gate of a pipeline"),
        ("export", "model.onnx", ""),
        ("monitor", "alarms, exit code 0 or 1", "week after week"),
    ]
    for k, (name, out, said) in enumerate(after):
        y = 14 + 62 * k
        drawing.box(562, y, 100, 44, [name], COMMAND)
        drawing.arrow((520, 87), (560, y + 22))
        drawing.arrow((664, y + 22), (690, y + 22))
        drawing.lines(696, y + (19 if said else 26), [out, said] if said else [out], size=12.5)
    drawing.lines(
        388, 186, ["predict, audit and monitor", "read new rows: new.csv"], size=12.5, fill=GREY
    )
    return drawing.svg()
