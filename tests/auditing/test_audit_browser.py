"""The page in a real browser: it is drawn, says nothing on the console, and asks for nothing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import recalibrate as rc
from recalibrate.simulate import census

pytestmark = [
    pytest.mark.parity,
    pytest.mark.skipif(sys.platform == "win32", reason="browsers have no pipes there"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    data = census(4_000, seed=5, gap=0.15, categorical=True)
    rng = np.random.default_rng(0)
    masks = {
        f"group {k} <script>window.hacked = 1</script>": rng.random(4_000) < 0.3 for k in range(20)
    }
    masks["women"] = (data.X["SEX"] == "female").to_numpy()
    report = rc.audit(
        np.clip(data.scores + 0.05, 0, 1), data.X, data.y, masks,
        baseline=data.scores, H=rc.Trees(depth=1, features=["SEX"]), thresholds=[0.5],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("page") / "audit.html"
    report.to_html(path)
    return path, report


def test_the_probe_sees_errors_and_requests(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><title>bad</title><img src='http://127.0.0.1:9/x.png'>"
        "<script>console.error('seen'); undefinedFunction()</script>"
    )
    browser.open(bad.as_uri())
    assert "http://127.0.0.1:9/x.png" in browser.requests()
    said = " ".join(browser.complaints())
    assert "seen" in said
    assert "undefinedFunction" in said


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_is_drawn_without_a_word_or_a_request(browser, page, theme):
    path, report = page
    browser.emulate(theme=theme)
    browser.open(path.as_uri())
    assert browser.requests() == [path.as_uri()]
    assert browser.complaints() == []
    assert browser.run("document.title") == "Calibration audit"
    assert report.verdict in browser.run("document.body.innerText")
    empty = "[...document.querySelectorAll('svg')].filter(s => s.getBBox().width < 1).length"
    assert browser.run("document.querySelectorAll('svg').length") > 30
    assert browser.run(empty) == 0
    assert browser.run("window.hacked") is None
    # Nothing sticks out to the right, so that the page itself never scrolls sideways.
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")


def test_themes_differ_and_text_is_readable_in_both(browser, page):
    path, _ = page
    colours = (
        "(s => [s.color, s.backgroundColor])(getComputedStyle(document.querySelector('main')))"
    )
    found = []
    for theme in ("light", "dark"):
        browser.emulate(theme=theme)
        browser.open(path.as_uri())
        found.append([brightness(colour) for colour in browser.run(colours)])
    (light_ink, light_paper), (dark_ink, dark_paper) = found
    assert light_ink < 80 < 200 < light_paper
    assert dark_paper < 80 < 200 < dark_ink


def brightness(colour: str) -> float:
    """Mean of red, green and blue of ``rgb(r, g, b)``."""
    return float(np.mean([float(part) for part in colour.strip("rgb()").split(",")]))


@pytest.mark.slow
def test_page_fits_a_phone_and_a_printer(browser, page):
    path, _ = page
    for media, width in (("screen", 400), ("print", 794)):
        browser.emulate(media=media, width=width)
        browser.open(path.as_uri())
        assert browser.run("document.documentElement.scrollWidth") <= width
    # Eight points, or readers of the printed page need a lens.
    sizes = (
        "[...document.querySelectorAll('td')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(browser.run(sizes)) >= 8 * 96 / 72
    heads = "[...document.querySelectorAll('thead')].map(e => getComputedStyle(e).display)"
    assert set(browser.run(heads)) == {"table-header-group"}
    assert browser.count("thead button") == 0  # browsers do not repeat heads with such
    shot = browser.screenshot()
    assert shot.startswith(b"\x89PNG")
    browser.emulate()


def test_forest_plots_are_whole_on_a_phone(browser, page):
    path, report = page
    browser.emulate(width=400)
    browser.open(path.as_uri())
    ends = browser.run(
        "[...document.querySelectorAll('#gaps tbody svg')].map(e => {"
        " const box = e.getBoundingClientRect(); return [box.left, box.right, box.width]; })"
    )
    assert len(ends) == len(report.groups)
    assert all(left >= 0 and right <= 400 and width > 300 for left, right, width in ends)
    browser.emulate()


def test_tables_sort_by_number_and_find_groups(browser, page):
    path, report = page
    browser.emulate()
    browser.open(path.as_uri())
    rows = "[...document.querySelectorAll('#groups tbody tr')]"
    names = f"{rows}.filter(r => !r.hidden).map(r => r.cells[0].textContent)"
    assert browser.run(names) == [group.name for group in report.groups]
    buttons = "[...document.querySelectorAll('#groups th [role=button]')]"
    click = f"{buttons}.find(b => b.textContent == 'gap').click()"
    browser.run(click)
    by_gap = sorted(report.groups, key=lambda group: group.after.gap)
    assert browser.run(names) == [group.name for group in by_gap]
    browser.run(click)
    assert browser.run(names) == [group.name for group in reversed(by_gap)]
    browser.run(
        "(box => { box.value = 'WOM'; box.dispatchEvent(new Event('input')); })"
        "(document.querySelector('#groups input'))"
    )
    assert browser.run(names) == ["women"]
    assert browser.complaints() == []


def test_page_is_readable_without_scripts(browser, page):
    path, report = page
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.load(path.as_uri())
        assert browser.count("th [role=button]") == 0
        assert browser.count("#groups tbody tr") == len(report.groups)
        assert browser.complaints() == []
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)


def test_a_notebook_cell_shows_the_fragment_on_a_dark_theme(browser, page, tmp_path):
    _, report = page
    cell = tmp_path / "cell.html"
    cell.write_text(
        "<!DOCTYPE html><meta charset='utf-8'><body style='background: #111; color: #ddd'>"
        + report._repr_html_(),
        "utf-8",
    )
    browser.open(cell.as_uri())
    assert browser.requests() == [cell.as_uri()]
    assert browser.complaints() == []
    inks = browser.run("[...document.querySelectorAll('td')].map(e => getComputedStyle(e).color)")
    assert inks
    assert all(brightness(ink) > 200 for ink in inks)
