"""Audit of predictions by group."""

from recalibrate.auditing.report import AuditReport, audit

__all__ = ["AuditReport", "audit"]
