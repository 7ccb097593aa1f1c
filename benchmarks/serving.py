"""What does a recalibrated model cost to serve, compared with its base model alone?

    python benchmarks/serving.py
    python benchmarks/serving.py --classes 3 10 26 --rows 5000   # models of several classes
    python benchmarks/serving.py --http 2000     # asks examples/fastapi_server.py

The base is an xgboost classifier of 200 trees of depth 6 on census-like rows, as an ONNX graph.
Every model is exported as one graph (base and corrections). At batch 1 the whole graph's time is
divided by that of the base's own graph, which has the score as its only output. At larger batches
it is what the whole graph takes longer than the base's own graph, relative to that; and, in
brackets, the same relative to a graph of the base that has the same outputs as ours (label,
probabilities, score, margin). Limits are those of the first number. onnxruntime runs all graphs
on one thread, in turns, and the shortest of many processor times is taken, which other work on
the machine disturbs least.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import xgboost

import recalibrate as rc
from recalibrate.core.rounds import Rounds
from recalibrate.graph import export_model, load_served
from recalibrate.graph.inputs import Feed
from recalibrate.simulate import census
from recalibrate.support.onnxfile import open_session

CODES = ["COW", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P"]
BATCHES = {1: 5000, 1000: 300, 100_000: 12}
"""Rows of a batch, and how often it is run."""
LIMITS = {
    "rounds": {1: 6.0, 1000: 0.25, 100_000: 0.25},
    "default": {1: 10.0, 1000: 1.5, 100_000: 1.5},
}
LOAD_LIMIT, SIZE_LIMIT = 0.150, 5e6


@dataclass(frozen=True, eq=False)
class Case:
    """A model to serve, and which limits it has to keep."""

    name: str
    kind: str
    model: rc.Recalibrated


def make_cases(n_rows: int, trees: int) -> tuple[list[Case], pd.DataFrame]:
    """The base model on one half of the rows, corrections on the other."""
    data = census(2 * n_rows, seed=1, categorical=False)
    X, y = data.X.astype(np.float64), data.y
    base = xgboost.XGBClassifier(n_estimators=trees, max_depth=6, learning_rate=0.1, n_jobs=1)
    base.fit(X[:n_rows], y[:n_rows])
    X, y = X[n_rows:].reset_index(drop=True), y[n_rows:]
    trees_of_3 = rc.Trees(depth=3)
    twenty = {"validation": False, "loop": rc.Loop(max_rounds=20)}
    coarse, fine = (
        {
            "validation": False,
            "link": "identity",
            "loop": rc.Loop(levels=levels, rounded=True, max_rounds=20),
        }
        for levels in (20, 50)
    )
    cases = [
        Case("20 rounds, 10 levels", "rounds", rc.fit(base, X, y, trees_of_3, **twenty)),
        Case("20 rounds, rounded to 20", "rounds", rc.fit(base, X, y, trees_of_3, **coarse)),
        Case("20 rounds, rounded to 50", "rounds", rc.fit(base, X, y, trees_of_3, **fine)),
        Case("default fit", "default", rc.fit(base, X, y)),
        Case("default fit, 7 categories", "default", rc.fit(base, X, y, categorical=CODES)),
    ]
    return cases, X


def make_class_cases(
    classes: list[int], n_rows: int, trees: int
) -> tuple[list[Case], pd.DataFrame]:
    """Base models of several classes, each with the default fit on other rows."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(2 * n_rows, 8)), columns=[f"x{k}" for k in range(8)])
    X = X.astype(np.float32)
    cases = []
    for count in classes:
        weights = rng.normal(size=(8, count))
        z = X.to_numpy(dtype=np.float64) @ weights + (X[["x0"]].to_numpy() > 1) * weights[:1]
        y = (z + 2 * rng.gumbel(size=z.shape)).argmax(axis=1)
        base = xgboost.XGBClassifier(n_estimators=trees, max_depth=6, learning_rate=0.1, n_jobs=1)
        base.fit(X[:n_rows], y[:n_rows])
        model = rc.fit(base, X[n_rows:].reset_index(drop=True), y[n_rows:])
        cases.append(Case(f"default fit, {count} classes", "default", model))
    return cases, X


def time_in_turns(sessions: list[tuple[Any, Feed]], repeats: int) -> list[float]:
    """Shortest processor time of each session, run one after the other again and again."""
    times: list[list[float]] = [[] for _ in sessions]
    for session, feed in sessions:
        session.run(None, feed)
    for _ in range(repeats):
        for k, (session, feed) in enumerate(sessions):
            start = time.thread_time()
            session.run(None, feed)
            times[k].append(time.thread_time() - start)
    return [min(own) for own in times]


