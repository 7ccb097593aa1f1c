"""fit: from checked arguments to runs of the loop to a model.

Comes in: the arguments of ``fit``. Leaves: a `Recalibrated` model.
Called by users and by the estimators.
"""
