"""The one place that says how kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile ``function`` on first call and keep the machine code on disk.

    ``nogil`` lets parts of the rows run on a thread pool (measured faster under load than numba's
    own parallel loops); ``fastmath`` stays off because it may reorder floating-point sums.
    """
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
