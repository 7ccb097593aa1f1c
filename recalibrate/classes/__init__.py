"""H: the classes of functions that a model is multicalibrated for.

A class says which statistics it needs from the rows, how to solve them into one small model per
level set, and what that model does to a score.
"""

from recalibrate.classes.estimator.estimator import Estimator
from recalibrate.classes.groups.groups import Groups
from recalibrate.classes.linear.linear import Linear
from recalibrate.classes.trees.trees import Trees

__all__ = ["Estimator", "Groups", "Linear", "Trees"]
