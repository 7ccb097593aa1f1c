"""Records as plain data for JSON."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Turn records, tuples and numpy numbers into dicts, lists and Python's own numbers.

    What is not finite becomes None: JSON has no NaN.

    Examples
    --------
    >>> plain((1.5, float("nan"), {"rows": np.int64(3)}))
    [1.5, None, {'rows': 3}]
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: plain(getattr(value, each.name))
            for each in fields(value)
            if each.metadata.get("json", True)
        }
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
