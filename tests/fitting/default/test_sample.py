"""Rows of a default fit: choices on some of them, the same classes and sums for all."""

from __future__ import annotations

import numpy as np
import pytest
from test_identity import content, people

import recalibrate as rc
from recalibrate.bases.problem import read_problem
from recalibrate.bases.protocol import as_base
from recalibrate.core.rounds import Rounds
from recalibrate.core.statistics import mean_loss
from recalibrate.fitting.default import sample as pantry
from recalibrate.fitting.default.sample import PantryInMemory


def problem(n=500):
    X, y, base, weight = people(n)
    return read_problem(as_base(base), X, y, sample_weight=weight)


def test_no_more_rows_than_choices_are_made_on_are_all_used(monkeypatch):
    X, y, base, weight = people(800, binary=True)
    expected = rc.fit(base, X, y, sample_weight=weight)
    assert expected.n_rounds_ >= 2
    monkeypatch.setattr(pantry, "CHOOSING_ROWS", 800)
    assert PantryInMemory(problem(800), 0, 1, None).numbers is None
    same = rc.fit(base, X, y, sample_weight=weight)
    assert content(same.rounds) == content(expected.rounds)
    assert content(same.history_) == content(expected.history_)
    assert same.notes == expected.notes


def test_a_sample_is_encoded_as_all_rows_are(monkeypatch):
    monkeypatch.setattr(pantry, "CHOOSING_ROWS", 200)
    rows = problem()
    larder = PantryInMemory(rows, 0, 1, 3)
    assert larder.sample.n_rows == 200
    assert len(np.unique(larder.numbers)) == 200
    learner = larder.bind(rc.Trees(depth=2, bins=20), 0)
    own = larder.encode([learner.encoder])
    block = learner.encoder.encode(rows.table)
    np.testing.assert_array_equal(own.blocks[0], block[larder.numbers])
    np.testing.assert_array_equal(own.y, rows.labels.values[larder.numbers])
    with larder.open([learner.encoder]) as source:
        assert source.n_rows == 500
        weight = rows.labels.weight
        loss = np.average((rows.labels.values - rows.base) ** 2, weights=weight)
        # Losses are summed in fixed point, weights have 20 bits.
        assert mean_loss(source, Rounds("identity")) == pytest.approx(loss, rel=1e-4)


def test_another_seed_draws_other_rows(monkeypatch):
    monkeypatch.setattr(pantry, "CHOOSING_ROWS", 200)
    one, two = (PantryInMemory(problem(), seed, 1, None).numbers for seed in (0, 1))
    assert set(one) != set(two)


def test_rows_are_encoded_before_they_are_opened():
    with pytest.raises(RuntimeError, match="have to be encoded"):
        PantryInMemory(problem(), 0, 1, None).open([])


@pytest.mark.parametrize(
    ("threads", "most", "count"), [(1, 500, 1), (2, 500, 2), (5, 500, 2), (2, 200, 1)]
)
def test_sources_side_by_side_for_as_many_threads_and_not_for_large_tables(
    monkeypatch, threads, most, count
):
    monkeypatch.setattr(pantry, "CHOOSING_ROWS", most)
    rows = PantryInMemory(problem(), 0, threads, None)
    learner = rows.bind(rc.Trees(), 0)
    rows.encode([learner.encoder])
    log = Rounds("identity", None, (learner.encoder,))
    with rows.open([learner.encoder]) as source, rows.beside(source, 2) as sources:
        assert len(sources) == count
        assert (sources[0] is source) == (count == 1)
        assert {mean_loss(each, log) for each in sources} == {mean_loss(source, log)}
