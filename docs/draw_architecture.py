"""Draws docs/img/architecture.svg: the rooms, and a row's way through them.

    python docs/draw_architecture.py

Boxes have a fill and a text colour of their own and nothing stands on the bare background but
mid-grey, so that the picture reads on a light page and on a dark one.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

PATH = Path(__file__).parent / "img" / "architecture.svg"
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
            ("auditing", "search: subgroups, richness"),
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
GREY = "#8a8f98"


def text(
    x: float, y: float, said: str, *, size: int = 12, fill: str = "#1d2433", **more: str
) -> str:
    """Text at a place."""
    given = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}"{given}>{escape(said)}</text>'


def wrapped(said: str, most: int = 19) -> list[str]:
    """Words in lines of at most so many letters."""
    lines = [""]
    for word in said.split():
        if len(lines[-1]) + len(word) + 1 > most and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def arrow(x1: float, x2: float, y: float) -> str:
    """An arrow to the right."""
    line = f'<line x1="{x1}" y1="{y}" x2="{x2 - 6}" y2="{y}" stroke="{GREY}" stroke-width="1.6"/>'
    head = f'<path d="M{x2 - 7} {y - 4} L{x2} {y} L{x2 - 7} {y + 4} Z" fill="{GREY}"/>'
    return line + head


def box(x: float, y: float, room: str, said: str) -> str:
    """A room, and what it does here."""
    parts = [
        f'<rect x="{x}" y="{y}" width="{BOX}" height="62" rx="7" fill="{COLOURS[room]}" '
        'stroke="#6b7280" stroke-width="0.8"/>',
        text(x + 9, y + 17, room, size=12, font_weight="bold"),
    ]
    parts += [text(x + 9, y + 33 + 13 * k, line, size=10) for k, line in enumerate(wrapped(said))]
    return "".join(parts)


def lanes() -> list[str]:
    """A row's way for each of the four calls."""
    parts = []
    for k, (name, given, rooms, out) in enumerate(WAYS):
        y = 16 + k * LANE
        parts.append(text(8, y + 24, name, size=16, fill=GREY, font_weight="bold"))
        parts += [
            text(8, y + 40 + 13 * j, line, size=10, fill=GREY)
            for j, line in enumerate(wrapped(given, 20))
        ]
        x = float(LEFT)
        parts.append(arrow(x - GAP, x, y + 31))
        for room, said in rooms:
            parts += [box(x, y, room, said), arrow(x + BOX, x + BOX + GAP, y + 31)]
            x += BOX + GAP
        parts += [
            text(x + 4, y + 28 + 13 * j, line, size=11, fill=GREY, font_weight="bold")
            for j, line in enumerate(wrapped(out, 14))
        ]
    return parts


def layers(top: float) -> list[str]:
    """Rooms by who may import whom."""
    parts = [
        text(8, top + 14, "Rooms, highest first:", size=12, fill=GREY, font_weight="bold"),
        text(8, top + 30, "each imports only", size=11, fill=GREY),
        text(8, top + 44, "from below", size=11, fill=GREY),
    ]
    for k, names in enumerate(LAYERS):
        y, inset = top + 24 * k, 9.0 * k
        width = WIDTH - LEFT - 20 - 2 * (81 - inset)
        x = LEFT + 81 - inset
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="20" rx="5" fill="#eceff4" '
            'stroke="#6b7280" stroke-width="0.6"/>'
        )
        parts.append(text(x + width / 2, y + 14, names, size=11, text_anchor="middle"))
    return parts


def draw() -> str:
    """The whole picture."""
    top = 16 + len(WAYS) * LANE + 8
    height = top + 24 * len(LAYERS) + 8
    body = "\n".join([*lanes(), *layers(top)])
    title = "The rooms of recalibrate and a row's way through them"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif">\n'
        f"<title>{title}</title>\n{body}\n</svg>\n"
    )


if __name__ == "__main__":
    PATH.write_text(draw())
