"""The report as a page, as a notebook's output and as figures; a browser opens it elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.auditing.views.columns import everybody_first, limits_text, worst_curves
from recalibrate.auditing.views.html.charts import Forest, Interval, Scale, extent
from recalibrate.auditing.views.html.markup import Markup, element
from recalibrate.auditing.views.numbers import Digits, measure, p_value, percent
from recalibrate.simulate import census

VOID = {"meta", "link", "input", "br"}
EVIL = "<script>alert('x')</script> & \"q\" <img src=http://evil.example/x.png>"


class Outline(HTMLParser):
    """Elements in the order of the page, texts by element; refuses tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data.strip()))

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag == name]

    def all_text(self) -> str:
        return " ".join(text for tag, text in self.texts if tag not in ("style", "script"))


@pytest.fixture(scope="module")
def data():
    return census(6_000, seed=5, gap=0.15, categorical=True)


@pytest.fixture(scope="module")
def full(data):
    """A report with everything in it."""
    better = np.clip(data.scores + 0.06 * (data.X["SEX"] == "female"), 0, 1)
    return rc.audit(
        better.to_numpy(),
        data.X,
        data.y,
        ["SEX", "AGEP", "SEX*MAR"],
        baseline=data.scores,
        H=rc.Trees(depth=1, features=["SEX", "AGEP"]),
        thresholds=[0.5],
        min_rows=20,
    )


@pytest.fixture(scope="module")
def outline(full):
    return Outline(full.to_html())


# --- page ---------------------------------------------------------------------------------------


def test_page_has_every_section_and_its_links_lead_there(outline):
    anchors = [attributes.get("id") for attributes in outline.tags("section")]
    assert anchors == [
        "overall", "reliability", "worst", "gaps", "groups", "intersections", "errors",
        "rates", "discoveries", "richness", "changes", "data", "method",
    ]  # fmt: skip
    assert [a["href"] for a in outline.tags("a")] == [f"#{anchor}" for anchor in anchors]


def test_page_says_what_the_report_says(full, outline):
    said = outline.all_text()
    assert full.verdict in said
    for group in full.groups:
        assert group.name in said
    assert all(note.title in said for note in full.notes)
    assert all(each.rule in said for each in full.discoveries.subgroups)
    assert full.richness.verdict in said
    assert f"{full.overall.n_off} of {len(full.groups)}" in said


def test_page_has_gap_and_limits_of_a_group_as_they_are(full, outline):
    group = next(group for group in full.groups if group.name == "SEX = male")
    said = [text for tag, text in outline.texts if tag in ("td", "th")]
    digits = Digits(3)
    at = said.index("SEX = male")
    shown = digits.signed(group.after.gap)
    assert shown == f"{group.after.gap:+.3f}".replace("-", "\N{MINUS SIGN}")
    assert said[at : at + 4] == [
        "SEX = male",
        f"{group.rows:,}",
        shown,
        limits_text(full, group.after, digits),
    ]


def test_page_without_baseline_or_search_leaves_their_sections_out(data):
    outline = Outline(rc.audit(data.scores, data.X, data.y, ["SEX"]).to_html())
    anchors = {attributes.get("id") for attributes in outline.tags("section")}
    assert anchors == {
        "overall",
        "reliability",
        "worst",
        "gaps",
        "groups",
        "errors",
        "rates",
        "data",
        "method",
    }
    assert "baseline (before)" not in outline.all_text()


def test_page_counts_clusters_where_they_are_given(data):
    cluster = np.arange(6_000) // 3
    said = Outline(rc.audit(data.scores, data.X, data.y, ["SEX"], cluster=cluster).to_html()).texts
    assert ("th", "clusters") in said
    assert ("dd", "2,000") in said
    without = Outline(rc.audit(data.scores, data.X, data.y, ["SEX"]).to_html()).texts
    assert ("th", "clusters") not in without


