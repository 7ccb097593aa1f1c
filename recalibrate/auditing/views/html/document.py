"""The whole page, and the part of it that notebooks show."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from recalibrate.auditing.views.html import beyond, groups, method, summary
from recalibrate.auditing.views.html.markup import Markup, element, join
from recalibrate.auditing.views.html.overtime import show_slices
from recalibrate.auditing.views.numbers import Digits

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport

_GAPS, _CURVES = 40, 6  # groups of the page's plots
_FEW = 8  # groups of a notebook's plot


@dataclass(frozen=True)
class _Section:
    anchor: str
    title: str
    body: Markup

    def show(self) -> Markup:
        return element("section", element("h2", self.title), self.body, id=self.anchor)


def page(report: AuditReport, title: str) -> str:
    """One file that needs no network, no script to be read, and no other file."""
    digits = Digits.of(report)
    sections = _sections(report, digits)
    links = [element("a", each.title, href=f"#{each.anchor}") for each in sections]
    return shell(
        title,
        element(
            "header",
            element("h1", title),
            element("p", _subtitle(report), class_="subtitle"),
            element("nav", *links, aria_label="Sections"),
        ),
        summary.show_verdict(report),
        summary.show_tiles(report, digits),
        *(each.show() for each in sections),
    )


def shell(title: str, *parts: Markup) -> str:
    """A whole page in the style of the reports, around its parts."""
    main = element(
        "main",
        *parts,
        element("footer", element("p", "Made by recalibrate.")),
        class_="rc-audit page",
    )
    script = _resource("sorting.js")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        style(),
    )
    whole = element("html", head, element("body", main, element("script", script)), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def style() -> Markup:
    """The style sheet of all reports."""
    return element("style", _resource("style.css"))


def fragment(report: AuditReport) -> str:
    """Verdict, measures and the worst gaps, for the output of a notebook's cell."""
    digits = Digits.of(report)
    return element(
        "div",
        style(),
        element("p", _subtitle(report), class_="subtitle"),
        summary.show_verdict(report),
        groups.show_legend(report),
        groups.show_gaps(report, digits, _FEW, rest="report.table"),
        groups.show_everybody(report, digits),
        class_="rc-audit compact",
    )


def _sections(report: AuditReport, digits: Digits) -> list[_Section]:
    legend = groups.show_legend(report)
    found = [
        _Section("overall", "Overall", summary.show_overall(report, digits)),
        _Section(
            "reliability",
            "Reliability",
            join([_reliability_text(), legend, groups.show_everybody(report, digits)]),
        ),
    ]
    curves = groups.show_worst_curves(report, digits, _CURVES)
    if curves is not None:
        found.append(_Section("worst", "Worst groups", join([_worst_text(), legend, curves])))
    gaps = join(
        [_gaps_text(), legend, groups.show_gaps(report, digits, _GAPS, rest="the table below")]
    )
    found.append(_Section("gaps", "Gaps by group", gaps))
    found.append(_Section("groups", "All groups", groups.show_all(report, digits)))
    crossed = groups.show_intersections(report, digits)
    if crossed is not None:
        found.append(_Section("intersections", "Intersections", crossed))
    found.append(_Section("errors", "Errors beyond the mean", groups.show_errors(report, digits)))
    if report.slices is not None:
        found.append(_Section("time", "Over time", show_slices(report.slices, digits)))
    if report.rates is not None:
        body = groups.show_rates(report.rates)
        found.append(_Section("rates", "Decisions and ranking", body))
    if report.discoveries is not None:
        body = beyond.show_discoveries(report.discoveries, digits)
        found.append(_Section("discoveries", "Where else the model is wrong", body))
    if report.richness is not None:
        body = beyond.show_richness(report.richness)
        found.append(_Section("richness", "Is the class rich enough?", body))
    if report.changes is not None:
        body = beyond.show_changes(report.changes, digits)
        found.append(_Section("changes", "What changed", body))
    facts = join(
        [
            method.show_facts(report, digits),
            method.show_coverage(report),
            method.show_left_out(report),
        ]
    )
    found.append(_Section("data", "Data", facts))
    found.append(_Section("method", "Method", method.show_notes(report)))
    return found


def _reliability_text() -> Markup:
    return element(
        "p",
        "Rows are cut into bins by their prediction. Calibrated predictions lie on the dashed "
        "line; the band covers all bins of a curve at once. Larger points hold more weight.",
    )


def _worst_text() -> Markup:
    return element(
        "p",
        "The groups with the strongest evidence of errors along the predictions (cumulative "
        "error, ECCE, in standard deviations under calibration), worst first.",
    )


def _gaps_text() -> Markup:
    return element(
        "p",
        "Mean outcome minus mean prediction: to the right the group is under-predicted, to the "
        "left over-predicted. Limits hold for all groups at once; filled points are off by more "
        "than noise. Those come first, by size.",
    )


def _subtitle(report: AuditReport) -> str:
    compared = "" if report.overall_before is None else ", before and after"
    count = len(report.groups)
    return (
        f"{report.n_rows:,} rows, labels {method.KINDS[report.kind]}, {count:,} "
        f"group{'s' if count > 1 else ''}{compared}"
    )


def _policy(script: str) -> str:
    """Allows this page's own style and script, and nothing from anywhere."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )


def _resource(name: str) -> Markup:
    return Markup(files("recalibrate.auditing.views.html").joinpath(name).read_text("utf-8"))
