"""Drawing rows: by what they say, a share of them, others for every step and seed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_identity import content, people

import recalibrate as rc
from recalibrate.bases.problem import InputOptions, read_problem
from recalibrate.bases.protocol import as_base
from recalibrate.core.boost import Settings, boost
from recalibrate.core.fixedpoint import make_scale
from recalibrate.core.part import Draw, Part, PendingStep, Rows
from recalibrate.core.rounds import Rounds
from recalibrate.data.columns import Columns
from recalibrate.data.folds import salt_duplicates
from recalibrate.data.table import read_table
from recalibrate.fitting.default import settings as defaults
from recalibrate.fitting.default.stages import Sample
from recalibrate.rows.memory import MemoryStore, rows_in_memory
from recalibrate.support.hashing import mix

MASK = 2**64 - 1


def drawn(key: int, draw: Draw) -> bool:
    """Whether a row is in, by the integers of Python."""
    x = key ^ int(draw.salt)
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    x ^= x >> 31
    return (x >> 11) * 2.0**-53 < draw.share


def part(n: int, keys: np.ndarray, link: str) -> Part:
    rng = np.random.default_rng(0)
    scale = make_scale(n, None, newton=link == "logit")
    none = np.empty(0, dtype=np.int64)
    rows = Rows((), (rng.random(n) < 0.4) * 1.0, rng.normal(size=n), none, keys)
    return Part(rows, scale)


@pytest.mark.parametrize("link", ["logit", "identity"])
@pytest.mark.parametrize("share", [0.2, 0.9])
def test_rows_that_are_not_drawn_count_for_nothing(link, share):
    keys = mix(np.arange(500, dtype=np.uint64), 1)
    rows, draw = part(500, keys, link), Draw(share, seed=3, step=7)
    everyone = rows.words(PendingStep(Rounds(link), None)).copy()
    words = rows.words(PendingStep(Rounds(link), None, draw=draw)).copy()
    inside = np.array([drawn(int(key), draw) for key in keys])
    assert abs(inside.mean() - share) < 0.07
    np.testing.assert_array_equal(words, everyone * inside[:, None])
    assert (everyone != 0).any(axis=1).all()
    # Whoever asks for all rows afterwards gets them.
    np.testing.assert_array_equal(rows.words(PendingStep(Rounds(link), None)), everyone)


def test_every_step_and_seed_draws_others():
    rows = part(2000, mix(np.arange(2000, dtype=np.uint64), 1), "identity")
    inside = [
        rows.words(PendingStep(Rounds("identity"), None, draw=Draw(0.5, seed, step))).any(axis=1)
        for seed, step in [(0, 0), (0, 1), (1, 0)]
    ]
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        assert abs(np.mean(inside[a] & inside[b]) - 0.25) < 0.05


def test_rows_without_keys_are_all_in():
    rows = part(50, np.empty(0, dtype=np.uint64), "identity")
    assert rows.words(PendingStep(Rounds("identity"), None, draw=Draw(0.1, 0, 0))).any(axis=1).all()


def few_kinds(n=3000, seed=0):
    """A table with six kinds of rows, and a base that is off for some."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "kind": rng.choice(list("abc"), n)})
    truth = 0.3 + 0.3 * (X["sex"] == "F") * (X["kind"] == "a")
    return X, (rng.random(n) < truth) * 1.0, np.full(n, 0.35)


def test_equal_rows_have_keys_of_their_own_in_any_order():
    X, y, base = few_kinds(200)
    shuffled = np.random.default_rng(1).permutation(len(y))
    one, two = (
        salt_duplicates(
            read_problem(as_base(base[at]), X.iloc[at], y[at], InputOptions()).hashes(0)
        )
        for at in (np.arange(len(y)), shuffled)
    )
    assert len(np.unique(one)) == len(y)
    # The same keys for the same kinds of rows: which of equal rows has which does not matter.
    kind = (X["sex"] + X["kind"]).to_numpy() + y.astype(str)
    for name in np.unique(kind):
        assert set(one[kind == name]) == set(two[kind[shuffled] == name])


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_a_drawing_fit_does_not_depend_on_order_threads_or_blocks(weighted):
    X, y, base, weight = people(2500)
    X = X.assign(income=X["income"].round())  # so that some rows are equal
    weight = weight if weighted else None
    expected = rc.fit(base, X, y, sample_weight=weight, cv=3)
    assert expected.settings.row_share < 1
    assert expected.n_rounds_ > 20
    at = np.random.default_rng(1).permutation(len(y))
    own = None if weight is None else weight[at]
    for other in (
        rc.fit(base, X, y, sample_weight=weight, cv=3, engine=rc.Engine(threads=2)),
        rc.fit(base, X, y, sample_weight=weight, cv=3, engine=rc.Engine(blocks=3)),
        rc.fit(base[at], X.iloc[at], y[at], sample_weight=own, cv=3, engine=rc.Engine(blocks=2)),
    ):
        assert content(other.rounds) == content(expected.rounds)


