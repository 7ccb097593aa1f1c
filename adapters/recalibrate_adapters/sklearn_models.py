"""scikit-learn's predictors as ONNX nodes: those of several models, and single ones.

Written here is what skl2onnx does not know or gets wrong. Each function gives what a method of
the model gives: one column, or one per class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.scores import as_base
from recalibrate_adapters.agreement import TOLERANCE
from recalibrate_adapters.sklearn_curves import Floats, interpolate, named_function, softmax
from recalibrate_adapters.sklearn_trees import forest_link, read_forest
from recalibrate_adapters.sklearn_writer import (
    Block,
    Method,
    NotWrittenError,
    Writer,
    computed,
    unwrapped,
)

# --- CalibratedClassifierCV as ONNX nodes: sigmoid, isotonic and temperature, over any model ----


FLOAT32_ERROR = 1e-6
"""What a probability may be off by that is computed from float32 numbers: some of their 2**-24."""

_AWAY_FROM_ZERO = 1e-12
"""Added to probabilities before their logarithm, as scikit-learn does."""


def _write_calibrated(w: Writer, model: Any, block: Block, method: Method) -> str:
    """The mean over the calibrated classifiers."""
    if method != "predict_proba":
        raise NotWrittenError("a CalibratedClassifierCV gives probabilities only")
    return w.sum_of([_one(w, pair, block) for pair in model.calibrated_classifiers_])


def _one(w: Writer, pair: Any, block: Block) -> str:
    """One classifier with its calibrators."""
    count, known = len(pair.classes), len(pair.estimator.classes_)
    if known != count:
        raise NotWrittenError("a classifier inside has not seen all classes")
    by_margin = hasattr(unwrapped(pair.estimator), "decision_function")
    method: Method = "decision_function" if by_margin else "predict_proba"
    responses = w.outputs(pair.estimator, block, method)
    if pair.method == "temperature":
        if count == 2 and by_margin:
            responses = w.concat([w.op("Neg", responses), responses])
        elif not by_margin:
            responses = w.op("Log", w.op("Add", responses, w.number(_AWAY_FROM_ZERO)))
        beta = float(np.asarray(pair.calibrators[0].beta_).reshape(-1)[0])
        return softmax(w, w.op("Mul", responses, w.number(beta)))
    if count == 2:
        second = responses if by_margin else w.columns(responses, [1])
        return w.both(_curve(w, pair.calibrators[0], second))
    columns = [
        _curve(w, calibrator, w.columns(responses, [k]))
        for k, calibrator in enumerate(pair.calibrators)
    ]
    return _normalised(w, w.concat(columns), count)


def _curve(w: Writer, calibrator: Any, column: str) -> str:
    if hasattr(calibrator, "a_"):
        slope, shift = w.number(-float(calibrator.a_)), w.number(-float(calibrator.b_))
        return w.sigmoid(w.op("Add", w.op("Mul", column, slope), shift))
    x = np.asarray(calibrator.X_thresholds_, dtype=np.float64)
    y = np.asarray(calibrator.y_thresholds_, dtype=np.float64)
    # The curve keeps the precision of what it was fitted to: that of the classifier inside.
    widths = (calibrator.X_thresholds_.dtype.name, w.width)
    if "float32" in widths or w.reads_float32([column]):
        _check_slope(x, y)
    return interpolate(w, column, x, y)


def _check_slope(x: Floats, y: Floats) -> None:
    """Refuse a curve that turns rounding into differences that can be seen.

    An isotonic curve is all but a staircase. A classifier that adds and rounds in float32, as
    xgboost does, cannot be followed to the last bit, and beside a step that bit is worth the step.
    """
    steepest = float(np.max(np.diff(y) / np.maximum(np.diff(x), FLOAT32_ERROR), initial=0.0))
    if steepest * FLOAT32_ERROR > TOLERANCE:
        raise NotWrittenError(
            "its isotonic curves are so steep that the rounding of the float32 numbers of the "
            f"classifier inside changes probabilities by up to {steepest * FLOAT32_ERROR:.2g}; "
            "method='sigmoid' has a graph"
        )


def _normalised(w: Writer, columns: str, count: int) -> str:
    """Divided by their sum; even shares where all are zero."""
    total = w.op("ReduceSum", columns, w.constant(np.array([1], dtype=np.int64)), keepdims=1)
    none = w.op("Equal", total, w.number(0.0))
    safe = w.op("Where", none, w.number(1.0), total)
    return w.op("Where", none, w.number(1.0 / count), w.op("Div", columns, safe))


# --- Kernels as ONNX nodes, in float64: support vector machines, kernel ridge, kernel features --
#
# ONNX has operators for support vectors, which compute in float32: for a hundred vectors with large
# coefficients that is off by more than a prediction may be.


def kernel_writers() -> dict[type, Any]:
    """The machines that are written here."""
    from sklearn import kernel_ridge, svm

    machines = dict.fromkeys((svm.SVR, svm.NuSVR), _regress)
    return {
        **machines,
        **dict.fromkeys((svm.SVC, svm.NuSVC), _classify),
        kernel_ridge.KernelRidge: _ridge,
    }


def kernel_transforms() -> dict[type, Any]:
    """Features made of kernels."""
    from sklearn.kernel_approximation import Nystroem, RBFSampler

    return {Nystroem: _nystroem, RBFSampler: _fourier}


def _ridge(w: Writer, model: Any, block: Block, method: Method) -> str:
    kernels = _pairwise(w, model, block, model.X_fit_)
    weights = np.asarray(model.dual_coef_, dtype=np.float64).reshape(len(model.X_fit_), -1)
    return w.op("MatMul", kernels, w.constant(np.ascontiguousarray(weights)))


def _nystroem(w: Writer, model: Any, block: Block) -> Block:
    kernels = _pairwise(w, model, block, model.components_)
    turn = np.ascontiguousarray(np.asarray(model.normalization_, dtype=np.float64).T)
    return computed(w.op("MatMul", kernels, w.constant(turn)), turn.shape[1])


def _fourier(w: Writer, model: Any, block: Block) -> Block:
    weights = np.ascontiguousarray(np.asarray(model.random_weights_, dtype=np.float64))
    product = w.op("MatMul", w.matrix(block), w.constant(weights))
    shift = np.asarray(model.random_offset_, dtype=np.float64).reshape(1, -1)
    wave = w.op("Cos", w.op("Add", product, w.constant(shift)))
    scale = float(np.sqrt(2.0 / weights.shape[1]))
    return computed(w.op("Mul", wave, w.number(scale)), weights.shape[1])


def _pairwise(w: Writer, model: Any, block: Block, vectors: Any) -> str:
    """Kernels as `sklearn.metrics.pairwise` has them, whose defaults are not libsvm's."""
    gamma = 1.0 / vectors.shape[1] if model.gamma is None else float(model.gamma)
    shift = 1.0 if model.coef0 is None else float(model.coef0)
    degree = 3 if model.degree is None else model.degree
    if model.kernel == "poly" and degree != int(degree):
        raise NotWrittenError(f"a {type(model).__name__} has a broken power, degree={degree!r}")
    if model.kernel_params:
        raise NotWrittenError(f"a {type(model).__name__} has parameters for a kernel of its own")
    kernel = _Kernel(model.kernel, gamma, shift, int(degree))
    return kernel.write(w, w.matrix(block), np.asarray(vectors, dtype=np.float64))


