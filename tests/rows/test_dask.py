"""Rows on Dask workers give the model that rows in memory give, whatever happens to workers."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from settings import fit_with
from test_streaming import (
    CLASSES,
    COUNTS,
    DEFAULTS,
    LOOP,
    MODES,
    choose_on,
    counts,
    cut,
    frame,
    in_memory,
    same,
    uneven,
    was_boosted,
    with_towns,
)

import recalibrate as rc
from recalibrate.bases.protocol import as_base
from recalibrate.bases.wrappers import GraphBase
from recalibrate.rows import dask
from recalibrate.rows.dask import OnWorkers, pack, travelling

pytestmark = [
    pytest.mark.adapter,
    # Dask's own housekeeping when a cluster of processes is started, loses a worker and ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*port .* is already in use.*:UserWarning"),
]


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    import dask

    with (
        dask.config.set({"distributed.worker.memory.terminate": False}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def base_model():
    """Shipped to the workers as an object, by value: they do not see this module."""
    import cloudpickle

    return cloudpickle.loads(cloudpickle.dumps(lambda X: 0.3 + 0.2 * (X["sex"] == "F").to_numpy()))


def kill_workers_at(client, monkeypatch, number, how_many):
    """Kill workers for good before a statistic is sent; the list says when it happened."""
    client.wait_for_workers(2)  # one that an earlier test killed may not be back yet
    sums, asked, killed = OnWorkers.sums, [], []

    def counted(self, statistic):
        asked.append(statistic)
        if len(asked) == number:
            for pid in list(client.run(os.getpid).values())[:how_many]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        return sums(self, statistic)

    monkeypatch.setattr(OnWorkers, "sums", counted)
    return killed


def partitions(data, *borders):
    """A Dask DataFrame with these partitions, empty ones included."""
    import dask
    import dask.dataframe as dd

    pieces = [dask.delayed(piece) for piece in cut(data, *borders)]
    return dd.from_delayed(pieces, meta=data.iloc[:0], verify_meta=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("trees", "loop"),
        ("linear", "paper with a share aside"),
        ("polynomial", "loop"),
        ("groups", "loop"),
    ],
)
def test_same_model_as_in_memory(client, name, mode):
    data = frame(500, binary=mode == "loop")
    expected = in_memory(data, CLASSES[name], True, **MODES[mode])
    assert expected.n_rounds_ >= 1, "nothing was learned, so nothing was compared"
    X = partitions(data, 1, 1, 120, 130, 400, 500)  # the second and the last have no rows
    model = fit_with("score", X, "label", CLASSES[name], sample_weight="w", **MODES[mode])
    same(model, expected)


@pytest.mark.slow
def test_counts_with_exposure(client):
    H, options = COUNTS["loop"]
    data = counts(500)
    whole = fit_with("score", iter([data]), "label", H, exposure="e", **options)
    X = partitions(data, 1, 1, 120, 500)
    same(fit_with("score", X, "label", H, exposure="e", **options), whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "borders"),
    [
        ("default", (1, 1, 300, 310, 1000, 1000)),  # some have no rows
        ("default", (500,)),
        ("groups", (0, 20, 700)),
        ("linear", (400, 400, 900)),
        ("polynomial", (200,)),
    ],
)
def test_the_default_is_the_same(client, name, borders, monkeypatch):
    choose_on(monkeypatch, 600)
    data = uneven(1000)
    expected = in_memory(data, DEFAULTS[name], True, cv=3)
    assert was_boosted(expected) or (name == "groups" and expected.n_rounds_ > 1)
    X = partitions(data, *borders)
    same(rc.fit("score", X, "label", DEFAULTS[name], sample_weight="w", cv=3), expected)
    choose_on(monkeypatch, 1000)  # all rows: then the workers only read
    expected = in_memory(data, DEFAULTS[name], True, cv=3)
    same(rc.fit("score", X, "label", DEFAULTS[name], sample_weight="w", cv=3), expected)


@pytest.mark.slow
def test_many_categories_are_the_same(client, monkeypatch):
    choose_on(monkeypatch, 900)
    data = with_towns(2000)
    expected = in_memory(data, None, True, cv=3)
    assert any(note.startswith("column shifts: applied") for note in expected.notes)
    X = partitions(data, 30, 30, 1400)
    same(rc.fit("score", X, "label", sample_weight="w", cv=3), expected)


@pytest.mark.slow
def test_the_default_with_a_base_that_scores_on_the_workers(client, monkeypatch):
    choose_on(monkeypatch, 300)
    data = frame(600).drop(columns=["score", "w"])
    expected = rc.fit(base_model(), data.drop(columns="label"), data["label"])
    assert expected.n_rounds_ >= 2
    same(
        rc.fit(
            base_model(), partitions(data, 30, 30, 400), "label", engine=rc.Engine(client=client)
        ),
        expected,
    )


@pytest.mark.slow
@pytest.mark.parametrize("borders", [(), (10, 20, 333)])
def test_partitions_do_not_matter_and_the_base_scores_on_the_workers(client, borders):
    data = frame(400).drop(columns=["score", "w"])
    expected = fit_with(base_model(), data.drop(columns="label"), data["label"], **LOOP)
    model = fit_with(base_model(), partitions(data, *borders), "label", client=client, **LOOP)
    same(model, expected)
    np.testing.assert_array_equal(model.predict(data), expected.predict(data))  # a local model


@pytest.mark.slow
def test_a_trained_model_scores_on_the_workers_as_its_graph(client, capsys):
    from sklearn.ensemble import RandomForestClassifier

    data = frame(400).drop(columns=["score", "w"])
    base = RandomForestClassifier(5, max_depth=3, random_state=0)
    base.fit(data[["age", "income"]], data["label"])
    assert isinstance(travelling(as_base(base)), GraphBase)  # the workers need no scikit-learn
    expected = fit_with(base, data.drop(columns="label"), data["label"], **LOOP)
    model = fit_with(base, partitions(data, 50, 50, 300), "label", progress=True, **LOOP)
    same(model, expected)
    assert f"round {LOOP['max_rounds']}/{LOOP['max_rounds']}" in capsys.readouterr().err


@pytest.mark.slow
def test_predictions_and_audit_of_a_collection(client):
    data = frame(300).drop(columns="score")
    features = data.drop(columns=["label", "w"])
    model = fit_with(base_model(), features, data["label"], sample_weight=data["w"], **LOOP)
    X = partitions(data, 50, 50, 200)
    predicted = model.predict(X)
    assert predicted.npartitions == X.npartitions
    np.testing.assert_array_equal(predicted.compute(), model.predict(features))
    both = model.predict_proba(X)
    assert both.npartitions == X.npartitions
    np.testing.assert_array_equal(both.compute(), model.predict_proba(features))
    groups = rc.Groups("sex", "age < 40")
    options = {"groups": groups, "baseline": True}
    expected = rc.audit(model, features, data["label"], sample_weight=data["w"], **options)
    report = rc.audit(model, X, "label", sample_weight="w", **options)
    pd.testing.assert_frame_equal(report.full_table, expected.full_table)


@pytest.mark.slow
def test_a_base_that_knows_the_labels_is_warned_about(client):
    data = frame(300).drop(columns="w")
    data["score"] = np.where(data["label"] == 1, 0.99999, 0.00001)
    with pytest.warns(UserWarning, match="predict the labels almost perfectly"):
        fit_with("score", partitions(data, 100), "label", **LOOP)


@pytest.mark.slow
def test_scores_in_a_column(client):
    data = frame(300)
    model = in_memory(data, "trees", False, **LOOP)
    X = partitions(data, 120)
    expected = model.predict(data, base=data["score"])
    np.testing.assert_array_equal(model.predict(X, base="score").compute(), expected)
    report = rc.audit(model, X, "label", groups="sex", base="score", baseline="score")
    local = rc.audit(model, data, data["label"], groups="sex", base=data["score"], baseline=True)
    pd.testing.assert_frame_equal(report.full_table, local.full_table)


@pytest.mark.slow
def test_several_classes_give_the_model_of_memory(client):
    """Fitted on K columns of scores; predictions are a table with a column per class."""
    data = frame(600).drop(columns=["score", "w"])
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2.0, 2.0, 2.0], 600)
    data["label"] = rng.integers(0, 3, 600)
    names = ["p0", "p1", "p2"]
    data[names] = p
    how = {"H": rc.Groups("sex"), "classes": [0, 1, 2], "cv": 2}
    features = data.drop(columns=["label", *names])
    expected = rc.fit(p, features, data["label"], **how)
    X = partitions(data, 220)
    model = rc.fit(names, X, "label", **how)
    same(model, expected)
    found = model.predict(X, base=names).compute()
    assert found.columns.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(found, expected.predict(features, base=p))


@pytest.mark.slow
def test_classes_by_name_are_sorted_columns(client):
    """Of two classes and of three, in whatever order the scores have them."""
    data = frame(300).drop(columns=["w"])
    data["label"] = np.where(data["label"] == 1, "admitted", "home")
    X = partitions(data, 120)
    model = fit_with("score", X, "label", classes=["home", "admitted"], **LOOP)
    both = model.predict_proba(X, base="score").compute()
    assert both.columns.tolist() == model.classes_.tolist() == ["admitted", "home"]
    np.testing.assert_array_equal(both["admitted"], model.predict(X, base="score").compute())
    np.testing.assert_array_equal(both, model.predict_proba(data, base=data["score"]))
    names, p = ["p0", "p1", "p2"], np.random.default_rng(0).dirichlet([2.0, 2.0, 2.0], 300)
    data[names] = p
    data["label"] = np.array(["low", "mid", "high"])[p.argmax(axis=1)]
    X = partitions(data.drop(columns="score"), 120)
    model = fit_with(names, X, "label", classes=["low", "mid", "high"], **LOOP)
    found = model.predict(X, base=names).compute()
    assert found.columns.tolist() == ["high", "low", "mid"]
    np.testing.assert_array_equal(found, model.predict(data, base=p))


@pytest.mark.slow
def test_what_needs_all_rows_is_refused(client):
    from sklearn.linear_model import LinearRegression

    X = partitions(frame(60), 30)
    with pytest.raises(ValueError, match="fits a regressor that needs all rows in one process"):
        rc.fit("score", X, "label", rc.Estimator(LinearRegression()))
    with pytest.raises(TypeError, match="y must be the name of a column"):
        fit_with("score", X, np.zeros(60), **LOOP)
    with pytest.raises(TypeError, match="base must be the name of a column"):
        in_memory(frame(60), "trees", False, **LOOP).predict(X, base=np.zeros(60))
    with pytest.raises(TypeError, match="cannot be sent to the workers"):
        fit_with(Unshippable(), X, "label", **LOOP)


class Unshippable:
    """A callable that cannot be pickled."""

    def __call__(self, X):
        return np.full(len(X), 0.5)

    def __reduce__(self):
        raise TypeError("bound to this process")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["share", "loop"])  # killed before, and while, all are fitted
def test_a_worker_that_is_killed_changes_nothing(client, mode, monkeypatch):
    data = frame(500)
    expected = in_memory(data, CLASSES["trees"], True, **MODES[mode])
    killed = kill_workers_at(client, monkeypatch, number=7, how_many=1)
    X = partitions(data, 100, 200, 300, 400)
    model = fit_with("score", X, "label", CLASSES["trees"], sample_weight="w", **MODES[mode])
    assert len(killed) == 1
    same(model, expected)


@pytest.mark.slow
def test_rows_that_are_not_what_they_were_are_refused(client, monkeypatch, tmp_path):
    import dask
    import dask.dataframe as dd

    data = frame(300)

    def load(part):
        """Other labels whenever a partition is read again."""
        mark = tmp_path / f"{part}-was-read"
        rows = cut(data, 100, 200)[part]
        if mark.exists():
            return rows.assign(label=1 - rows["label"])
        mark.touch()
        return rows

    pieces = [dask.delayed(load)(k) for k in range(3)]
    X = dd.from_delayed(pieces, meta=data.iloc[:0], verify_meta=False)
    # Both: what one of them held may also be on the other, and then nothing is read again.
    killed = kill_workers_at(client, monkeypatch, number=4, how_many=2)
    with pytest.raises(RuntimeError, match="are not what they were"):
        fit_with("score", X, "label", sample_weight="w", **LOOP)
    assert len(killed) == 2


@pytest.fixture
def threads_only():
    """A cluster of threads that a test may ruin."""
    distributed = pytest.importorskip("distributed")
    import dask

    # Dask would try to reach a scheduler that is gone for half a minute.
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "200ms"}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            memory_limit=0,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield cluster, client


def at_statistic(monkeypatch, number, do):
    """Do something before a statistic is sent."""
    sums, asked = OnWorkers.sums, []

    def counted(self, statistic):
        asked.append(statistic)
        if len(asked) == number:
            do()
        return sums(self, statistic)

    monkeypatch.setattr(OnWorkers, "sums", counted)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of Dask, for what it was about to do
@pytest.mark.parametrize("audited", [False, True])
def test_workers_that_are_all_paused_are_named(threads_only, monkeypatch, audited):
    from distributed.core import Status

    cluster, _ = threads_only

    def pause():
        for worker in cluster.workers.values():
            worker.status = Status.paused

    monkeypatch.setattr(dask, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(dask, "PATIENCE_SECONDS", 0.2)
    X = partitions(frame(300), 100, 200)
    given_up = pytest.raises(RuntimeError, match=r"All 2 Dask workers are paused.*memory_limit=")
    if audited:
        pause()
        with given_up, pytest.warns(UserWarning, match="All 2 Dask workers are paused"):
            rc.audit("score", X, "label", groups="sex")
    else:
        at_statistic(monkeypatch, 4, pause)
        with given_up, pytest.warns(UserWarning, match="All 2 Dask workers are paused"):
            fit_with("score", X, "label", sample_weight="w", **LOOP)


@pytest.mark.slow
def test_workers_that_go_on_are_waited_for(threads_only, monkeypatch):
    from distributed.core import Status

    cluster, client = threads_only
    data = frame(300)

    def pause():
        for worker in cluster.workers.values():
            worker.status = Status.paused
            client.loop.call_later(0.5, setattr, worker, "status", Status.running)

    monkeypatch.setattr(dask, "LOOK_SECONDS", 0.05)
    at_statistic(monkeypatch, 4, pause)
    with pytest.warns(UserWarning, match="All 2 Dask workers are paused"):
        model = fit_with(
            "score",
            partitions(data, 100, 200),
            "label",
            CLASSES["trees"],
            sample_weight="w",
            **LOOP,
        )
    same(model, in_memory(data, CLASSES["trees"], True, **LOOP))


@pytest.mark.slow
def test_a_cluster_without_workers_is_named(threads_only, monkeypatch):
    cluster, _ = threads_only
    cluster.scale(0)
    cluster.sync(cluster._correct_state)
    monkeypatch.setattr(dask, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(dask, "PATIENCE_SECONDS", 0.2)
    given_up = pytest.raises(RuntimeError, match="cluster has no workers")
    with given_up, pytest.warns(UserWarning, match="cluster has no workers"):
        fit_with("score", partitions(frame(300), 100, 200), "label", sample_weight="w", **LOOP)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of Dask, for what it was about to do
def test_a_scheduler_that_is_lost_is_named(threads_only, monkeypatch):
    cluster, _ = threads_only
    at_statistic(monkeypatch, 4, lambda: cluster.sync(cluster.scheduler.close))
    with pytest.raises(ConnectionError, match=r"Dask scheduler at .* was lost.*a new client"):
        fit_with("score", partitions(frame(300), 100, 200), "label", sample_weight="w", **LOOP)


def test_a_client_that_knows_nothing_has_lost_its_scheduler():
    """It may look so for a moment, before it notices that the connection is closed."""

    class Client:
        status, scheduler = "running", SimpleNamespace(address="tcp://here")

        def scheduler_info(self, n_workers):
            return {"type": "Scheduler"}

    lost = pytest.raises(ConnectionError, match=r"scheduler at tcp://here was lost.*a new client")
    with lost, dask.explained(Client()):
        dask.workers_of(Client())


@pytest.mark.slow
def test_workers_forget_models_with_their_packages():
    packed = pack(as_base(lambda X: np.zeros(len(X))))
    model = packed.open()
    assert packed.open() is model
    seen = weakref.ref(model)
    del packed, model
    gc.collect()
    assert seen() is None
