"""AuditReport: the frozen result of an audit, and its views."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from recalibrate.auditing.records import (
    Audited,
    Calibration,
    Changes,
    Coverage,
    Discoveries,
    GroupAudit,
    LeftOut,
    Note,
    Overall,
    Rates,
    Richness,
    Subgroup,
)
from recalibrate.auditing.views import plots, text
from recalibrate.auditing.views.columns import full_table, short_table, worst_table
from recalibrate.auditing.views.markdown import to_markdown
from recalibrate.auditing.views.schema import plain
from recalibrate.support.atomic import atomic_write
from recalibrate.support.checks import check_number, check_whole
from recalibrate.support.notices import printable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from recalibrate.auditing.slices import Slices


# --- The gate: which groups break a stated tolerance, and the error that says so ----------------


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


def _find_violations(
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


# --- How a report is shown: files, figures, notebooks -------------------------------------------


SCHEMA = "recalibrate.audit"
SCHEMA_VERSION = 1

Path = str | os.PathLike[str]


class _Shown:
    """Views of a report, as its methods; all of them only read its records."""

    @property
    def _report(self) -> AuditReport:
        return cast("AuditReport", self)

    def to_dict(self) -> dict[str, Any]:
        """The report as dicts, lists, strings and finite numbers; see `to_json`."""
        own = self._report
        groups = [plain(group) for group in own.groups]
        for group in groups:
            group["differences"] = _by_measure(group["differences"])
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "kind": own.kind,
            "rows": own.n_rows,
            "clusters": own.n_clusters,
            "alpha": own.alpha,
            "critical": plain(own.critical),
            "bin_edges": plain(own.bin_edges),
            "before_bin_edges": plain(own.before_bin_edges),
            "verdict": own.verdict,
            "overall": {
                "after": plain(own.overall),
                "before": plain(own.overall_before),
                "differences": groups[0]["differences"],
            },
            "groups": groups,
            "left_out": plain(own.left_out),
            "notes": plain(own.notes),
            "discoveries": plain(own.discoveries),
            "richness": plain(own.richness),
            "changes": plain(own.changes),
            "rates": plain(own.rates),
            "coverage": plain(own.coverage),
            "audited": plain(own.audited),
            "slices": None if own.slices is None else plain(own.slices.table.to_dict("records")),
        }

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """The JSON Schema (draft 2020-12) of what `to_json` writes.

        Examples
        --------
        >>> import recalibrate as rc
        >>> rc.AuditReport.json_schema()["properties"]["rows"]["type"]
        'integer'
        """
        from recalibrate.auditing.views.schema import report_schema

        return report_schema(AuditReport, SCHEMA, SCHEMA_VERSION)

    def to_json(self, path: Path | None = None, *, indent: int | None = 2) -> str:
        """The report as JSON text, also written to a file where a path is given.

        The schema is stable: within a ``schema_version`` keys may be added, none is renamed,
        removed or given another meaning. ``null`` stands for what the rows cannot tell. Its JSON
        Schema is `json_schema`, and a file of the documentation (audit.schema.json).

        - schema, schema_version: "recalibrate.audit", 1;
        - kind, rows, clusters, alpha, critical, bin_edges, before_bin_edges: as the attributes
          of the report; verdict: a sentence;
        - overall: {after, before: the numbers of `Overall`; differences: {measure: {value, se}}};
        - groups: a list of {name, rows, clusters, share, mean_outcome; after, before: the numbers
          of `Calibration` with the reliability curve {prediction, outcome, low, high, rows,
          share}; differences as above}; "all" is first;
        - left_out: a list of {name, why, rows}; coverage: a list of {term, rows, missing, left_out,
          outside}; audited: the fields of `Audited`; notes: a list of {title, text, formula};
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
        return write(path, found)

    def to_markdown(self, path: Path | None = None) -> str:
        """The report as Markdown text, also written to a file where a path is given."""
        return write(path, to_markdown(self._report))

    def to_model_card(
        self,
        path: Path | None = None,
        *,
        name: str = "Recalibrated model",
        license: str | None = None,
        intended_use: str | None = None,
        out_of_scope: str | None = None,
        data: str | None = None,
        tags: Sequence[str] = (),
    ) -> str:
        """A model card: Markdown with the YAML head of the Hugging Face hub.

        The numbers, the groups, the limits and where all of it comes from are those of this
        report; what only the authors know is theirs to say.

        Parameters
        ----------
        path : str or path, optional
            Where to write it, usually README.md.
        name : str
            Of the model.
        license : str, optional
            Such as "mit" or "apache-2.0".
        intended_use, out_of_scope, data : str, optional
            Sections of the card, in Markdown: what the model is for, what it is not for, and
            where its rows come from.
        tags : sequence of str
            For the hub, besides "calibration", "multicalibration" and "fairness".

        Returns
        -------
        str
            The card.

        Examples
        --------
        >>> import recalibrate as rc
        >>> report = rc.audit([0.2, 0.4, 0.6, 0.8], None, [0, 0, 1, 1])
        >>> report.to_model_card(name="Churn", license="mit").splitlines()[:3]
        ['---', 'license: "mit"', 'library_name: "recalibrate"']
        """
        from recalibrate.auditing.views.markdown import to_model_card

        card = to_model_card(
            self._report,
            name=name,
            license=license,
            intended_use=intended_use,
            out_of_scope=out_of_scope,
            data=data,
            tags=tags,
        )
        return write(path, card)

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

        return write(path, page(self._report, title))

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
        return plots.plot_reliability(self._report, groups)

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
        return plots.plot_gaps(self._report, most)

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
        return plots.plot_discoveries(self._report)

    def _repr_html_(self) -> str:
        """What notebooks show: the verdict, the worst gaps, the reliability of all rows."""
        from recalibrate.auditing.views.html import fragment

        return fragment(self._report)


def write(path: Path | None, content: str) -> str:
    """Write a view to a file, if there is one, and return it."""
    if path is not None:
        atomic_write(path, content.encode())
    return content


def _by_measure(differences: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {d["measure"]: {"value": d["value"], "se": d["se"]} for d in differences}


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport(_Shown):
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
        found = _find_violations(
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
