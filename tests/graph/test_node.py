"""Files run in another language: onnxruntime-node gives the bits that Python gives.

The client is ``node_client``; ``RECALIBRATE_NODE_MODULES`` says where its packages are:

    cp tests/graph/node_client/package.json FOLDER
    npm install --prefix FOLDER --ignore-scripts
    RECALIBRATE_NODE_MODULES=FOLDER/node_modules pytest tests/graph/test_node.py

Without install scripts npm runs no code of the packages; what the scripts would fetch are
libraries for GPUs.
"""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from exported import MODELS, Tensors, exported

pytestmark = [pytest.mark.parity, pytest.mark.adapter, pytest.mark.external]

CLIENT = Path(__file__).parent / "node_client" / "run.js"


def encode(values: np.ndarray) -> dict:
    if values.dtype == object:
        return {"type": "string", "dims": values.shape, "data": values.ravel().tolist()}
    data = base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()
    return {"type": values.dtype.name, "dims": values.shape, "data": data}


def decode(tensor: dict) -> np.ndarray:
    values = np.frombuffer(base64.b64decode(tensor["data"]), dtype=tensor["type"])
    return values.reshape(tensor["dims"])


@pytest.fixture(scope="module")
def client():
    """Answers of the client, from the bytes of a graph and requests."""
    node, modules = shutil.which("node"), os.environ.get("RECALIBRATE_NODE_MODULES")
    if node is None:
        pytest.skip("node is not installed")
    if not modules:
        pytest.skip("RECALIBRATE_NODE_MODULES does not say where onnxruntime-node is")

    def run(graph: bytes, requests: list[Tensors], folder: Path) -> list[Tensors]:
        model, asked, answered = (folder / n for n in ("m.onnx", "asked.json", "answered.json"))
        model.write_bytes(graph)
        tensors = [{name: encode(values) for name, values in one.items()} for one in requests]
        asked.write_text(json.dumps(tensors), encoding="utf-8")
        ended = subprocess.run(
            [node, CLIENT, model, asked, answered],
            env={**os.environ, "NODE_PATH": modules},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        given = json.loads(answered.read_text(encoding="utf-8"))
        return [{name: decode(tensor) for name, tensor in one.items()} for one in given]

    return run


@pytest.mark.parametrize("name", MODELS)
def test_node_gives_the_same_bits(client, name, tmp_path):
    made = exported(name)
    assert made.check(client(made.graph, made.requests, tmp_path)) > 0