def test_only_default_trees_that_draw_columns_draw_rows():
    X, y, base, _ = people(400)
    problem = read_problem(as_base(base), X, y, InputOptions())
    for H, draws in [
        (defaults.DEFAULT_CLASS, True),
        (replace(defaults.DEFAULT_CLASS, feature_share=1.0), False),
        (replace(defaults.DEFAULT_CLASS, base_score=False), False),
        (rc.Groups("sex"), False),
        (rc.Linear(), False),
    ]:
        settings = defaults.main_settings(problem, H, seed=0)
        assert (settings.row_share < 1) == draws
        assert (settings.step_doubles is not None) == draws


def test_trees_see_all_of_many_rows(monkeypatch):
    X, y, base, _ = people(400)
    problem = read_problem(as_base(base), X, y, InputOptions())
    monkeypatch.setattr(defaults, "MANY_ROWS", 400)
    many = defaults.main_settings(problem, defaults.DEFAULT_CLASS, 0)
    linear = defaults.main_settings(problem, rc.Linear(), 0)
    monkeypatch.setattr(defaults, "MANY_ROWS", 401)
    few = defaults.main_settings(problem, defaults.DEFAULT_CLASS, 0)
    assert (few.row_share, many.row_share) == (defaults.ROW_SHARE, 1.0)
    assert many.penalty.l2 == defaults.UNDRAWN_PRIOR * few.penalty.l2
    assert many.step_doubles < few.step_doubles
    assert defaults.refit_steps(100, many) < defaults.refit_steps(100, few)
    assert linear == defaults.main_settings(problem, rc.Linear(), 0)
    assert defaults.refit_steps(100, linear) == defaults.refit_steps(100, few)


@pytest.mark.parametrize(("most", "runs"), [(2500, 1), (2501, 2)])
def test_many_rows_are_refitted_once(most, runs, monkeypatch):
    X, y, base, _ = people(2500)
    monkeypatch.setattr(defaults, "MANY_ROWS", most)
    expected = rc.fit(base, X, y, engine=rc.Engine(threads=1))
    tables = [step.table for step in expected.rounds.steps if step.table.kind == "trees"]
    assert len(tables) > 10
    seen = {int(table.rows[0]) == len(y) for table in tables}
    assert seen == {runs == 1}
    parts = rc.fit(base, X, y, engine=rc.Engine(threads=2, blocks=3))
    assert content(parts.rounds) == content(expected.rounds)


def test_rows_of_large_tables_have_no_keys(monkeypatch):
    X, y, base, _ = people(400)
    problem = read_problem(as_base(base), X, y, InputOptions())
    for most, count in [(400, 400), (300, 0)]:
        monkeypatch.setattr("recalibrate.fitting.default.stages.CHOOSING_ROWS", most)
        sample = Sample(MemoryStore(problem), 0, 1)
        encoder = sample.bind(rc.Trees(), 0).encoder
        assert len(sample.encode([encoder], draws=True).rows.keys) == count


@pytest.mark.parametrize("doubles", [None, 2, 10])
def test_a_step_grows_evenly(doubles):
    """One leaf for everyone: every table takes its step's share of what is left."""
    n = 64
    X = read_table(pd.DataFrame({"a": np.zeros(n)}))
    none = np.empty(0, dtype=np.int64)
    learner = rc.Trees(depth=1).bind(Columns.of(X))
    scale = make_scale(n, None, newton=False)
    rows = Rows((learner.encoder.encode(X),), np.ones(n), np.zeros(n), none)
    settings = Settings(levels=1, step=0.1, step_doubles=doubles, max_rounds=6)
    with rows_in_memory(rows, scale) as source:
        start = Rounds("identity", None, (learner.encoder,))
        model = boost(source, learner, settings, start, progress=False).model
        f = source.scores(model)
    steps = [0.1 * (1 + (0 if doubles is None else k / doubles)) for k in range(6)]
    # Every step is snapped to 2**-40 and its sums to 2**-30.
    np.testing.assert_allclose(f, 1 - np.prod([1 - step for step in steps]), atol=1e-8)
