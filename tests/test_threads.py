"""Threads: how many, and that sharing out keeps order and errors."""

from __future__ import annotations

import pytest

from recalibrate import threads
from recalibrate.threads import resolve_threads, share_out, threads_for


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