def test_verdict_is_good_only_if_nothing_is_off(full):
    assert "Miscalibrated beyond noise" in full.to_html()
    f = np.linspace(0.05, 0.95, 4_000)
    y = np.random.default_rng(1).random(4_000) < f
    good, bad = rc.audit(f, None, y).to_html(), rc.audit(1 - f, None, y).to_html()
    assert "No miscalibration beyond noise" in good
    # On average 1 - f is right; it is along the predictions that it is wrong.
    assert "Miscalibrated beyond noise" in bad


def test_every_picture_has_words(outline):
    pictures = outline.tags("svg")
    assert len(pictures) > 20
    hidden = [each for each in pictures if each.get("aria-hidden") == "true"]
    told = [each for each in pictures if each.get("role") == "img" and each.get("aria-label")]
    assert len(hidden) + len(told) == len(pictures)


def test_page_refers_to_nothing_outside(outline):
    for _, attributes in outline.found:
        assert not {"src", "srcset", "action", "style"} & attributes.keys()
    assert {each["href"][0] for each in outline.tags("a")} == {"#"}
    assert [each["href"] for each in outline.tags("link")] == ["data:,"]
    styles = [text for tag, text in outline.texts if tag == "style"]
    assert len(styles) == 1
    assert "url(" not in styles[0]
    assert "@import" not in styles[0]


