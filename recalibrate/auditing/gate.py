"""The gate: which groups break a stated tolerance, and the error that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from recalibrate.auditing.findings import Subgroup
from recalibrate.auditing.records import Calibration, GroupAudit
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
    ecce_alpha: float | None,
    min_rows: int,
    rule: Rule,
    largest: float | None = None,
    subgroups: Sequence[Subgroup] | None = None,
) -> list[Violation]:
    """Groups that break the tolerance; see `AuditReport.check` for what the arguments mean.

    ``largest`` is the size that no gap exceeds, where there is one; ``subgroups``, where they
    are judged too, were found by searching.
    """
    if max_gap is None and alpha is None and ecce_alpha is None:
        raise ValueError("check needs a tolerance: max_gap=, alpha= or ecce_alpha=")
    check_number("max_gap", max_gap, least=0.0)
    if max_gap is not None and largest is not None and max_gap >= largest:
        raise ValueError(
            f"max_gap={max_gap:g} can never fail: labels are in [0, 1], so that no gap is larger "
            f"than {largest:g}. Give a tolerance in units of the label, such as max_gap=0.05"
        )
    check_number("alpha", alpha, above=0.0, most=1.0)
    check_number("ecce_alpha", ecce_alpha, above=0.0, most=1.0)
    check_whole("min_rows", min_rows, least=1)
    if rule not in get_args(Rule):
        raise ValueError(f'rule must be "certain", "estimate" or "proven", got {rule!r}')
    found = []
    for group in groups:
        own, reasons = group.after, []
        if max_gap is not None:
            reasons.append(_gap_reason(own, own.gap, max_gap, rule))
        if alpha is not None and own.p_holm < alpha:
            reasons.append(_more_than_noise(own.gap, own.p_holm))
        if ecce_alpha is not None and own.ecce_p_holm < ecce_alpha:
            reasons.append(
                f"cumulative error {own.ecce:.4g} is more than noise "
                f"({own.ecce_sigma:.2g} sigma, adjusted p {own.ecce_p_holm:.2g})"
            )
        found.append(
            Violation(group.name, group.rows, own.gap, own.low, own.high, _joined(reasons))
        )
    for each in subgroups or ():
        reasons = []
        if max_gap is not None:
            reasons.append(_gap_reason(each, each.corrected_gap, max_gap, rule))
        if alpha is not None and each.p_holm < alpha:
            reasons.append(_more_than_noise(each.corrected_gap, each.p_holm))
        name = f"found by searching: {each.rule}"
        sizes = each.corrected_gap, each.low, each.high
        found.append(Violation(name, each.rows, *sizes, _joined(reasons)))
    return [each for each in found if each.why and each.rows >= min_rows]


def _joined(reasons: Sequence[str]) -> str:
    return "; ".join(reason for reason in reasons if reason)


def _gap_reason(own: Calibration | Subgroup, gap: float, max_gap: float, rule: Rule) -> str:
    told = own.low == own.low
    limits = f"limits {own.low:.4g} to {own.high:.4g}" if told else "too few rows for limits"
    if rule == "estimate":
        return f"gap {gap:.4g} exceeds {max_gap:g}" if abs(gap) > max_gap else ""
    if rule == "certain":
        beyond = own.low > max_gap or own.high < -max_gap
        return f"gap {gap:.4g} exceeds {max_gap:g} beyond noise, {limits}" if beyond else ""
    # NaN limits prove nothing, so this is written to fail on them.
    proven = own.low >= -max_gap and own.high <= max_gap
    return "" if proven else f"gap is not shown to be within {max_gap:g}, {limits}"


def _more_than_noise(gap: float, p: float) -> str:
    return f"gap {gap:.4g} is more than noise (adjusted p {p:.2g})"
