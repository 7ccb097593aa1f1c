"""The report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from recalibrate.auditing.records import Note
from recalibrate.auditing.views.columns import (
    audited_facts,
    coverage_columns,
    decomposition_columns,
    decompositions,
    error_columns,
    gap_columns,
    overall_columns,
    texts,
    told_measures,
)
from recalibrate.auditing.views.numbers import Digits
from recalibrate.auditing.views.rates import rate_tables
from recalibrate.auditing.views.text import left_out, verdict

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport

_MARKS = re.compile(r"[\\\[\]`]")


def to_markdown(report: AuditReport) -> str:
    """The report as a Markdown document, for model cards and pull requests."""
    digits = Digits.of(report)
    parts = [
        "# Audit of calibration",
        f"{report.n_rows:,} rows, {report.kind} labels, {len(report.groups)} groups.",
        escaped(verdict(report)),
        "## Overall",
        table(texts(overall_columns(report, digits), told_measures(report))),
        table(texts(decomposition_columns(), decompositions(report))),
        "## Groups",
        table(texts(gap_columns(report, digits), report.groups)),
        "## Errors beyond the mean",
        table(texts(error_columns(report, digits), report.groups)),
    ]
    if report.left_out:
        parts.append(escaped(left_out(report, len(report.left_out))))
    if report.coverage:
        parts.append(table(texts(coverage_columns(), report.coverage)))
    if report.rates is not None:
        for each in rate_tables(report.rates):
            shown = table(texts(each.columns, each.records))
            parts += [f"## {each.title}", escaped(each.text), shown]
    if report.discoveries is not None:
        parts += ["## Where else the model is wrong", bullets(str(report.discoveries))]
    if report.richness is not None:
        parts += ["## Is the class rich enough?", bullets(str(report.richness))]
    if report.changes is not None:
        parts += ["## What changed", bullets(str(report.changes))]
    parts += ["## What was audited", facts(report)]
    parts += ["## Method", notes(report.notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def facts(report: AuditReport) -> str:
    """What was audited, as a list."""
    found = audited_facts(report).items()
    return "\n".join(f"- {name}: {escaped(text)}" for name, text in found)


def notes(chosen: Iterable[Note]) -> str:
    """Notes as a list, each with its title."""
    return "\n".join(f"- **{each.title}.** {escaped(each.text)}" for each in chosen)


def table(lines: Sequence[Sequence[str]]) -> str:
    """A table, its head first."""
    header, *rows = lines
    marked = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in marked)


def _cell(text: str) -> str:
    """Text that cannot end a cell or a row."""
    return escaped(" ".join(text.split())).replace("|", "\\|")


def escaped(text: str) -> str:
    """Text that Markdown takes for text: names may look like HTML or links."""
    return _MARKS.sub(r"\\\g<0>", text).replace("<", "&lt;")


def bullets(text: str) -> str:
    """Lines as items of a list."""
    return "\n".join(f"- {escaped(line.strip())}" for line in text.splitlines() if line.strip())
