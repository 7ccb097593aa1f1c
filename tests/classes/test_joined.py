"""Trees taken together: the same scores, to the last bit, as one step after the other."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import cases, people, tree_specs

from recalibrate import Groups, Trees
from recalibrate.classes import trees
from recalibrate.classes.trees import TreeTable
from recalibrate.core.boost import Settings, boost
from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.learning import Penalty
from recalibrate.core.levels import Levels, to_margin
from recalibrate.core.part import Rows
from recalibrate.core.rounds import Rounds, Step
from recalibrate.data.columns import Columns
from recalibrate.data.table import read_table
from recalibrate.kernels import masks
from recalibrate.rows.memory import rows_in_memory

WAYS = {"masks": (0, 1 << 25, 64), "walk": (10**9, 1 << 25, 64), "too large": (0, 0, 64)}


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    least, most, leaves = WAYS[request.param]
    monkeypatch.setattr(trees, "LEAST_ROWS", least)
    monkeypatch.setattr(trees, "MOST_MASK_BYTES", most)
    monkeypatch.setattr(trees, "MOST_LEAVES", leaves)
    monkeypatch.setattr(trees, "LEAST_TREES", 1)
    return request.param


def one_by_one(model, blocks, base):
    """What the list of steps means, to the letter."""
    state = model.begin(base)
    for step in model.steps:
        state = state.advance(step, blocks[step.encoder])
    return state.f


def stretches(model):
    return [len(steps) for steps, together in model._stretches if together is not None]


def fit(case, plan, link="identity", start=None):
    """Boost with one class after the other; the model, blocks and margins of other rows."""
    table = read_table(case.X)
    scale = make_scale(len(case.y), case.weight, newton=link == "logit")
    weight = scale.quantise_weight(case.weight)
    learners = [each.bind(Columns.of(table, weight), index=k) for k, (each, _) in enumerate(plan)]
    encoders = tuple(learner.encoder for learner in learners)
    model = Rounds(link, start, encoders)
    blocks = tuple(encoder.encode(table) for encoder in encoders)
    rows = Rows(blocks, case.y, to_margin(case.base, link), weight)
    with rows_in_memory(rows, scale) as source:
        for k, (learner, (_, run)) in enumerate(zip(learners, plan, strict=True)):
            run = replace(run, link=link)
            model = boost(source, learner, run, model, encoder=k, progress=False).model
    other = table.schema.read(case.X_other)
    return model, [e.encode(other) for e in encoders], to_margin(case.base_other, link)


def check(model, blocks, base):
    expected = one_by_one(model, blocks, base)
    assert model.apply(blocks, base).tolist() == expected.tolist()
    assert model.apply(blocks, base).tolist() == expected.tolist()  # with what was kept


@pytest.mark.slow
@given(
    cases(),
    tree_specs(),
    st.sampled_from(["identity", "logit"]),
    st.sampled_from([1, 1, 3]),
    st.sampled_from([None, 3]),
    st.sampled_from([0, 10**9]),
)
@settings(max_examples=60)
def test_small_awkward_tables(case, spec, link, tables, grid, least):
    run = Settings(levels=1, step=0.3, tables_per_round=tables, max_rounds=4)
    start = None if grid is None else Levels.uniform(grid, link)
    model, blocks, base = fit(case, [(spec, run)], link, start)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "LEAST_ROWS", least)
        patch.setattr(trees, "LEAST_TREES", 1)
        check(model, blocks, base)


SPECS = {
    "16 bits": Trees(depth=6, leaves=15, one_vs_rest=64, feature_share=0.7),
    "32 bits": Trees(depth=5, leaves=31, min_leaf_rows=2),
    "64 bits": Trees(depth=6),
    "wide codes": Trees(depth=3, bins="exact"),
    "stumps": Trees(depth=1, bins=8),
}


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SPECS)
def test_larger_tables(name, weighted, way):
    case = people(3000, seed=3, binary=True, weighted=weighted)
    run = Settings(levels=1, step=0.1, max_rounds=12, penalty=Penalty(l2=1.0))
    model, blocks, base = fit(case, [(SPECS[name], run)], "logit")
    assert stretches(model) == [12]
    check(model, blocks, base)
    (_, together), *_ = model._stretches
    written = [bits.masks.dtype.itemsize * 8 for bits in together._written]
    bits = {"32 bits": 32, "64 bits": 64}.get(name, 16)
    assert written == ([bits] if way == "masks" else [])
    assert blocks[0].dtype == (np.uint16 if name == "wide codes" else np.uint8)


def test_more_leaves_than_bits_are_walked(monkeypatch):
    monkeypatch.setattr(trees, "LEAST_ROWS", 0)
    monkeypatch.setattr(trees, "MOST_LEAVES", 7)
    case = people(500, seed=1, binary=False, weighted=False)
    run = Settings(levels=1, step=0.1, max_rounds=trees.LEAST_TREES)
    model, blocks, base = fit(case, [(Trees(depth=3), run)])
    check(model, blocks, base)
    assert model._stretches[0][1]._written == []


def test_many_trees_and_rows_in_pieces(way, monkeypatch):
    monkeypatch.setattr(trees, "threads_for", lambda n_rows: 3)
    case = people(400, seed=2, binary=False, weighted=False)
    run = Settings(levels=1, step=0.01, max_rounds=masks.TREES + 5)
    model, blocks, base = fit(case, [(Trees(depth=2), run)])
    at = np.random.default_rng(0).integers(0, len(base), 3 * 16_384 + 1)
    check(model, [block[at] for block in blocks], base[at])


def test_only_steps_on_one_level_set_that_add_are_joined(way):
    case = people(1500, seed=4, binary=False, weighted=False)
    own = Trees(depth=2)
    grid = Levels.uniform(8)
    add = Settings(levels=1, step=0.1, max_rounds=3)
    plan = [
        (own, add),
        (own, replace(add, levels=4)),
        (own, add),
        (Trees(depth=3, features=["age", "code"]), replace(add, tables_per_round=2)),
        (Groups("letter"), add),
        (own, replace(add, grid=grid, step=0.5)),
        (own, add),
    ]
    model, blocks, base = fit(case, plan)
    assert stretches(model) == [3, 3, 6, 3]
    check(model, blocks, base)

    # Tables that keep the level sets before them: here those of a grid.
    last = model.steps[-1]
    kept = replace(last, partition=None)
    check(model.append(kept).append(kept), blocks, base)
    assert stretches(model.append(kept).append(kept)) == [3, 3, 6, 5]
    on_grid = model.first(len(model.steps) - 3).append(kept).append(kept)
    assert stretches(on_grid) == [3, 3, 6]


def test_steps_without_a_tree_change_nothing(way):
    case = people(600, seed=6, binary=False, weighted=False)
    model, blocks, base = fit(case, [(Trees(depth=2), Settings(levels=1, step=0.1, max_rounds=4))])
    none = np.zeros(1, bool)
    for gone in ([1], [0, 1, 2, 3]):
        steps = tuple(
            replace(step, table=step.table.keep(none)) if k in gone else step
            for k, step in enumerate(model.steps)
        )
        check(replace(model, steps=steps), blocks, base)


def test_nodes_that_nothing_leads_to(way, monkeypatch):
    """A file may hold such; they must not share a leaf's place."""
    case = people(600, seed=7, binary=False, weighted=False)
    model, blocks, base = fit(case, [(Trees(depth=2), Settings(levels=1, step=0.1, max_rounds=2))])

    def moved(table: TreeTable) -> TreeTable:
        def behind(own, lost):
            return np.concatenate([np.array([lost], own.dtype), own])

        return TreeTable(
            table.roots + 1,
            behind(table.feature, -1),
            behind(table.last_bin, 0),
            behind(table.missing_left, False),
            behind(table.subset, -1),
            table.subsets,
            behind(np.where(table.child < 0, -1, table.child + 1).astype(np.int32), -1),
            behind(table.value, 99.0),
            behind(table.rows, 0),
            behind(table.gain, 0.0),
        )

    steps = tuple(replace(step, table=moved(step.table)) for step in model.steps)
    changed = replace(model, steps=steps)
    check(changed, blocks, base)
    assert changed.apply(blocks, base).tolist() == model.apply(blocks, base).tolist()
    monkeypatch.setattr(trees, "ROWS_FOR_MASKS", 0)
    assert one_by_one(changed, blocks, base).tolist() == model.apply(blocks, base).tolist()