def _regress(w: Writer, model: Any, block: Block, method: Method) -> str:
    return _weighed(w, model, block)


def _classify(w: Writer, model: Any, block: Block, method: Method) -> str:
    # libsvm's probabilities, and several classes, are coupled pair by pair in a loop that ends at
    # an error of .0025: the operator does the same.
    if method != "decision_function" or len(model.classes_) > 2:
        return w.convert(model, block, method)
    return _weighed(w, model, block)


def _weighed(w: Writer, model: Any, block: Block) -> str:
    """Kernels of the row and every support vector, weighed and summed."""
    vectors, weights = model.support_vectors_, model.dual_coef_
    if hasattr(vectors, "toarray"):
        vectors, weights = vectors.toarray(), weights.toarray()
    kernel = _Kernel(model.kernel, float(model._gamma), float(model.coef0), int(model.degree))
    kernels = kernel.write(w, w.matrix(block), np.asarray(vectors, dtype=np.float64))
    column = np.ascontiguousarray(np.asarray(weights, dtype=np.float64).reshape(-1, 1))
    total = w.op("MatMul", kernels, w.constant(column))
    return w.op("Add", total, w.number(float(np.asarray(model.intercept_).reshape(-1)[0])))


@dataclass(frozen=True)
class _Kernel:
    kind: Any
    gamma: float
    shift: float
    degree: int

    def write(self, w: Writer, source: str, vectors: NDArray[np.float64]) -> str:
        """The kernel of every row and vector, [row, vector]."""
        if self.kind == "rbf":
            return w.op("Exp", w.op("Mul", _distances(w, source, vectors), w.number(-self.gamma)))
        if self.kind not in ("linear", "poly", "sigmoid"):
            raise NotWrittenError(f"the kernel {self.kind!r} is not written as a graph")
        product = w.op("MatMul", source, w.constant(np.ascontiguousarray(vectors.T)))
        if self.kind == "linear":
            return product
        line = w.op("Add", w.op("Mul", product, w.number(self.gamma)), w.number(self.shift))
        return w.op("Tanh", line) if self.kind == "sigmoid" else _power(w, line, self.degree)


