"""Audit of predictions by group."""

from recalibrate.auditing.comparison import AuditComparison
from recalibrate.auditing.entry import audit
from recalibrate.auditing.report import AuditFailed, AuditReport, Violation

__all__ = ["AuditComparison", "AuditFailed", "AuditReport", "Violation", "audit"]