def test_what_is_derived_does_not_travel():
    case = people(600, seed=8, binary=False, weighted=False)
    model, blocks, base = fit(case, [(Trees(depth=2), Settings(levels=1, step=0.1, max_rounds=3))])
    size = len(pickle.dumps(model))
    expected = model.apply(blocks, base)
    assert len(pickle.dumps(model)) == size
    again = pickle.loads(pickle.dumps(model))  # noqa: S301  # our own bytes
    assert "_stretches" not in vars(again)
    assert again.apply(blocks, base).tolist() == expected.tolist()


@pytest.mark.parametrize("bits", masks.HASHES)
def test_hashes_tell_all_bits_apart(bits):
    factor, shift = masks.HASHES[bits]
    assert {((1 << k) * factor) % (1 << bits) >> shift for k in range(bits)} == set(range(bits))


def test_a_model_of_one_step_is_left_alone():
    step = Step(Levels.single(), TreeTable.__new__(TreeTable), 0, False, None)
    ((steps, together),) = Rounds("identity", None, (), (step,))._stretches
    assert (list(steps), together) == ([step], None)


@pytest.mark.parametrize("name", [name for name in SPECS if name != "wide codes"])
def test_leaves_of_a_single_tree_by_masks(name, monkeypatch):
    case = people(3000, seed=9, binary=True, weighted=False)
    run = Settings(levels=1, step=0.1, max_rounds=4)
    model, (block,), _ = fit(case, [(SPECS[name], run)], "logit")
    level = np.zeros(len(block), np.int32)
    for step in model.steps:
        found = []
        for least in (0, 10**9):
            monkeypatch.setattr(trees, "ROWS_FOR_MASKS", least)
            found.append(step.table.leaves(block, level).tolist())
        assert found[0] == found[1]


