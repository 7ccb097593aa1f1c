"""Isotonic CalibratedClassifierCV inside of models that skl2onnx converts.

skl2onnx takes the nearest step of an isotonic regression, but scikit-learn interpolates between
its points. Here the interpolation is a sum over the segments, in float64:
``y_0 + sum_j slope_j * min(max(x - x_j, 0), x_{j+1} - x_j)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recalibrate_adapters.sklearn_nodes import OperatorNodes


def convert_calibrated(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of an isotonic classifier of two classes; others are left to skl2onnx."""
    from skl2onnx.common._registration import get_converter

    model = operator.raw_operator
    if model.method != "isotonic" or len(model.classes_) != 2:
        get_converter(operator.type)(scope, operator, container)
        return
    nodes = OperatorNodes(scope, operator)
    curves = [
        _write_curve(
            nodes, pair.calibrators[0], _responses(pair.estimator, scope, operator, container)
        )
        for pair in model.calibrated_classifiers_
    ]
    mean = nodes.op("Div", nodes.op("Sum", *curves), nodes.number(float(len(curves))))
    rest = nodes.op("Sub", nodes.number(1.0), mean)
    nodes.finish(container, nodes.concat([rest, mean]))


def _responses(estimator: Any, scope: Any, operator: Any, container: Any) -> str:
    """The tensor of what is calibrated: decision_function where there is one."""
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common.data_types import Int64TensorType

    estimator = getattr(estimator, "estimator", estimator) if _is_frozen(estimator) else estimator
    inner = scope.declare_local_operator(sklearn_operator_name_map[type(estimator)], estimator)
    if hasattr(estimator, "decision_function"):
        container.add_options(id(estimator), {"raw_scores": True})
        scope.add_options(id(estimator), {"raw_scores": True})
    inner.inputs = operator.inputs
    label = scope.declare_local_variable("label", Int64TensorType())
    result = scope.declare_local_variable("responses", type(operator.inputs[0].type)())
    inner.outputs.append(label)
    inner.outputs.append(result)
    return str(result.full_name)


def _is_frozen(estimator: Any) -> bool:
    from sklearn.frozen import FrozenEstimator

    return isinstance(estimator, FrozenEstimator)


def _write_curve(nodes: OperatorNodes, calibrator: Any, source: str) -> str:
    """The interpolation; its result is a float64 column."""
    x = np.asarray(calibrator.X_thresholds_, dtype=np.float64)
    y = np.asarray(calibrator.y_thresholds_, dtype=np.float64)
    if len(x) == 1:  # a constant, as a segment without slope
        x, y = np.append(x, x + 1.0), np.append(y, y)
    widths = np.diff(x)
    value = nodes.cast(nodes.columns(source, [1]), "float64")
    past = nodes.op("Sub", value, nodes.constant(x[:-1]))
    covered = nodes.op("Min", nodes.op("Max", past, nodes.number(0.0)), nodes.constant(widths))
    slopes = nodes.constant((np.diff(y) / widths).reshape(-1, 1))
    return nodes.op("Add", nodes.op("MatMul", covered, slopes), nodes.number(y[0]))
