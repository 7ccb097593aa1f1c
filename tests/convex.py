"""Convex losses of labels 0 and 1, for tests of losses and of decisions."""

from recalibrate.losses import Absolute, Asymmetric, Hinge, Logistic, Pinball, Squared

CONVEX = [
    Squared(),
    Absolute(),
    Pinball(0.1),
    Pinball(0.9),
    Hinge(),
    Logistic(limit=1.0),
    Asymmetric(1, 4),
    Asymmetric(over=3, under=0.5),
]


def expected(loss, p, action):
    """Mean loss of an action where the label is 1 with probability p."""
    return p * loss(1.0, action) + (1 - p) * loss(0.0, action)
