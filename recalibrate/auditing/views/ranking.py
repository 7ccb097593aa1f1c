"""Which groups a view shows where it cannot show all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalibrate.auditing.records import GroupAudit

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport


def worst_gaps(report: AuditReport, most: int) -> list[GroupAudit]:
    """All rows, then groups: those off by more than noise by size of gap, the rest by p-value."""
    everybody, *groups = report.groups
    return [everybody, *sorted(groups, key=_by_gap)][:most]


def _by_gap(group: GroupAudit) -> tuple[bool, float]:
    own = group.after
    return (False, -abs(own.gap)) if own.off else (True, own.p)


def worst_curves(report: AuditReport, most: int) -> list[GroupAudit]:
    """Groups with the strongest evidence of errors along the predictions, without "all"."""
    return sorted(report.groups[1:], key=lambda group: -group.after.ecce_sigma)[:most]
