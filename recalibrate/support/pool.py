"""Threads for a block of work that exceptions of signal handlers cannot bring to a standstill.

Ctrl-C, time limits and, on the command line, SIGTERM raise exceptions between any two instructions
of the main thread. Inside ``Future``, ``Condition``, ``Event.set`` or ``Thread.start`` they leave
a lock taken, and everybody waits for ever. Here the main thread only calls functions that are
written in C, each of which has happened as a whole or not at all; what is left to do afterwards
is read from flags and sets that threads keep up to date themselves.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock
from time import sleep
from types import TracebackType
from typing import Any, Generic, TypeVar
from weakref import ref

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

    def submit(self, work: Callable[[], R]) -> Pending[R]:
        """Let a thread do some work when those before it have begun."""
        pending = Pending(work)
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


class Pending(Generic[R]):
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
        self.under_way: set[Pending[Any]] = set()
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
    while isinstance(pending := shared.queue.get(), Pending):
        pending.run(shared)
        del pending  # or the last result would be kept until there is more work
    shared.queue.put(pending)  # for the next thread