def test_equal_reports_give_equal_pages(full, data):
    first, second = (rc.audit(data.scores, data.X, data.y, ["SEX"]).to_html() for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_text_of_users_is_escaped_everywhere(data):
    rng = np.random.default_rng(0)
    masks = {f"{EVIL} {k}": rng.random(6_000) < 0.5 for k in range(3)}
    masks[f"{EVIL} rare"] = np.arange(6_000) < 0
    with pytest.warns(UserWarning, match="rare"):
        report = rc.audit(
            data.scores, data.X, data.y, masks, baseline=data.y * 0.5, thresholds=[0.5]
        )
    plain = rc.audit(data.scores, data.X, data.y, {"a": masks[f"{EVIL} 0"]})
    outline = Outline(report.to_html(title=EVIL))
    assert len(outline.tags("script")) == len(Outline(plain.to_html()).tags("script")) == 1
    assert outline.tags("img") == []
    assert outline.all_text().count(EVIL) > 10
    assert Outline(report._repr_html_()).tags("script") == []


def test_values_of_columns_are_escaped_in_rules(data):
    X = data.X[["AGEP"]].assign(kind=np.where(data.X["SEX"] == "female", "<b>f</b>", "<i>m</i>"))
    report = rc.audit(data.scores, X, data.y, ["kind"], H=rc.Trees(depth=1))
    outline = Outline(report.to_html())
    assert report.discoveries.subgroups
    assert outline.tags("b") == outline.tags("i") == []
    assert "<b>f</b>" in outline.all_text()


def test_text_that_no_file_can_hold_is_replaced(data):
    masks = {"half \ud800 pair, bell \x07": np.arange(6_000) % 2 == 0}
    page = rc.audit(data.scores, data.X, data.y, masks).to_html()
    assert "half \ufffd pair, bell \ufffd" in page
    page.encode("utf-8")


def test_page_is_written_where_asked(tmp_path, full):
    page = full.to_html(tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_text("utf-8") == page
    assert [file.name for file in tmp_path.iterdir()] == ["audit.html"]


@pytest.mark.slow
def test_five_hundred_groups_stay_a_small_page(data):
    rng = np.random.default_rng(0)
    masks = {f"group number {k}": rng.random(6_000) < 0.1 for k in range(500)}
    report = rc.audit(data.scores, data.X, data.y, masks, baseline=data.y * 0.3, thresholds=[0.5])
    page = report.to_html()
    assert len(page.encode()) < 1_000_000
    assert all(f"group number {k}<" in page for k in range(500))


def test_intersections_have_heat_maps_and_a_table_of_their_own(full):
    page = full.to_html()
    section = page[page.index('id="intersections"') : page.index('id="errors"')]
    outline = Outline("<section " + section[: section.rindex("<section")])
    crossed = [group for group in full.groups if len(group.parts) > 1]
    said = outline.all_text()
    assert all(group.name in said for group in crossed)
    cells = [a for a in outline.tags("td") if a.get("title", "").startswith("SEX = ")]
    assert len(cells) == len(crossed)
    worst = max(crossed, key=lambda group: abs(group.after.gap))
    (cell,) = (a for a in cells if a["title"].startswith(f"{worst.name}: "))
    side = "up" if worst.after.gap > 0 else "down"
    assert cell["class"].split()[0] == f"{side}4"
    assert ("off" in cell["class"].split()) == worst.after.off
    alone = page[page.index('id="groups"') : page.index('id="intersections"')]
    assert not any(group.name in alone for group in crossed)


def test_tables_have_captions_and_row_heads(outline):
    assert len(outline.tags("caption")) == len(outline.tags("table"))
    rows = [a for a in outline.tags("th") if a.get("scope") == "row"]
    assert len(rows) > 3 * 14


def test_tiles_compare_a_group_with_itself(full, data):
    def tile(report):
        page = report.to_html()
        return page[page.index("Largest gap beyond noise") :].split("</div>")[0]

    worst = next(g for g in full.groups if g.name == full.overall.largest_gap_group)
    assert f"before: {Digits(3).signed(worst.before.gap)}" in tile(full)
    mended = rc.audit(data.probability, data.X, data.y, ["SEX"], baseline=data.scores)
    assert mended.overall.n_off == 0
    then = mended.overall_before.largest_gap_group
    now = next(g for g in mended.groups if g.name == then).after.gap
    assert f"for {then}" in tile(mended)
    assert f"the same group now: {Digits(3).signed(now)}" in tile(mended)


# --- unusual reports ----------------------------------------------------------------------------


UNUSUAL = {
    "no groups": {"f": [0.2, 0.4, 0.6, 0.8], "y": [0, 0, 1, 1]},
    "one row": {"f": [0.3], "y": [1]},
    "constant predictions": {"f": [0.5] * 6, "y": [0, 1, 0, 1, 1, 0]},
    "a group of one row": {
        "f": [0.1, 0.2, 0.3, 0.4],
        "y": [0, 1, 0, 1],
        "groups": {"one": [True, False, False, False]},
    },
    "rare outcomes": {"f": [0.001] * 20 + [0.002] * 20, "y": [0] * 39 + [1]},
    "large numbers": {"f": [1e9, 2e9, 3e9], "y": [1.1e9, 1.9e9, 3.2e9]},
    "small numbers": {"f": [-1e-7, 2e-7, 3e-7], "y": [1e-7, 2.5e-7, -3e-7]},
    "perfect predictions": {"f": [0, 1, 0, 1], "y": [0, 1, 0, 1]},
    "a constant label": {"f": [0.0, 0.0, 0.0], "y": [0, 0, 0]},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", UNUSUAL.values(), ids=UNUSUAL.keys())
@pytest.mark.parametrize("baseline", [False, True])
@pytest.mark.filterwarnings("ignore:all .* are exactly 0 or 1", "ignore:all .* of one class only")
def test_unusual_reports_have_all_views(case, baseline):
    f, y = np.asarray(case["f"], dtype=float), np.asarray(case["y"])
    groups = {name: np.array(mask) for name, mask in case.get("groups", {}).items()} or None
    report = rc.audit(f, None, y, groups, baseline=f if baseline else None)
    page = Outline(report.to_html())
    for _, attributes in page.found:
        assert not any("nan" in str(v) or "inf" in str(v) for v in attributes.values())
    assert "nan" not in page.all_text()
    assert len(Outline(report._repr_html_()).tags("table")) == 1
    for figure in (report.plot_reliability(), report.plot_gaps()):
        figure.canvas.draw()


# --- notebooks ----------------------------------------------------------------------------------


def test_notebooks_get_verdict_gaps_and_diagrams_in_a_box(full):
    fragment = full._repr_html_()
    outline = Outline(fragment)
    assert outline.found[0] == ("div", {"class": "rc-audit compact"})
    assert full.verdict in outline.all_text()
    assert len(outline.tags("figure")) == 2
    assert {"html", "body", "script", "section"} & {tag for tag, _ in outline.found} == set()
    assert len(fragment) < 40_000


def test_style_touches_nothing_but_the_report(full):
    """In a notebook the style sheet is one among others."""
    css = next(text for tag, text in Outline(full._repr_html_()).texts if tag == "style")
    body = re.sub(r"/\*.*?\*/", "", css)
    selectors = [part.rpartition("}")[2].strip() for part in body.split("{")[:-1]]
    plain = [
        each for each in selectors if each and not each.startswith(("@media", "@page rc-audit"))
    ]
    assert len(plain) > 30
    assert all(one.strip().startswith((".rc-audit", "body:has(> .rc-audit.page)"))
               for each in plain for one in each.split(","))  # fmt: skip


@pytest.mark.slow
def test_views_of_text_need_no_optional_package():
    code = (
        "import sys; sys.modules['matplotlib'] = sys.modules['jinja2'] = None\n"
        "import recalibrate as rc\n"
        "report = rc.audit([.2, .4, .6, .8], None, [0, 0, 1, 1])\n"
        "report.to_html(), report._repr_html_()\n"
        "try: report.plot_gaps()\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert 'pip install "recalibrate-lsboost[report]"' in done.stdout


# --- figures ------------------------------------------------------------------------------------


def test_reliability_draws_the_curves_of_the_groups_asked_for(full):
    figure = full.plot_reliability(["SEX = male", "all"])
    drawn = [{line.get_label(): line for line in axes.get_lines()} for axes in figure.axes]
    assert [axes.get_title().split("\n")[0] for axes in figure.axes] == ["SEX = male", "all"]
    curve = full.groups[0].after.curve
    assert tuple(drawn[1]["after"].get_xdata()) == curve.prediction
    assert tuple(drawn[1]["after"].get_ydata()) == curve.outcome
    assert tuple(drawn[1]["before"].get_ydata()) == full.groups[0].before.curve.outcome


def test_reliability_shows_all_rows_and_the_worst_groups_by_default(full):
    shown = [axes.get_title().split("\n")[0] for axes in full.plot_reliability().axes]
    assert shown == ["all", *(group.name for group in worst_curves(full, 5))]


@pytest.mark.parametrize("groups", ["no such group", ["all", "no such group"], []])
def test_reliability_refuses_unknown_groups(full, groups):
    with pytest.raises(ValueError, match=r"groups must name groups of the report, got .*'all'"):
        full.plot_reliability(groups)


def test_gaps_are_drawn_worst_first_and_filled_when_off(full):
    (axes,) = full.plot_gaps(most=5).axes
    groups = everybody_first(full, 5)
    assert [label.get_text() for label in axes.get_yticklabels()] == [g.name for g in groups]
    marks = [bars.lines[0] for bars in axes.containers if bars.get_label() == "after"]
    assert [mark.get_xdata()[0] for mark in marks] == [group.after.gap for group in groups]
    filled = [mark.get_markerfacecolor() != "white" for mark in marks]
    assert filled == [group.after.off for group in groups]


def test_discoveries_are_drawn_as_predicted_and_observed(full):
    (axes,) = full.plot_discoveries().axes
    found = full.discoveries.subgroups
    predicted = next(line for line in axes.get_lines() if line.get_label() == "predicted")
    assert list(predicted.get_xdata()) == [each.mean_prediction for each in found]
    (bars,) = axes.containers
    assert list(bars.lines[0].get_xdata()) == [each.mean_outcome for each in found]


def test_discoveries_that_are_not_there_are_an_error(data):
    with pytest.raises(ValueError, match="call audit with H=True"):
        rc.audit(data.scores, data.X, data.y).plot_discoveries()
    table = pd.DataFrame({"nothing": np.zeros(6_000)})
    calibrated = rc.audit(np.full(6_000, data.y.mean()), table, data.y, H=rc.Trees(depth=1))
    with pytest.raises(ValueError, match="there is nothing to plot"):
        calibrated.plot_discoveries()


def test_names_are_no_formulas_and_do_not_take_all_the_room(data):
    masks = {"$x_": np.arange(6_000) % 2 == 0, "long " * 60: np.arange(6_000) % 3 == 0}
    report = rc.audit(data.scores, data.X, data.y, masks)
    for figure in (report.plot_gaps(), report.plot_reliability()):
        figure.canvas.draw()
    (axes,) = report.plot_gaps().axes
    assert max(len(label.get_text()) for label in axes.get_yticklabels()) == 60


@pytest.mark.parametrize("most", [0, 2.5, "all"])
def test_gaps_refuse_a_senseless_number_of_groups(full, most):
    with pytest.raises((TypeError, ValueError), match="most"):
        full.plot_gaps(most=most)


# --- parts --------------------------------------------------------------------------------------


def test_worst_gaps_are_everybody_then_the_certain_ones_by_size(full):
    everybody, *groups = everybody_first(full, 100)
    assert everybody is full.groups[0]
    assert {group.name for group in groups} == {group.name for group in full.groups[1:]}
    off = [group.after.off for group in groups]
    assert any(off)
    assert off == sorted(off, reverse=True)
    sizes = [abs(g.after.gap) for g in groups[: sum(off)]]
    assert sizes == sorted(sizes, reverse=True)


def test_elements_escape_text_and_attributes_but_not_markup():
    inner = element("b", "<&>")
    assert inner == "<b>&lt;&amp;&gt;</b>"
    assert isinstance(inner, Markup)
    assert element("p", inner, None, title='"<>') == (
        '<p title="&quot;&lt;&gt;"><b>&lt;&amp;&gt;</b></p>'
    )
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (Digits(3).signed(-0.0004), "0.000"),
        (Digits(3).signed(-0.0005001), "-0.001"),
        (Digits(2).value(float("nan")), "\N{EN DASH}"),
        (measure(0.0), "0"),
        (measure(float("inf")), "\N{EN DASH}"),
        (measure(0.00012345), "0.000123"),
        (measure(-1234.5), "-1,234"),
        (measure(2.5e12), "2.50 \N{MULTIPLICATION SIGN} 10¹²"),
        (p_value(0.0009), "< 0.001"),
        (p_value(0.05), "0.050"),
        (percent(0.1234), "12.3 %"),
    ],
)
def test_numbers_are_shown_with_the_digits_that_mean_something(shown, text):
    assert shown == text.replace("-", "\N{MINUS SIGN}")


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.2e-7, 1e-8), (9e8, 2.1e9), (-5.0, -4.9)])
def test_ticks_are_few_round_and_inside(low, high):
    ticks = Scale(low, high, 0.0, 1.0).ticks()
    values = [value for value, _ in ticks]
    assert 2 <= len(ticks) <= 9
    # Ticks are multiples of a step, rounded.
    assert all(low <= value + 1e-9 * (high - low) <= high + 2e-9 * (high - low) for value in values)
    assert len({label for _, label in ticks}) == len(ticks)


def test_scales_of_nothing_and_of_one_number_have_room():
    assert extent([]) == (0.0, 1.0)
    assert extent([0.0, 0.0]) == (-0.5, 0.5)
    low, high = extent([1.0, np.nextafter(1.0, 2.0)])
    assert low < 1.0 < high


def test_forest_keeps_certain_gaps_in_sight_and_marks_what_it_cuts():
    usual = [Interval(0.01, -0.02, 0.04, False)] * 20
    wide, certain = Interval(0.0, -9.0, 9.0, False), Interval(0.5, 0.4, 0.6, True)
    forest = Forest.around([*usual, wide, certain])
    # The sum of two decimal fractions is rounded.
    assert forest.scale.high == pytest.approx(0.55)
    assert "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}" in forest.row(wide, None, "wide")
    assert "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}" not in forest.row(usual[0], None, "")
    assert "hollow" in forest.row(wide, None, "wide")
    assert "hollow" not in forest.row(certain, None, "certain")
