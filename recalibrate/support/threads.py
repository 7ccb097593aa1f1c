"""How many threads, and work shared out over them."""

from __future__ import annotations

import os
import signal
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock
from time import sleep
from traceback import walk_tb
from types import CodeType, TracebackType
from typing import Any, Generic, TypeVar
from weakref import ref

# --- Exceptions raised by signal handlers, told apart from those of the code they interrupt -----


def reraise_interruption(error: BaseException) -> None:
    """Raise the exception of a signal handler that an error is, or that led to it.

    Whoever handles every exception of a framework calls this first. A time limit that raises a
    TimeoutError, for instance, would otherwise be taken for the framework's opinion on a model.

    Parameters
    ----------
    error
        What was caught.

    Examples
    --------
    >>> reraise_interruption(ValueError("of the framework"))
    """
    handlers = set(_handler_codes())
    for each in _chain(error):
        frames = (frame for frame, _ in walk_tb(each.__traceback__))
        if any(frame.f_code in handlers for frame in frames):
            raise each


class ignoring_failures:  # noqa: N801 - used like contextlib.suppress
    """Like ``suppress(Exception)``, except for exceptions of signal handlers."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        reraise_interruption(error)
        return True


def _handler_codes() -> Iterator[CodeType]:
    """Code of the signal handlers that are installed now and written in Python."""
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if not callable(handler):  # SIG_DFL and SIG_IGN, whose class is an enumeration
            continue
        for owner in (handler, getattr(handler, "func", None), type(handler).__call__):
            code = getattr(owner, "__code__", None)
            if isinstance(code, CodeType):
                yield code


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those during whose handling it was raised, the last first."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            todo += [each.__context__, each.__cause__]


# --- A thread pool that exceptions raised by signal handlers cannot block
#
# Ctrl-C, time limits and, on the command line, SIGTERM raise exceptions between any two
# instructions of the main thread. Inside ``Future``, ``Condition``, ``Event.set`` or
# ``Thread.start`` they leave a lock taken, and everybody waits for ever. Here the main thread
# only calls functions that are written in C, each of which has happened as a whole or not at
# all; what is left to do afterwards is read from flags and sets that threads keep up to date
# themselves.


R = TypeVar("R")

PAUSE = 0.002
"""Seconds between two looks whether work has ended that nobody takes the result of."""


SIGNALS_LATE = 0.1
"""Seconds after which a wait is interrupted that the signal itself did not interrupt: it came
just before the wait began, or the system is Windows, where no signal interrupts one."""


class Pool:
    """Threads that do nothing any more when the block has ended.

    Also after an error, and also if that is one of a signal handler, which can be raised while
    threads are waited for: what they work on is closed and removed next.

    Parameters
    ----------
    threads
        As many are started, when there is work for them.

    Examples
    --------
    >>> with Pool(2) as pool:
    ...     squares = [pool.submit(lambda k=k: k * k) for k in range(3)]
    ...     [square.result() for square in squares]
    [0, 1, 4]
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._started = 0
        self._shared = _Shared(self)

    def submit(self, work: Callable[[], R]) -> _Pending[R]:
        """Let a thread do some work when those before it have begun."""
        pending = _Pending(work)
        self._shared.queue.put(pending)
        if self._started < self._threads:
            start_new_thread(_serve, (self._shared,))
            self._started += 1  # not before: a pool without threads would be waited for for ever
        return pending

    def finish(self) -> None:
        """Begin nothing more, and wait for what is under way; then raise what interrupted that."""
        interruption: BaseException | None = None
        while True:
            try:
                self._shared.finished = True
                self._shared.queue.put(None)
                while self._shared.under_way:  # only after an error: else results were waited for
                    sleep(PAUSE)
                break
            except BaseException as error:
                interruption = error
        if interruption is not None:
            raise interruption

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.finish()


class _Pending(Generic[R]):
    """Work that was given to a pool: its result, when there is one."""

    def __init__(self, work: Callable[[], R]) -> None:
        self._work: Callable[[], R] | None = work
        self._results: list[R] = []
        self._error: BaseException | None = None
        self._ended = False
        self._running = Lock()
        self._running.acquire()

    def wait(self) -> None:
        """Wait for its end, whatever that is."""
        while not self._ended:
            self._running.acquire(timeout=SIGNALS_LATE)  # which its thread releases

    def result(self) -> R:
        """What the work returned; an error of it is raised."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def cancel(self) -> None:
        """Do not begin it, unless it has begun."""
        self._work = None

    def run(self, shared: _Shared) -> None:
        """Do the work, unless it was cancelled or its pool has finished."""
        shared.under_way.add(self)  # first: whoever finishes the pool sets its flag before it looks
        work = self._work
        try:
            if work is None or shared.finished:
                raise RuntimeError("the work never began: it was cancelled, or its pool finished")
            self._results.append(work())
        except BaseException as error:
            self._error = error
        finally:
            self._work = work = None  # results are awaited longer than their arguments are needed
            self._ended = True
            shared.under_way.discard(self)
            self._running.release()


class _Shared:
    """What threads know of their pool.

    Not the pool itself: when it is dropped although its block's end was interrupted, they end.
    That is a callback and not ``__del__``, where an exception of a signal handler would be lost.
    """

    def __init__(self, pool: Pool) -> None:
        self.queue: SimpleQueue[Any] = SimpleQueue()
        self.under_way: set[_Pending[Any]] = set()
        self.finished = False
        self.pool = ref(pool, self.queue.put)


class Flag:
    """A ``threading.Event`` that nobody can wait for, and that therefore has no lock."""

    def __init__(self) -> None:
        self._raised = False

    def set(self) -> None:
        self._raised = True

    def is_set(self) -> bool:
        """Whether anybody has set it."""
        return self._raised


def _serve(shared: _Shared) -> None:
    """Work of one thread, until something else than work says that the pool has finished."""
    while isinstance(pending := shared.queue.get(), _Pending):
        pending.run(shared)
        del pending  # or the last result would be kept until there is more work
    shared.queue.put(pending)  # for the next thread


T = TypeVar("T")

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
    waiting: deque[_Pending[R]] = deque()
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