def _power(w: Writer, tensor: str, degree: int) -> str:
    """By products: onnxruntime's ``Pow`` of a negative number is not exact."""
    found = tensor
    for _ in range(degree - 1):
        found = w.op("Mul", found, tensor)
    return found if degree else w.op("Add", w.op("Mul", tensor, w.number(0.0)), w.number(1.0))


def _distances(w: Writer, source: str, vectors: NDArray[np.float64]) -> str:
    """Squared distances.

    As |a|^2 - 2 a b + |b|^2 around the vectors' centre: differences of all pairs would need memory
    for rows times vectors times columns, and far from 0 the squares would swallow the rest.
    """
    centre = vectors.mean(axis=0)
    moved, axis = vectors - centre, w.constant(np.array([1], dtype=np.int64))
    rows = w.op("Sub", source, w.constant(centre.reshape(1, -1)))
    own = w.op("ReduceSumSquare", rows, axis, keepdims=1)
    both = w.op("MatMul", rows, w.constant(np.ascontiguousarray(-2.0 * moved.T)))
    squares = w.constant(np.sum(moved**2, axis=1).reshape(1, -1))
    return w.op("Max", w.op("Add", w.op("Add", own, both), squares), w.number(0.0))


# --- scikit-learn's predictors as ONNX nodes: those of several models, and single ones ----------


def writers() -> dict[type, Any]:
    """The predictors that are written here."""
    from sklearn import discriminant_analysis, dummy, ensemble
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.isotonic import IsotonicRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import CategoricalNB
    from sklearn.pipeline import Pipeline

    return {
        Pipeline: _pipeline,
        CalibratedClassifierCV: _write_calibrated,
        ensemble.VotingClassifier: _vote,
        ensemble.VotingRegressor: _vote,
        ensemble.StackingClassifier: _stack,
        ensemble.StackingRegressor: _stack,
        ensemble.BaggingClassifier: _bag,
        ensemble.BaggingRegressor: _bag,
        OneVsRestClassifier: _one_vs_rest,
        TransformedTargetRegressor: _target_transformed,
        dummy.DummyClassifier: _constant,
        dummy.DummyRegressor: _constant,
        IsotonicRegression: _isotonic,
        CategoricalNB: _categorical_bayes,
        discriminant_analysis.LinearDiscriminantAnalysis: _linear_discriminant,
        discriminant_analysis.QuadraticDiscriminantAnalysis: _quadratic_discriminant,
    }


def transforms() -> dict[type, Any]:
    """Linear projections."""
    from sklearn.decomposition import FastICA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return {LinearDiscriminantAnalysis: _project, FastICA: _unmix}


def _pipeline(w: Writer, model: Any, block: Block, method: Method) -> str:
    for _, step in model.steps[:-1]:
        block = w.transform(step, block)
    return w.outputs(model.steps[-1][1], block, method)


def write_trees(w: Writer, model: Any, block: Block, method: Method) -> str:
    """A tree, forest or boosted trees."""
    source = w.matrix(block)
    classes = len(getattr(model, "classes_", ()))
    forest = read_forest(model, 1 if classes else None, None)
    if forest is None or forest.why_no_graph:
        raise NotWrittenError(f"the trees of a {type(model).__name__} cannot be read")
    if not forest.wide:
        source = w.cast(w.cast(source, "float32"), "float64")  # as the model rounds its features
    if not classes:
        total = forest.write_sums(w, source)[0]
        return w.op("Exp", total) if forest.response == "exp" else total
    if forest_link(model, 1) == "logit":
        margin = forest.write_sums(w, source)[0]
        if method == "decision_function":
            half = getattr(model, "loss", "") == "exponential"  # its margin is half the log-odds
            return w.op("Mul", margin, w.number(0.5)) if half else margin
        return w.both(w.sigmoid(margin))
    if forest.response == "softmax":
        sums = w.concat(forest.write_sums(w, source))
        return sums if method == "decision_function" else softmax(w, sums)
    every = [read_forest(model, k, None) for k in range(classes)]
    return w.concat([each.write_sums(w, source)[0] for each in every if each is not None])