def measure(case: Case, X: pd.DataFrame, batches: dict[int, int]) -> bool:
    """Print the case's ratios; whether they keep the limits."""
    model = case.model
    graph = export_model(model)
    data = graph.SerializeToString()
    base = open_session(_base_graph(model).SerializeToString(), threads=1)
    without = replace(model, rounds=Rounds(model.rounds.link, outputs=model.rounds.outputs))
    plain = load_served(export_model(without).SerializeToString(), threads=1)
    loads = []
    for _ in range(5):
        start = time.perf_counter()
        served = load_served(data, threads=1)
        loads.append(time.perf_counter() - start)
    print(
        f"{case.name}: {model.n_rounds_} rounds, {model.n_learners_} learners, "
        f"{len(graph.graph.node)} nodes, {len(data) / 1e6:.2f} MB, loaded in "
        f"{min(loads) * 1e3:.0f} ms"
    )
    kept = min(loads) < LOAD_LIMIT and len(data) < SIZE_LIMIT
    for rows, repeats in batches.items():
        feed = served.feed(X.sample(rows, replace=True, random_state=0))
        alone = {base.get_inputs()[0].name: feed["X"]}
        sessions = [(base, alone), (plain.session, {"X": feed["X"]}), (served.session, feed)]
        own, same, whole = time_in_turns(sessions, repeats)
        limit = LIMITS[case.kind][rows]
        if rows == 1:
            ratio, what = whole / own, f"whole / base {whole / own:.2f}"
        else:
            ratio = whole / own - 1.0
            what = f"corrections / base {ratio:.3f} [same outputs: {whole / same - 1.0:.3f}]"
        kept &= ratio <= limit
        print(f"  batch {rows:>7,}: base {own * 1e6:>9,.0f} us, {what} (limit {limit:g})")
    return kept


def measure_requests(case: Case, X: pd.DataFrame, count: int) -> None:
    """Time from a request of one row to its answer: base model and recalibrated side by side.

    Both graphs have the same outputs; the requests of both take turns.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from fastapi_server import Model, Running, ask

    without = replace(case.model, rounds=Rounds(case.model.rounds.link))
    rows = json.loads(X.sample(count, replace=True, random_state=0).to_json(orient="records"))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "base.onnx", Path(folder) / "recalibrated.onnx"]
        for file, model in zip(files, (without, case.model), strict=True):
            file.write_bytes(export_model(model).SerializeToString())
        served = [Model(file) for file in files]
    times: list[list[float]] = [[], []]
    with Running(served[0]) as first, Running(served[1]) as second:
        ports = [http.client.HTTPConnection("127.0.0.1", port) for port in (first, second)]
        for row in [*rows[:50], *rows]:
            for own, connection in zip(times, ports, strict=True):
                start = time.perf_counter()
                status, answer = ask(connection, [row])
                own.append(time.perf_counter() - start)
                if status != 200:
                    raise ValueError(answer)
    shown = [
        f"{name} {np.median(own[50:]) * 1e3:.2f} ms (99 %: {np.quantile(own[50:], 0.99) * 1e3:.2f})"
        for name, own in zip(("base", "recalibrated"), times, strict=True)
    ]
    print(f"{case.name}, over HTTP: {', '.join(shown)}")


def _base_graph(model: rc.Recalibrated) -> onnx.ModelProto:
    graph = model.base.graph()
    if not isinstance(graph, onnx.ModelProto):
        raise TypeError(f"{model.base.name} has no graph: {model.base.why_no_graph}")
    return graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=60_000, help="calibration rows")
    parser.add_argument("--trees", type=int, default=200, help="trees of the base model")
    parser.add_argument("--largest-batch", type=int, default=100_000)
    parser.add_argument("--classes", type=int, nargs="+", help="base models of so many classes")
    parser.add_argument("--http", type=int, metavar="N", help="only N requests to a server")
    arguments = parser.parse_args()
    if arguments.classes:
        cases, X = make_class_cases(arguments.classes, arguments.rows, arguments.trees)
    else:
        cases, X = make_cases(arguments.rows, arguments.trees)
    batches = {n: times for n, times in BATCHES.items() if n <= arguments.largest_batch}
    if arguments.http:
        for case in cases:
            measure_requests(case, X, arguments.http)
        return
    kept = True
    for case in cases:
        kept &= measure(case, X, batches)
    print("all limits kept" if kept else "NOT all limits kept")


if __name__ == "__main__":
    main()
