"""Audit of predictions by group."""

from recalibrate.auditing.comparison import AuditComparison
from recalibrate.auditing.entry import audit
from recalibrate.auditing.gate import AuditFailed, Violation
from recalibrate.auditing.report import AuditReport

__all__ = ["AuditComparison", "AuditFailed", "AuditReport", "Violation", "audit"]
