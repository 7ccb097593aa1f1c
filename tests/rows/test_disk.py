"""Rows on disk give the model that rows in memory give, and leave nothing behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from test_identity import CLASSES, RUNS, content, make_bench

from recalibrate.core.rounds import Rounds
from recalibrate.core.source import total
from recalibrate.core.statistics import mean_loss
from recalibrate.rows.disk import rows_on_disk, store_rows, temporary_shelf
from recalibrate.rows.memory import Sided, rows_in_memory
from recalibrate.support.threads import cut


def stored(bench, shelf, blocks):
    rows = bench.rows
    pieces = [rows.take(at) for at in cut(len(rows), blocks, 1)]
    return [store_rows(shelf, each.blocks, each.y, each.base, each.weight) for each in pieces]


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", CLASSES)
def test_same_model_as_in_memory(name, run, weighted, tmp_path):
    bench = make_bench(name, RUNS[run], weighted=weighted)
    with rows_in_memory(bench.rows, bench.scale, blocks=1) as source:
        expected = bench.boost(source)
    assert expected.steps
    for blocks, threads in [(1, 1), (3, 1), (5, 2)]:
        with (
            temporary_shelf(tmp_path) as shelf,
            rows_on_disk(
                stored(bench, shelf, blocks), bench.scale, shelf, threads=threads
            ) as source,
        ):
            model = bench.boost(source)
            scores = source.scores(model)
        assert content(model) == content(expected), (blocks, threads)
        plain = expected.apply(bench.rows.blocks, bench.rows.base)
        np.testing.assert_array_equal(scores, plain)
    assert not list(tmp_path.iterdir())


def test_held_out_blocks_are_scored_and_not_fitted(tmp_path):
    bench = make_bench("trees", RUNS["newton"])
    half = len(bench.rows) // 2
    train, aside = bench.rows.take(slice(half)), bench.rows.take(slice(half, None))
    with rows_in_memory(train, bench.scale, held_out=aside) as source:
        expected = bench.boost(source)
        loss = mean_loss(source, expected, held_out=True)
    with temporary_shelf(tmp_path) as shelf:
        files = [store_rows(shelf, r.blocks, r.y, r.base, r.weight) for r in (train, aside)]
        with (
            rows_on_disk(files[:1], bench.scale, shelf) as fitted,
            rows_on_disk(files[1:], bench.scale, shelf) as held_out,
        ):
            source = Sided(fitted, held_out)
            assert source.n_rows == half
            assert content(bench.boost(source)) == content(expected)
            assert mean_loss(source, expected, held_out=True) == loss


def test_some_rows_of_a_block(tmp_path):
    bench = make_bench("linear", RUNS["rounded"])
    chosen = np.random.default_rng(0).random(len(bench.rows)) < 0.3
    with temporary_shelf(tmp_path) as shelf:
        (rows,) = stored(bench, shelf, 1)
        some = rows.take(chosen, shelf)
        assert len(some) == chosen.sum()
        part = some.part(bench.scale)
        np.testing.assert_array_equal(part.blocks[0], bench.rows.blocks[0][chosen])
        np.testing.assert_array_equal(part.weight, bench.rows.weight[chosen])


def test_files_do_not_pile_up_while_steps_are_taken(tmp_path):
    bench = make_bench("trees", RUNS["newton"])
    with temporary_shelf(tmp_path) as shelf:
        rows = stored(bench, shelf, 2)
        with rows_on_disk(rows, bench.scale, shelf) as source:
            log = bench.boost(source)
            few = len(list(shelf.folder.iterdir()))
            for _ in range(20):
                for steps in (len(log.steps), len(log.steps) - 1, 0):
                    mean_loss(source, log.first(steps))
            assert len(list(shelf.folder.iterdir())) <= few + 2
        assert len(list(shelf.folder.iterdir())) == sum(
            1 for r in rows for _ in (*r.blocks, 0, 0, 0)
        )


class BrokenError(Exception):
    pass


def test_nothing_is_left_after_an_error(tmp_path):
    def fail():
        with temporary_shelf(tmp_path / "new") as shelf:
            shelf.put(np.arange(3))
            raise BrokenError

    with pytest.raises(BrokenError):
        fail()
    assert not list((tmp_path / "new").iterdir())


def test_a_question_that_fails_half_way_spoils_nothing(tmp_path):
    """Statistics are written in place, so what a failed question wrote must not be believed."""
    bench = make_bench("trees", RUNS["newton"])
    with rows_in_memory(bench.rows, bench.scale, blocks=1) as source:
        expected = bench.boost(source)

    @dataclass(frozen=True)
    class Spoil:
        log: Rounds

        def ask(self, part):
            part.scores(self.log)
            part._words[1][:] = -1
            raise BrokenError

    with temporary_shelf(tmp_path) as shelf:
        rows = stored(bench, shelf, 2)
        with rows_on_disk(rows, bench.scale, shelf) as source:
            first = bench.boost(source)
            with pytest.raises(BrokenError):
                total(source, Spoil(first.first(0)))
            assert content(bench.boost(source)) == content(expected)
