"""How many threads, and work shared out over them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock
from time import sleep
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

LEAST_ROWS_PER_THREAD = 16_384
"""Below this a second thread costs more than it saves."""

PAUSE = 0.002
"""Seconds between two looks whether threads have ended."""


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
    with thread_pool(min(threads, len(todo))) as pool:
        return list(pool.map(work, todo))


@contextmanager
def thread_pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that do nothing any more when the block has ended.

    Also after an error, and also if that is one of a signal handler (Ctrl-C, a time limit), which
    can be raised while threads are waited for: what they work on is closed and removed next.
    """
    pool = _Pool(threads)
    try:
        yield pool
    finally:
        pool.finish()
        pool.shutdown(cancel_futures=True)


class _Pool(ThreadPoolExecutor):
    """An executor that knows what is under way; joining its threads does not survive signals."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self._under_way = 0
        self._finished = False
        self._counting = Lock()

    def submit(self, work: Callable[..., R], /, *args: Any, **named: Any) -> Future[R]:
        return super().submit(self._run, work, *args, **named)

    def _run(self, work: Callable[..., R], *args: Any, **named: Any) -> R:
        with self._counting:
            if self._finished:
                raise CancelledError
            self._under_way += 1
        try:
            return work(*args, **named)
        finally:
            with self._counting:
                self._under_way -= 1

    def finish(self) -> None:
        """Begin nothing more, and wait for what is under way; then raise what interrupted that."""
        interruption: BaseException | None = None
        while self._under_way or not self._finished:
            try:
                with self._counting:
                    self._finished = True
                if self._under_way:  # only after an error: otherwise its result was waited for
                    sleep(PAUSE)
            except BaseException as error:
                interruption = error
        if interruption is not None:
            raise interruption


def map_ahead(
    pool: ThreadPoolExecutor, work: Callable[[T], R], items: Iterable[T], ahead: int
) -> Iterator[R]:
    """``work`` on every item, in their order; at most ``ahead`` results wait to be taken.

    ``Executor.map`` runs through all items at once, and holds what nobody asked for yet.
    """
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, item))
        while waiting:
            yield waiting.popleft().result()
    finally:  # an error, or nobody wants the rest
        for future in waiting:
            future.cancel()


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
            with thread_pool(threads) as pool:
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
