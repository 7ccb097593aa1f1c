"""Our own converters inside of models that skl2onnx converts.

skl2onnx asks these for every tree model it meets inside of others, as in AdaBoost. Its own ignore
missing values, and fail on categorical features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recalibrate_adapters.forest import Forest
from recalibrate_adapters.sklearn_nodes import OperatorNodes
from recalibrate_adapters.sklearn_trees import forest_link, read_forest, tree_readers
from recalibrate_adapters.treeops import RewriteError


def own_converters() -> dict[type, Any]:
    """What ``convert_sklearn`` takes as ``custom_conversion_functions``."""
    return dict.fromkeys(tree_readers(), _convert)


def own_shapes() -> dict[type, Any]:
    """What ``convert_sklearn`` takes as ``custom_shape_calculators``."""
    return dict.fromkeys(tree_readers(), _set_shapes)


def _set_shapes(operator: Any) -> None:
    """Shapes of the outputs; their types are those of the input, double or float."""
    from skl2onnx.common.data_types import (
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )

    model = operator.raw_operator
    n_rows = operator.inputs[0].get_first_dimension()
    double = isinstance(operator.inputs[0].type, DoubleTensorType)
    number = DoubleTensorType if double else FloatTensorType
    if not hasattr(model, "classes_"):
        operator.outputs[0].type = number([n_rows, 1])
        return
    text = np.asarray(model.classes_).dtype.kind not in "biu"
    operator.outputs[0].type = (StringTensorType if text else Int64TensorType)([n_rows])
    operator.outputs[1].type = number([n_rows, len(model.classes_)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a tree model to the graph that skl2onnx builds."""
    model = operator.raw_operator
    if len(operator.inputs) != 1:
        raise RewriteError("a tree model inside has several inputs")
    nodes = OperatorNodes(scope, operator)
    source = operator.inputs[0].full_name
    if not _forest(model, 0 if hasattr(model, "classes_") else None).wide:
        source = nodes.cast(source, "float32")  # which it reads, whatever it is given
    if hasattr(model, "classes_"):
        options = container.get_options(model, {"raw_scores": False}, fail=False) or {}
        result = _write_classes(nodes, model, source, raw=bool(options.get("raw_scores")))
    else:
        forest = _forest(model, None)
        result = forest.write_sums(nodes, source)[0]
        result = nodes.op("Exp", result) if forest.response == "exp" else result
    nodes.finish(container, result)


def _write_classes(nodes: OperatorNodes, model: Any, source: str, *, raw: bool) -> str:
    """One column per class."""
    forest = _forest(model, 1)
    if forest_link(model, 1) == "logit":
        margin = forest.write_sums(nodes, source)[0]
        both = nodes.concat([nodes.op("Neg", margin), margin])
        return both if raw else nodes.op("Sigmoid", both)
    if forest.response == "softmax":
        sums = nodes.concat(forest.write_sums(nodes, source))
        return sums if raw else nodes.op("Softmax", sums)
    forests = [_forest(model, k) for k in range(len(model.classes_))]
    return nodes.concat([part.write_sums(nodes, source)[0] for part in forests])


def _forest(model: Any, position: int | None) -> Forest:
    forest = read_forest(model, position, None)
    if forest is None or forest.why_no_graph:
        raise RewriteError(f"the trees of a {type(model).__name__} inside cannot be read")
    return forest
