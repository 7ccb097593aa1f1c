"""How an audit runs: what was asked, the rows that it is about, and the report of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.classes import ClassReport, audit_classes
from recalibrate.auditing.measure.assemble import Findings, changes, find_everything
from recalibrate.auditing.measure.rates import Tally, find_rates, read_references
from recalibrate.auditing.measure.segments import Segments, read_segments
from recalibrate.auditing.measure.sweep import Sample, read_clusters, take_sample
from recalibrate.auditing.predictions import (
    align,
    audited_classes,
    baseline_classes,
    checked_predictions,
    choose_positive,
    classes_of_labels,
    count_rows,
    open_model,
    raw_baseline,
    raw_predictions,
)
from recalibrate.auditing.records import Audited, Discoveries, Note, Richness
from recalibrate.auditing.report import AuditReport
from recalibrate.auditing.slices import Cut, Slices, audit_slices, cut_slices
from recalibrate.auditing.views.notes import method_notes
from recalibrate.bases.protocol import as_base, deviance_of, predicts_rates, takes_base
from recalibrate.data.classes import Known
from recalibrate.data.fingerprints import Mark, hash_rows
from recalibrate.data.labels import (
    NO_BOUNDS,
    Float64,
    Labels,
    check_aligned,
    check_squares,
    count_outputs,
    read_exposure,
    read_labels,
    require_exposure,
    warn_if_one_class,
)
from recalibrate.data.table import Table, is_collection, is_streamed, read_table, settle_both
from recalibrate.metrics import Loss, read_loss
from recalibrate.support.checks import check_number, check_whole
from recalibrate.support.hashing import combine
from recalibrate.support.provenance import library_version, today

# --- What was audited, in words and fingerprints ------------------------------------------------


def _find_audited(
    model: Any,
    baseline: Any,
    predictions: Float64,
    segments: Segments,
    sample: Sample,
    labels: Labels,
) -> Audited:
    """What was audited; ``model`` and ``baseline`` are as the user gave them."""
    rows = hash_rows(None, (), [sample.y, sample.weight], sample.n_rows)
    rows = combine(rows, segments.hashes(sample.n_rows))
    scores = hash_rows(None, (), [predictions], sample.n_rows)
    about = json.dumps({"kind": labels.kind, "low": labels.low, "high": labels.high})
    return Audited(
        what=describe(model),
        baseline="" if baseline is None or baseline is False else _baseline(model, baseline),
        version=library_version(),
        date=today(),
        data=Mark.of(rows).digest(about),
        predictions=Mark.of(combine(rows, scores)).digest(about),
        **_model_facts(model),
    )


def describe(model: Any) -> str:
    """A model, callable, file, column or array in a few words."""
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        return f"model file {path.name}" if path.is_file() else f"column {model!r} of predictions"
    own = getattr(model, "base", None)
    if takes_base(model) and own is not None:
        return f"recalibrated model on {own.name}"
    if hasattr(model, "metadata") and takes_base(model):
        return f"exported model on {model.metadata.get('base', 'an unknown base')}"
    if takes_base(model):
        return f"model of type {type(model).__name__}"
    if isinstance(model, list | tuple) or hasattr(model, "__array__"):
        return "array of predictions"
    return as_base(model).name


def _baseline(model: Any, baseline: Any) -> str:
    return f"its own base, {model.base.name}" if baseline is True else describe(baseline)


def _model_facts(model: Any) -> dict[str, Any]:
    """What a recalibrated model says about itself; nothing about other predictions."""
    from recalibrate.model import Recalibrated

    if isinstance(getattr(model, "metadata", None), dict):
        return _served_facts(model.metadata)
    if not isinstance(model, Recalibrated):
        return {}
    facts: dict[str, Any] = {
        "model": model.fingerprint_,
        "base": model.base.name,
        "H": repr(model.H),
        "fitted_rows": model.n_rows or None,
    }
    origin = model.provenance
    if origin is not None:
        facts |= {
            "base_fingerprint": origin.base,
            "fitted_data": origin.data,
            "fitted_date": origin.date,
            "fitted_version": origin.version,
            "seed": origin.seed,
        }
    return facts


_SERVED = {
    "model": "model_fingerprint",
    "base": "base",
    "base_fingerprint": "base_fingerprint",
    "H": "H",
    "fitted_data": "calibration_data",
    "fitted_date": "fitted_date",
    "fitted_version": "fitted_version",
}


def _served_facts(metadata: dict[str, str]) -> dict[str, Any]:
    """The same of an exported model, as far as its graph says."""
    facts: dict[str, Any] = {name: metadata.get(key) for name, key in _SERVED.items()}
    for name, key in (("fitted_rows", "training_rows"), ("seed", "seed")):
        facts[name] = int(metadata[key]) if key in metadata else None
    return facts


Audit = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class AuditRequest:
    """The arguments of `recalibrate.audit`, and what gathered predictions are about.

    Of several models that are compared ``first`` is the first one: it says how labels are read.
    """

    model_or_scores: Any
    X: Any
    y: Any
    groups: Any
    base: Any
    Z: Any
    positive: Any
    classes: Sequence[Any] | None
    baseline: Any
    H: Any
    richer: Any
    cluster: Any
    sample_weight: Any
    exposure: Any
    loss: str | float | None
    thresholds: Sequence[float]
    reference: str | Sequence[str] | None
    by: Any
    time: Any
    depth: int
    min_rows: int | None
    bands: int
    bins: int
    alpha: float
    known: Known | None = None
    known_baseline: Known | None = None
    first: Any = None

    @property
    def searches(self) -> bool:
        """Whether to look for wrong subgroups."""
        return self.H is not None and self.H is not False

    @property
    def shared(self) -> dict[str, Any]:
        """What the audits of every class have in common."""
        names = ("groups", "Z", "H", "richer", "cluster", "thresholds", "depth", "min_rows")
        return {name: getattr(self, name) for name in (*names, "bands", "bins", "alpha")}


@dataclass(frozen=True, eq=False)
class Rows:
    """Labels, clusters, and predictions after and maybe before, all checked."""

    labels: Labels
    clusters: NDArray[np.int64] | None
    after: Float64
    before: Float64 | None
    loss: Loss | None
    exposure: Float64 | None

    @property
    def predictions(self) -> list[Float64]:
        """After and maybe before."""
        return [f for f in (self.after, self.before) if f is not None]


def run(audit: Audit, asked: AuditRequest) -> AuditReport | ClassReport:
    """Audit one model; ``audit`` is the public function, for audits of its parts."""
    given = asked.model_or_scores, asked.baseline
    require_exposure(any(map(predicts_rates, given)), asked.exposure)
    asked = _gathered(_opened(asked))
    if asked.known is None:  # rows in memory: a text is a file, not a column of predictions
        asked = _opened(asked, files=True)
    _check(asked)
    rows = _read_rows(asked)
    if rows.labels.kind == "classes":
        return audit_classes(audit, rows.labels, rows.after, rows.before, asked.X, **asked.shared)
    return _report(audit, asked, rows, given)


def _opened(asked: AuditRequest, *, files: bool = False) -> AuditRequest:
    """With models opened, once: some tell their classes only by what they predict."""
    return replace(
        asked,
        model_or_scores=open_model(asked.model_or_scores, files=files),
        baseline=open_model(asked.baseline, files=files),
        first=open_model(asked.first, files=files),
    )


def _gathered(asked: AuditRequest) -> AuditRequest:
    """Rows in this process, wherever they were; without groups those of the model."""
    X, Z = settle_both(asked.X, asked.Z)
    asked = replace(asked, X=X, Z=Z)
    if asked.groups is None:  # what it was fitted for is looked at first
        asked = replace(asked, groups=fitted_groups(asked.model_or_scores))
    streamed = asked.Z is None and asked.X is not None and is_streamed(asked.X)
    if not is_collection(asked.X) and not streamed:
        return asked
    from recalibrate.rows.gathering import gather

    names = ("groups", "base", "Z", "baseline", "H", "cluster", "sample_weight", "exposure")
    roles = {name: getattr(asked, name) for name in names}
    local = gather(asked.model_or_scores, asked.X, asked.y, **roles)
    outputs = count_outputs(local.predictions)
    return replace(
        asked,
        model_or_scores=local.predictions,
        X=local.table,
        y=local.y,
        base=None,
        baseline=local.baseline,
        cluster=local.cluster,
        sample_weight=local.weight,
        exposure=local.exposure,
        loss=asked.loss or _own_loss(asked.model_or_scores),
        known=audited_classes(asked.model_or_scores, asked.classes, outputs),
        known_baseline=baseline_classes(
            asked.baseline, asked.model_or_scores, asked.classes, outputs
        ),
    )


def fitted_groups(model: Any) -> Any:
    """The named groups that a model was fitted for; None if it was fitted for none."""
    fitted = getattr(model, "H", None)
    return fitted if getattr(fitted, "terms", None) else None


def _check(asked: AuditRequest) -> None:
    for name, least in (("depth", 1), ("bands", 2), ("bins", 1), ("min_rows", 1)):
        check_whole(name, getattr(asked, name), least=least)
    check_number("alpha", asked.alpha, above=0.0, most=0.5)
    for threshold in asked.thresholds:
        check_number("every threshold", threshold)


def _refuse_means(asked: AuditRequest) -> None:
    if asked.exposure is not None or asked.loss is not None:
        raise ValueError(
            "exposure= and loss= are for labels that are means, but these labels are "
            "classes. Leave them out."
        )


def _read_rows(asked: AuditRequest) -> Rows:
    n_rows = count_rows(asked.X, asked.y)
    weight, exposure = asked.sample_weight, asked.exposure
    check_aligned(
        asked.X, y=asked.y, sample_weight=weight, cluster=asked.cluster, exposure=exposure
    )
    predicted = raw_predictions(asked.model_or_scores, asked.X, asked.base, asked.Z)
    outputs = count_outputs(predicted)
    if outputs > 1:
        _refuse_means(asked)
    own = asked.known or audited_classes(asked.model_or_scores, asked.classes, outputs)
    first = asked.first
    reads = own if first is None else audited_classes(first, asked.classes, outputs)
    known = choose_positive(reads, asked.positive)
    loss, bounds = _read_loss(asked), None
    if loss is not None and loss.power is not None:
        # 0 and 1 are counts then, no classes.
        bounds = (0.0, None) if loss.power > 0.0 else NO_BOUNDS if exposure is not None else None
    labels = read_labels(
        asked.y,
        n_rows=n_rows,
        sample_weight=weight,
        exposure=exposure,
        known=known,
        bounds=bounds,
    )
    warn_if_one_class(labels)
    check_squares(labels)
    about = classes_of_labels(labels, known)
    _check_names(asked.y, own, about, n_rows)
    predicted = align(predicted, own, about, "model_or_scores")
    after = checked_predictions(predicted, labels, "model_or_scores")
    before = None
    if asked.baseline is not None and asked.baseline is not False:
        raw = raw_baseline(
            asked.baseline, asked.model_or_scores, asked.X, asked.base, asked.Z, labels
        )
        compared = asked.known_baseline or baseline_classes(
            asked.baseline, asked.model_or_scores, asked.classes, outputs
        )
        _check_names(asked.y, compared, about, n_rows)
        raw = align(raw, compared, about, "baseline")
        before = checked_predictions(raw, labels, "baseline")
    clusters = None if asked.cluster is None else read_clusters(asked.cluster, n_rows)
    rates = None if exposure is None else read_exposure(exposure, n_rows)
    rows = Rows(labels, clusters, after, before, loss, rates)
    if loss is None or labels.kind == "classes":
        return rows
    try:
        for f in rows.predictions:
            loss.check(f, labels.unscale(labels.values))
    except ValueError:
        if asked.loss is not None or exposure is not None:
            raise
        return replace(rows, loss=None)  # nobody asked for it
    return rows


def _check_names(y: Any, own: Known, about: Known, n_rows: int) -> None:
    """Refuse labels that a model could not be audited on by itself: text beside 0 and 1.

    Beside one class of several a model of 0 and 1 says whether a row is of that class.
    """
    two = about.told and about.chosen is None
    if own.told and two and set(own.classes or ()) != set(about.classes or ()):
        read_labels(y, n_rows=n_rows, known=own)


def _read_loss(asked: AuditRequest) -> Loss | None:
    """The loss that the user, the model or an exposure asks for; None by the kind of labels."""
    own = asked.loss if asked.loss is not None else _own_loss(asked.model_or_scores)
    if own is None and asked.exposure is not None:
        own = "poisson"
    return None if own is None else read_loss(own)


def _own_loss(model: Any) -> str | None:
    """The deviance that a model was fitted for, if it was one."""
    if not takes_base(model):
        return None if isinstance(model, str) else deviance_of(as_base(model)) or None
    family = getattr(getattr(model, "rounds", None), "family", None)
    return str(family.deviance) if family is not None and family.positive else None


def _report(audit: Audit, asked: AuditRequest, rows: Rows, given: tuple[Any, Any]) -> AuditReport:
    labels, n_rows = rows.labels, len(rows.after)
    table = asked.X if asked.Z is None else asked.Z
    cut = _cut(asked, table, n_rows)
    if asked.searches:
        table = _read_columns(table, n_rows)
    segments, left_out, covered = read_segments(
        asked.groups,
        table,
        n_rows=n_rows,
        weight=labels.weight,
        depth=asked.depth,
        min_rows=asked.min_rows,
        bands=asked.bands,
    )
    named = read_references(segments, asked.reference)
    sample = take_sample(labels, rows.clusters, rows.loss, rows.exposure)
    predictions = [f[sample.rows] for f in rows.predictions]
    tallies = [Tally(segments, sample, f, asked.thresholds) for f in predictions]
    scaled = [labels.scale(f) for f in predictions]
    found = find_everything(
        segments, sample, labels, scaled, observers=tallies, n_bins=asked.bins, alpha=asked.alpha
    )
    discoveries, rich = _search(asked, table, rows, found)
    return AuditReport(
        kind=labels.kind,
        n_rows=n_rows,
        n_clusters=None if rows.clusters is None else int(found.clusters[0]),
        alpha=float(asked.alpha),
        critical=found.critical,
        **_findings(found),
        left_out=left_out,
        coverage=covered,
        audited=_find_audited(*given, predictions[0], segments, sample, labels),
        notes=_notes(asked, rows, sample, found, len(left_out)),
        slices=_slices(audit, asked, rows, cut, segments, sample),
        discoveries=discoveries,
        richness=rich,
        rates=find_rates(
            tallies,
            found.sums,
            segments,
            sample,
            thresholds=asked.thresholds,
            named=named,
            alpha=asked.alpha,
        ),
        changes=None
        if rows.before is None
        else changes(
            rows.before, rows.after, labels, segments=segments, thresholds=asked.thresholds
        ),
    )


def _findings(found: Findings) -> dict[str, Any]:
    """Fields of the report that the passes over the rows fill."""
    paired = len(found.sides) == 2
    return {
        "bin_edges": found.sides[0].edges,
        "before_bin_edges": found.sides[1].edges if paired else (),
        "groups": found.groups(),
        "overall": found.overall(0),
        "overall_before": found.overall(1) if paired else None,
    }


def _notes(
    asked: AuditRequest, rows: Rows, sample: Sample, found: Findings, left_out: int
) -> tuple[Note, ...]:
    return method_notes(
        rows.labels.kind,
        n_bins=asked.bins,
        alpha=asked.alpha,
        n_groups=len(found.names),
        clustered=rows.clusters is not None,
        paired=rows.before is not None,
        weighted=sample.weighted,
        left_out=left_out,
        thresholds=len(asked.thresholds) > 0,
        losses=tuple(loss.title for loss in sample.losses),
        exposed=asked.exposure is not None,
    )


def _cut(asked: AuditRequest, table: Any, n_rows: int) -> Cut | None:
    if asked.by is None and asked.time is None:
        return None
    return cut_slices(asked.by, asked.time, table, n_rows)


def _slices(
    audit: Audit,
    asked: AuditRequest,
    rows: Rows,
    cut: Cut | None,
    segments: Segments,
    sample: Sample,
) -> Slices | None:
    if cut is None:
        return None
    return audit_slices(
        audit,
        cut,
        segments,
        sample,
        rows.labels,
        rows.after,
        rows.before,
        alpha=asked.alpha,
        bins=asked.bins,
        loss=None if rows.loss is None else rows.loss.name,
    )


def _read_columns(table: Any, n_rows: int) -> Table:
    if table is None:
        raise ValueError("H= searches the columns of a table: pass X or Z.")
    read = read_table(table)
    if read.n_rows != n_rows:
        raise ValueError(f"The table of H has {read.n_rows} rows, but there are {n_rows}.")
    return read


def _search(
    asked: AuditRequest, table: Any, rows: Rows, found: Findings
) -> tuple[Discoveries | None, Richness | None]:
    """What is wrong beyond the given groups; nothing unless H asks for it."""
    if not asked.searches:
        return None, None
    from recalibrate.auditing.discovery import discover
    from recalibrate.auditing.richness import richness
    from recalibrate.core.kinds import read_class

    wanted = None if asked.H is True else read_class(asked.H)
    rules = wanted if wanted is not None and wanted.has_rules else None
    given = {"table": table, "labels": rows.labels, "cluster": rows.clusters}
    discoveries = discover(rows.after, H=rules, alpha=asked.alpha, exposure=rows.exposure, **given)
    rich = richness(rows.after, H=wanted, richer=asked.richer, **given)
    return discoveries, rich.beside([each.name for each in found.groups() if each.after.off])
