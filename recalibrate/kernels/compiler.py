"""The one place that says how kernels are compiled."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar, cast

import numba
from numba import extending
from numba.core import event

from recalibrate.support.notices import warn_user

F = TypeVar("F", bound=Callable[..., object])

_KERNELS: list[Any] = []


def kernel(function: F) -> F:
    """Compile ``function`` on first call and keep the machine code on disk, if there is a place.

    ``nogil`` lets parts of the rows run on a thread pool (measured faster under load than numba's
    own parallel loops); ``fastmath`` stays off because it may reorder floating-point sums; nobody
    takes a kernel's address, so that wrappers for C would only take time to compile. Kernels
    allocate nothing (``_nrt``), so that no references are counted: whoever calls them gives them
    room to work in.

    A kernel that the interpreter calls returns nothing or numbers, and takes arrays to write
    further results to. numba makes Python objects of other results by calling Python functions,
    and these run signal handlers; it does not notice that one has raised an exception (of Ctrl-C
    or a time limit). Named tuples then end the process by a segmentation fault, tuples of arrays in
    a SystemError. Helpers return what they like.

    What it takes to compile goes with its lines, its arguments (arrays in tuples cost several
    times as much), and the types it is called with; numpy's functions in it cost more than loops.
    """
    compiled: Any = partial(
        numba.njit, nogil=True, error_model="numpy", no_cfunc_wrapper=True, _nrt=False
    )
    try:
        made = compiled(cache=True)(function)
    except RuntimeError:  # of a container, say: packages that are read-only, and no home
        _say_where_code_goes()
        made = compiled(cache=False)(function)
    _KERNELS.append(made)
    return cast(F, made)


def compiled_so_far() -> tuple[int, str | None]:
    """How many kernels this process has compiled or loaded, and where they are kept (if so)."""
    used = [each for each in _KERNELS if each.signatures]
    paths = {each.stats.cache_path for each in used}
    return len(used), next(iter(paths), None)


def helper(function: F) -> F:
    """Compile ``function`` into the kernels that call it; the interpreter calls it as it is.

    A kernel costs half as much again, for what the interpreter needs to call it and for its place
    on disk.
    """
    decorate = extending.register_jitable(error_model="numpy", _nrt=False)
    return decorate(function)


@cache
def _say_where_code_goes() -> None:
    warn_user(
        "numba has no folder to keep compiled code in, so that every process compiles anew, which "
        "takes some seconds. Name one that can be written to: NUMBA_CACHE_DIR=/some/folder."
    )


class _FirstUse(event.Listener):
    """What goes with compiling a kernel; those of others are compiled as they were.

    Whoever sits at a terminal is told why the first call in a new environment takes so long. The
    garbage collector waits meanwhile: numba makes millions of objects that all last until the end,
    and looking through them again and again took a sixth of the time. numba compiles in one
    thread at a time, nested in the order of calls, and tells of the end whatever happens.
    """

    def __init__(self) -> None:
        self._collecting: list[bool] = []

    def on_start(self, event: object) -> None:
        if not _is_ours(event):
            return
        _tell_of_compiling()
        self._collecting.append(gc.isenabled())
        gc.disable()

    def on_end(self, event: object) -> None:
        if _is_ours(event) and self._collecting and self._collecting.pop():
            gc.enable()


def _is_ours(event: object) -> bool:
    dispatcher = getattr(event, "data", {}).get("dispatcher")
    return bool(getattr(dispatcher, "__module__", "").startswith(__package__))


@cache
def _tell_of_compiling() -> None:
    out = sys.stderr
    if out is not None and not out.closed and out.isatty():
        out.write("recalibrate: compiling for this machine; only the first run takes this long\n")
        out.flush()


event.register("numba:compile", _FirstUse())  # type: ignore[no-untyped-call]  # numba's
