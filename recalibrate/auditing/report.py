"""AuditReport: the frozen result of an audit, and its views."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recalibrate.auditing.findings import Changes, Discoveries, Richness
from recalibrate.auditing.gate import AuditFailed, Rule, Violation, find_violations
from recalibrate.auditing.rates import Rates
from recalibrate.auditing.records import Coverage, GroupAudit, LeftOut, Note, Overall
from recalibrate.auditing.views import plots, text
from recalibrate.auditing.views.frames import full_table, short_table, worst_table
from recalibrate.auditing.views.plain import plain
from recalibrate.support.atomic import atomic_write
from recalibrate.support.checks import check_whole
from recalibrate.support.notices import printable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from recalibrate.auditing.slices import Slices

SCHEMA = "recalibrate.audit"
SCHEMA_VERSION = 1

Path = str | os.PathLike[str]


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport:
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
    slices: Slices | None = None

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
        min_rows: int = 1,
        rule: Rule = "certain",
    ) -> tuple[Violation, ...]:
        """Groups that break a tolerance; the arguments are those of `check`."""
        largest = None if self.kind == "regression" else 1.0
        found = find_violations(
            self.groups,
            max_gap=max_gap,
            alpha=alpha,
            min_rows=min_rows,
            rule=rule,
            largest=largest,
        )
        return tuple(found)

    def check(
        self,
        *,
        max_gap: float | None = None,
        alpha: float | None = None,
        min_rows: int = 1,
        rule: Rule = "certain",
    ) -> AuditReport:
        """Raise unless all groups keep a tolerance: a gate for pipelines.

        Parameters
        ----------
        max_gap : float, optional
            Largest size of a gap that is acceptable, in units of the label. For labels in
            [0, 1] it must be below 1: no gap is larger, so that nothing could fail.
        alpha : float, optional
            Fail groups whose predictions are wrong by more than noise, in their mean or along
            the scores: Holm-adjusted p-value of the gap or of the ECCE below alpha / 2. A model
            that is calibrated everywhere fails with probability at most alpha.
        min_rows : int
            Smaller groups are not judged.
        rule : {"certain", "estimate", "proven"}
            When a gap breaks max_gap. "certain": beyond noise, that is when the limits exclude
            every acceptable gap. "estimate": when the estimated gap does, noise or not; small
            groups often will. "proven": unless the limits show it to be acceptable; groups too
            small to tell then fail.

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
        found = self.violations(max_gap=max_gap, alpha=alpha, min_rows=min_rows, rule=rule)
        if found:
            raise AuditFailed(found, len(self.groups))
        return self

    def to_dict(self) -> dict[str, Any]:
        """The report as dicts, lists, strings and finite numbers; see `to_json`."""
        groups = [plain(group) for group in self.groups]
        for group in groups:
            group["differences"] = _by_measure(group["differences"])
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "kind": self.kind,
            "rows": self.n_rows,
            "clusters": self.n_clusters,
            "alpha": self.alpha,
            "critical": plain(self.critical),
            "bin_edges": plain(self.bin_edges),
            "before_bin_edges": plain(self.before_bin_edges),
            "verdict": self.verdict,
            "overall": {
                "after": plain(self.overall),
                "before": plain(self.overall_before),
                "differences": groups[0]["differences"],
            },
            "groups": groups,
            "left_out": plain(self.left_out),
            "notes": plain(self.notes),
            "discoveries": plain(self.discoveries),
            "richness": plain(self.richness),
            "changes": plain(self.changes),
            "rates": plain(self.rates),
            "coverage": plain(self.coverage),
            "slices": None if self.slices is None else plain(self.slices.table.to_dict("records")),
        }

    def to_json(self, path: Path | None = None, *, indent: int | None = 2) -> str:
        """The report as JSON text, also written to a file where a path is given.

        The schema is stable: within a ``schema_version`` keys may be added, none is renamed,
        removed or given another meaning. ``null`` stands for what the rows cannot tell.

        - schema, schema_version: "recalibrate.audit", 1;
        - kind, rows, clusters, alpha, critical, bin_edges, before_bin_edges: as the attributes
          of the report; verdict: a sentence;
        - overall: {after, before: the numbers of `Overall`; differences: {measure: {value, se}}};
        - groups: a list of {name, rows, clusters, share, mean_outcome; after, before: the numbers
          of `Calibration` with the reliability curve {prediction, outcome, low, high, rows,
          share}; differences as above}; "all" is first;
        - left_out: a list of {name, why, rows}; coverage: a list of {term, rows, missing, left_out,
          outside}; notes: a list of {title, text, formula};
        - discoveries, richness, changes, rates: null, or the fields of `Discoveries`, `Richness`,
          `Changes` and `Rates`; slices: null, or a list of {slice, group, ..., gap, low, high}.

        Examples
        --------
        >>> import json
        >>> import recalibrate as rc
        >>> report = rc.audit([0.25, 0.5, 0.75, 0.5], None, [0, 1, 1, 1])
        >>> json.loads(report.to_json())["groups"][0]["after"]["gap"]
        0.25
        """
        found = json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)
        return _write(path, found)

    def to_markdown(self, path: Path | None = None) -> str:
        """The report as Markdown text, also written to a file where a path is given."""
        return _write(path, text.to_markdown(self))

    def to_html(self, path: Path | None = None, *, title: str = "Calibration audit") -> str:
        """The report as one HTML page, also written to a file where a path is given.

        The page needs no network and no other file, can be read without scripts, follows the
        reader's light or dark theme, and can be printed. Equal reports give equal pages.

        Parameters
        ----------
        path : str or path, optional
            Where to write it.
        title : str
            Heading of the page.

        Returns
        -------
        str
            The page.

        Examples
        --------
        >>> import recalibrate as rc
        >>> report = rc.audit([0.2, 0.4, 0.6, 0.8], None, [0, 0, 1, 1])
        >>> report.to_html(title="Churn model")[:15]
        '<!DOCTYPE html>'
        """
        from recalibrate.auditing.views.html import page

        return _write(path, page(self, title))

    def plot_reliability(self, groups: str | Sequence[str] | None = None) -> Figure:
        """Reliability diagrams with bands: mean outcome against mean prediction by bin.

        Parameters
        ----------
        groups : str or sequence of str, optional
            Names of groups; by default all rows and the five groups with the most sigmas of
            cumulative error.

        Returns
        -------
        matplotlib.figure.Figure
            Not known to pyplot; ``figure.savefig("reliability.png")`` writes it.

        Raises
        ------
        ImportError
            Without matplotlib, which the extra "report" installs.

        Examples
        --------
        >>> import recalibrate as rc
        >>> report = rc.audit([0.2, 0.4, 0.6, 0.8], None, [0, 0, 1, 1])
        >>> len(report.plot_reliability("all").axes)
        1
        """
        return plots.plot_reliability(self, groups)

    def plot_gaps(self, most: int = 40) -> Figure:
        """A forest plot: gaps with limits that hold for all groups at once, worst first.

        Parameters
        ----------
        most : int
            How many groups to show, all rows among them.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import recalibrate as rc
        >>> report = rc.audit([0.2, 0.4, 0.6, 0.8], None, [0, 0, 1, 1])
        >>> [label.get_text() for label in report.plot_gaps().axes[0].get_yticklabels()]
        ['all']
        """
        return plots.plot_gaps(self, most)

    def plot_discoveries(self) -> Figure:
        """Predicted and observed means of the subgroups that the search found.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ValueError
            If nothing was searched (see ``H`` of `audit`) or found.
        """
        return plots.plot_discoveries(self)

    def _repr_html_(self) -> str:
        """What notebooks show: the verdict, the worst gaps, the reliability of all rows."""
        from recalibrate.auditing.views.html import fragment

        return fragment(self)

    def __str__(self) -> str:
        return printable(text.to_text(self))

    __repr__ = __str__


def _write(path: Path | None, content: str) -> str:
    if path is not None:
        atomic_write(path, content.encode())
    return content


def _by_measure(differences: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {d["measure"]: {"value": d["value"], "se": d["se"]} for d in differences}
