"""Our own converters inside of models that skl2onnx converts.

skl2onnx asks these for every tree model it meets, wherever it is nested: in pipelines, votes,
bags, stacks, calibrators. Its own ignore missing values, and fail on categorical features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recalibrate_adapters.forest import Forest
from recalibrate_adapters.graphs import cast
from recalibrate_adapters.sklearn_calibrated import (
    class_constant,
    class_nodes,
    convert_calibrated,
)
from recalibrate_adapters.sklearn_imputer import convert_imputer, set_imputer_shape
from recalibrate_adapters.sklearn_trees import forest_link, read_forest, tree_readers
from recalibrate_adapters.treeops import RewriteError


def own_converters() -> dict[type, Any]:
    """What ``convert_sklearn`` takes as ``custom_conversion_functions``."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import VotingClassifier
    from sklearn.impute import SimpleImputer

    others = {
        CalibratedClassifierCV: convert_calibrated,
        SimpleImputer: convert_imputer,
        VotingClassifier: _convert_vote,
    }
    return {**dict.fromkeys(tree_readers(), _convert), **others}


def own_shapes() -> dict[type, Any]:
    """What ``convert_sklearn`` takes as ``custom_shape_calculators``."""
    from sklearn.impute import SimpleImputer

    return {**dict.fromkeys(tree_readers(), _set_shapes), SimpleImputer: set_imputer_shape}


def _convert_vote(scope: Any, operator: Any, container: Any) -> None:
    """A vote, whose ``flatten_transform`` matters only to transform, but would be refused."""
    from skl2onnx.common._registration import get_converter

    model = operator.raw_operator
    stand_in = object.__new__(type(model))  # the model itself must not be changed
    stand_in.__dict__.update(model.__dict__, flatten_transform=False)
    operator.raw_operator = stand_in
    get_converter(operator.type)(scope, operator, container)


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
    prefix = scope.get_unique_operator_name("forest") + "/"
    source = operator.inputs[0].full_name
    if type(model).__name__.startswith("Hist"):
        nodes = []
    else:  # reads float32, whatever it is given
        nodes = [cast(source, f"{prefix}narrow", "float")]
        source = f"{prefix}narrow"
    if hasattr(model, "classes_"):
        options = container.get_options(model, {"raw_scores": False}, fail=False) or {}
        raw = bool(options.get("raw_scores"))
        more, constants = _classifier_nodes(model, source, prefix, raw)
        more += class_nodes(model, f"{prefix}result", operator, prefix)
        constants = [*constants, class_constant(model, prefix)]
        result = operator.outputs[1]
    else:
        more, constants = _regressor_nodes(model, source, prefix)
        result = operator.outputs[0]
    double = type(result.type).__name__ == "DoubleTensorType"
    last = cast(f"{prefix}result", result.full_name, "double" if double else "float")
    # Versions of operators are not told: skl2onnx refuses ai.onnx.ml 5, which is set later.
    container.nodes.extend([*nodes, *more, last])
    container.initializers.extend(constants)


def _regressor_nodes(model: Any, source: str, prefix: str) -> tuple[list[Any], list[Any]]:
    from onnx import helper

    forest = _forest(model, None)
    nodes, constants, sums = forest.sum_nodes(source, prefix)
    finish = "Exp" if forest.response == "exp" else "Identity"
    return [*nodes, helper.make_node(finish, sums, [f"{prefix}result"])], constants


def _classifier_nodes(
    model: Any, source: str, prefix: str, raw: bool
) -> tuple[list[Any], list[Any]]:
    """Nodes from features to ``result``: one column per class."""
    from onnx import helper

    forest = _forest(model, 1)
    result = f"{prefix}result"
    if forest_link(model) == "logit":
        nodes, constants, sums = forest.sum_nodes(source, prefix)
        both = [helper.make_node("Neg", sums, [f"{prefix}other"])]
        both.append(
            helper.make_node("Concat", [f"{prefix}other", *sums], [f"{prefix}pair"], axis=1)
        )
        finish = "Identity" if raw else "Sigmoid"
        return [*nodes, *both, helper.make_node(finish, [f"{prefix}pair"], [result])], constants
    if forest.response == "softmax":
        nodes, constants, sums = forest.sum_nodes(source, prefix)
        finish = "Identity" if raw else "Softmax"
    else:
        nodes, constants, sums = [], [], []
        finish = "Identity"
        for k in range(len(model.classes_)):
            part = _forest(model, k).sum_nodes(source, f"{prefix}{k}/")
            nodes, constants, sums = nodes + part[0], constants + part[1], sums + part[2]
    nodes.append(helper.make_node("Concat", sums, [f"{prefix}all"], axis=1))
    return [*nodes, helper.make_node(finish, [f"{prefix}all"], [result])], constants


def _forest(model: Any, position: int | None) -> Forest:
    forest = read_forest(model, position, None)
    if forest is None or forest.why_no_graph:
        raise RewriteError(f"the trees of a {type(model).__name__} inside cannot be read")
    return forest
