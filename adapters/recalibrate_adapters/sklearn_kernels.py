"""Kernels as ONNX nodes, in float64: support vector machines, kernel ridge, kernel features.

ONNX has operators for support vectors, which compute in float32: for a hundred vectors with large
coefficients that is off by more than a prediction may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate_adapters.sklearn_writer import Block, Method, NotWrittenError, Writer, computed


def writers() -> dict[type, Any]:
    """The machines that are written here."""
    from sklearn import kernel_ridge, svm

    machines = dict.fromkeys((svm.SVR, svm.NuSVR), _regress)
    return {
        **machines,
        **dict.fromkeys((svm.SVC, svm.NuSVC), _classify),
        kernel_ridge.KernelRidge: _ridge,
    }


def transforms() -> dict[type, Any]:
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
