"""How a report is shown: files, figures, notebooks."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from recalibrate.auditing.views import plots
from recalibrate.auditing.views.markdown import to_markdown
from recalibrate.auditing.views.plain import plain
from recalibrate.support.atomic import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from recalibrate.auditing.report import AuditReport

SCHEMA = "recalibrate.audit"
SCHEMA_VERSION = 1

Path = str | os.PathLike[str]


class Shown:
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
        from recalibrate.auditing.report import AuditReport
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
        from recalibrate.auditing.views.card import to_model_card

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
