"""onnxruntime sessions, opened in one way: for served models, saved bases and adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.pool import Pool

if TYPE_CHECKING:
    import onnx

BLOCK_ROWS = 1 << 16
"""Rows per call of the runtime: bounds its temporary memory, and is too large to cost time."""

MOST_CHARACTERS = 1 << 24
"""Characters of an array of texts of fixed width, at four bytes each: one long text in a million
rows would fill the memory."""


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


def run_session(
    session: Any, feed: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
) -> list[Any]:
    """Outputs of a session for such inputs: those with these names, or all.

    onnxruntime asks Python for every text in an array of objects, and crashes if that raises, as
    it may in the main thread, where signals are handled (Ctrl-C, time limits). It therefore gets
    arrays of fixed width, which it reads alone, or objects in a thread of their own.
    """
    inputs = {name: _fixed_width(values) for name, values in feed.items()}
    run: Callable[[], list[Any]] = partial(session.run, outputs, inputs)
    if all(values.dtype != object for values in inputs.values()):
        return run()
    with Pool(1) as pool:
        return pool.submit(run).result()


def _fixed_width(values: NDArray[Any]) -> NDArray[Any]:
    """Texts as an array of fixed width, unless that would change them or be too large."""
    if values.dtype != object:
        return values
    texts = values.ravel().tolist()
    if set(map(type, texts)) != {str} or "\0" in "".join(texts):  # where onnxruntime would cut them
        return values
    width = max(map(len, texts))
    return values if width * len(texts) > MOST_CHARACTERS else values.astype(f"U{max(width, 1)}")


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
            parts.append(np.asarray(run_session(self._session, part)[0], dtype=np.float64))
        if not parts:
            return np.empty(0)
        scores = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return scores if scores.ndim == 2 and scores.shape[1] > 1 else scores.reshape(-1)
