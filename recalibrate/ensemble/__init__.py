"""Tree ensembles whose sums are exact: one meaning in Python and in an ONNX graph.

A prediction is a sum of leaf values. Where these are multiples of one power of two that leaves
room in float64 for the largest possible sum, every partial sum is exact, so that neither the
order of trees nor the number of threads or rows of a runtime can change a single bit of it.

Splits are ``x <= threshold`` or ``x in a set``, with a side for NaN. A column that is split by
sets must hold whole numbers from 1 or NaN: onnxruntime cuts fractions off before it looks into a
set, and onnx's reference evaluator stops reading a set at 0.
"""

from recalibrate.ensemble.joining import Tree, join_trees, snap_step
from recalibrate.ensemble.trees import Ensemble

__all__ = ["Ensemble", "Tree", "join_trees", "snap_step"]
