"""Expected cost of two actions by probability: where the decision changes."""

from __future__ import annotations

from drawing import AFTER, BEFORE, GREY, Axes, Drawing, ticks

from recalibrate.losses import CostMatrix


def draw() -> str:
    """The cost matrix of the page."""
    costs = CostMatrix([[0, 1], [4, 0]], actions=["wait", "treat"])
    (false_none, false_treat), (true_none, true_treat) = costs.costs
    drawing = Drawing(700, 330, "Expected cost by probability")
    axes = Axes(drawing, 70, 44, 400, 220, x=(0, 1), y=(0, 4))
    axes.frame(
        ticks((0, 0.2, 0.4, 0.6, 0.8, 1)), ticks((0, 1, 2, 3, 4)),
        x_label="calibrated probability of the outcome", y_label="expected cost",
    )  # fmt: skip
    axes.curve([(0, false_none), (1, true_none)], BEFORE)
    axes.curve([(0, false_treat), (1, true_treat)], AFTER)
    best = false_treat / (false_treat + true_none)
    axes.curve([(best, 0), (best, 4)], GREY, stroke_dasharray="4 4")
    drawing.text(484, 52, "wait: a missed case costs 4", fill=BEFORE)
    drawing.text(484, 268, "treat: a needless one costs 1", fill=AFTER)
    x, y = axes.at(best, 3.3)
    drawing.text(x + 8, y, f"treat from {best:g} on", fill=GREY)
    return drawing.svg()
