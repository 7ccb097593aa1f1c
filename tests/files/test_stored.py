"""Files of every format version still load, and predict what they predicted when saved."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.files import VERSION, to_bytes

DATA = Path(__file__).parent / "data"
STORED = sorted(DATA.glob("v*/*.rcal"))


def test_every_version_has_stored_files():
    assert {path.parent.name for path in STORED} == {f"v{k}" for k in range(1, VERSION + 1)}


@pytest.mark.parity
@pytest.mark.parametrize("path", STORED, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_predictions_stay(path):
    told = json.loads((path.parent / "expected.json").read_text())
    rows = pd.read_csv(path.parent / "rows.csv")
    score = np.array(told["base"])
    base = None if path.stem == "graph" else 100 * score if path.stem == "regression" else score
    model = rc.load(path)
    predictions = model.predict(rows, base=base)
    # Up to exp and log, whose last bit is the platform's.
    np.testing.assert_allclose(predictions, told[path.stem]["predictions"], rtol=1e-12)
    assert model.summary() == told[path.stem]["summary"]


@pytest.mark.parametrize("path", sorted(DATA.glob(f"v{VERSION}/*.rcal")), ids=lambda p: p.stem)
def test_the_current_version_is_written_as_it_was(path):
    """Otherwise the format has changed, and needs a new version and new stored files."""
    assert to_bytes(rc.load(path))[0] == path.read_bytes()
