"""Why memory, files and workers give the same model."""

from __future__ import annotations

from drawing import GREY, Drawing


def draw() -> str:
    """Pieces, sums, model."""
    drawing = Drawing(880, 290, "Rows in pieces, integer sums, one model")
    places = [
        ("In memory", "DataFrame or array"),
        ("On disk", "Parquet, block by block"),
        ("On workers", "Dask DataFrame"),
    ]
    for k, (name, said) in enumerate(places):
        y = 34 + 76 * k
        drawing.box(20, y, 190, 56, [name, said], "#e6f0f8")
        drawing.arrow((212, y + 28), (318, 136))
    drawing.lines(228, 34, ["every row adds", "an integer"], size=11.5, fill=GREY)
    drawing.box(322, 90, 200, 92, ["Sums per level set", "rows, weights, residuals", "in 64-bit "
                "integers:", "any order, same sum"], "#fdf1d0")  # fmt: skip
    drawing.arrow((524, 136), (596, 136))
    drawing.box(600, 100, 250, 72, ["One step of the model", "splits or shifts, computed once",
                "from the sums"], "#dff0e2")  # fmt: skip
    drawing.path([(724, 174), (724, 236), (422, 236)], stroke=GREY, stroke_width=1.6)
    drawing.arrow((422, 236), (422, 186))
    drawing.text(573, 254, "the next round's scores follow from the list of steps",
                 size=12, text_anchor="middle", fill=GREY)  # fmt: skip
    return drawing.svg()
