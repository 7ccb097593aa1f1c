"""onnxruntime sessions, opened in one way: for served models, saved bases and adapters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx

BLOCK_ROWS = 1 << 16
"""Rows per call of the runtime: bounds its temporary memory, and is too large to cost time."""


def open_session(model: bytes | str, threads: int | None = None) -> Any:
    """A session on the CPU, from the bytes of a model or the path of its file.

    With one thread scores do not depend on how the runtime shares out its sums.
    """
    import onnxruntime

    onnxruntime.disable_telemetry_events()  # this library tells nobody what it is used for
    options = onnxruntime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4  # errors are raised: printing them as well would be noise
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class GraphRunner:
    """A graph that follows the contract of ``Base.graph()``, ready to score rows.

    It runs on one thread: sums in onnxruntime may depend on the number of threads, and scores
    must be the same numbers in ``fit``, in ``predict`` and on every machine.

    Parameters
    ----------
    model : onnx.ModelProto or bytes
        Graph with one output, one score per row. Inputs: one matrix, or one per column.

    Examples
    --------
    >>> from onnx import TensorProto, helper
    >>> X = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", 1])
    >>> score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["N", 1])
    >>> graph = helper.make_graph([helper.make_node("Neg", ["X"], ["score"])], "g", [X], [score])
    >>> model = helper.make_model(
    ...     graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    ... )
    >>> GraphRunner(model).run({"X": np.array([[1.0], [-0.5]], dtype=np.float32)})
    array([-1. ,  0.5])
    """

    def __init__(self, model: onnx.ModelProto | bytes) -> None:
        self._content = model if isinstance(model, bytes) else model.SerializeToString()
        self._session: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # A session cannot be copied or sent to another process; it is made anew there.
        return {"_content": self._content, "_session": None}

    def run(self, feed: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        """One score per row of the inputs, which are given by name, or a column for every class."""
        if self._session is None:
            self._session = open_session(self._content, threads=1)
        n_rows = len(next(iter(feed.values())))
        parts = []
        for start in range(0, n_rows, BLOCK_ROWS):
            part = {name: values[start : start + BLOCK_ROWS] for name, values in feed.items()}
            parts.append(np.asarray(self._session.run(None, part)[0], dtype=np.float64))
        if not parts:
            return np.empty(0)
        scores = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return scores if scores.ndim == 2 and scores.shape[1] > 1 else scores.reshape(-1)
