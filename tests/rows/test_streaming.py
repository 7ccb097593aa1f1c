"""Rows in pieces: the model is the one that the same rows in memory give."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from settings import fit_with
from test_identity import content, people

import recalibrate as rc
from recalibrate.bases.problem import InputOptions
from recalibrate.data import columns
from recalibrate.data.columns import GrowingColumn
from recalibrate.data.table import is_streamed, read_table
from recalibrate.fitting.default import boosting, shifts
from recalibrate.fitting.default import stages as default_sample
from recalibrate.rows import disk as pieces_module
from recalibrate.rows import disk as rows_in_files
from recalibrate.rows import reading
from recalibrate.rows.disk import scratch_folder
from recalibrate.rows.reading import read_rows

CLASSES = {
    "trees": rc.Trees(depth=2, base_score=True, bins=20),
    "orders": rc.Trees(depth=3, features=["job", "sex"], score_order=2, one_vs_rest=9),
    "linear": rc.Linear(base_score=True),
    "polynomial": rc.Polynomial(base_score=True),
    "groups": rc.Groups("sex", "age", "sex*job", "income < 0.2", min_rows=3),
}
PAPER = {"alpha": 0.02}
MODES = {
    "paper": PAPER,
    "paper with a share aside": {**PAPER, "validation": 0.3},
    "loop": {"step": 0.3, "max_rounds": 4, "validation": False},
    "quantile grid": {
        "rounded": True,
        "level_kind": "quantile",
        "levels": 6,
        "max_rounds": 3,
        "validation": False,
    },
    "share": {"step": 0.3, "max_rounds": 5, "validation": 0.25},
    "folds": {"step": 0.3, "max_rounds": 5, "cv": 3},
}


def frame(n=600, seed=0, binary=True):
    """One table with everything in it; some rows have no weight."""
    X, y, base, weight = people(n, seed=seed, binary=binary)
    weight[np.random.default_rng(seed).random(n) < 0.05] = 0.0
    return X.assign(label=y, score=base, w=weight)


def cut(data, *borders):
    """Pieces of a table; empty ones are none's business."""
    return [data.iloc[a:b] for a, b in pairwise((0, *borders, len(data)))]


def in_memory(data, H, weighted, **options):
    X = data.drop(columns=["label", "score", "w"])
    weight = data["w"] if weighted else None
    return fit_with(data["score"].to_numpy(), X, data["label"], H, sample_weight=weight, **options)


def in_pieces(pieces, H, weighted, **options):
    if not weighted:
        pieces = [piece.drop(columns="w") for piece in pieces]
    weight = "w" if weighted else None
    options = {"memory": 0} | options  # few rows would stay in memory, and files would not be used
    return fit_with("score", iter(pieces), "label", H, sample_weight=weight, **options)


def same(a, b):
    assert a.schema == b.schema
    assert a.n_rows == b.n_rows
    assert content(a.history_) == content(b.history_)
    assert str(a.certificate_) == str(b.certificate_)
    assert a.notes == b.notes
    assert content(a.rounds) == content(b.rounds)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CLASSES)
def test_same_model_as_in_memory(name, mode, weighted, tmp_path, monkeypatch):
    data = frame(binary=mode in ("loop", "folds"))
    expected = in_memory(data, CLASSES[name], weighted, **MODES[mode])
    assert expected.n_rounds_ >= 1, "nothing was learned, so nothing was compared"
    pieces = cut(data, 7, 7, 300)
    model = in_pieces(
        pieces, CLASSES[name], weighted, **MODES[mode], cache=tmp_path, block_rows=190, threads=2
    )
    same(model, expected)
    for memory in (None, 60_000):  # all rows, and some
        how = {"cache": tmp_path, "block_rows": 190, "threads": 2, "memory": memory}
        same(in_pieces(pieces, CLASSES[name], weighted, **MODES[mode], **how), expected)
    monkeypatch.setattr(columns, "MOST_DISTINCT", 5)  # exact quantiles by counting bits
    expected = in_memory(data, CLASSES[name], weighted, **MODES[mode])  # bounds on less knowledge
    model = in_pieces(
        pieces, CLASSES[name], weighted, **MODES[mode], cache=tmp_path, block_rows=1000, threads=1
    )
    same(model, expected)
    assert not list(tmp_path.iterdir())


