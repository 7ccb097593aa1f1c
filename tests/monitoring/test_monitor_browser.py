"""The monitor's page in a real browser: drawn, silent on the console, asking for nothing."""

import sys

import numpy as np
import pandas as pd
import pytest
from streams import batch

import recalibrate as rc

pytestmark = [
    pytest.mark.parity,
    pytest.mark.skipif(sys.platform == "win32", reason="browsers have no pipes there"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    monitor = rc.Monitor(groups=["sex", "region"])
    for k, day in enumerate(pd.date_range("2024-01-01", periods=12, freq="W")):
        X, p, y = batch(rng, gap=0.25 if k >= 6 else 0.0)
        X["region"] = X["region"].replace("N", "<script>window.hacked = 1</script>")
        monitor.update(X, y, scores=np.clip(p + 0.1 * (k == 11), 0, 1), time=day)
    path = tmp_path_factory.mktemp("page") / "monitor.html"
    monitor.to_html(path)
    return path, monitor.report()


@pytest.mark.parametrize(("theme", "width"), [("light", 1200), ("dark", 400)])
def test_page_is_drawn_without_a_word_or_a_request(browser, page, theme, width):
    path, report = page
    browser.emulate(theme=theme, width=width)
    browser.open(path.as_uri())
    assert browser.requests() == [path.as_uri()]
    assert browser.complaints() == []
    assert browser.run("document.title") == "Calibration monitor"
    text = browser.run("document.body.innerText")
    assert report.verdict in text
    assert "2024-02" in text
    assert browser.run("window.hacked") is None
    charts = "[...document.querySelectorAll('#time svg.chart')]"
    assert browser.run(f"{charts}.length") == 2 * min(len(report.groups), 6)
    empty = "[...document.querySelectorAll('svg')].filter(s => s.getBBox().width < 1).length"
    assert browser.run(empty) == 0
    # Dates below the charts do not stick out of their drawing, nor the page out of the window.
    outside = (
        f"{charts}.flatMap(s => [...s.querySelectorAll('text')].filter(t => "
        "t.getBoundingClientRect().right > s.getBoundingClientRect().right + 1)).length"
    )
    assert browser.run(outside) == 0
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")


def test_all_groups_can_be_sorted(browser, page):
    path, report = page
    browser.emulate()
    browser.open(path.as_uri())
    rows = "[...document.querySelectorAll('#groups tbody tr')].map(r => r.cells[0].textContent)"
    assert browser.run(rows) == [group.name for group in report.groups]
    buttons = "[...document.querySelectorAll('#groups th [role=button]')]"
    browser.run(f"{buttons}.find(b => b.textContent == 'evidence').click()")
    ranked = sorted(report.groups, key=lambda group: group.evidence)
    assert browser.run(rows) == [group.name for group in ranked]


def test_hints_are_marked_as_such(browser, page):
    path, report = page
    browser.open(path.as_uri())
    hints = browser.run("document.querySelector('#hints').innerText")
    assert "use no labels" in hints
    assert report.hints
    assert all(group.shift in hints for group in report.hints)
