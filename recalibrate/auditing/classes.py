"""The audit of several classes: every class against the rest, and the label that is chosen.

Each class is audited as what it is, a question with two answers, by the same code and on the same
groups; so is the question whether the most probable label is the right one, with its probability
as the prediction. Each gets an equal part of alpha, so that limits hold for all classes, groups and
the chosen label at once (Bonferroni).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.report import AuditFailed, AuditReport, Rule, Violation
from recalibrate.auditing.views.numbers import Digits, cell, typed
from recalibrate.auditing.views.text import aligned
from recalibrate.data.labels import Labels
from recalibrate.support.atomic import atomic_write
from recalibrate.support.checks import check_whole
from recalibrate.support.notices import listed

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "recalibrate.audit.classes"
SCHEMA_VERSION = 1
TOP = "most probable label"
_SHOWN, _DIGITS = 12, Digits(4)
_COLUMNS = ("class", "group", "rows", "mean_prediction", "mean_outcome", "gap", "low", "high")
_MEASURES = ("mean_prediction", "mean_outcome", "gap", "ece", "ece_debiased", "k2", "k2_unbiased")

Path = str | os.PathLike[str]


@dataclass(frozen=True, eq=False, repr=False)
class ClassReport:
    """The result of `audit` for more than two classes: a report per class, and views of all.

    Attributes
    ----------
    classes : tuple
        The classes, in the order of the probabilities.
    reports : tuple of AuditReport
        Of every class against the rest, on the same groups.
    top : AuditReport
        Whether the most probable label is the right one, predicted by its probability.
    n_rows : int
        Rows audited.
    alpha : float
        Chance that any limit of any report misses.
    """

    classes: tuple[Any, ...]
    reports: tuple[AuditReport, ...]
    top: AuditReport
    n_rows: int
    alpha: float

    def __getitem__(self, label: Any) -> AuditReport:
        """The report of one class."""
        if label not in self.classes:
            raise KeyError(f"{label!r} is none of the classes: {listed(self.classes)}")
        return self.reports[self.classes.index(label)]

    @property
    def table(self) -> pd.DataFrame:
        """A row per class and group, worst first; p-values are adjusted for all of them."""
        import pandas as pd

        parts = []
        for label, report in zip((*self.classes, TOP), (*self.reports, self.top), strict=True):
            part = report.table
            part.insert(0, "class", [label] * len(part))
            parts.append(part)
        frame = pd.concat(parts, ignore_index=True)
        frame["p_holm"] = np.minimum(frame["p_holm"] * len(parts), 1.0)
        size = np.where(frame["off"], frame["gap"].abs(), 0.0)
        # Many adjusted p-values are 1: among these the gap says more, in widths of its interval.
        widths = frame["gap"].abs() / (frame["high"] - frame["low"])
        order = np.lexsort((-widths, frame["p_holm"], -size, ~frame["off"].to_numpy(dtype=bool)))
        return frame.iloc[order].reset_index(drop=True)

    @property
    def measures(self) -> pd.DataFrame:
        """A row per class over all rows: means, gap, ECE and K2; with a baseline before_* too."""
        import pandas as pd

        lines = []
        for label, report in zip((*self.classes, TOP), (*self.reports, self.top), strict=True):
            whole = report.full_table.iloc[0]
            names = [*_MEASURES, *(f"before_{name}" for name in _MEASURES)]
            lines.append({"class": label} | {n: whole[n] for n in names if n in whole.index})
        return pd.DataFrame(lines)

    def worst(self, most: int = 10) -> pd.DataFrame:
        """The classes and groups to look at first, as rows of `table`."""
        check_whole("most", most, least=1)
        return self.table.head(most)

    @property
    def n_off(self) -> int:
        """Gaps of classes in groups that are more than noise."""
        return sum(report.overall.n_off for report in self.reports)

    @property
    def verdict(self) -> str:
        """The result in sentences."""
        count = sum(len(report.groups) for report in self.reports)
        sure = f"{100 * (1 - self.alpha):.4g} %"
        said = f"{self.n_off or 'None'} of {count} gaps (class x group) "
        said += "are" if self.n_off != 1 else "is"
        said += f" more than noise (limits hold for all at once with {sure} confidence)."
        if self.n_off:
            first = self.table[self.table["class"] != TOP].iloc[0]
            where = f"{first['class']!r} in {first['group']}"
            said += f" The largest is {first['gap']:+.4f} for {where}."
        before = [report.overall_before for report in self.reports]
        if before[0] is not None:
            said += f" Before: {sum(each.n_off for each in before if each is not None)}."
        top = self.top.groups[0]
        said += (
            f" The most probable label is right in {top.mean_outcome:.1%} of the rows, its "
            f"probability says {top.after.mean_prediction:.1%}."
        )
        return said

    def violations(
        self,
        *,
        max_gap: float | None = None,
        alpha: float | None = None,
        ecce_alpha: float | None = None,
        min_rows: int = 1,
        rule: Rule = "certain",
    ) -> tuple[Violation, ...]:
        """Classes and groups that break a tolerance; the arguments are those of `check`."""
        gaps, along = (
            None if value is None else value / (len(self.classes) + 1)
            for value in (alpha, ecce_alpha)
        )
        found = []
        for label, report in zip((*self.classes, TOP), (*self.reports, self.top), strict=True):
            own = report.violations(
                max_gap=max_gap, alpha=gaps, ecce_alpha=along, min_rows=min_rows, rule=rule
            )
            found += [replace(each, group=f"{label!r} in {each.group}") for each in own]
        return tuple(found)

    def check(
        self,
        *,
        max_gap: float | None = None,
        alpha: float | None = None,
        ecce_alpha: float | None = None,
        min_rows: int = 1,
        rule: Rule = "certain",
    ) -> ClassReport:
        """Raise `AuditFailed` unless all classes keep a tolerance in all groups.

        The arguments are those of :meth:`AuditReport.check`.
        """
        found = self.violations(
            max_gap=max_gap, alpha=alpha, ecce_alpha=ecce_alpha, min_rows=min_rows, rule=rule
        )
        if found:
            audited = sum(len(report.groups) for report in (*self.reports, self.top))
            raise AuditFailed(found, audited)
        return self

    def to_dict(self) -> dict[str, Any]:
        """The report as dicts, lists, strings and finite numbers."""
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "rows": self.n_rows,
            "alpha": self.alpha,
            "verdict": self.verdict,
            "classes": [
                {"class": label, "audit": report.to_dict()}
                for label, report in zip(self.classes, self.reports, strict=True)
            ],
            "top_label": self.top.to_dict(),
        }

    def to_json(self, path: Path | None = None, *, indent: int | None = 2) -> str:
        """The report as JSON: for every class, and for the top label, that of `AuditReport`."""
        found = json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)
        return _write(path, found)

    def to_markdown(self, path: Path | None = None) -> str:
        """The verdict, the worst gaps and the measures of every class as Markdown text."""
        worst = self.worst(3 * _SHOWN)[list(_COLUMNS)]
        parts = ["# Audit of calibration", self.verdict, "## Worst gaps", _markdown(worst)]
        return _write(path, "\n\n".join([*parts, "## Classes", _markdown(self.measures)]) + "\n")

    def to_html(self, path: Path | None = None, *, title: str = "Calibration audit") -> str:
        """The report as one HTML page: a heat map class x group, the worst gaps, reliability."""
        from recalibrate.auditing.views.html.classes import class_page

        return _write(path, class_page(self, title))

    def _repr_html_(self) -> str:
        from recalibrate.auditing.views.html.classes import class_fragment

        return class_fragment(self)

    def __str__(self) -> str:
        head = f"Audit of {self.n_rows:,} rows, {len(self.classes)} classes"
        shown = self.worst(_SHOWN)[list(_COLUMNS)]
        lines = [[str(name).replace("_", " ") for name in _COLUMNS]]
        lines += _lines(shown)
        more = len(self.table) - len(shown)
        rest = [f"and {more} more: report.table has them"] if more > 0 else []
        return "\n".join([head, self.verdict, *aligned(lines), *rest])

    __repr__ = __str__


def _markdown(frame: pd.DataFrame) -> str:
    """A table of names and numbers."""
    lines = [[str(name).replace("_", " ") for name in frame], ["---"] * len(frame.columns)]
    lines += [[text.replace("|", "\\|") for text in line] for line in _lines(frame)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _lines(frame: pd.DataFrame) -> list[list[str]]:
    """Rows of a table as text."""

    def text(name: str, value: Any) -> str:
        found = cell(name, value, _DIGITS)
        return typed(found) if isinstance(value, float) else found

    names, rows = [str(name) for name in frame], frame.itertuples(index=False)
    return [[text(*both) for both in zip(names, row, strict=True)] for row in rows]


def _write(path: Path | None, content: str) -> str:
    if path is not None:
        atomic_write(path, content.encode())
    return content


def audit_classes(
    audit: Callable[..., Any],
    labels: Labels,
    after: NDArray[np.float64],
    before: NDArray[np.float64] | None,
    X: Any,
    *,
    alpha: float,
    **options: Any,
) -> ClassReport:
    """A report for every class and for the most probable label, by ``audit`` itself."""
    share = alpha / (len(labels.classes) + 1)
    options |= {"alpha": share, "sample_weight": labels.weight}

    def one(p: Any, y: Any, compared: Any) -> AuditReport:
        report: AuditReport = audit(p, X, y, baseline=compared, **options)
        return report

    reports = [
        one(after[:, k], labels.values[:, k], None if before is None else before[:, k])
        for k in range(len(labels.classes))
    ]
    hit, confidence = _top_label(labels.values, after)
    top = one(confidence, hit, None)
    return ClassReport(labels.classes, tuple(reports), top, len(after), float(alpha))


def _top_label(
    shares: NDArray[np.float64], p: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Whether the most probable label is right, and its probability.

    Examples
    --------
    >>> _top_label(np.array([[1.0, 0.0, 0.0]]), np.array([[0.2, 0.7, 0.1]]))
    (array([0.]), array([0.7]))
    """
    best, rows = p.argmax(axis=1), np.arange(len(p))
    return np.asarray(shares[rows, best]), np.asarray(p[rows, best])
