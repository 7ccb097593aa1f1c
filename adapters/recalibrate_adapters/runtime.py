"""Runs the ONNX graph of a base model with onnxruntime, in the same way at every call.

One thread and sequential execution: sums in onnxruntime may depend on the number of threads, and
scores must be the same numbers in ``fit``, in ``predict`` and on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.ort import open_session

if TYPE_CHECKING:
    import onnx

Feed = NDArray[Any] | Mapping[str, NDArray[Any]]

# Rows per call of the runtime: bounds its temporary memory, and is too large to cost time.
BLOCK_ROWS = 65_536


class GraphRunner:
    """A graph that follows the contract of ``Base.graph()``, ready to score rows.

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
    >>> GraphRunner(model).run(np.array([[1.0], [-0.5]], dtype=np.float32))
    array([-1. ,  0.5])
    """

    def __init__(self, model: onnx.ModelProto | bytes) -> None:
        self._content = model if isinstance(model, bytes) else model.SerializeToString()
        self._session: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # A session cannot be copied or sent to another process; it is made anew there.
        return {"_content": self._content, "_session": None}

    @property
    def session(self) -> Any:
        """The onnxruntime session, made when it is first needed."""
        if self._session is None:
            self._session = open_session(self._content, threads=1)
        return self._session

    def run(self, rows: Feed) -> NDArray[np.float64]:
        """Score rows.

        Parameters
        ----------
        rows : ndarray, or mapping from input name to ndarray
            The one input, or all inputs by name; the first dimension counts rows.

        Returns
        -------
        ndarray of float64, one score per row
        """
        session = self.session
        feed = rows if isinstance(rows, Mapping) else {session.get_inputs()[0].name: rows}
        n_rows = len(next(iter(feed.values())))
        scores = np.empty(n_rows, dtype=np.float64)
        for block in _blocks(n_rows):
            part = {name: values[block] for name, values in feed.items()}
            scores[block] = session.run(None, part)[0].reshape(-1)
        return scores


def _blocks(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, n_rows))
