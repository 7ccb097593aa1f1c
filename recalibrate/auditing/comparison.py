"""Several models side by side, audited on the same rows."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recalibrate.auditing.predictions import open_model
from recalibrate.auditing.records import GroupAudit
from recalibrate.auditing.report import AuditFailed, AuditReport, Path, Rule, Violation, write
from recalibrate.auditing.running import Audit, AuditRequest, fitted_groups, run
from recalibrate.auditing.views import numbers
from recalibrate.auditing.views.columns import Cell, Column, gap_cell, measures, named, numeric
from recalibrate.auditing.views.columns import texts as table_texts
from recalibrate.auditing.views.markdown import escaped, notes, table
from recalibrate.auditing.views.numbers import Digits
from recalibrate.auditing.views.text import aligned, confidence, verdict

if TYPE_CHECKING:
    import pandas as pd


# --- Several models side by side, as DataFrames, text and Markdown ------------------------------


_SHOWN = 12  # groups of the plain text
Sides = tuple[GroupAudit, ...]
"""One group, as every model does on it."""


@dataclass(frozen=True)
class Model:
    """A model's name and its report."""

    name: str
    report: AuditReport


def digits_of(comparison: AuditComparison) -> Digits:
    """As many digits as the models need."""
    return Digits(max(Digits.of(report).decimals for report in comparison.values()))


def models_of(comparison: AuditComparison) -> list[Model]:
    """Models in their order."""
    return [Model(name, report) for name, report in comparison.items()]


def groups_of(comparison: AuditComparison) -> list[Sides]:
    """Groups as all models do on them: all rows, then by the largest gap of any model."""
    everybody, *groups = zip(*(report.groups for report in comparison.values()), strict=True)

    def badness(sides: Sides) -> tuple[bool, float]:
        off = [abs(each.after.gap) for each in sides if each.after.off]
        return not off, -max(off or [abs(each.after.gap) for each in sides])

    return [everybody, *sorted(groups, key=badness)]


def _group_table(comparison: AuditComparison) -> pd.DataFrame:
    """One row per group, in the order of the reports."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for sides in zip(*(report.groups for report in comparison.values()), strict=True):
        first = sides[0]
        row: dict[str, Any] = {
            "group": first.name,
            "rows": first.rows,
            "mean_outcome": first.mean_outcome,
        }
        for name, each in zip(comparison, sides, strict=True):
            own = each.after
            row |= {f"gap_{name}": own.gap, f"low_{name}": own.low, f"high_{name}": own.high}
            row[f"off_{name}"] = own.off
        rows.append(row)
    return pd.DataFrame(rows)


def _overall_table(comparison: AuditComparison) -> pd.DataFrame:
    """One row per model."""
    import pandas as pd

    rows = []
    for name, report in comparison.items():
        now = report.overall
        row: dict[str, Any] = {
            "model": name,
            "groups_off": now.n_off,
            "largest_gap": now.largest_gap,
            "largest_gap_group": now.largest_gap_group,
            "mse": now.mse,
            "log_loss": now.log_loss,
            "msce_unbiased": now.msce_unbiased,
            "mce_p": now.mce_p,
            "auc": _auc(report),
        }
        for each in report.groups[0].differences:
            row |= {f"change_{each.measure}": each.value, f"change_{each.measure}_se": each.se}
        rows.append(row)
    return pd.DataFrame(rows)


def _auc(report: AuditReport) -> float:
    found = () if report.rates is None else report.rates.of("auc")
    return found[0].after.value if found else math.nan


def model_columns(comparison: AuditComparison) -> list[Column[Model]]:
    """The main numbers of every model."""
    digits = digits_of(comparison)
    first = next(iter(comparison.values()))
    error = measures(first.kind)[0].title

    def change(model: Model) -> Cell:
        found = {each.measure: each for each in model.report.groups[0].differences}
        if "mse" not in found:
            return Cell("")
        own = found["mse"]
        return Cell(f"{numbers.measure(own.value)} ± {numbers.measure(own.se)}", own.value)

    shown: list[Column[Model]] = [
        named("model", lambda m: m.name),
        numeric("groups off", lambda m: m.report.overall.n_off, tip="By more than noise"),
        numeric(
            "largest gap", lambda m: m.report.overall.largest_gap, digits.signed, "Beyond noise"
        ),
        named("of", lambda m: m.report.overall.largest_gap_group, "word"),
        numeric(error, lambda m: m.report.overall.mse, numbers.measure),
        Column("difference", change, f"Of the {error}, from the first model, ± standard error"),
    ]
    if not math.isnan(first.overall.log_loss):
        shown.append(numeric("log loss", lambda m: m.report.overall.log_loss, numbers.measure))
    if not math.isnan(_auc(first)):
        shown.append(numeric("AUC", lambda m: _auc(m.report), Digits(3).value))
    return shown


def side_columns(comparison: AuditComparison) -> list[Column[Sides]]:
    """A group's gap under every model."""
    digits = digits_of(comparison)
    shown: list[Column[Sides]] = [
        named("group", lambda sides: sides[0].name),
        numeric("rows", lambda sides: sides[0].rows),
        numeric("observed", lambda sides: sides[0].mean_outcome, digits.value, "Mean outcome"),
    ]

    def gap(k: int) -> Callable[[Sides], Cell]:
        return lambda sides: gap_cell(sides[k].after, digits)

    shown += [Column(name, gap(k), f"Gap of {name}") for k, name in enumerate(comparison)]
    return shown