COUNTS = {
    "loop": (rc.Trees(depth=2, bins=20), {**MODES["loop"], "bounds": (0, 9)}),
    "groups": (rc.Groups("sex", "job"), {}),
}


def counts(n=600):
    """Totals, rates of a base that is off, and exposures."""
    data = frame(n).drop(columns="w")
    rng = np.random.default_rng(1)
    rate = data["score"] * np.where(data["sex"] == "F", 2.0, 1.0)
    e = rng.uniform(0.2, 3.0, n)
    return data.assign(label=rng.poisson(rate * e), e=e)


@pytest.mark.slow
@pytest.mark.parametrize("mode", COUNTS)
def test_counts_with_exposure(mode):
    H, options = COUNTS[mode]
    data = counts()
    X = data.drop(columns=["label", "score", "e"])
    expected = fit_with(
        data["score"].to_numpy(), X, data["label"], H, exposure=data["e"], **options
    )
    assert expected.rounds.steps
    model = fit_with("score", iter(cut(data, 7, 300)), "label", H, exposure="e", **options)
    same(model, expected)
    assert model.labels.bounds == expected.labels.bounds


LOOP = MODES["loop"]


def mean_of_two(X):
    """A base model that finds its columns by name, in any table."""
    return 0.3 + 0.1 * (X["age"] < 40).to_numpy() + 0.2 * (X["sex"] == "F").to_numpy()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "folder", "pattern", "list", "function", "frames"])
def test_ways_to_give_rows(kind, tmp_path):
    data = frame(400).drop(columns=["score", "w"])
    expected = fit_with(mean_of_two, data.drop(columns="label"), data["label"], **LOOP)
    folder = tmp_path / "rows"
    folder.mkdir()
    paths = [folder / f"{k}.parquet" for k in range(2)]
    for path, piece in zip(paths, cut(data, 150), strict=True):
        piece.to_parquet(path, row_group_size=64)
    if kind == "file":
        data.to_parquet(folder / "all.parquet", row_group_size=100)
    rows = {
        "file": folder / "all.parquet",
        "folder": str(folder),
        "pattern": str(folder / "*.parquet"),
        "list": paths,
        "function": lambda: cut(data, 3, 390),
        "frames": cut(data, 200),
    }[kind]
    same(fit_with(mean_of_two, rows, "label", block_rows=128, **LOOP), expected)


def test_a_model_sees_its_columns_whatever_their_order():
    data = frame(300).drop(columns=["score", "w"])
    expected = fit_with(mean_of_two, data.drop(columns="label"), data["label"], **LOOP)
    first, second = cut(data, 100)
    shuffled = [first, second[second.columns[::-1]]]
    same(fit_with(mean_of_two, shuffled, "label", **LOOP), expected)


# ---- the default


def uneven(n, binary=False):
    """The base is off everywhere: more than a few groups, so that boosting has to be done."""
    data = frame(n, binary=binary)
    rng = np.random.default_rng(7)
    off = data["job"].map(dict(zip("abcdef", (-0.3, -0.2, -0.1, 0.1, 0.2, 0.3), strict=True)))
    mean = data["score"] + off + 0.2 * np.tanh(data["income"])
    label = rng.random(n) < mean if binary else np.clip(mean + rng.normal(0, 0.2, n), 0, 1)
    return data.assign(label=label.astype(float))


def with_towns(n):
    """The same with a column of many categories, every second of which is off by much."""
    data = uneven(n, binary=True)
    rng = np.random.default_rng(1)
    town = rng.integers(0, 150, n)
    label = np.where(rng.random(n) < 0.5, data["label"], town % 2.0)
    return data.assign(town=[f"t{k}" for k in town], label=label)


def was_boosted(model):
    """Whether there is more to compare than what comes before and after boosting."""
    return any(note.startswith("boosting: applied, ") for note in model.notes)


def choose_on(monkeypatch, rows):
    """The default's choices are made on so many rows, and to save time with few steps."""
    monkeypatch.setattr(default_sample, "CHOOSING_ROWS", rows)
    monkeypatch.setattr(boosting, "main_settings", few_steps)
    go_the_way_of_many(monkeypatch)


def go_the_way_of_many(monkeypatch):
    """Few rows are boosted as many are: their columns are not shifted first."""
    for module in (boosting, shifts):
        monkeypatch.setattr(module, "COLUMN_ROWS", 0)


