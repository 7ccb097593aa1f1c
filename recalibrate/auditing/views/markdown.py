"""The report as Markdown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recalibrate.auditing.records import Note
from recalibrate.auditing.views.columns import (
    audited_facts,
    coverage_columns,
    decomposition_columns,
    decompositions,
    error_columns,
    everybody_first,
    gap_columns,
    overall_columns,
    rate_tables,
    texts,
    told_measures,
)
from recalibrate.auditing.views.numbers import Digits
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
        parts += ["## Where else the model is wrong", _bullets(str(report.discoveries))]
    if report.richness is not None:
        parts += ["## Is the class rich enough?", _bullets(str(report.richness))]
    if report.changes is not None:
        parts += ["## What changed", _bullets(str(report.changes))]
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


def _bullets(text: str) -> str:
    """Lines as items of a list."""
    return "\n".join(f"- {escaped(line.strip())}" for line in text.splitlines() if line.strip())


# --- The report as a model card: Markdown with the YAML head that the Hugging Face hub reads ----


_GROUPS = 40  # groups of a table; the report's own files have all
NOT_STATED = "Not stated by the authors of this card."
LIMITS = (
    Note(
        "Right on average",
        "Calibration by group says that predictions are right on average in each group that was "
        "looked at. It says nothing about single persons, about groups that no column describes, "
        "or about rows unlike the audited ones.",
    ),
    Note(
        "Not equal treatment",
        "A calibrated model can select groups at different rates and err at different rates.",
    ),
    Note(
        "As good as the labels",
        "Outcomes that were recorded wrongly, or that are unfair themselves, are taken as they "
        "are.",
    ),
    Note(
        "For new rows only",
        "The audit holds for rows that trained neither the model nor its calibration. Audit again "
        "when the population changes.",
    ),
)


def to_model_card(
    report: AuditReport,
    *,
    name: str,
    license: str | None,
    intended_use: str | None,
    out_of_scope: str | None,
    data: str | None,
    tags: Sequence[str],
) -> str:
    """The card; what the authors have to say is taken as Markdown, as it is."""
    digits = Digits.of(report)
    shown = everybody_first(report, _GROUPS)
    parts = [
        _head(report, name, license, tags),
        f"# {escaped(name)}",
        "## Intended use",
        intended_use or NOT_STATED,
        "## Out of scope",
        out_of_scope or NOT_STATED,
        "## Data",
        data or NOT_STATED,
        f"Audited on {report.n_rows:,} rows, {report.kind} labels, mean outcome "
        f"{digits.value(report.groups[0].mean_outcome)}.",
        "## Groups",
        table(texts(coverage_columns(), report.coverage)) if report.coverage else "",
        escaped(left_out(report, _GROUPS)) if report.left_out else "",
        "## Results",
        escaped(verdict(report)),
        table(texts(overall_columns(report, digits), told_measures(report))),
        "### Gaps by group, worst first",
        table(texts(gap_columns(report, digits), shown)),
        _more(len(report.groups) - len(shown)),
        *_rates(report),
        "## Limits",
        notes([*LIMITS, *(each for each in report.notes if each.title == "Small groups")]),
        "## How the numbers are made",
        notes(each for each in report.notes if each.title != "Small groups"),
        "## Where this comes from",
        facts(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _more(count: int) -> str:
    return f"{count:,} more groups are in the report's own files." if count > 0 else ""


def _rates(report: AuditReport) -> list[str]:
    if report.rates is None:
        return []
    parts = []
    for each in rate_tables(report.rates):
        records = each.farthest(_GROUPS)
        parts += [f"### {each.title}", escaped(each.text), table(texts(each.columns, records))]
        parts.append(_more(len(each.records) - len(records)))
    return parts


def _head(report: AuditReport, name: str, license: str | None, tags: Sequence[str]) -> str:
    """Facts for machines; see https://huggingface.co/docs/hub/model-cards."""
    task = "tabular-regression" if report.kind == "regression" else "tabular-classification"
    facts: dict[str, Any] = {} if license is None else {"license": license}
    facts |= {
        "library_name": "recalibrate",
        "pipeline_tag": task,
        "tags": list(dict.fromkeys(["calibration", "multicalibration", "fairness", *tags])),
        "model-index": [
            {
                "name": name,
                "results": [
                    {
                        "task": {"type": task},
                        "dataset": {"type": "tabular", "name": "audited rows"},
                        "metrics": _metrics(report),
                    }
                ],
            }
        ],
    }
    return "---\n" + "\n".join(_yaml(facts)) + "\n---"


def _metrics(report: AuditReport) -> list[dict[str, Any]]:
    now = report.overall
    error = "brier_score" if report.kind == "binary" else "mse"
    found: dict[str, tuple[str, float]] = {
        error: (error.replace("_", " ").capitalize() if error != "mse" else "MSE", now.mse),
        "log_loss": ("Log loss", now.log_loss),
        "groups_off": ("Groups off by more than noise", now.n_off),
        "groups": ("Groups audited", len(report.groups)),
        "multicalibration_error": ("Multicalibration error", now.multicalibration_error),
    }
    if report.rates is not None and report.rates.of("auc"):
        found["roc_auc"] = ("AUC", report.rates.of("auc")[0].after.value)
    return [
        {"type": kind, "name": title, "value": value if isinstance(value, int) else round(value, 6)}
        for kind, (title, value) in found.items()
        if math.isfinite(value)
    ]


def _yaml(value: Any, indent: str = "") -> list[str]:
    """Lines of YAML; single values are written as JSON, which is YAML too."""
    if isinstance(value, Mapping):
        lines = []
        for key, entry in value.items():
            inner = _yaml(entry, indent + "  ")
            if isinstance(entry, Mapping | list):
                lines += [f"{indent}{key}:", *inner]
            else:
                lines.append(f"{indent}{key}: {inner[0]}")
        return lines
    if isinstance(value, list):
        lines = []
        for entry in value:
            first, *rest = _yaml(entry, indent + "  ")
            lines += [f"{indent}- {first.strip()}", *rest]
        return lines
    return [json.dumps(value, ensure_ascii=False)]