def words(comparison: AuditComparison) -> str:
    """How to read the tables."""
    sure = confidence(next(iter(comparison.values())))
    return (
        "All models are audited on the same rows and groups. A gap is mean outcome minus mean "
        "prediction; bold, or with an asterisk, where it is more than noise. Limits and tests hold "
        f"for all groups of a model at once ({sure}), for each model by itself."
    )


def verdicts(comparison: AuditComparison) -> dict[str, str]:
    """The result of every model by itself."""
    return {name: verdict(report, compared=False) for name, report in comparison.items()}


def to_text(comparison: AuditComparison) -> str:
    """What print shows."""
    groups = groups_of(comparison)
    lines = [words(comparison).split(". ")[0] + "."]
    lines += aligned(table_texts(model_columns(comparison), models_of(comparison)))
    lines += ["", *aligned(_starred(comparison, groups[:_SHOWN]))]
    if len(groups) > _SHOWN:
        lines.append(f"and {len(groups) - _SHOWN} more groups, see .table")
    return "\n".join([*lines, "* off by more than noise"])


def _starred(comparison: AuditComparison, groups: list[Sides]) -> list[list[str]]:
    """Gaps by group and model, with a sign for what Markdown and terminals cannot mark."""
    columns = side_columns(comparison)
    rows = [[column.title for column in columns]]
    for sides in groups:
        cells = [column.cell(sides) for column in columns]
        rows.append([numbers.typed(cell.shown) + " *" * (cell.look == "off") for cell in cells])
    return rows


def to_markdown(comparison: AuditComparison) -> str:
    """Models side by side, then how the numbers are made."""
    first = next(iter(comparison.values()))
    parts = [
        "# Comparison of models",
        escaped(words(comparison)),
        table(table_texts(model_columns(comparison), models_of(comparison))),
        *(f"**{escaped(name)}.** {escaped(text)}" for name, text in verdicts(comparison).items()),
        "## Gaps by group",
        table(_starred(comparison, groups_of(comparison))),
        "\\* off by more than noise",
        "## Method",
        notes(first.notes),
    ]
    return "\n\n".join(parts) + "\n"


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
        return _group_table(self)

    @property
    def overall(self) -> pd.DataFrame:
        """One row per model: groups off, largest gap, errors, and differences from the first."""
        return _overall_table(self)

    @property
    def verdict(self) -> str:
        """The result in a sentence per model."""
        return "\n".join(f"{name}: {text}" for name, text in verdicts(self).items())

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
        return write(path, to_markdown(self))

    def to_html(self, path: Path | None = None, *, title: str = "Comparison of models") -> str:
        """The models side by side as one HTML page, also written where a path is given."""
        from recalibrate.auditing.views.html.comparison import page

        return write(path, page(self, title))

    def _repr_html_(self) -> str:
        from recalibrate.auditing.views.html.comparison import fragment

        return fragment(self)

    def __str__(self) -> str:
        return to_text(self)

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
        asked = AuditRequest(model, groups=groups, baseline=against, first=first, **options)
        reports[name] = run(audit, asked)
    return AuditComparison(reports)
