"""Which groups a view shows where it cannot show all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from recalibrate.auditing.records import GroupAudit

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport


def worst_gaps(report: AuditReport, most: int) -> list[GroupAudit]:
    """Groups: those off by more than noise by size of gap, the rest by p-value, without "all"."""
    return sorted(report.groups[1:], key=_by_gap)[:most]


def everybody_first(report: AuditReport, most: int) -> list[GroupAudit]:
    """All rows, then the worst groups."""
    return [report.groups[0], *worst_gaps(report, most - 1)]


def _by_gap(group: GroupAudit) -> tuple[int, float]:
    own = group.after
    if math.isnan(own.p):
        return 2, -abs(own.gap)  # too few rows to tell
    return (0, -abs(own.gap)) if own.off else (1, own.p)


def worst_curves(report: AuditReport, most: int) -> list[GroupAudit]:
    """Groups with the strongest evidence of errors along the predictions, without "all"."""
    return sorted(report.groups[1:], key=lambda group: -group.after.ecce_sigma)[:most]
