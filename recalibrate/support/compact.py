"""Objects with many small arrays, pickled as one piece each."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np


class Compact:
    """A dataclass whose arrays are bytes in its pickle.

    A boosted model has thousands of tables with a few numbers each. As arrays, every one of them
    would cost a pickle a hundred bytes, and ``joblib.load(mmap_mode="r")``, as scikit-learn's
    checks use it, a file handle of its own: more than a process may have.
    """

    def __getstate__(self) -> dict[str, Any]:
        state = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type] # subclasses are dataclasses
        return {name: _as_bytes(value) for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, _as_array(value))


class _Bytes(tuple[str, tuple[int, ...], bytes]):
    """The dtype, shape and content of an array."""

    __slots__ = ()


def _as_bytes(value: Any) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype.hasobject:
        return value
    return _Bytes((value.dtype.str, value.shape, value.tobytes()))


def _as_array(value: Any) -> Any:
    if not isinstance(value, _Bytes):
        return value
    dtype, shape, content = value
    # A copy, because arrays of bytes cannot be written to, unlike those of other pickles.
    return np.frombuffer(content, dtype=dtype).reshape(shape).copy()
