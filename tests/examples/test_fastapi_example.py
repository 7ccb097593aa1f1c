"""examples/fastapi_server.py, asked over HTTP, answers as the model does."""

import http.client
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from treebase import TreeBase, expected_outputs, random_ensemble

import recalibrate as rc

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(EXAMPLES))
    try:
        import fastapi_server
    finally:
        sys.path.remove(str(EXAMPLES))
    return fastapi_server


@pytest.fixture(scope="module")
def served(example, tmp_path_factory):
    """A connection to a running server, rows and their model."""
    rng = np.random.default_rng(0)
    n = 600
    X = pd.DataFrame({"a": rng.normal(size=n), "b c": rng.normal(size=n)})
    X["sex"] = rng.choice(["F", "M"], n)
    y = rng.random(n) < 0.3 + 0.4 * (X["sex"] == "F")
    base = TreeBase(random_ensemble(rng, 2), ("a", "b c"))
    loop = rc.Loop(levels=2, max_rounds=2)
    model = rc.fit(base, X, y, rc.Groups("sex", "a < 0"), loop=loop, validation=False)
    path = tmp_path_factory.mktemp("served") / "model.onnx"
    model.to_onnx(path)
    rows = X[:20].astype({"sex": object})
    rows.loc[:3, "a"] = np.nan
    rows.loc[2:5, "sex"] = None
    with example.Running(example.Model(path)) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        yield connection, rows, model
        connection.close()


def as_json(rows):
    records = rows.to_dict(orient="records")
    return [{k: None if pd.isna(v) else v for k, v in row.items()} for row in records]


def test_answers_are_those_of_the_model(example, served):
    connection, rows, model = served
    for part in (rows, rows[:1], rows[:0]):
        status, answer = example.ask(connection, as_json(part))
        assert status == 200
        if len(part):
            expected = expected_outputs(model, part)
            # Through JSON and back no bit is lost: it writes every float in full.
            assert answer == {name: values.tolist() for name, values in expected.items()}
        else:
            assert answer["score"] == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{", "JSON decode error"),
        ('{"a": 1}', "valid list"),
        ('[{"a": 1.0, "sex": "F"}]', "b c"),
        ('[{"a": "old", "b c": 1, "sex": "F"}]', "valid number"),
        ('[{"a": 1, "b c": 1, "sex": 3}]', "valid string"),
    ],
)
def test_bad_rows_are_refused_with_the_reason(example, served, body, words):
    status, answer = example.ask(served[0], body)
    assert status == 422
    assert words in json.dumps(answer)


def test_the_row_is_described_and_the_server_alive(served):
    connection, *_ = served
    connection.request("GET", "/openapi.json")
    described = json.loads(connection.getresponse().read())["components"]["schemas"]["Row"]
    assert set(described["properties"]) == {"a", "b c", "sex"}
    connection.request("GET", "/health")
    answer = json.loads(connection.getresponse().read())
    assert answer["status"] == "ok"
    assert "score" in answer["outputs"]