def write_foreign(w: Writer, model: Any, block: Block, method: Method) -> str:
    """A model of another framework, by the graph of its own adapter."""
    import onnx

    base = as_base(model)
    graph = base.graph()
    if not isinstance(graph, onnx.ModelProto):
        raise NotWrittenError(f"{base.name} has no graph: {base.why_no_graph}")
    taken = graph.graph.input
    width = sum(part.width for part in block)
    if (len(taken) == 1 and width != 1) or taken[0].name == "X":
        tensors = [w.matrix(block)]
    else:
        tensors = [w.matrix((part,)) for part in w.single(block)]
    if len(tensors) != len(taken):
        raise NotWrittenError(f"{base.name} inside takes text columns by their names")
    feed = {
        value.name: w.cast(tensor, value.type.tensor_type.elem_type)
        for value, tensor in zip(taken, tensors, strict=True)
    }
    score = w.take_in(graph, feed)
    if getattr(base, "adds_float32", False):
        w.float32_scores.add(score)
    several = len(graph.graph.output[0].type.tensor_type.shape.dim) == 2
    score = score if several else w.column(score)
    if method != "decision_function" and base.link == "logit":
        score = softmax(w, score) if several else w.sigmoid(score)
    return w.both(score) if method == "predict_proba" and not several else score


def _vote(w: Writer, model: Any, block: Block, method: Method) -> str:
    found = [w.outputs(each, block, method) for each in model.estimators_]
    return w.sum_of(found, model._weights_not_none)


def _one_vs_rest(w: Writer, model: Any, block: Block, method: Method) -> str:
    """skl2onnx knows it only around its own models."""
    learned = all(hasattr(each, "classes_") for each in model.estimators_)
    if method != "predict_proba" or not learned or model.multilabel_:
        return w.convert(model, block, method)
    found = [w.columns(w.outputs(each, block, method), [1]) for each in model.estimators_]
    if len(found) == 1:
        return w.both(found[0])
    every = w.concat(found)
    total = w.op("ReduceSum", every, w.constant(np.array([1], dtype=np.int64)), keepdims=1)
    return w.op("Div", every, w.op("Max", total, w.number(np.finfo(np.float64).tiny)))


def _bag(w: Writer, model: Any, block: Block, method: Method) -> str:
    found = []
    for each, columns in zip(model.estimators_, model.estimators_features_, strict=True):
        if method != "predict" and len(each.classes_) != len(model.classes_):
            raise NotWrittenError("a part of a BaggingClassifier has not seen all classes")
        if not hasattr(each, method):
            raise NotWrittenError(
                "a BaggingClassifier counts the votes of models without probabilities"
            )
        found.append(w.outputs(each, w.pick(block, columns), method))
    return w.sum_of(found)


def _stack(w: Writer, model: Any, block: Block, method: Method) -> str:
    parts: list[Any] = []
    for each, asked in zip(model.estimators_, model.stack_method_, strict=True):
        if asked == "predict" and hasattr(each, "classes_"):
            raise NotWrittenError("a StackingClassifier stacks labels, not numbers")
        found = w.outputs(each, block, asked)
        classes = len(getattr(model, "classes_", ()))
        if asked == "predict_proba" and classes == 2:
            found = w.columns(found, [1])
        one = asked == "predict" or classes == 2
        parts += computed(found, 1 if one else classes)
    if model.passthrough:
        parts += block
    return w.outputs(model.final_estimator_, tuple(parts), method)


def _target_transformed(w: Writer, model: Any, block: Block, method: Method) -> str:
    return _inverse(w, model.transformer_, w.outputs(model.regressor_, block, method))


def _inverse(w: Writer, transformer: Any, column: str) -> str:
    """What `inverse_transform` makes of a column."""
    from sklearn import preprocessing

    kind = type(transformer)
    if kind is preprocessing.FunctionTransformer:
        return named_function(transformer.inverse_func)(w, column)
    if kind in (
        preprocessing.StandardScaler,
        preprocessing.MinMaxScaler,
        preprocessing.RobustScaler,
        preprocessing.MaxAbsScaler,
    ) and not getattr(transformer, "clip", False):
        start, end = transformer.inverse_transform([[0.0], [1.0]])[:, 0].tolist()
        return w.op("Add", w.op("Mul", column, w.number(end - start)), w.number(start))
    if kind is preprocessing.QuantileTransformer and transformer.output_distribution == "uniform":
        points = np.asarray(transformer.quantiles_[:, 0])
        return interpolate(w, column, np.asarray(transformer.references_), points)
    raise NotWrittenError(f"the inverse of a {kind.__name__} is not written as a graph")


