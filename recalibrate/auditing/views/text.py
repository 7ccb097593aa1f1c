"""The report in words: verdict, plain text, Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from recalibrate.auditing.records import Calibration

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport

_SHOWN = 60  # groups of the plain text; the table has all


def verdict(report: AuditReport) -> str:
    """The result in a sentence or two."""
    count, now = len(report.groups), report.overall
    what = "group is" if count == 1 else "groups are"
    if not now.n_off:
        text = f"None of {count} {what} off by more than noise"
    else:
        worst = next(group for group in report.groups if group.name == now.largest_gap_group)
        own = worst.after
        text = (
            f"{now.n_off} of {count} {what} off by more than noise; the largest such gap is "
            f"{own.gap:+.3g} ({own.low:.3g} to {own.high:.3g}) for {worst.name}"
        )
    text += f" (limits hold for all groups at once with {confidence(report)} confidence)."
    if report.overall_before is not None:
        text += f" Before: {report.overall_before.n_off} of {count}."
    return text


def confidence(report: AuditReport) -> str:
    """How sure the limits are, in percent."""
    return f"{100 * (1 - report.alpha):.4g} %"


def to_text(report: AuditReport) -> str:
    """What print shows: a head, the verdict, and the main columns."""
    labels = {"soft": "labels in [0, 1]"}.get(report.kind, f"{report.kind} labels")
    head = (
        f"Audit of {report.n_rows:,} rows ({labels}), "
        f"{confidence(report)} limits over all groups at once"
    )
    columns = ["group", "rows", "share", "mean_prediction", "mean_outcome", "gap", "low", "high"]
    columns += ["p_holm", "ece", "k2", "ecce_sigma"]
    if report.overall_before is not None:
        columns += ["before_gap", "before_ece", "before_k2", "before_ecce_sigma"]
    table = report.table[columns]
    body = table.head(_SHOWN).to_string(index=False, float_format=lambda value: f"{value:.3g}")
    lines = [head, verdict(report), body]
    if len(table) > _SHOWN:
        lines.append(f"and {len(table) - _SHOWN} more groups, see .table")
    if report.discoveries is not None:
        lines += ["", str(report.discoveries)]
    if report.richness is not None:
        lines += ["", str(report.richness)]
    if report.changes is not None:
        lines += ["", str(report.changes)]
    return "\n".join(lines)


def to_markdown(report: AuditReport) -> str:
    """The report as a Markdown document, for model cards and pull requests."""
    parts = [
        "# Audit of calibration",
        f"{report.n_rows:,} rows, {report.kind} labels, {len(report.groups)} groups.",
        verdict(report),
        "## Overall",
        _overall(report),
        "## Groups",
        _groups(report),
    ]
    if report.left_out:
        parts += ["Left out: " + "; ".join(f"{g.name} ({g.why})" for g in report.left_out) + "."]
    if report.discoveries is not None:
        parts += ["## Where else the model is wrong", _bullets(str(report.discoveries))]
    if report.richness is not None:
        parts += ["## Is the class rich enough?", _bullets(str(report.richness))]
    if report.changes is not None:
        parts += ["## What changed", _bullets(str(report.changes))]
    parts += ["## Method", "\n".join(f"- **{n.title}.** {n.text}" for n in report.notes)]
    return "\n\n".join(parts) + "\n"


def measure_names(kind: str) -> dict[str, str]:
    """What the measures of `Overall` are called, in the order of a table."""
    return {
        "mse": "Brier score" if kind == "binary" else "mean squared error",
        "log_loss": "log loss",
        "msce": "MSCE",
        "msce_unbiased": "MSCE, bias removed",
        "multicalibration_error": "multicalibration error",
        "mce_sigma": "the same in sigmas",
        "worst_group": "worst group",
        "n_off": "groups off by more than noise",
        "largest_gap": "largest gap of these",
    }


def _overall(report: AuditReport) -> str:
    names = measure_names(report.kind)
    if report.overall_before is None:
        rows = [[label, _show(getattr(report.overall, name))] for name, label in names.items()]
        return _table(["measure", "value"], [row for row in rows if row[1] != "-"])
    paired = {d.measure: f"{_show(d.value)} ({_show(d.se)})" for d in report.groups[0].differences}
    paired["msce"] = paired["k2"]  # over all rows they are the same
    sides = (report.overall_before, report.overall)
    rows = [
        [label, *(_show(getattr(side, name)) for side in sides), paired.get(name, "")]
        for name, label in names.items()
    ]
    header = ["measure", "before", "after", "difference (standard error)"]
    return _table(header, [row for row in rows if row[1:3] != ["-", "-"]])


def _groups(report: AuditReport) -> str:
    header = ["group", "rows", "share", "predicted", "observed", "gap", "limits", "p", "ECE"]
    header += ["ECCE (sigma)"]
    paired = report.overall_before is not None
    rows = []
    for group in report.groups:
        own: Calibration = group.after
        row: list[Any] = [group.name, f"{group.rows:,}", f"{group.share:.1%}"]
        row += [_show(own.mean_prediction), _show(group.mean_outcome), _show(own.gap)]
        row += [f"{_show(own.low)} to {_show(own.high)}", _show(own.p_holm), _show(own.ece)]
        row += [f"{_show(own.ecce)} ({_show(own.ecce_sigma)})"]
        if paired and group.before is not None:
            row.append(_show(group.before.gap))
        rows.append(row)
    return _table([*header, "gap before"] if paired else header, rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Text that cannot end a cell or a row."""
    return " ".join(str(text).split()).replace("\\", "\\\\").replace("|", "\\|")


def _bullets(text: str) -> str:
    return "\n".join(f"- {line.strip()}" for line in text.splitlines() if line.strip())


def _show(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "-" if value != value else f"{value:.4g}"
