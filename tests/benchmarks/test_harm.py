"""benchmarks/harm.py says how far a default fit leaves a base that is the truth."""

from __future__ import annotations

import re
import sys

import pytest
from scripts import load


@pytest.mark.slow
def test_it_says_how_far_the_truth_was_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harm = load("harm")
    for what, said in [
        ("calibrated", r"mean harm \d+\.\d{4} \+- .* %.* base changed in \d of 2"),
        ("planted", r"of the gap is left"),
        ("small-groups", r"moved by \d+\.\d{3} standard errors"),
        ("planted --kind classes", r"base changed in \d, loss .* % \(LightGBM"),
    ]:
        monkeypatch.setattr(
            sys, "argv", ["harm.py", *what.split(), "--rows", "800", "--seeds", "2"]
        )
        harm.main()
        assert re.search(said, capsys.readouterr().out)
