"""Buckets of time: all rows are kept, few buckets, starts that are bet on."""

import itertools

import numpy as np
import pytest

from recalibrate.monitoring.judging import MOST_BUCKETS, MOST_PIECES, SUM_OF_SHARES, Timeline


def add(timeline, time, rows=200):
    """Some rows at a time, each of which counts one."""
    times = np.full(rows, float(time))
    opened, places = timeline.places(times)
    np.add.at(opened.sums[:, 0, 0, 0, 0], places, 1.0)
    return opened.merged()


@pytest.fixture
def long():
    timeline = Timeline.empty(1, 1, 1)
    for k in range(500):
        timeline = add(timeline, k)
    return timeline


def test_nothing_is_lost_and_the_number_is_bounded(long):
    assert len(long) == MOST_BUCKETS
    assert long.sums[..., 0].sum() == 500 * 200
    assert (long.start[0], long.frontier, long.number[0]) == (0, 499, 1)
    assert (long.start[1:] > long.end[:-1]).all()


def test_recent_buckets_are_short_and_old_ones_long(long):
    length = np.diff([*long.number, 501])
    assert (length[-4:] == 1).all()
    age = 501 - long.number
    assert (length[:-4] / age[:-4]).max() < 0.35  # relative precision is about the same everywhere


def test_suffixes_are_sums_from_the_start_on(long):
    for k in (0, 7, -1):
        assert long.suffixes()[k, 0, 0, 0, 0] == long.sums[k:, ..., 0].sum()


def test_shares_of_all_possible_starts_add_up_to_at_most_one():
    k = np.arange(1, 1_000_000)
    shares = np.exp(Timeline(k, k, k, k, k).log_share)  # type: ignore[arg-type]
    rest = 1 / (np.log(len(k) + 1) * SUM_OF_SHARES)  # integral from there to infinity
    assert 0.999 < shares.sum() + rest <= 1


def test_late_rows_go_where_they_belong(long):
    times = np.array([0.0, 499.0, -7.0])
    later, places = long.places(times)
    assert places.tolist() == [0, len(long) - 1, 0]
    assert (later.start[0], later.frontier) == (-7, 499)
    assert len(later) == len(long)


def test_few_rows_share_a_bucket():
    timeline = add(add(Timeline.empty(1, 1, 1), 0, rows=60), 1, rows=60)
    assert len(timeline) == 1
    assert len(add(timeline, 2, rows=1)) == 2


def test_a_history_in_one_batch_is_cut_by_time():
    rng = np.random.default_rng(0)
    time = rng.uniform(0, 100, 5000)
    pieces = Timeline.empty(1, 1, 1).pieces(time)
    assert len(pieces) == MOST_PIECES
    assert sorted(np.concatenate(pieces).tolist()) == list(range(5000))
    ends = [(time[rows].min(), time[rows].max()) for rows in pieces]
    assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))


def test_a_short_batch_after_a_long_history_is_one_piece(long):
    time = np.random.default_rng(0).uniform(500, 501, 5000)
    assert [len(rows) for rows in long.pieces(time)] == [5000]
    time[:10] = 3.0
    assert [len(rows) for rows in long.pieces(time)] == [10, 4990]
