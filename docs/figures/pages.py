"""What figures take from the pages: the results of a page's code, its tables, its printed lines.

A figure that shows what a page shows takes it from there, so the two cannot differ.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from functools import cache
from typing import Any

from drawing import DOCS

_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@cache
def run(page: str, blocks: int = 1) -> dict[str, Any]:
    """The names that the first Python blocks of a page leave; run once per process."""
    text = (DOCS / page).read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": page}
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        for source in _PYTHON.findall(text)[:blocks]:
            exec(source, namespace)  # noqa: S102 - the code of the page itself
    return namespace


def table(page: str, heading: str) -> list[dict[str, str]]:
    """The first table of a page whose heading row has a cell like this.

    Of columns with the same heading the first counts.
    """
    rows: list[list[str]] = []
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows and heading in rows[0]:
            break
        else:
            rows = []
    if not rows or heading not in rows[0]:
        raise ValueError(f"{page} has no table with a column {heading!r}")
    # Reversed, so that the first of equal headings is written last.
    return [dict(zip(rows[0][::-1], cells[::-1], strict=True)) for cells in rows[2:]]


def printed(page: str, start: str) -> list[str]:
    """The lines of the text block of a page that has a line with this start."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for block in re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if any(line.startswith(start) for line in block.splitlines()):
            return block.splitlines()
    raise ValueError(f"{page} prints no line that starts with {start!r}")


def value(text: str) -> float:
    """A number as tables write it: 1,000, -0.5 %, .03."""
    return float(re.sub(r"[,%\s*]", "", text))
