"""Metadata of exported graphs: whatever it says, a clear refusal or a model."""

import json

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.bases.protocol import as_base
from recalibrate.graph import load_served
from recalibrate.support.checks import ModelFileError


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=500), "sex": rng.choice(["F", "M"], 500)})
    y = rng.random(500) < 0.3 + 0.3 * (X["sex"] == "F")
    return rc.fit(np.full(500, 0.4), X, y, H=rc.Groups("sex")).to_onnx()


def changed(graph, key, value):
    model = type(graph)()
    model.CopyFrom(graph)
    kept = [entry for entry in graph.metadata_props if entry.key != key]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    if value is not None:
        model.metadata_props.add(key=key, value=value)
    return model.SerializeToString()


DEEP = "[" * 100_000 + "]" * 100_000
KEYS = ("inputs", "columns", "own_table", "labels", "link", "base", "H", "rounds")


@pytest.mark.parametrize("key", KEYS)
def test_what_is_missing(graph, key):
    data = changed(graph, key, None)
    with pytest.raises(ModelFileError, match=f"damaged metadata: there is no entry '{key}'"):
        load_served(data)
    with pytest.raises(ModelFileError, match="damaged metadata"):
        as_base(data)


@pytest.mark.parametrize("key", KEYS[:5])
@pytest.mark.parametrize("value", ["", "5", "null", "[1]", "[{}]", "{}", '"x"', DEEP, '{"a":'])
def test_what_is_something_else(graph, key, value):
    with pytest.raises(ModelFileError, match="damaged metadata"):
        load_served(changed(graph, key, value))


def test_inputs_are_those_of_the_graph(graph):
    known = {entry.key: entry.value for entry in graph.metadata_props}
    ports = json.loads(known["inputs"])
    for change in ({"name": "other"}, {"type": "float16"}, {"columns": [1]}, {"values": "some"}):
        data = changed(graph, "inputs", json.dumps([{**ports[0], **change}, *ports[1:]]))
        with pytest.raises(ModelFileError, match="damaged metadata"):
            load_served(data)


def test_a_graph_without_a_margin(graph):
    model = type(graph)()
    model.CopyFrom(graph)
    kept = [value for value in graph.graph.output if value.name != "score_margin"]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    with pytest.raises(ModelFileError, match="are not those of an export"):
        load_served(model.SerializeToString())