def few_steps(*given, settings_of=boosting.main_settings):
    return replace(settings_of(*given), max_rounds=4)


DEFAULTS = {
    "default": None,
    "groups": rc.Groups("sex", "age", "sex*job", min_rows=3),
    "linear": rc.Linear(base_score=True),
    "polynomial": rc.Polynomial(base_score=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("most", [600, 2000], ids=["sample", "all rows"])
@pytest.mark.parametrize("name", DEFAULTS)
def test_the_default_is_the_same(name, most, weighted, tmp_path, monkeypatch):
    choose_on(monkeypatch, most)
    data, H = uneven(1500, binary=name == "default" and not weighted), DEFAULTS[name]
    expected = in_memory(data, H, weighted, cv=3)
    assert was_boosted(expected) or (name == "groups" and expected.n_rounds_ > 1)
    pieces = cut(data, 7, 7, 800)
    model = in_pieces(pieces, H, weighted, cv=3, cache=tmp_path, block_rows=400, threads=2)
    same(model, expected)
    monkeypatch.setattr(pieces_module, "HASHES_AT_ONCE", 100)  # so that they are looked at in parts
    monkeypatch.setattr(columns, "MOST_DISTINCT", 300)  # more than there are bins
    shuffled = data.sample(frac=1.0, random_state=1)
    model = in_pieces(cut(shuffled, 500), H, weighted, cv=3, cache=tmp_path, threads=1)
    if most < len(data):  # otherwise sums of held-out losses end in other digits
        same(model, expected)
    assert content(model.rounds) == content(expected.rounds)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_many_categories_are_the_same(weighted, monkeypatch):
    choose_on(monkeypatch, 900)
    data = with_towns(2000)
    expected = in_memory(data, None, weighted, cv=3)
    assert any(note.startswith("column shifts: applied") for note in expected.notes)
    same(in_pieces(cut(data, 7, 7, 800), None, weighted, cv=3, block_rows=400), expected)


@pytest.mark.slow
def test_the_default_with_a_share_of_regression_labels(monkeypatch):
    choose_on(monkeypatch, 700)
    data = uneven(1500)
    data[["label", "score"]] = 100 * data[["label", "score"]] - 20
    expected = in_memory(data, None, True, validation=0.3)
    same(in_pieces(cut(data, 40, 300), None, True, validation=0.3, block_rows=500), expected)


@pytest.mark.slow
def test_a_sample_of_few_distinct_rows_is_like_all_of_them(monkeypatch):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"sex": rng.choice(["F", "M"], 4000), "score": 0.4, "w": 1.0})
    data = X.assign(label=(rng.random(4000) < np.where(X["sex"] == "F", 0.2, 0.6)) * 1.0)
    monkeypatch.setattr(default_sample, "CHOOSING_ROWS", 1000)
    pieces = cut(data, 10, 1500)
    with scratch_folder() as scratch:
        reading = InputOptions("w")
        _, rows = read_rows(
            pieces,
            "score",
            "label",
            reading,
            scratch=scratch,
            block_rows=900,
            threads=1,
        )
        sample = pieces_module.sample_pieces(rows, 1000, seed=0)
    sex, y = sample.table.column("sex"), sample.labels.values
    assert sample.n_rows == 1000
    for code, name in ((1, "F"), (2, "M")):
        mean = data.loc[data["sex"] == name, "label"].mean()
        # Five standard errors of the mean of some 500 rows.
        assert y[sex == code].mean() == pytest.approx(mean, abs=0.1)
        assert np.mean(sex == code) == pytest.approx((data["sex"] == name).mean(), abs=0.08)
    same(in_pieces(pieces, None, False), in_memory(data, None, False))


@pytest.mark.slow
def test_folds_of_a_splitter_are_cut_down_to_the_sample(monkeypatch):
    from sklearn.model_selection import KFold

    go_the_way_of_many(monkeypatch)
    data = uneven(1500)
    expected = in_memory(data, None, True, cv=KFold(3))
    monkeypatch.setattr(default_sample, "CHOOSING_ROWS", 1000)
    model = in_memory(data, None, True, cv=KFold(3))
    assert was_boosted(model)
    assert model.history_.held_out != expected.history_.held_out
    pairs = in_memory(data, None, True, cv=KFold(3).split(data))  # can be read only once
    assert content(pairs.rounds) == content(model.rounds)


