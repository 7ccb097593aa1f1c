"""onnxruntime sessions, opened in one way: for served models, saved bases and adapters."""

from __future__ import annotations

from typing import Any


def open_session(model: bytes | str, threads: int | None = None) -> Any:
    """A session on the CPU, from the bytes of a model or the path of its file.

    With one thread scores do not depend on how the runtime shares out its sums.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4  # errors are raised: printing them as well would be noise
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
