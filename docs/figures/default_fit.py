"""What the default fit does, and what decides each stage."""

from __future__ import annotations

from drawing import AFTER, GREY, INK, Drawing

WIDTH, HEIGHT, GAP, LEFT = 168, 66, 30, 24
START, STAGE, END = "#e6f0f8", "#fdf1d0", "#dff0e2"
# Stage and what decides it, from left to right.
LANES = [
    (
        "groups given: H = Groups(...)",
        [
            (
                ["Group shifts", "all groups at once,", "shrunk by noise"],
                "probability, term by term",
            ),
            (["Curve", "of all rows, 20 levels"], "two standard errors"),
            (["Level sets", "shifts of groups on", "3 to 5 levels"], "held-out loss"),
        ],
    ),
    (
        "Trees, Linear, Polynomial, Estimator",
        [
            (["Boosting with H", "on 1 to 10 level sets"], "held-out loss, 5 folds"),
            (["Weights", "how much to believe"], "regression on held-out rows"),
            (["Curve", "of all rows, 20 levels"], "two standard errors"),
        ],
    ),
    (
        "no H: all columns",
        [
            (["Columns", "of few rows; of many", "only certain gaps"], "probability, then folds"),
            (["Boosting", "trees of 15 leaves,", "then weights"], "held-out loss, 5 folds"),
            (["Level sets", "columns and pairs,", "coarse to fine"], "tests on held-out rows"),
        ],
    ),
]


def draw() -> str:
    """Three lanes between the score and the result."""
    drawing = Drawing(1060, 440, "Flow of the default fit with its decisions")
    middle = 66 + 118 + HEIGHT / 2
    drawing.box(LEFT, middle - 82, WIDTH, HEIGHT, ["Base scores", "on calibration rows"], START)
    drawing.box(
        LEFT, middle + 14, WIDTH, HEIGHT + 14,
        ["Function of the score", "unchanged, shift,", "line or curve,", "by their probability"],
        STAGE,
    )  # fmt: skip
    drawing.arrow((LEFT + WIDTH / 2, middle - 16), (LEFT + WIDTH / 2, middle + 14))
    first = LEFT + WIDTH + 60
    last = first + 3 * (WIDTH + GAP)
    for k, (title, stages) in enumerate(LANES):
        y = 66 + 118 * k
        drawing.text(first, y - 14, title, size=13, font_weight="bold", fill=AFTER)
        drawing.arrow((LEFT + WIDTH + 4, middle + 54), (first - 4, y + HEIGHT / 2))
        for j, (said, decided) in enumerate(stages):
            x = first + j * (WIDTH + GAP)
            drawing.box(x, y, WIDTH, HEIGHT, said, STAGE)
            drawing.text(
                x + WIDTH / 2, y + HEIGHT + 16, f"by {decided}", size=11, fill=GREY,
                text_anchor="middle",
            )  # fmt: skip
            end = x + WIDTH + GAP
            drawing.arrow((x + WIDTH + 2, y + HEIGHT / 2), (end - 2, y + HEIGHT / 2))
    drawing.box(last, middle - 70, WIDTH, 140, [
        "Fitted model", "refitted on all rows;", "summary() lists every",
        "decision and its reason.",
        "Nothing taken: predict", "returns the base's", "own numbers",
    ], END)  # fmt: skip
    for y in (66 + HEIGHT / 2, 66 + 236 + HEIGHT / 2):
        drawing.line((last - 2, y), (last + 60, y))
        edge = middle - 70 if y < middle else middle + 70
        drawing.arrow((last + 60, y), (last + 60, edge))
    drawing.text(
        LEFT, 424,
        "Below each stage: what decides. Without support from the data it is skipped or taken in "
        "part.",
        fill=INK, size=13,
    )  # fmt: skip
    return drawing.svg()
