"""The oldest supported onnxruntime, in an environment of its own, gives the bits of Python."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from bare import bare_command, run_bare
from exported import MODELS, Tensors, exported

pytestmark = [pytest.mark.parity, pytest.mark.adapter, pytest.mark.external]

CLIENT = Path(__file__).with_name("bare_client.py")
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture(autouse=True)
def environment():
    """Skip before any model is fitted."""
    bare_command()


def ask(graph: bytes, requests: list[Tensors], folder: Path) -> list[Tensors]:
    """Answers of the client."""
    model, asked, answered = folder / "m.onnx", folder / "asked.npz", folder / "answered.npz"
    model.write_bytes(graph)
    tensors = {f"{k}/{name}": v for k, one in enumerate(requests) for name, v in one.items()}
    np.savez(
        asked, **{key: v.astype(str) if v.dtype == object else v for key, v in tensors.items()}
    )
    run_bare(CLIENT, model, asked, answered)
    given: list[Tensors] = [{} for _ in requests]
    with np.load(answered) as stored:
        for key, values in stored.items():
            number, name = key.split("/", 1)
            given[int(number)][name] = values
    return given


@pytest.mark.parametrize("name", MODELS)
def test_it_gives_the_same_bits(name, tmp_path):
    made = exported(name)
    assert made.check(ask(made.graph, made.requests, tmp_path)) > 0


def test_the_environment_has_the_version_that_is_promised():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    (bound,) = [r for r in project["dependencies"] if r.startswith("onnxruntime>=")]
    version = run_bare("-c", "import onnxruntime; print(onnxruntime.__version__)").strip()
    assert f"{bound}.0" == f"onnxruntime>={version}"
