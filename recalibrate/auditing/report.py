"""AuditReport: the frozen result of an audit, and its views."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recalibrate.auditing.findings import Changes, Discoveries, Richness
from recalibrate.auditing.gate import AuditFailed, Rule, Violation, find_violations
from recalibrate.auditing.rates import Rates
from recalibrate.auditing.records import Audited, Coverage, GroupAudit, LeftOut, Note, Overall
from recalibrate.auditing.views import text
from recalibrate.auditing.views.frames import full_table, short_table, worst_table
from recalibrate.auditing.views.shown import Shown
from recalibrate.support.checks import check_whole
from recalibrate.support.notices import printable

if TYPE_CHECKING:
    import pandas as pd

    from recalibrate.auditing.slices import Slices


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport(Shown):
    """The result of `audit`: plain data, and views of it.

    Attributes
    ----------
    kind : {"binary", "soft", "regression"}
        How the labels were read.
    n_rows : int
        Rows audited.
    n_clusters : int or None
        Clusters that the limits and p-values respect.
    alpha : float
        Chance that any of the gaps' limits misses.
    critical : float
        Normal score at which the limits are drawn, before what the number of rows adds; 1.96
        for a single group at alpha = .05.
    bin_edges : tuple of float
        Where predictions are cut into quantile bins (of K1, K2, Kinf and the curves); equal for
        all groups, so that groups can be compared.
    before_bin_edges : tuple of float
        The same for the baseline; empty without.
    groups : tuple of GroupAudit
        All rows first.
    overall : Overall
    overall_before : Overall or None
        Of the baseline.
    left_out : tuple of LeftOut
        Groups with too few rows.
    notes : tuple of Note
        How the numbers are computed.
    discoveries : Discoveries or None
        Subgroups found by searching.
    richness : Richness or None
        Whether the class H, or a richer one, still finds something.
    changes : Changes or None
        What the step from the baseline to the audited predictions changes.
    rates : Rates or None
        Decisions at thresholds and ranking (AUC) by group, against reference groups; None for
        labels other than 0/1 without thresholds.
    coverage : tuple of Coverage
        Per column, crossing or condition: rows in its groups, missing, left out, in none.
    audited : Audited or None
        What was audited: model and rows with their fingerprints, versions, dates.
    slices : Slices or None
        The same by slices of time.

    See Also
    --------
    audit : makes a report, and explains its numbers.
    """

    kind: str
    n_rows: int
    n_clusters: int | None
    alpha: float
    critical: float
    bin_edges: tuple[float, ...]
    before_bin_edges: tuple[float, ...]
    groups: tuple[GroupAudit, ...]
    overall: Overall
    overall_before: Overall | None
    left_out: tuple[LeftOut, ...]
    notes: tuple[Note, ...]
    discoveries: Discoveries | None = None
    richness: Richness | None = None
    changes: Changes | None = None
    rates: Rates | None = None
    coverage: tuple[Coverage, ...] = ()
    audited: Audited | None = None
    slices: Slices | None = field(default=None, metadata={"json": False})  # its table is

    @property
    def table(self) -> pd.DataFrame:
        """The main numbers, one row per group: see `full_table` for all.

        With a baseline its gaps are there too (before_gap, before_off), with clusters their
        number.
        """
        return short_table(self)

    @property
    def full_table(self) -> pd.DataFrame:
        """One row per group: every number of `GroupAudit` and `Calibration`.

        With a baseline its numbers are there too, called before_gap and so on, and the paired
        differences (after minus before) as change_gap with their standard errors
        change_gap_se.
        """
        return full_table(self)

    def worst(self, most: int = 10) -> pd.DataFrame:
        """The groups to look at first, as rows of `table`; all rows are not among them.

        Groups that are off by more than noise come first, by the size of their gap; then the
        others, by p-value.

        Parameters
        ----------
        most : int
            How many groups.

        Examples
        --------
        >>> import recalibrate as rc
        >>> from recalibrate.simulate import census
        >>> data = census(4000, seed=1, gap=0.1)
        >>> report = rc.audit(data.scores, data.X, data.y, groups=["SEX", "AGEP < 25"])
        >>> report.worst(1)["group"].tolist()
        ['SEX = 2']
        """
        check_whole("most", most, least=1)
        return worst_table(self, most)

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        return text.verdict(self)

    def violations(
        self,
        *,
        max_gap: float | None = None,
        alpha: float | None = None,
        ecce_alpha: float | None = None,
        min_rows: int = 1,
        rule: Rule = "certain",
        search: bool = False,
    ) -> tuple[Violation, ...]:
        """Groups that break a tolerance; the arguments are those of `check`."""
        if search and self.discoveries is None:
            raise ValueError("search=True judges what was found: audit with H= to search")
        found = find_violations(
            self.groups,
            max_gap=max_gap,
            alpha=alpha,
            ecce_alpha=ecce_alpha,
            min_rows=min_rows,
            rule=rule,
            largest=None if self.kind == "regression" else 1.0,
            subgroups=self.discoveries.subgroups if search and self.discoveries else None,
        )
        return tuple(found)

    def check(
        self,
        *,
        max_gap: float | None = None,
        alpha: float | None = None,
        ecce_alpha: float | None = None,
        min_rows: int = 1,
        rule: Rule = "certain",
        search: bool = False,
    ) -> AuditReport:
        """Raise unless all groups keep a tolerance: a gate for pipelines.

        Parameters
        ----------
        max_gap : float, optional
            Largest size of a gap that is acceptable, in units of the label. For labels in
            [0, 1] it must be below 1: no gap is larger, so that nothing could fail.
        alpha : float, optional
            Fail groups whose gap is more than noise: adjusted p-value below alpha. At the alpha
            of the report these are the groups that the verdict counts, and those that
            ``max_gap=0`` fails. If no group has a gap, this fails with probability at most alpha.
        ecce_alpha : float, optional
            Fail groups whose predictions are wrong somewhere along the scores by more than noise,
            even if errors cancel out in the mean: Holm-adjusted p-value of the ECCE below
            ecce_alpha. A model that is calibrated everywhere fails with at most this probability.
        min_rows : int
            Smaller groups are not judged.
        rule : {"certain", "estimate", "proven"}
            When a gap breaks max_gap. "certain": beyond noise, that is when the limits exclude
            every acceptable gap. "estimate": when the estimated gap does, noise or not; small
            groups often will. "proven": unless the limits show it to be acceptable; groups too
            small to tell then fail.
        search : bool
            Judge the subgroups that were found by searching (``H=`` of `audit`), too, by their
            corrected gaps. They are a family of their own: alpha is that of each of the two.

        Returns
        -------
        AuditReport
            This report.

        Raises
        ------
        AuditFailed
            With the failing groups in ``violations``.

        Examples
        --------
        >>> import recalibrate as rc
        >>> from recalibrate.simulate import census
        >>> data = census(4000, seed=1, gap=0.1)
        >>> report = rc.audit(data.scores, data.X, data.y, groups=["SEX == 2"])
        >>> report.check(max_gap=0.2) is report
        True
        >>> [violation.group for violation in report.violations(max_gap=0.05)]
        ['SEX == 2']
        """
        found = self.violations(
            max_gap=max_gap,
            alpha=alpha,
            ecce_alpha=ecce_alpha,
            min_rows=min_rows,
            rule=rule,
            search=search,
        )
        if found:
            searched = self.discoveries.subgroups if search and self.discoveries else ()
            raise AuditFailed(found, len(self.groups) + len(searched))
        return self

    def __str__(self) -> str:
        return printable(text.to_text(self))

    __repr__ = __str__
