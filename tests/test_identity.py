"""One answer everywhere: the model does not depend on threads, blocks, order or engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from settings import fit_with

import recalibrate as rc
from recalibrate.core.boost import Settings, boost
from recalibrate.core.fixedpoint import Scale, label_bits, make_scale
from recalibrate.core.learning import Penalty
from recalibrate.core.levels import Levels, to_margin
from recalibrate.core.part import Part, Rows, Statistic, Sums
from recalibrate.core.rounds import Rounds, Scores
from recalibrate.data.columns import Columns
from recalibrate.data.table import read_table
from recalibrate.files import to_bytes
from recalibrate.rows.memory import LocalSource, add_up, rows_in_memory

CLASSES = {
    "trees": rc.Trees(depth=2),
    "best-first": rc.Trees(depth=4, leaves=5, one_vs_rest=3, feature_share=0.7, bins=20),
    "linear": rc.Linear(),
    "polynomial": rc.Polynomial(degree=3),
    "groups": rc.Groups("sex", "age < 30", "sex*job"),
}


def people(n: int, seed: int = 0, binary: bool = False):
    """Features, labels, base scores and weights; a correction is there to be found."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n).astype(float)
    age[rng.random(n) < 0.05] = np.nan
    X = pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["F", "M"], n),
            "job": rng.choice(list("abcdef"), n),
            "income": rng.normal(size=n),
        }
    )
    base = rng.beta(3, 3, n)
    mean = np.clip(base + 0.4 * (X["sex"] == "F") - 0.4 * (X["age"] < 40), 0.02, 0.98)
    mean = mean.to_numpy()
    y = (rng.random(n) < mean).astype(float) if binary else rng.beta(8 * mean, 8 * (1 - mean))
    return X, y, base, rng.gamma(2.0, size=n)


