"""Pictures of the audit's HTML page, taken by a headless chromium.

A picture cannot be compared byte for byte between machines. What it shows can: the numbers behind
it are written beside it, and the test compares those.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from drawing import FOLDER
from pages import run

import recalibrate as rc

PATH = FOLDER / "screenshots.json"
WIDTH = 1180
# Name of the picture: section of the page, height.
VIEWS = {"report_top": ("", 860), "report_gaps": ("gaps", 880), "report_rates": ("rates", 900)}


def report() -> Any:
    """The audit of the README's model, with decisions at one half."""
    names = run("../README.md")
    test, groups = names["test"], ["SEX", "SEX*MAR", "AGEP < 25", "RAC1P"]
    groups = rc.Groups(*groups, min_rows=500)
    return rc.audit(names["model"], test.X, test.y, groups=groups, baseline=True, thresholds=[0.5])


def shown(audit: Any) -> dict[str, list[float]]:
    """Gap before and after of every group, to three decimals."""
    rows = audit.table[["group", "before_gap", "gap"]].to_dict("records")
    return {row["group"]: [round(row["before_gap"], 3), round(row["gap"], 3)] for row in rows}


def take() -> None:
    """Write the pictures and the numbers behind them."""
    audit = report()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        audit.to_html(page)
        whole = page.read_text(encoding="utf-8")
        for name, (part, height) in VIEWS.items():
            # A headless browser cannot scroll to a section: hide the others.
            hidden = (
                f"<style>body > :not(main), main > :not(#{part}) {{display: none}}</style></head>"
            )
            page.write_text(whole.replace("</head>", hidden, 1) if part else whole)
            _shoot(page, height, FOLDER / f"{name}.png")
    PATH.write_text(json.dumps(shown(audit), indent=1) + "\n", encoding="utf-8")


def _shoot(page: Path, height: int, target: Path) -> None:
    subprocess.run(
        [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            f"--window-size={WIDTH},{height}", f"--screenshot={target}",
            page.as_uri(),
        ],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