def test_estimators_are_worked_out_in_memory():
    from sklearn.linear_model import Ridge

    data, H = frame(300), rc.Estimator(Ridge(), features=["income"])
    models = [in_memory(data, H, True, **LOOP), in_pieces(cut(data, 40), H, True, **LOOP)]
    a, b = (model.predict(data, base=data["score"]) for model in models)
    np.testing.assert_array_equal(a, b)
    assert models[0].n_rounds_ == LOOP["max_rounds"]


def test_too_many_rows_for_memory_are_refused_with_what_works(monkeypatch):
    from sklearn.linear_model import Ridge

    monkeypatch.setattr(reading, "BYTES_A_ROW", 1 << 60)
    with pytest.raises(MemoryError, match=r"Estimator .* Trees, Linear and Groups are not bound"):
        in_pieces(cut(frame(100), 40), rc.Estimator(Ridge()), False)
    in_pieces(cut(frame(100), 40), None, False)


def test_labels_are_scaled_by_all_rows_and_scores_decide_their_kind():
    data = frame(300, binary=False)
    data["label"] = 100 * data["label"] - 20
    data["score"] = 100 * data["score"] - 20
    same(in_pieces(cut(data, 10), "trees", True, **LOOP), in_memory(data, "trees", True, **LOOP))
    bounds = {"bounds": (-30.0, 90.0)}
    same(
        in_pieces(cut(data, 10), "trees", True, **LOOP, **bounds),
        in_memory(data, "trees", True, **LOOP, **bounds),
    )
    soft = frame(300, binary=False)
    soft.loc[250, "score"] = 1.5  # only the second piece shows that these are no probabilities
    model = in_pieces(cut(soft, 100), "trees", False, **LOOP)
    assert model.labels.kind == "regression"
    same(model, in_memory(soft, "trees", False, **LOOP))


def test_validation_rows_may_be_in_memory():
    data, other = frame(400), frame(150, seed=5)
    X = other.drop(columns=["label", "score", "w"])
    validation = {"X": X, "y": other["label"], "base": other["score"], "sample_weight": other["w"]}
    for options in (
        {"step": 0.3, "max_rounds": 5, "validation": validation, "accept": 0.0},
        {**PAPER, "validation": validation},
    ):
        expected = in_memory(data, "trees", True, **options)
        same(in_pieces(cut(data, 123), "trees", True, **options), expected)


# ---- what is refused


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"y": np.zeros(5)}, TypeError, "y must be the name of a column"),
        ({"y": "lable"}, ValueError, "'label'"),
        ({"sample_weight": "wait"}, ValueError, "no column 'wait'"),
        ({"base_model": np.zeros(5)}, TypeError, "make the scores a column"),
        ({"base_model": "scores"}, FileNotFoundError, "no such file"),
        ({"X": "nowhere/*.parquet"}, FileNotFoundError, "no such Parquet file"),
        ({"X": iter([])}, ValueError, "no rows"),
        ({"X": iter([1])}, TypeError, "iterable of DataFrames"),
        ({"cv": [(np.arange(3), np.arange(3, 6))]}, ValueError, "splits rows by their numbers"),
        ({"block_rows": 0}, ValueError, "block_rows must be a whole number"),
        ({"memory": -1}, ValueError, "memory must be a whole number"),
        ({"categorical": ["street"]}, ValueError, "street"),
    ],
)
def test_mistakes_are_named(change, error, words):
    call = {"base_model": "score", "X": cut(frame(50), 20), "y": "label", **change}
    with pytest.raises(error, match=words):
        fit_with(**call)


def test_an_unfitted_base_is_refused():
    from sklearn.linear_model import LinearRegression

    with pytest.raises(ValueError, match="cross-fitting needs all rows in memory"):
        rc.fit(LinearRegression(), cut(frame(50), 20), "label", cv=3)


def test_all_weights_zero():
    with pytest.raises(ValueError, match="zero for every row"):
        in_pieces(cut(frame(50).assign(w=0.0), 20), "trees", True, **LOOP)


