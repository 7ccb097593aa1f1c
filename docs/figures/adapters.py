"""What an adapter makes of a model."""

from __future__ import annotations

from drawing import Drawing

FRAMEWORKS = ("xgboost", "lightgbm", "scikit-learn", "catboost", "torch", "ONNX", "your own")


def draw() -> str:
    """Models, adapter, what it gives, what that is for."""
    drawing = Drawing(860, 300, "Models, adapters, scores and graphs")
    for k, name in enumerate(FRAMEWORKS):
        drawing.box(20, 16 + 38 * k, 130, 30, [name], "#e8e8ee")
        drawing.arrow((152, 31 + 38 * k), (218, 148))
    drawing.box(222, 112, 150, 72, ["Adapter", "loaded when such a", "model arrives"], "#fdf1d0")
    drawing.arrow((374, 140), (436, 92))
    drawing.arrow((374, 156), (436, 204))
    drawing.box(440, 56, 170, 72, ["Scores", "in the framework's", "own precision"], "#e6f0f8")
    drawing.box(440, 168, 170, 72, ["ONNX graph", "if it gives the same", "scores"], "#e6f0f8")
    drawing.arrow((612, 92), (666, 92))
    drawing.arrow((612, 204), (666, 204))
    drawing.box(670, 56, 170, 72, ["fit, predict, audit"], "#dff0e2")
    drawing.box(670, 168, 170, 72, ["to_onnx", "one file with the", "correction"], "#dff0e2")
    return drawing.svg()
