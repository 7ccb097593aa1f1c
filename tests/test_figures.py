"""The figures of the documentation show what the code does now; docs/figures draws them."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "docs" / "figures"
IMAGES = ROOT / "docs" / "img"
FIGURES = sorted(
    path.stem
    for path in SCRIPTS.glob("*.py")
    if path.stem not in ("__main__", "drawing", "pages", "screenshots")
)


@pytest.fixture(scope="module")
def load():
    """A script of the folder as a module; they import each other by their plain names."""
    sys.path.insert(0, str(SCRIPTS))
    yield importlib.import_module
    sys.path.remove(str(SCRIPTS))


# This one is drawn from a page whose model is a torch network.
WITH_TORCH = "classes_map"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.external] if name == WITH_TORCH else [])
        for name in FIGURES
    ],
)
def test_figures_are_current(load, name):
    if name == WITH_TORCH:
        pytest.importorskip("torch")
    assert (IMAGES / f"{name}.svg").read_text(encoding="utf-8") == load(name).draw()


@pytest.mark.slow
def test_screenshots_show_the_numbers_of_today(load):
    screenshots = load("screenshots")
    assert json.loads(screenshots.PATH.read_text()) == screenshots.shown(screenshots.report())
    assert all((IMAGES / f"{name}.png").exists() for name in screenshots.VIEWS)


def test_every_figure_stands_on_a_page():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    shown = set(re.findall(r"img/([\w.]+)", text))
    assert {path.name for path in IMAGES.iterdir() if path.suffix != ".json"} - shown == set()


def test_the_picture_of_the_folders_names_all_of_them(load):
    folders = {path.parent.name for path in (ROOT / "recalibrate").glob("*/__init__.py")}
    shown = " ".join(load("architecture").LAYERS)
    assert [folder for folder in sorted(folders) if folder not in shown] == []
