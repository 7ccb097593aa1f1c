"""Gaps of the scorecard by employment, product and age, before and after."""

from __future__ import annotations

from forest import gaps
from pages import run


def draw() -> str:
    """The audit of the page."""
    return gaps(run("how-to/credit-risk.md", 2)["report"], "scorecard")
