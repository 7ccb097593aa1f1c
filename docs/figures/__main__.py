"""Draws the figures of the documentation.

    python docs/figures                  # all
    python docs/figures forest rounds    # some
    python docs/figures screenshots      # pictures of the audit's page, by chromium

A figure is a module with a function ``draw`` that returns the text of docs/img/<module>.svg; a test
compares it with the file.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from drawing import FOLDER

HELPERS = ("__main__", "drawing", "pages", "screenshots")
FIGURES = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in HELPERS
)

if __name__ == "__main__":
    for name in sys.argv[1:] or [*FIGURES, "screenshots"]:
        module = import_module(name)
        if name == "screenshots":
            module.take()
        else:
            (FOLDER / f"{name}.svg").write_text(module.draw(), encoding="utf-8")
        sys.stdout.write(f"{name}: drawn\n")
