"""Several models side by side, audited on the same rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recalibrate.auditing.gate import AuditFailed, Rule, Violation
from recalibrate.auditing.predictions import open_model
from recalibrate.auditing.report import AuditReport
from recalibrate.auditing.running import Asked, Audit, fitted_groups, run
from recalibrate.auditing.views import sidebyside
from recalibrate.auditing.views.shown import Path, write

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "recalibrate.comparison"
SCHEMA_VERSION = 1


@dataclass(frozen=True, eq=False, repr=False)
class AuditComparison(Mapping[str, AuditReport]):
    """Audits of several models on the same rows and groups, by name: ``comparison["a"]``.

    Without a baseline of their own, the others are compared with the first model, so that
    ``report.groups[0].differences`` has paired differences. Limits and tests of a report hold for
    all of its groups at once, for each model by itself.

    Attributes
    ----------
    reports : dict of str to AuditReport
        In the order that the models were given in.
    """

    reports: Mapping[str, AuditReport]

    def __getitem__(self, name: str) -> AuditReport:
        return self.reports[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.reports)

    def __len__(self) -> int:
        return len(self.reports)

    @property
    def table(self) -> pd.DataFrame:
        """One row per group; of every model gap, low, high and off, called gap_a and so on."""
        return sidebyside.group_table(self)

    @property
    def overall(self) -> pd.DataFrame:
        """One row per model: groups off, largest gap, errors, and differences from the first."""
        return sidebyside.overall_table(self)

    @property
    def verdict(self) -> str:
        """The result in a sentence per model."""
        return "\n".join(f"{name}: {text}" for name, text in sidebyside.verdicts(self).items())

    def violations(
        self,
        *,
        max_gap: float | None = None,
        alpha: float | None = None,
        ecce_alpha: float | None = None,
        min_rows: int = 1,
        rule: Rule = "certain",
    ) -> dict[str, tuple[Violation, ...]]:
        """Groups that break a tolerance, by model; the arguments are those of `check`."""
        return {
            name: report.violations(
                max_gap=max_gap, alpha=alpha, ecce_alpha=ecce_alpha, min_rows=min_rows, rule=rule
            )
            for name, report in self.items()
        }

    def check(
        self,
        *,
        max_gap: float | None = None,
        alpha: float | None = None,
        ecce_alpha: float | None = None,
        min_rows: int = 1,
        rule: Rule = "certain",
    ) -> AuditComparison:
        """Raise `AuditFailed` unless all groups of all models keep a tolerance.

        The arguments are those of `AuditReport.check`; the error names model and group.
        """
        by_model = self.violations(
            max_gap=max_gap, alpha=alpha, ecce_alpha=ecce_alpha, min_rows=min_rows, rule=rule
        )
        found = [
            Violation(f"{name}, {each.group}", each.rows, each.gap, each.low, each.high, each.why)
            for name, violations in by_model.items()
            for each in violations
        ]
        if found:
            raise AuditFailed(found, sum(len(report.groups) for report in self.values()))
        return self

    def to_dict(self) -> dict[str, Any]:
        """All reports as dicts, lists, strings and finite numbers."""
        models = {name: report.to_dict() for name, report in self.items()}
        return {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "models": models}

    def to_json(self, path: Path | None = None, *, indent: int | None = 2) -> str:
        """All reports as JSON text, also written to a file where a path is given.

        ``models`` has the report of every model by name, see `AuditReport.to_json`.
        """
        found = json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)
        return write(path, found)

    def to_markdown(self, path: Path | None = None) -> str:
        """The models side by side as Markdown, also written to a file where a path is given."""
        return write(path, sidebyside.to_markdown(self))

    def to_html(self, path: Path | None = None, *, title: str = "Comparison of models") -> str:
        """The models side by side as one HTML page, also written where a path is given."""
        from recalibrate.auditing.views.html.comparison import page

        return write(path, page(self, title))

    def _repr_html_(self) -> str:
        from recalibrate.auditing.views.html.comparison import fragment

        return fragment(self)

    def __str__(self) -> str:
        return sidebyside.to_text(self)

    __repr__ = __str__


def audit_each(
    audit: Audit,
    model_or_scores: Mapping[str, Any],
    *,
    groups: Any,
    baseline: Any,
    **options: Any,
) -> AuditComparison:
    """Audit every model; without a baseline all but the first are compared with the first.

    All are about the same event, that of the first model or ``positive``, and the same groups,
    by default those that the first of them was fitted for.
    """
    for name in model_or_scores:
        if not isinstance(name, str) or not name:
            raise TypeError(
                "several models are given by their names, as {'old': model, 'new': other}; got "
                f"the name {name!r}"
            )
    if not model_or_scores:
        raise ValueError("there is no model to audit: the mapping of names to models is empty")
    if groups is None:
        fitted = map(fitted_groups, model_or_scores.values())
        groups = next((own for own in fitted if own is not None), None)
    alone = baseline is None or baseline is False
    # Opened once: some models tell their classes only when they have predicted. Reports name files.
    models = {
        name: model if isinstance(model, os.PathLike) else open_model(model)
        for name, model in model_or_scores.items()
    }
    first = next(iter(models.values()))
    reports: dict[str, Any] = {}
    for name, model in models.items():
        against = first if alone and reports else baseline
        asked = Asked(model, groups=groups, baseline=against, first=first, **options)
        reports[name] = run(audit, asked)
    return AuditComparison(reports)
