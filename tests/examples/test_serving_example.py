"""examples/serve_onnx.py answers as the model does, in an environment without recalibrate."""

import http.client
import importlib.util
import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bare import bare_command, run_bare
from treebase import TreeBase, expected_outputs, random_ensemble

import recalibrate as rc

EXAMPLE = Path(__file__).parents[2] / "examples" / "serve_onnx.py"


def load_example():
    spec = importlib.util.spec_from_file_location("serve_onnx", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load_example()


def sample(n=900):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    X["sex"] = rng.choice(["F", "M"], n)
    X["id"] = rng.choice([2**40 + 1, 2**40 + 2], n)
    y = rng.random(n) < 0.3 + 0.4 * (X["sex"] == "F")
    return X, y, rng


def requests(X):
    """Rows as a client sends them: null is missing, and there is more than the model needs."""
    records = X.assign(note="unused").to_dict(orient="records")
    return [{k: None if pd.isna(v) else v for k, v in row.items()} for row in records]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The file, rows with missing and unknown values, and what the model says about them."""
    X, y, rng = sample()
    base = TreeBase(random_ensemble(rng, 2), ("a", "b"))
    H = rc.Groups("sex", "id", "a < 0")
    model = rc.fit(
        base, X, y, H, categorical=["id"], loop=rc.Loop(levels=2, max_rounds=2), validation=False
    )
    path = tmp_path_factory.mktemp("served") / "model.onnx"
    model.to_onnx(path)
    rows = X[:50].astype({"sex": object})
    rows.loc[:5, "a"] = np.nan
    rows.loc[4:9, "sex"] = None
    rows.loc[10:12, "sex"] = "unknown"
    rows.loc[13, "b"] = 1e30
    return path, rows, model


def assert_answers(answer, model, rows):
    """Through JSON and back no bit is lost: it writes every float64 in full."""
    assert answer == {name: v.tolist() for name, v in expected_outputs(model, rows).items()}


@contextmanager
def asking(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(method, body=None, headers=None):
        connection.request(method, "/", body, headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    try:
        yield ask
    finally:
        connection.close()


@pytest.mark.parity
@pytest.mark.external
def test_the_environment_has_nothing_else():
    others = ["recalibrate", "onnx", "pandas", "sklearn", "scipy", "google", "pip"]
    code = "import importlib.util, sys; print(*filter(importlib.util.find_spec, sys.argv[1:]))"
    assert run_bare("-c", code, "numpy", "onnxruntime", *others).split() == ["numpy", "onnxruntime"]


@pytest.mark.parity
@pytest.mark.external
def test_one_file_of_rows(served, tmp_path):
    path, rows, model = served
    asked = tmp_path / "rows.json"
    asked.write_text(json.dumps(requests(rows)), encoding="utf-8")
    assert_answers(json.loads(run_bare(EXAMPLE, path, "--once", asked)), model, rows)


@pytest.mark.parity
@pytest.mark.external
def test_over_http(served):
    path, rows, model = served
    process = subprocess.Popen(
        [*bare_command(), EXAMPLE, path, "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        port = int(process.stdout.readline().rsplit(":", 1)[1])
        with asking(port) as ask:
            assert ask("GET")[1]["row"] == {
                "a": "float32",
                "b": "float32",
                "sex": "string",
                "id": "int64",
            }
            for part in (rows, rows[:1], rows[5:6]):
                status, answer = ask("POST", json.dumps(requests(part)))
                assert status == 200
                assert_answers(answer, model, part)
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture(scope="module")
def server(served):
    """The server in this process, for what it says to bad requests."""
    running = example.make_server(example.Model(served[0]), "127.0.0.1", 0)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield running.server_port
    running.shutdown()
    thread.join()
    running.server_close()


GOOD = {"a": 0.5, "b": 1, "sex": "F", "id": 2**40 + 1}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{", "Expecting property name"),
        ('{"a": 1}', "list of objects"),
        ("[1]", "list of objects"),
        (json.dumps([GOOD, {"a": 1.0, "b": 2.0, "SEX": "F"}]), "row 1 has no ['sex', 'id']"),
        (json.dumps([{"a": 1.0, "b": 2.0, "SEX": "F"}]), "it has ['SEX']"),
        (json.dumps([{**GOOD, "a": "old"}]), "row 0: 'a' is float32, but 'old' was given"),
        (json.dumps([{**GOOD, "sex": 1}]), "row 0: 'sex' is string, but 1 was given"),
        (json.dumps([{**GOOD, "id": 0.5}]), "row 0: 'id' is int64, but 0.5 was given"),
        (json.dumps([{**GOOD, "id": 2**70}]), "too large"),
        (json.dumps([{**GOOD, "a": [1, 2]}, GOOD]), ""),
    ],
)
def test_bad_rows_are_the_clients_fault(server, body, words):
    with asking(server) as ask:
        status, answer = ask("POST", body)
        assert status == 400
        assert words in answer["error"]
        assert ask("POST", json.dumps([GOOD]))[0] == 200


def test_too_much_at_once_is_refused(server):
    with asking(server) as ask:
        status, answer = ask("POST", headers={"Content-Length": str(10**9)})
    assert status == 413
    assert "at most 16777216 bytes" in answer["error"]


def test_no_rows(server):
    with asking(server) as ask:
        assert ask("POST", "[]")[1]["score"] == []


def test_scores_and_a_column_of_that_name(tmp_path):
    """Where a row cannot say which of two it means, it holds the inputs by their own names."""
    X, y, _ = sample()
    X = X.rename(columns={"a": "base_score"})[["base_score", "sex"]]
    scores = np.full(len(X), 0.5)
    model = rc.fit(scores, X, y, rc.Trees(), loop=rc.Loop(levels=2, max_rounds=2), validation=False)
    model.to_onnx(tmp_path / "model.onnx")
    served = example.Model(tmp_path / "model.onnx")
    rows = [{"base_score": 0.5, "input_base_score": 0.1, "sex": "F"}]
    new = pd.DataFrame({"base_score": [0.1], "sex": ["F"]})
    expected = model.predict(new, base=[0.5]).astype(np.float32).tolist()
    assert served.answer(rows)["score"] == expected


def test_own_table_takes_a_matrix_as_a_list(tmp_path):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(600, 3)).astype(np.float32), rng.normal(size=(600, 2))
    base = TreeBase(random_ensemble(rng, 3))
    y = rng.random(600) < 1 / (1 + np.exp(-base.scores(X) - Z[:, 0]))
    model = rc.fit(
        base, X, y, rc.Trees(), Z=Z, loop=rc.Loop(levels=2, max_rounds=2), validation=False
    )
    model.to_onnx(tmp_path / "model.onnx", X, Z=Z)
    served = example.Model(tmp_path / "model.onnx")
    rows = [{"X": x.tolist(), "x0": z[0], "x1": z[1]} for x, z in zip(X[:9], Z[:9], strict=True)]
    expected = model.predict(X[:9], Z=Z[:9]).astype(np.float32).tolist()
    assert served.answer(rows)["score"] == expected


def test_other_graphs_are_refused(tmp_path):
    base = TreeBase(random_ensemble(np.random.default_rng(0), 2), ("a", "b"))
    (tmp_path / "base.onnx").write_bytes(base.graph().SerializeToString())
    with pytest.raises(ValueError, match="not written by recalibrate"):
        example.Model(tmp_path / "base.onnx")


@pytest.mark.slow
def test_the_demonstration(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE)])
    example.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Served: [")
    assert lines[0].split(": ")[1] == lines[1].split(": ")[1]