def content(value: object) -> object:
    """Everything that a model says, in a form in which equal means equal to the bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [content(getattr(value, f.name)) for f in fields(value)]
    if isinstance(value, (tuple, list)):
        return [content(item) for item in value]
    if isinstance(value, float):
        return value.hex()
    assert value is None or isinstance(value, (str, int, bool, np.generic)), type(value)
    return value


def test_content_sees_a_single_bit():
    levels = [Levels(np.array([0.5, t])) for t in (0.75, np.nextafter(0.75, 1))]
    a, b, again = (Rounds("identity", level) for level in (*levels, levels[0]))
    assert content(a) == content(again)
    assert content(a) != content(b)


# ---- fit


MODES = {
    "paper": {"alpha": 0.004},
    "validated": {"step": 0.3, "max_rounds": 10, "cv": 3},
    "default": {"cv": 3},
}


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*CLASSES, None])
def test_threads_blocks_and_row_order_do_not_matter(name, mode, weighted):
    X, y, base, weight = people(700, binary=mode != "paper")
    options = MODES[mode]

    def fit(rows=slice(None), **more):
        sample_weight = weight[rows] if weighted else None
        model = fit_with(
            base[rows],
            X.iloc[rows],
            y[rows],
            CLASSES.get(name),
            sample_weight=sample_weight,
            **options,
            **more,
        )
        return content(model.rounds), model

    expected, model = fit(engine=rc.Engine(threads=1, blocks=1))
    assert model.n_rounds_ >= 1, "nothing was learned, so nothing was compared"
    for threads, blocks in [(2, 2), (1, 3), (2, 7), (2, None)]:
        assert fit(engine=rc.Engine(threads=threads, blocks=blocks))[0] == expected, (
            threads,
            blocks,
        )
    shuffled = np.random.default_rng(1).permutation(len(y))
    assert fit(shuffled, engine=rc.Engine(threads=2, blocks=3))[0] == expected
    assert fit(np.argsort(y), engine=rc.Engine(threads=1, blocks=2))[0] == expected


def test_two_threads_work_at_the_same_time(monkeypatch):
    """Every statistic of two blocks waits until both blocks are being worked on."""
    X, y, base, _ = people(400)
    expected = content(rc.fit(base, X, y, alpha=0.01, engine=rc.Engine(threads=1, blocks=2)).rounds)
    seen: set[int] = set()
    sums = LocalSource.sums

    @dataclass(frozen=True)
    class Meeting:
        statistic: Statistic
        barrier: threading.Barrier

        def of(self, part: Part) -> Sums:
            self.barrier.wait(timeout=60)  # raises if the other block has to wait for this one
            seen.add(threading.get_ident())
            return self.statistic.of(part)

    def together(self, statistic):
        return sums(self, Meeting(statistic, threading.Barrier(2)))

    monkeypatch.setattr(LocalSource, "sums", together)
    assert (
        content(rc.fit(base, X, y, alpha=0.01, engine=rc.Engine(threads=2, blocks=2)).rounds)
        == expected
    )
    assert len(seen) >= 2
    assert threading.get_ident() not in seen


# ---- the loop over engines


@dataclass(frozen=True, eq=False)
class Bench:
    """A bound class and its encoded rows."""

    learner: object
    rows: Rows
    scale: Scale
    run: Settings

    @property
    def start(self) -> Rounds:
        return Rounds(self.run.link, self.run.grid, (self.learner.encoder,))

    def boost(self, source, held_out=None):
        start = self.start
        return boost(source, self.learner, self.run, start, held_out=held_out, progress=False).model


RUNS = {
    "rounded": Settings(grid=Levels.uniform(12), tolerance=1e-4, max_rounds=6),
    "newton": Settings(
        link="logit",
        levels=5,
        step=0.3,
        tables_per_round=2,
        max_rounds=4,
        penalty=Penalty(l2=1.0, min_level_rows=5),
    ),
}


def make_bench(name: str, run: Settings, n: int = 300, weighted: bool = True) -> Bench:
    X, y, base, weight = people(n, seed=3, binary=run.link == "logit")
    mass = weight if weighted else None
    bits = label_bits(y) if run.replaces else None
    scale = make_scale(n, mass, newton=run.link == "logit", exact_bits=bits)
    table = read_table(X)
    quantised = scale.quantise_weight(mass)
    learner = CLASSES[name].bind(Columns.of(table, quantised))
    block = learner.encoder.encode(table)
    return Bench(learner, Rows((block,), y, to_margin(base, run.link), quantised), scale, run)


class Forgetful:
    """A second engine: uneven parts in a list, lost at random, answering in any order.

    A lost part is made anew from its rows and has to replay the steps it is asked about.
    """

    only_part = None

    def __init__(self, pieces: Sequence[Rows], scale: Scale, seed: int) -> None:
        self.pieces = pieces
        self.scale = scale
        self.rng = np.random.default_rng(seed)
        self.lost = 0
        self.parts = [self._make(piece) for piece in pieces]

    def share_out(self, work: Callable[[int], None], pieces: int) -> None:
        for piece in self.rng.permutation(pieces):
            work(int(piece))

    def _make(self, piece: Rows) -> Part:
        return Part(piece, self.scale)

    @property
    def n_rows(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    def sums(self, statistic: Statistic) -> Sums:
        return add_up(self._each(statistic))

    def _each(self, statistic: Statistic) -> Iterable[Sums]:
        for k in self.rng.permutation(len(self.parts)):
            if self.rng.random() < 0.4:
                self.parts[k] = self._make(self.pieces[k])
                self.lost += 1
            yield statistic.of(self.parts[k])

    def scores(self, model: Rounds) -> Scores:
        return np.concatenate([part.scores(model) for part in self.parts])


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", CLASSES)
def test_an_engine_that_forgets_learns_the_same(name, run):
    bench = make_bench(name, RUNS[run])
    with rows_in_memory(bench.rows, bench.scale) as source:
        expected = bench.boost(source)
        scores = source.scores(expected)
    assert len(expected.steps) >= 2
    borders = [0, 1, 4, 90, 92, 300]
    pieces = [bench.rows.take(slice(a, b)) for a, b in pairwise(borders)]
    for seed in range(3):
        source = Forgetful(pieces, bench.scale, seed)
        model = bench.boost(source)
        assert source.lost > 10
        assert content(model) == content(expected)
        assert source.scores(model).tobytes() == scores.tobytes()


@pytest.mark.parametrize("name", CLASSES)
def test_blocks_of_fewer_rows_than_level_sets(name):
    bench = make_bench(name, RUNS["rounded"], n=60, weighted=False)
    with rows_in_memory(bench.rows, bench.scale) as source:
        expected = bench.boost(source)
    for blocks in (7, 20, 60):
        assert 60 // blocks < RUNS["rounded"].grid.count
        with rows_in_memory(bench.rows, bench.scale, blocks=blocks, threads=2) as source:
            assert content(bench.boost(source)) == content(expected), blocks


@pytest.mark.parametrize("name", CLASSES)
def test_any_layout_of_the_words_learns_the_same(name):
    """One word, two words and three hold the same numbers."""
    bench = make_bench(name, RUNS["rounded"], weighted=False)
    assert bench.scale.words == 1
    models = []
    for words in (1, 2, 3):
        shift = bench.scale.shift if words == 1 else 0
        scale = bench.scale._replace(words=words, shift=shift)
        with rows_in_memory(bench.rows, scale) as source:
            models.append(content(bench.boost(source)))
    assert models[0] == models[1] == models[2]


# ---- files of small tables

SMALL = {
    "default": {},
    "groups": {"H": rc.Groups("c0")},
    "linear": {"H": rc.Linear()},
    "paper": {"H": rc.Linear(), "alpha": 0.05, "validation": 0.3},
    "quantiles": {
        "loop": rc.Loop(levels=5, rounded=True, level_kind="quantile", max_rounds=5),
        "validation": False,
    },
}


def small_table(seed):
    """Few rows, values that tie, two zeros, missing values, labels of all kinds."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([15, 60, 300]))
    zeros = np.where(rng.random(n) < 0.5, -0.0, 0.0)
    kinds = (
        lambda: rng.choice(list("abc"), n),
        lambda: np.where(rng.random(n) < 0.5, zeros, 0.5),
        lambda: np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
    )
    X = pd.DataFrame({f"c{j}": kinds[rng.integers(3)]() for j in range(2)})
    p = rng.uniform(0.1, 0.9, n)
    labels = (rng.random(n) < p) * 1.0, p, np.where(rng.random(n) < 0.2, zeros, 100 * p)
    kind = seed % 3
    weight = None if rng.random() < 0.5 else rng.gamma(1.0, size=n)
    return X, labels[kind], p if kind < 2 else np.where(p < 0.2, zeros, 90 * p), weight, rng


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", SMALL)
def test_files_of_small_tables_do_not_depend_on_the_order_of_rows(name, seed):
    """Notes, errors and certificates included."""
    X, y, base, weight, rng = small_table(seed)

    def saved(rows):
        own = None if weight is None else weight[rows]
        model = rc.fit(base[rows], X.iloc[rows], y[rows], sample_weight=own, **SMALL[name])
        return to_bytes(model)[0]

    assert saved(np.arange(len(y))) == saved(rng.permutation(len(y)))


