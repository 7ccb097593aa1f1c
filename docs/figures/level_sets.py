"""How level sets work, in three pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from drawing import AFTER, BEFORE, GREY, INK, Axes, Drawing, ticks
from pages import run

LEVELS, PANEL, CHOSEN = 8, 250, 4
GROUPS = {
    "married men": (AFTER, lambda X: (X["SEX"] == "male") & (X["MAR"] == "married")),
    "women": (BEFORE, lambda X: X["SEX"] == "female"),
}


def means(scores: Any, y: Any, edges: Any) -> list[tuple[float, float]]:
    """Mean score and mean outcome on every level set that has enough rows to show."""
    level = np.searchsorted(edges, scores, side="right")
    return [
        (float(scores[level == k].mean()), float(y[level == k].mean()))
        for k in range(LEVELS)
        if (level == k).sum() >= 100
    ]


def panel(drawing: Drawing, k: int, title: str, said: list[str]) -> Axes:
    """Axes, a diagonal, and the text below."""
    axes = Axes(drawing, 60 + k * (PANEL + 55), 56, PANEL, PANEL, x=(0, 0.9), y=(0, 0.9))
    marks = ticks((0, 0.2, 0.4, 0.6, 0.8))
    axes.frame(marks, marks, x_label="prediction", title=title)
    axes.curve([(0, 0), (0.9, 0.9)], GREY, stroke_dasharray="4 4")
    drawing.lines(60 + k * (PANEL + 55), 372, said, size=12.5, fill=INK, step=17)
    return axes


def strip(axes: Axes, edges: Any, k: int) -> None:
    """One level set as a band."""
    (left, top), (right, bottom) = axes.at(edges[k - 1], 0.9), axes.at(edges[k], 0)
    axes.drawing.shape(
        "rect", x=left, y=top, width=right - left, height=bottom - top, fill="#f3d27a",
        fill_opacity=0.45,
    )  # fmt: skip


def draw() -> str:
    """The model and the rows are those of the README's first block."""
    names = run("../README.md")
    X, y, seen = names["test"].X, np.asarray(names["test"].y, float), names["seen"]
    before = names["base"].predict_proba(X[seen])[:, 1]
    after = names["model"].predict(X)
    edges = np.quantile(before, np.arange(1, LEVELS) / LEVELS)
    later = np.quantile(after, np.arange(1, LEVELS) / LEVELS)
    drawing = Drawing(960, 446, "Level sets in three pictures")
    first = panel(drawing, 0, "1. Cut by score", [
        "Rows with about the same score are a", "level set. Over all rows this model is",
        "nearly right on every one of them.",
    ])  # fmt: skip
    for k in range(1, LEVELS):
        x, top = first.at(edges[k - 1], 0.9)
        drawing.line((x, top), (x, top + PANEL), stroke="#e6c25a")
    strip(first, edges, CHOSEN)
    first.curve(means(before, y, edges), INK, marks=True)
    drawing.text(*first.at(0.05, 0.82), "all rows", size=12.5)
    second = panel(drawing, 1, "2. Ask H on every level set", [
        "Inside a level set some groups are", "under-predicted, others over-predicted:",
        "a function of H predicts them better.",
    ])  # fmt: skip
    strip(second, edges, CHOSEN)
    third = panel(drawing, 2, "3. Move them, cut anew", [
        "Each group moves to where its outcomes", "are. Repeat until H finds nothing more:",
        "the model is multicalibrated for H.",
    ])  # fmt: skip
    for k, (name, (colour, inside)) in enumerate(GROUPS.items()):
        rows = inside(X).to_numpy()
        second.curve(means(before[rows], y[rows], edges), colour, marks=True)
        third.curve(means(after[rows], y[rows], later), colour, marks=True)
        for axes in (second, third):
            drawing.text(*axes.at(0.05, 0.82 - 0.07 * k), name, size=12.5, fill=colour)
    drawing.text(22, 44, "outcome", size=12, fill=GREY)
    return drawing.svg()