def _constant(w: Writer, model: Any, block: Block, method: Method) -> str:
    if getattr(model, "strategy", "") == "stratified":
        raise NotWrittenError("a DummyClassifier with strategy='stratified' predicts at random")
    row = np.zeros((1, 1))
    value = np.asarray(getattr(model, method)(row), dtype=np.float64).reshape(1, -1)
    return w.op("Add", w.rows(block), w.constant(value))


def _isotonic(w: Writer, model: Any, block: Block, method: Method) -> str:
    column = w.matrix(block)
    x = np.asarray(model.X_thresholds_, dtype=np.float64)
    found = interpolate(w, column, x, np.asarray(model.y_thresholds_, dtype=np.float64))
    if model.out_of_bounds == "clip":
        return found
    inside = w.within(column, float(x[0]), float(x[-1]))  # elsewhere it gives NaN, or refuses
    return w.op("Where", inside, found, w.number(np.nan))


def _categorical_bayes(w: Writer, model: Any, block: Block, method: Method) -> str:
    total = w.constant(np.asarray(model.class_log_prior_, dtype=np.float64).reshape(1, -1))
    for part, table in zip(w.single(block), model.feature_log_prob_, strict=True):
        column = w.matrix((part,))
        count = table.shape[1]
        # Beyond the known categories: an index that onnxruntime refuses, as the model does.
        code = w.op(
            "Where", w.op("LessOrEqual", column, w.number(-1.0)), w.number(1.0 * count), column
        )
        place = w.flat(w.cast(code, "int64"))
        total = w.op(
            "Add", total, w.op("Gather", w.constant(np.ascontiguousarray(table.T)), place, axis=0)
        )
        if part.sources[0] is not None:
            w.known[part.sources[0]] = list(range(count))
    return softmax(w, total)


def _linear(w: Writer, source: str, coefficients: Any, intercept: Any) -> str:
    product = w.op(
        "MatMul", source, w.constant(np.ascontiguousarray(coefficients, dtype=np.float64))
    )
    return w.op("Add", product, w.constant(np.asarray(intercept, dtype=np.float64).reshape(1, -1)))


def _shares(w: Writer, decision: str, count: int, method: Method) -> str:
    if method == "decision_function":
        return decision
    return w.both(w.sigmoid(decision)) if count == 2 else softmax(w, decision)


def _linear_discriminant(w: Writer, model: Any, block: Block, method: Method) -> str:
    decision = _linear(w, w.matrix(block), model.coef_.T, model.intercept_)
    return _shares(w, decision, len(model.classes_), method)


def _project(w: Writer, model: Any, block: Block) -> Block:
    source = w.matrix(block)
    if model.solver == "svd":
        source = w.op("Sub", source, w.constant(np.asarray(model.xbar_).reshape(1, -1)))
    scalings = np.asarray(model.scalings_)[:, : model._max_components]
    found = w.op("MatMul", source, w.constant(np.ascontiguousarray(scalings)))
    return computed(found, scalings.shape[1])


def _unmix(w: Writer, model: Any, block: Block) -> Block:
    source = w.matrix(block)
    if getattr(model, "mean_", None) is not None and model.whiten:
        source = w.op("Sub", source, w.constant(np.asarray(model.mean_).reshape(1, -1)))
    components = np.ascontiguousarray(np.asarray(model.components_, dtype=np.float64).T)
    return computed(w.op("MatMul", source, w.constant(components)), components.shape[1])


def _quadratic_discriminant(w: Writer, model: Any, block: Block, method: Method) -> str:
    source, columns = w.matrix(block), []
    axis = w.constant(np.array([1], dtype=np.int64))
    for mean, rotation, scaling, prior in zip(
        model.means_, model.rotations_, model.scalings_, model.priors_, strict=True
    ):
        centred = w.op("Sub", source, w.constant(np.asarray(mean).reshape(1, -1)))
        turned = w.op("MatMul", centred, w.constant(np.ascontiguousarray(rotation * scaling**-0.5)))
        norm = w.op("ReduceSumSquare", turned, axis, keepdims=1)
        shift = float(np.log(prior) - 0.5 * np.sum(np.log(scaling)))
        columns.append(w.op("Add", w.op("Mul", norm, w.number(-0.5)), w.number(shift)))
    if len(columns) == 2:
        return _shares(w, w.op("Sub", columns[1], columns[0]), 2, method)
    return _shares(w, w.concat(columns), len(columns), method)
