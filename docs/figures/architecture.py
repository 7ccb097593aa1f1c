"""The folders of the library, and a row's way through them."""

from __future__ import annotations

from drawing import GREY, Drawing

COLOURS = {
    "data": "#cfe3f7",
    "groups": "#d7ecd0",
    "bases": "#fbe3c0",
    "rows": "#e4d9f2",
    "classes": "#f8d3d8",
    "core": "#ffe98f",
    "fitting": "#d9d9e6",
    "model": "#c9efe8",
    "auditing": "#f3d5ee",
    "graph": "#dfe7c3",
    "files": "#e3dcd2",
    "explain": "#d3e9ef",
}
WAYS: list[tuple[str, str, list[tuple[str, str]], str]] = [
    (
        "fit",
        "table, labels, model",
        [
            ("data", "columns and labels, checked"),
            ("bases", "base scores"),
            ("rows", "one store: memory, files or Dask"),
            ("classes", "H bound to columns and encoded"),
            ("core", "the loop: level sets, steps"),
            ("fitting", "folds decide what is taken"),
        ],
        "Recalibrated",
    ),
    (
        "predict",
        "new rows",
        [
            ("bases", "base score"),
            ("data", "H's columns as they were read"),
            ("classes", "encoders: bins, codes, groups"),
            ("core", "Rounds.apply, step by step"),
        ],
        "means",
    ),
    (
        "audit",
        "rows, labels, groups",
        [
            ("model", "predictions"),
            ("groups", "group numbers of the rows"),
            ("auditing", "measure: gaps, limits, tests"),
            ("auditing", "discovery of subgroups, richness"),
            ("auditing", "views: text, JSON, HTML"),
        ],
        "AuditReport",
    ),
    (
        "export",
        "Recalibrated",
        [
            ("core", "Rounds, the fitted model"),
            ("classes", "its part of a graph and of a file"),
            ("graph", "one ONNX graph, compared"),
            ("files", "or .rcal, described once"),
        ],
        "model.onnx, model.rcal",
    ),
]
LAYERS = [
    "commands · estimators · mlflow · monitoring",
    "fitting · auditing · loading",
    "model",
    "classes",
    "explain · files · graph · rows · deciding",
    "bases",
    "core · groups · metrics · losses · ensemble",
    "data",
    "kernels",
    "support",
]
BOX, GAP, LANE, LEFT = 128, 22, 92, 150
WIDTH = LEFT + 6 * (BOX + GAP) + 120


def wrapped(said: str, most: int = 19) -> list[str]:
    """Words in lines of at most so many letters."""
    lines = [""]
    for word in said.split():
        if len(lines[-1]) + len(word) + 1 > most and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def stage(drawing: Drawing, x: float, y: float, folder: str, said: str) -> None:
    """A folder, and what it does here."""
    fill = COLOURS[folder]
    drawing.shape("rect", x=x, y=y, width=BOX, height=62, rx=7, fill=fill, stroke="#6b7280")
    drawing.text(x + 9, y + 17, folder, font_weight="bold")
    drawing.lines(x + 9, y + 33, wrapped(said), step=13, size=10)


def lanes(drawing: Drawing) -> None:
    """A row's way for each of the four calls."""
    for k, (name, given, folders, out) in enumerate(WAYS):
        y = 16 + k * LANE
        drawing.text(8, y + 24, name, size=16, fill=GREY, font_weight="bold")
        drawing.lines(8, y + 40, wrapped(given, 20), step=13, size=10, fill=GREY)
        x = float(LEFT)
        drawing.arrow((x - GAP, y + 31), (x, y + 31))
        for folder, said in folders:
            stage(drawing, x, y, folder, said)
            drawing.arrow((x + BOX, y + 31), (x + BOX + GAP, y + 31))
            x += BOX + GAP
        drawing.lines(
            x + 4, y + 28, wrapped(out, 14), step=13, size=11, fill=GREY, font_weight="bold"
        )


def layers(drawing: Drawing, top: float) -> None:
    """Folders by who may import whom."""
    drawing.text(8, top + 14, "Folders, highest first:", fill=GREY, font_weight="bold")
    drawing.lines(8, top + 30, ["each imports only", "from below"], step=14, size=11, fill=GREY)
    for k, names in enumerate(LAYERS):
        y, inset = top + 24 * k, 9.0 * k
        width = WIDTH - LEFT - 20 - 2 * (81 - inset)
        x = LEFT + 81 - inset
        drawing.shape(
            "rect", x=x, y=y, width=width, height=20, rx=5, fill="#eceff4", stroke="#6b7280"
        )
        drawing.text(x + width / 2, y + 14, names, size=11, text_anchor="middle")


def draw() -> str:
    """The whole picture."""
    top = 16 + len(WAYS) * LANE + 8
    height = top + 24 * len(LAYERS) + 8
    drawing = Drawing(WIDTH, height, "The folders of recalibrate and a row's way through them")
    lanes(drawing)
    layers(drawing, top)
    return drawing.svg()
