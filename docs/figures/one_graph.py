"""What is in an exported file, and where it runs."""

from __future__ import annotations

from drawing import GREY, Drawing


def draw() -> str:
    """Inputs, graph, outputs, runtimes."""
    drawing = Drawing(900, 300, "One ONNX graph: base model and correction")
    drawing.box(20, 96, 130, 92, ["Inputs", "numbers [N, d]", "text columns", "(categories)"],
                "#e8e8ee")  # fmt: skip
    drawing.shape("rect", x=182, y=40, width=420, height=200, rx=10, fill="#f6f8fb",
                  stroke="#8a8f98", stroke_dasharray="6 4")  # fmt: skip
    drawing.text(392, 32, "model.onnx: standard operators only", size=13, text_anchor="middle",
                 font_weight="bold")  # fmt: skip
    drawing.box(202, 106, 112, 72, ["Base model", "your trees,", "network, ..."], "#fdf1d0")
    drawing.box(344, 106, 112, 72, ["Level sets", "which one is", "the score in?"], "#fdf1d0")
    drawing.box(476, 106, 112, 72, ["Correction", "one table per", "round"], "#fdf1d0")
    drawing.box(636, 96, 120, 92, ["Outputs", "label", "probabilities", "score, action"], "#dff0e2")
    for x1, x2 in ((150, 202), (314, 344), (456, 476), (588, 636)):
        drawing.arrow((x1, 142), (x2, 142))
    drawing.path([(532, 180), (532, 212), (400, 212)], stroke=GREY, stroke_width=1.6)
    drawing.arrow((400, 212), (400, 180))
    drawing.text(466, 230, "next round", size=11.5, text_anchor="middle", fill=GREY)
    drawing.lines(776, 110, ["runs in", "onnxruntime", "Triton", "Node, Java, C#",
                  "without Python"],                  step=19, size=13)  # fmt: skip
    drawing.text(
        450, 276,
        "Before the file appears, onnxruntime has to give the model's own numbers on your "
        "rows and on rows made to be difficult.", size=13, text_anchor="middle",
    )  # fmt: skip
    return drawing.svg()
