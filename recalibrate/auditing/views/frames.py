"""The groups of a report as DataFrames: the main numbers, and all of them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from recalibrate.auditing.records import Calibration, GroupAudit
from recalibrate.auditing.views.ranking import worst_gaps

if TYPE_CHECKING:
    import pandas as pd

    from recalibrate.auditing.report import AuditReport

_SHORT = (
    "group", "rows", "effective_rows", "clusters", "mean_prediction", "mean_outcome", "gap",
    "gap_se", "low", "high", "ratio", "ratio_low", "ratio_high", "p_holm", "detectable", "off",
    "before_gap", "before_off",
)  # fmt: skip


def short_table(report: AuditReport) -> pd.DataFrame:
    """The main numbers, a row per group."""
    frame = full_table(report)
    shown = [name for name in _SHORT if name in frame]
    if report.n_clusters is None:
        shown.remove("clusters")
    if not weighs_rows(report):
        shown.remove("effective_rows")
    if not shows_ratios(report):
        shown = [name for name in shown if not name.startswith("ratio")]
    return frame[shown]


def full_table(report: AuditReport) -> pd.DataFrame:
    """Every number of `GroupAudit` and `Calibration`, a row per group."""
    import pandas as pd

    frame = pd.DataFrame([_line(group) for group in report.groups])
    losses = {"log_loss": report.overall.log_loss, "deviance": report.overall.deviance}
    unknown = [name for name, value in losses.items() if value != value]
    return frame.drop(columns=[*unknown, *(f"before_{name}" for name in unknown)], errors="ignore")


def weighs_rows(report: AuditReport) -> bool:
    """Whether weights make rows tell less than their number."""
    return any(group.effective_rows < group.rows - 1e-6 * group.rows for group in report.groups)


def shows_ratios(report: AuditReport) -> bool:
    """Whether outcomes over predictions say more than their difference: for positive numbers."""
    return report.kind == "regression" and report.groups[0].after.ratio > 0.0


def worst_table(report: AuditReport, most: int) -> pd.DataFrame:
    """The main numbers of the groups to look at first."""
    places = {group.name: at for at, group in enumerate(report.groups)}
    chosen = [places[group.name] for group in worst_gaps(report, most)]
    return short_table(report).iloc[chosen].reset_index(drop=True)


def _line(group: GroupAudit) -> dict[str, Any]:
    after = _numbers(group.after)
    line = {
        "group": group.name,
        "rows": group.rows,
        "effective_rows": group.effective_rows,
        "clusters": group.clusters,
        "share": group.share,
        "mean_prediction": after.pop("mean_prediction"),
        "mean_outcome": group.mean_outcome,
    }
    line |= after
    if group.before is not None:
        line |= {f"before_{name}": value for name, value in _numbers(group.before).items()}
    for difference in group.differences:
        line[f"change_{difference.measure}"] = difference.value
        line[f"change_{difference.measure}_se"] = difference.se
    return line


def _numbers(calibration: Calibration) -> dict[str, float]:
    names = (each.name for each in fields(calibration) if each.name != "curve")
    return {name: getattr(calibration, name) for name in names}