def test_columns_that_no_step_looks_at_are_not_encoded():
    case = people(600, seed=10, binary=False, weighted=False)
    run = Settings(levels=1, step=0.1, max_rounds=3)
    plan = [(Trees(depth=1, features=["age", "code", "hours"]), run), (Groups("letter"), run)]
    model, _, base = fit(case, plan)
    table = read_table(case.X).schema.read(case.X_other)
    whole = [encoder.encode(table) for encoder in model.encoders]
    some = model.encode(table)
    used = set().union(*(step.table.looks_at for step in model.steps if step.encoder == 0))
    assert 0 < len(used) < 3
    for j in range(3):
        assert some[0][:, j].tolist() == (whole[0][:, j] * (j in used)).tolist()
    assert some[1].tolist() == whole[1].tolist()
    assert model.apply(some, base).tolist() == one_by_one(model, whole, base).tolist()


def test_a_fresh_model_may_be_asked_by_many_threads():
    case = people(600, seed=11, binary=False, weighted=False)
    run = Settings(levels=1, step=0.1, max_rounds=trees.LEAST_TREES)
    model, blocks, base = fit(case, [(Trees(depth=3), run)])
    at = np.arange(2 * trees.LEAST_ROWS) % len(base)
    blocks, base = [block[at] for block in blocks], base[at]
    expected = one_by_one(model, blocks, base).tolist()
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: model.apply(blocks, base).tolist(), range(16)):
            assert found == expected
    assert len(model._stretches[0][1]._written) == 1
