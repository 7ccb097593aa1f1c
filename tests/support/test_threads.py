"""Threads: how many, and that sharing out and taking turns keep order and errors."""

from __future__ import annotations

import _thread
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Event

import pytest

from recalibrate.support import threads
from recalibrate.support.threads import (
    Pool,
    map_ahead,
    resolve_threads,
    share_out,
    take_turns,
    threads_for,
)


def test_as_many_as_given_or_as_there_are_cores():
    assert resolve_threads(3) == 3
    assert resolve_threads(None) >= 1


def test_few_rows_get_one_thread(monkeypatch):
    monkeypatch.setattr(threads, "resolve_threads", lambda given: 8)
    rows = threads.LEAST_ROWS_PER_THREAD
    assert [threads_for(n) for n in (0, 1, rows, 2 * rows, 99 * rows)] == [1, 1, 1, 2, 8]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_results_are_in_order_and_the_first_error_is_raised(count):
    assert share_out(lambda k: k * k, range(4), count) == [0, 1, 4, 9]
    assert share_out(lambda k: k, [], count) == []

    def refuse(k: int) -> None:
        if k > 1:
            raise ValueError(f"item {k}")

    with pytest.raises(ValueError, match="item 2"):
        share_out(refuse, range(4), count)


def press_ctrl_c():
    """A signal to the main thread, which ends its waiting for locks too."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@contextmanager
def expecting_ctrl_c():
    # Where tests run in the background, Ctrl-C may be ignored otherwise.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


needs_signals = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows has no signals to a thread, and no timers"
)


class Tasks:
    """Tasks of some turns each, and what becomes of them."""

    def __init__(self, *turns):
        self.turns = turns
        self.begun, self.ended, self.most_begun = set(), set(), 0

    def run(self, number):
        self.begun.add(number)
        self.most_begun = max(self.most_begun, len(self.begun - self.ended))
        try:
            for _ in range(self.turns[number]):
                yield
            return number * number
        finally:
            self.ended.add(number)

    def all(self):
        return [self.run(number) for number in range(len(self.turns))]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("turns", [(), (0,), (5, 0, 3), (4, 4, 4, 4, 4), (9, 1, 1, 1, 1, 1, 7)])
def test_turns_give_results_in_order(turns, threads):
    assert take_turns(Tasks(*turns).all(), threads) == [k * k for k in range(len(turns))]


@pytest.mark.parametrize(("count", "threads", "most"), [(5, 1, 1), (5, 2, 3), (4, 2, 2), (7, 3, 4)])
def test_no_more_tasks_are_begun_than_keep_all_threads_busy(count, threads, most):
    tasks = Tasks(*[20] * count)
    take_turns(tasks.all(), threads)
    assert tasks.most_begun <= most


def test_threads_are_busy_to_the_end():
    # Three tasks of four turns on two threads: six times two turns side by side, which only
    # works out if none of the tasks is left for last. A barrier breaks if a thread is alone.
    together = Barrier(2, timeout=10)

    def task():
        for _ in range(4):
            together.wait()
            yield

    take_turns([task() for _ in range(3)], 2)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_ends_all_tasks(threads):
    tasks = Tasks(50, 50, 50, 50)

    def refuse():
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        take_turns([*tasks.all(), refuse()][::-1], threads)
    assert tasks.begun == tasks.ended
    assert len(tasks.begun) < 4


@needs_signals
def test_ctrl_c_does_not_wait_for_the_tasks():
    tasks = Tasks(*[2_000_000] * 3)

    def interrupt():
        yield
        press_ctrl_c()

    with expecting_ctrl_c():
        take_turns([interrupt(), *tasks.all()], 2)
    assert tasks.begun == tasks.ended
    assert len(tasks.begun) < 3


@needs_signals
def test_threads_have_ended_although_the_wait_for_them_was_interrupted():
    begun, ended, never = Event(), [], Event()

    def work():
        begun.set()
        never.wait(0.1)
        press_ctrl_c()
        never.wait(0.1)  # the wait for this thread is interrupted meanwhile
        ended.append("work")

    with expecting_ctrl_c(), Pool(1) as pool:
        pool.submit(work)
        pool.submit(lambda: ended.append("more"))
        assert begun.wait(30)
    assert ended == ["work"]


def test_no_more_is_worked_out_than_somebody_asked_for():
    """Results that wait are rows in memory."""
    begun = []
    with Pool(2) as pool:
        found = map_ahead(pool, lambda k: begun.append(k) or k, range(100), 3)
        assert [next(found) for _ in range(5)] == [0, 1, 2, 3, 4]
        found.close()
    assert len(begun) <= 5 + 3


def test_errors_reach_whoever_asks():
    def work(k):
        if k == 3:
            raise ValueError("three")
        return k

    with Pool(2) as pool:
        found = map_ahead(pool, work, range(100), 2)
        assert [next(found) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="three"):
            next(found)


class Alarm(KeyboardInterrupt):
    pass


def raise_alarm(number, frame):
    raise Alarm


def interrupt_at_random(rounds):
    """Rounds of every way to use threads, each interrupted at some time; the number of alarms."""
    signal.signal(signal.SIGALRM, raise_alarm)
    rng, alarms = random.Random(0), 0

    def work(k):
        time.sleep(1e-4)
        return k

    def task():
        for _ in range(2):
            work(0)
            yield

    def in_pool():
        with Pool(2) as pool:
            list(map_ahead(pool, work, range(8), 3))

    uses = [
        lambda: share_out(work, range(8), 2),
        lambda: take_turns([task() for _ in range(5)], 2),
        in_pool,
    ]
    for k in range(rounds):
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 2e-3))
                uses[k % 3]()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Alarm:
            alarms += 1
    return alarms


@needs_signals
def test_exceptions_of_signal_handlers_leave_no_lock_taken_and_no_thread_behind():
    """In a process of its own, because what it is about is to hang for ever."""
    program = (
        "import _thread, time; from test_threads import interrupt_at_random;"
        "assert interrupt_at_random(3000) > 500; time.sleep(0.2); assert _thread._count() == 0"
    )
    path = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, cwd=path)


def test_a_pool_that_is_dropped_ends_its_threads():
    begun, pool, together = _thread._count(), Pool(2), Barrier(2, timeout=30)
    for pending in [pool.submit(together.wait) for _ in range(4)]:
        pending.result()
    assert _thread._count() == begun + 2
    del pool
    while _thread._count() > begun:
        time.sleep(0.001)


def test_work_that_never_began_has_no_result():
    with Pool(1) as pool:
        blocked = Event()
        pool.submit(blocked.wait)
        pending = pool.submit(lambda: 1)
        pending.cancel()
        blocked.set()
        with pytest.raises(RuntimeError, match="never began"):
            pending.result()