# ---- weights


@pytest.mark.parametrize("name", ["trees", "linear", "polynomial", "groups"])
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "soft"])
def test_weight_two_is_the_row_twice(name, binary):
    X, y, base, _ = people(500, seed=2, binary=binary)
    times = np.random.default_rng(0).integers(1, 4, len(y))
    twice = np.repeat(np.arange(len(y)), times)

    def pair(**options):
        H = CLASSES[name]
        weighted = fit_with(base, X, y, H, sample_weight=times.astype(float), **options)
        repeated = fit_with(base[twice], X.iloc[twice], y[twice], H, **options)
        return weighted, repeated

    weighted, repeated = pair(alpha=0.02)
    assert weighted.n_rounds_ == repeated.n_rounds_ >= 1
    # The rounded scores are the same levels, hence equal to the bit.
    assert weighted.predict(X, base=base).tolist() == repeated.predict(X, base=base).tolist()

    weighted, repeated = pair(validation=False, max_rounds=5, levels=4, link="identity")
    assert len(weighted.rounds.steps) == len(repeated.rounds.steps) == 5
    difference = weighted.predict(X, base=base) - repeated.predict(X, base=base)
    # Weights take bits from the responses (2**-29 instead of 2**-30 here), which is all that
    # differs; an error that counts would be of the size of a step, 1e-2.
    assert np.abs(difference).max() < 1e-7
