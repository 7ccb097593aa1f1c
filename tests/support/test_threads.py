"""Threads: how many, and that sharing out and taking turns keep order and errors."""

from __future__ import annotations

import _thread
import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from recalibrate.support import threads
from recalibrate.support.threads import (
    map_ahead,
    resolve_threads,
    share_out,
    take_turns,
    thread_pool,
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


def test_ctrl_c_does_not_wait_for_the_tasks():
    tasks = Tasks(100_000, 100_000, 100_000)

    def interrupt():
        yield
        _thread.interrupt_main()

    # Where tests run in the background, Ctrl-C may be ignored otherwise.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            take_turns([interrupt(), *tasks.all()], 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert tasks.begun == tasks.ended
    assert len(tasks.begun) < 3


def test_threads_have_ended_although_the_wait_for_them_was_interrupted():
    ended, never = [], Event()

    def work():
        _thread.interrupt_main()
        never.wait(0.2)  # the wait for this thread is interrupted meanwhile
        ended.append("work")

    def leave():
        with thread_pool(1) as pool:
            pool.submit(work)
            pool.submit(ended.append, "more")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            leave()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == ["work"]


def test_no_more_is_worked_out_than_somebody_asked_for():
    """Results that wait are rows in memory."""
    begun = []
    with ThreadPoolExecutor(2) as pool:
        found = map_ahead(pool, lambda k: begun.append(k) or k, range(100), 3)
        assert [next(found) for _ in range(5)] == [0, 1, 2, 3, 4]
        found.close()
    assert len(begun) <= 5 + 3


def test_errors_reach_whoever_asks():
    def work(k):
        if k == 3:
            raise ValueError("three")
        return k

    with ThreadPoolExecutor(2) as pool:
        found = map_ahead(pool, work, range(100), 2)
        assert [next(found) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="three"):
            next(found)
