"""How many threads, and work shared out over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

LEAST_ROWS_PER_THREAD = 16_384
"""Below this a second thread costs more than it saves."""


def resolve_threads(threads: int | None) -> int:
    """Number of threads: as given, or the cores this process may use."""
    if threads is not None:
        return threads
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_for(n_rows: int) -> int:
    """Threads that pay for work on so many rows."""
    return max(1, min(resolve_threads(None), n_rows // LEAST_ROWS_PER_THREAD))


def share_out(work: Callable[[T], R], items: Iterable[T], threads: int) -> list[R]:
    """``work`` on every item, in their order; side by side where it leaves the interpreter."""
    todo = list(items)
    if threads <= 1 or len(todo) <= 1:
        return [work(item) for item in todo]
    with ThreadPoolExecutor(min(threads, len(todo))) as pool:
        return list(pool.map(work, todo))
