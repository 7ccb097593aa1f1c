"""The one place that says how kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TypeVar, cast

import numba

from recalibrate.support.notices import warn_user

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile ``function`` on first call and keep the machine code on disk, if there is a place.

    ``nogil`` lets parts of the rows run on a thread pool (measured faster under load than numba's
    own parallel loops); ``fastmath`` stays off because it may reorder floating-point sums.
    """
    compiled = partial(numba.njit, nogil=True, error_model="numpy")
    try:
        return cast(F, compiled(cache=True)(function))
    except RuntimeError:  # of a container, say: packages that are read-only, and no home
        _say_where_code_goes()
        return cast(F, compiled(cache=False)(function))


@cache
def _say_where_code_goes() -> None:
    warn_user(
        "numba has no folder to keep compiled code in, so that every process compiles anew, which "
        "takes some seconds. Name one that can be written to: NUMBA_CACHE_DIR=/some/folder."
    )