def test_columns_that_change_their_type_are_refused():
    first, second = cut(frame(60), 30)
    with pytest.raises(ValueError, match="'age' holds categories in some pieces and numbers"):
        in_pieces([first, second.assign(age="old")], "trees", False, **LOOP)
    with pytest.raises(ValueError, match="no column 'age'"):
        in_pieces([first, second.drop(columns="age")], "trees", False, **LOOP)


def test_nothing_is_left_when_reading_fails(tmp_path):
    def broken():
        yield frame(50)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_with("score", broken(), "label", cache=tmp_path, **LOOP)
    assert not list(tmp_path.iterdir())


# ---- what counts as rows in pieces


@pytest.mark.parametrize(
    ("X", "streamed"),
    [
        ("rows.parquet", True),
        (["a.parquet", "b.parquet"], True),
        (iter([]), True),
        (mean_of_two, True),
        ([pd.DataFrame({"a": [1]})], True),
        ([], False),
        ([[1.0], [2.0]], False),
        (np.zeros((2, 2)), False),
        (pd.DataFrame({"a": [1]}), False),
        ({"a": [1]}, False),
        ((np.zeros(2), np.zeros(2)), False),
    ],
)
def test_is_streamed(X, streamed):
    assert is_streamed(X) is streamed


# ---- columns and distributions


MIXED = {
    "numbers": [1, 2.5, None, 7],
    "whole": [3, 1, 2, 2],
    "flags": [True, None, False, True],
    "text": ["b", "a", None, "c"],
    "mixture": ["b", 1, True, 1.0],
    "nothing": [None, None, None, None],
    "late": [None, None, "z", "y"],
}


@pytest.mark.parametrize("name", MIXED)
def test_a_column_grows_into_what_it_is_as_a_whole(name):
    values = pd.Series(MIXED[name], dtype=object, name=name)
    expected = read_table(values.to_frame())
    column = GrowingColumn(name)
    if name == "mixture":
        pieces = [column.encode(values.to_numpy())]
    else:
        pieces = [column.encode(values.iloc[rows].to_numpy()) for rows in ([0, 1], [2], [3])]
    assert column.column() == expected.schema.columns[0]
    codes = column.recode(np.concatenate(pieces), column.column())
    np.testing.assert_array_equal(codes, expected.column(0))


def test_categories_of_a_pandas_dtype_that_do_not_occur_are_none():
    values = pd.Series(pd.Categorical(["b", None], categories=["a", "b", "c"]))
    column = GrowingColumn("x")
    np.testing.assert_array_equal(column.encode(values), [1.0, np.nan])
    assert column.column().categories == ("b",)


WAITING = """
import os, signal, sys
from recalibrate.rows.disk import scratch_folder

with scratch_folder(sys.argv[1]) as outer, scratch_folder(sys.argv[1]) as inner:
    outer.put(__import__("numpy").zeros(3))
    child = os.fork()
    if child == 0:  # as a pool ends its workers
        signal.raise_signal(signal.SIGTERM)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
    print("waiting", len(os.listdir(sys.argv[1])), flush=True)
    signal.pause()
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_sigterm_removes_the_scratch_folders_of_its_process(tmp_path):
    command = [sys.executable, "-c", WAITING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "waiting 2\n"  # a fork has left them alone
        process.send_signal(signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_sigterm_is_left_to_a_program_that_handles_it(tmp_path):
    def own(number, frame):
        pass

    before = signal.signal(signal.SIGTERM, own)
    try:
        with scratch_folder(tmp_path):
            assert signal.getsignal(signal.SIGTERM) is own
        assert signal.getsignal(signal.SIGTERM) is own
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with scratch_folder(tmp_path):
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("where", ["made", "removed"])
def test_an_interruption_leaves_no_scratch_folder(tmp_path, monkeypatch, where):
    """Also one that comes when the folder has just been made, or is half removed."""
    remove, make, calls = shutil.rmtree, Path.mkdir, []

    def interrupted(folder, **options):
        calls.append(folder)
        if len(calls) == 1:
            raise KeyboardInterrupt
        remove(folder, **options)

    def made(folder, **options):
        make(folder, **options)
        if not options.get("parents"):
            raise KeyboardInterrupt

    if where == "made":
        monkeypatch.setattr(Path, "mkdir", made)
    else:
        monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), scratch_folder(tmp_path) as scratch:
        scratch.put(np.ones(3))
    assert list(tmp_path.iterdir()) == []
    assert rows_in_files._IN_USE == {}
