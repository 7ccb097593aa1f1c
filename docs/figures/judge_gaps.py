"""Gaps of an LLM judge by cluster and length, before and after."""

from __future__ import annotations

from forest import gaps
from pages import run

import recalibrate as rc


def draw() -> str:
    """The judge of the page, on its new rows."""
    names = run("how-to/llm-judge.md", 2)
    new = names["new"]
    report = rc.audit(
        names["better"], names["table"][new], names["y"][new], groups=names["groups"],
        baseline=names["score"][new],
    )  # fmt: skip
    return gaps(report, "judge")
