"""Isotonic CalibratedClassifierCV inside of models that skl2onnx converts.

skl2onnx takes the nearest step of an isotonic regression, but scikit-learn interpolates between
its points. Here the interpolation is a sum over the segments, in float64:
``y_0 + sum_j slope_j * min(max(x - x_j, 0), x_{j+1} - x_j)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recalibrate_adapters.graphs import cast, constant


def convert_calibrated(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of an isotonic classifier of two classes; others are left to skl2onnx."""
    from onnx import helper
    from skl2onnx.common._registration import get_converter

    model = operator.raw_operator
    if model.method != "isotonic" or len(model.classes_) != 2:
        get_converter(operator.type)(scope, operator, container)
        return
    prefix = scope.get_unique_operator_name("isotonic") + "/"
    nodes: list[Any] = []
    constants: list[Any] = []
    parts: list[str] = []
    for i, pair in enumerate(model.calibrated_classifiers_):
        source = _responses(pair.estimator, scope, operator, container)
        more, values, part = _curve_nodes(pair.calibrators[0], source, f"{prefix}{i}/")
        nodes += more
        constants += values
        parts.append(part)
    one = constant(f"{prefix}one", np.array(1.0))
    count = constant(f"{prefix}count", np.array(float(len(parts))))
    result = operator.outputs[1]
    double = type(result.type).__name__ == "DoubleTensorType"
    nodes += [
        helper.make_node("Sum", parts, [f"{prefix}sum"]),
        helper.make_node("Div", [f"{prefix}sum", count.name], [f"{prefix}mean"]),
        helper.make_node("Sub", [one.name, f"{prefix}mean"], [f"{prefix}rest"]),
        helper.make_node("Concat", [f"{prefix}rest", f"{prefix}mean"], [f"{prefix}pair"], axis=1),
        cast(f"{prefix}pair", result.full_name, "double" if double else "float"),
    ]
    container.nodes.extend([*nodes, *class_nodes(model, f"{prefix}pair", operator, prefix)])
    container.initializers.extend([*constants, one, count, class_constant(model, prefix)])


def class_nodes(model: Any, source: str, operator: Any, prefix: str) -> list[Any]:
    """The class with the largest of a row's numbers, as a classifier's first output."""
    from onnx import helper

    names = [class_constant(model, prefix).name, f"{prefix}best"]
    return [
        helper.make_node("ArgMax", [source], [f"{prefix}best"], axis=1, keepdims=0),
        helper.make_node("Gather", names, [operator.outputs[0].full_name], axis=0),
    ]


def class_constant(model: Any, prefix: str) -> Any:
    """The classes as a constant of numbers or texts."""
    classes = np.asarray(model.classes_)
    whole = classes.dtype.kind in "biu"
    values = classes.astype(np.int64) if whole else classes.astype(str).astype(object)
    return constant(f"{prefix}classes", values)


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


def _curve_nodes(calibrator: Any, source: str, prefix: str) -> tuple[list[Any], list[Any], str]:
    """The interpolation; its result is a float64 column."""
    from onnx import helper

    x = np.asarray(calibrator.X_thresholds_, dtype=np.float64)
    y = np.asarray(calibrator.y_thresholds_, dtype=np.float64)
    if len(x) == 1:  # a constant, as a segment without slope
        x, y = np.append(x, x + 1.0), np.append(y, y)
    widths = np.diff(x)
    constants = [
        constant(f"{prefix}one", np.array([1], dtype=np.int64)),
        constant(f"{prefix}starts", x[:-1]),
        constant(f"{prefix}zero", np.array(0.0)),
        constant(f"{prefix}widths", widths),
        constant(f"{prefix}slopes", (np.diff(y) / widths).reshape(-1, 1)),
        constant(f"{prefix}first", y[0]),
    ]
    steps: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Gather", [source, f"{prefix}one"], "column", {"axis": 1}),
        ("Sub", [f"{prefix}x", f"{prefix}starts"], "past", {}),
        ("Max", [f"{prefix}past", f"{prefix}zero"], "positive", {}),
        ("Min", [f"{prefix}positive", f"{prefix}widths"], "covered", {}),
        ("MatMul", [f"{prefix}covered", f"{prefix}slopes"], "rise", {}),
        ("Add", [f"{prefix}rise", f"{prefix}first"], "y", {}),
    ]
    nodes = [
        helper.make_node(kind, inputs, [prefix + name], **options)
        for kind, inputs, name, options in steps
    ]
    nodes.insert(1, cast(f"{prefix}column", f"{prefix}x", "double"))
    return nodes, constants, f"{prefix}y"
