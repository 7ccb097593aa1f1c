"""Audits, pages, graphs and a monitor's state, pinned: see ``test_pinned_models.py``.

Numbers are compared to ten significant digits, because libraries may differ in the last bits. Where
a change is meant to change what is said, look at the difference, write the checksums anew with
``python tests/test_pinned_outputs.py``, and say why in the commit.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest
from test_pinned_models import (
    CLAIMS,
    FITS,
    KIND,
    KINDS,
    SCORE,
    SHARES,
    SIZES,
    SOFT,
    WEIGHT,
    YEARS,
    X,
    Y,
    arithmetic,
)

import recalibrate as rc

STORED = Path(__file__).parent / "pinned_outputs.json"
NAMED = ["sex", "job", "sex*job", "age < 30"]
BETTER = np.clip(SCORE + 0.2 * (X["sex"] == "F"), 0.02, 0.98).to_numpy()
DAYS = pd.Timestamp("2026-01-05") + pd.to_timedelta(np.arange(len(Y)) // 100, "D")
CHANGING = {"version", "date", "fitted_version", "fitted_date", "recalibrate_version"}
"""Facts that say when and by what something was made."""

AUDITS: dict[str, Callable[[], Any]] = {
    "groups": lambda: rc.audit(SCORE, X, Y, NAMED),
    "baseline, weights, rates": lambda: rc.audit(
        BETTER, X, Y, NAMED, baseline=SCORE, sample_weight=WEIGHT, thresholds=[0.3, 0.5]
    ),
    "discovery": lambda: rc.audit(SCORE, X, Y, H=rc.Trees(depth=2)),
    "all columns": lambda: rc.audit(SCORE, X, Y, depth=2),
    "classes": lambda: rc.audit(SHARES, X, KIND, NAMED, classes=KINDS),
    "slices": lambda: rc.audit(SCORE, X, Y, ["sex"], by="job"),
    "over time": lambda: rc.audit(SCORE, X, Y, ["sex"], time=DAYS, by="week"),
    "comparison": lambda: rc.audit({"raw": SCORE, "better": BETTER}, X, Y, NAMED),
    "counts": lambda: rc.audit(SCORE, X, CLAIMS, NAMED, exposure=YEARS),
    "amounts": lambda: rc.audit(50 * SCORE, X, SIZES, NAMED),
    "soft labels": lambda: rc.audit(SCORE, X, SOFT, NAMED),
    "clusters": lambda: rc.audit(SCORE, X, Y, NAMED, cluster=X["town"]),
}
GRAPHS = (
    "default",
    "default, linear",
    "default, groups",
    "paper",
    "three classes",
    "counts with exposure",
)


class _Text(HTMLParser):
    """The words of a page, without its style and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._hidden += tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words += data.split()


def _rounded(value: Any) -> Any:
    """The same without changing facts, numbers to ten significant digits."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items() if name not in CHANGING}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def _digest(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:16]


def of_audit(report: Any) -> dict[str, str]:
    """Checksums of the record and of what the page says."""
    page = _Text()
    page.feed(report.to_html())
    words = " ".join(page.words)
    words = re.sub(r"\d{4}-\d\d-\d\d|recalibrate \d\S*", "", words)
    record = json.dumps(_rounded(json.loads(report.to_json())), sort_keys=True)
    return {"record": _digest(record), "page": _digest(words)}


def of_graph(name: str) -> str:
    """Checksum of an exported graph, without the facts about its making."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        FITS[name]().to_onnx(path)
        model = onnx.load(path)
    opsets = sorted((each.domain, each.version) for each in model.opset_import)
    return _digest(model.graph.SerializeToString(deterministic=True) + repr(opsets).encode())


def of_monitor() -> str:
    """Checksum of a monitor's record after three batches."""
    monitor = rc.Monitor(groups=NAMED)
    for start in (0, 1000, 2000):
        at = slice(start, start + 1000)
        monitor.update(X[at], Y[at], scores=SCORE[at])
    record = monitor.to_json()
    return _digest(json.dumps(_rounded(json.loads(record)), sort_keys=True))


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    """The checksums."""
    found: dict[str, Any] = json.loads(STORED.read_text())
    if arithmetic() != found["arithmetic"]:
        pytest.skip("this machine's exp and log differ in their last bits from the pinned ones")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", AUDITS)
def test_the_audit_is_the_pinned_one(name, stored):
    assert of_audit(AUDITS[name]()) == stored["audits"][name]


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_the_graph_is_the_pinned_one(name, stored):
    assert of_graph(name) == stored["graphs"][name]


@pytest.mark.slow
def test_the_monitor_is_the_pinned_one(stored):
    assert of_monitor() == stored["monitor"]


if __name__ == "__main__":
    record = {
        "arithmetic": arithmetic(),
        "audits": {name: of_audit(audit()) for name, audit in AUDITS.items()},
        "graphs": {name: of_graph(name) for name in GRAPHS},
        "monitor": of_monitor(),
    }
    STORED.write_text(json.dumps(record, indent=1) + "\n")
