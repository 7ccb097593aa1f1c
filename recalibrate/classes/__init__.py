"""H: the classes of functions that a model is multicalibrated for.

A class says which statistics it needs from the rows, how to solve them into one small model per
level set, and what that model does to a score.
"""

from recalibrate.classes.estimator.spec import Estimator
from recalibrate.classes.groups.spec import Groups
from recalibrate.classes.linear.spec import Linear
from recalibrate.classes.trees.spec import Trees

__all__ = ["Estimator", "Groups", "Linear", "Trees"]
