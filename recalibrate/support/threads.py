"""How many threads, and work shared out over them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import Generic, TypeVar

from recalibrate.support.pool import Pending, Pool

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


def cut(n_rows: int, blocks: int | None, threads: int) -> list[slice]:
    """Slices of about equal length: as many as asked for, or one per thread when it pays."""
    if blocks is None:
        blocks = max(1, min(threads, n_rows // LEAST_ROWS_PER_THREAD))
    borders = [k * n_rows // blocks for k in range(blocks + 1)]
    return [slice(a, b) for a, b in pairwise(borders)]


def share_out(work: Callable[[T], R], items: Iterable[T], threads: int) -> list[R]:
    """``work`` on every item, in their order; side by side where it leaves the interpreter."""
    todo = list(items)
    if threads <= 1 or len(todo) <= 1:
        return [work(item) for item in todo]
    with Pool(min(threads, len(todo))) as pool:
        return list(map_ahead(pool, work, todo, len(todo)))


def map_ahead(pool: Pool, work: Callable[[T], R], items: Iterable[T], ahead: int) -> Iterator[R]:
    """``work`` on every item, in their order; at most ``ahead`` results wait to be taken."""
    waiting: deque[Pending[R]] = deque()
    try:
        for item in items:
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
            waiting.append(pool.submit(partial(work, item)))
        while waiting:
            yield waiting.popleft().result()
    finally:  # an error, or nobody wants the rest
        for pending in waiting:
            pending.cancel()


def take_turns(tasks: Iterable[Generator[None, None, R]], threads: int) -> list[R]:
    """Results of generators, in their order; they yield to let others have the thread.

    Five folds on two threads, each to its end, would leave one of them idle while the other does
    the fifth. Here the first three are done by turns, and no thread is idle before the end. No
    more tasks than that are begun at the same time, because each holds its rows.
    """
    todo = list(tasks)
    threads = max(1, min(threads, len(todo)))
    turns = _Turns(todo, threads)
    try:
        if threads == 1:
            turns.work()
        else:
            with Pool(threads) as pool:
                try:
                    workers = [pool.submit(turns.work) for _ in range(threads)]
                    for worker in workers:
                        worker.result()
                finally:  # also when Ctrl-C ends the wait
                    turns.ended = True
    finally:
        for task in todo:
            task.close()
    return [turns.results[number] for number in range(len(todo))]


class _Turns(Generic[R]):
    """Tasks that several threads advance."""

    def __init__(self, tasks: list[Generator[None, None, R]], threads: int) -> None:
        self.threads = threads
        self.results: dict[int, R] = {}
        self.ended = False
        self._waiting = deque(enumerate(tasks))
        self._begun: deque[tuple[int, Generator[None, None, R]]] = deque()
        self._unfinished = 0
        self._lock = Lock()
        self._begin(threads + len(tasks) % threads)

    def _begin(self, most: int) -> None:
        while self._waiting and self._unfinished < most:
            self._begun.append(self._waiting.popleft())
            self._unfinished += 1

    def work(self) -> None:
        """Advance tasks, the one that waited longest first, until there are none to take."""
        while True:
            with self._lock:
                if self.ended or not self._begun:
                    return
                number, task = self._begun.popleft()
            try:
                next(task)
            except StopIteration as end:
                with self._lock:
                    self.results[number] = end.value
                    self._unfinished -= 1
                    self._begin(self.threads)
            except BaseException:
                self.ended = True
                raise
            else:
                with self._lock:
                    self._begun.append((number, task))
