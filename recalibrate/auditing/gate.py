"""The gate: which groups break a stated tolerance, and the error that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from recalibrate.auditing.records import GroupAudit
from recalibrate.support.checks import check_number, check_whole

Rule = Literal["certain", "estimate", "proven"]
_SHOWN = 10


@dataclass(frozen=True)
class Violation:
    """A group that breaks the tolerance, and in which way."""

    group: str
    rows: int
    gap: float
    low: float
    high: float
    why: str

    def __str__(self) -> str:
        return f"{self.group} ({self.rows:,} rows): {self.why}"


class AuditFailed(Exception):  # noqa: N818 - it reads as what happened
    """Raised by `AuditReport.check`.

    Attributes
    ----------
    violations : tuple of Violation
        Every group that breaks the tolerance.
    """

    def __init__(self, violations: Sequence[Violation], audited: int) -> None:
        self.violations = tuple(violations)
        count = len(self.violations)
        shown = [f"  {violation}" for violation in self.violations[:_SHOWN]]
        if count > _SHOWN:
            shown.append(f"  and {count - _SHOWN} more")
        super().__init__(f"{count} of {audited} groups fail:\n" + "\n".join(shown))


def find_violations(
    groups: Sequence[GroupAudit],
    *,
    max_gap: float | None,
    alpha: float | None,
    min_rows: int,
    rule: Rule,
    largest: float | None = None,
) -> list[Violation]:
    """Groups that break the tolerance; see `AuditReport.check` for what the arguments mean.

    ``largest`` is the size that no gap exceeds, where there is one.
    """
    if max_gap is None and alpha is None:
        raise ValueError("check needs a tolerance: max_gap=, alpha=, or both")
    check_number("max_gap", max_gap, least=0.0)
    if max_gap is not None and largest is not None and max_gap >= largest:
        raise ValueError(
            f"max_gap={max_gap:g} can never fail: labels are in [0, 1], so that no gap is larger "
            f"than {largest:g}. Give a tolerance in units of the label, such as max_gap=0.05"
        )
    check_number("alpha", alpha, above=0.0, most=1.0)
    check_whole("min_rows", min_rows, least=1)
    if rule not in get_args(Rule):
        raise ValueError(f'rule must be "certain", "estimate" or "proven", got {rule!r}')
    found = []
    for group in groups:
        if group.rows < min_rows:
            continue
        reasons = []
        if max_gap is not None:
            reasons.append(_gap_reason(group, max_gap, rule))
        if alpha is not None:
            reasons.append(_noise_reason(group, alpha))
        why = "; ".join(reason for reason in reasons if reason)
        if why:
            own = group.after
            found.append(Violation(group.name, group.rows, own.gap, own.low, own.high, why))
    return found


def _gap_reason(group: GroupAudit, max_gap: float, rule: Rule) -> str:
    own = group.after
    told = own.low == own.low
    limits = f"limits {own.low:.4g} to {own.high:.4g}" if told else "too few rows for limits"
    if rule == "estimate":
        return f"gap {own.gap:.4g} exceeds {max_gap:g}" if abs(own.gap) > max_gap else ""
    if rule == "certain":
        beyond = own.low > max_gap or own.high < -max_gap
        return f"gap {own.gap:.4g} exceeds {max_gap:g} beyond noise, {limits}" if beyond else ""
    # NaN limits prove nothing, so this is written to fail on them.
    proven = own.low >= -max_gap and own.high <= max_gap
    return "" if proven else f"gap is not shown to be within {max_gap:g}, {limits}"


def _noise_reason(group: GroupAudit, alpha: float) -> str:
    """Two tests look at every group, so each gets half of alpha."""
    own = group.after
    reasons = []
    if own.p_holm < alpha / 2:
        reasons.append(f"gap {own.gap:.4g} is more than noise (adjusted p {own.p_holm:.2g})")
    if own.ecce_p_holm < alpha / 2:
        reasons.append(
            f"cumulative error {own.ecce:.4g} is more than noise "
            f"({own.ecce_sigma:.2g} sigma, adjusted p {own.ecce_p_holm:.2g})"
        )
    return "; ".join(reasons)
