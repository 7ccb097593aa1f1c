"""The audit: from predictions, labels and groups to a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.classes import ClassReport, audit_classes
from recalibrate.auditing.comparison import AuditComparison, audit_each
from recalibrate.auditing.findings import Discoveries, Richness
from recalibrate.auditing.measure.assemble import Findings, find_everything
from recalibrate.auditing.measure.changes import changes
from recalibrate.auditing.measure.rates import Tally, find_rates, read_references
from recalibrate.auditing.measure.sample import read_clusters, take_sample
from recalibrate.auditing.measure.segments import read_segments
from recalibrate.auditing.predictions import (
    audited_classes,
    checked_predictions,
    count_rows,
    raw_predictions,
    read_baseline,
)
from recalibrate.auditing.provenance import find_audited
from recalibrate.auditing.report import AuditReport
from recalibrate.auditing.slices import audit_slices, cut_slices
from recalibrate.auditing.views.notes import method_notes
from recalibrate.data.inputs import is_collection, is_streamed, settle
from recalibrate.data.labels import (
    Labels,
    check_aligned,
    check_squares,
    read_labels,
    warn_if_one_class,
)
from recalibrate.data.scores import count_outputs
from recalibrate.data.table import Table, read_table
from recalibrate.data.vectors import Float64
from recalibrate.groups.cells import BANDS
from recalibrate.support.checks import check_number, check_whole


@overload
def audit(
    model_or_scores: Mapping[str, Any],
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    base: Any = None,
    Z: Any = None,
    positive: Any = None,
    baseline: Any = None,
    H: Any = None,
    richer: Any = None,
    cluster: Any = None,
    sample_weight: Any = None,
    thresholds: Sequence[float] = (),
    reference: str | Sequence[str] | None = None,
    by: Any = None,
    time: Any = None,
    depth: int = 1,
    min_rows: int | None = None,
    bands: int = BANDS,
    bins: int = 10,
    alpha: float = 0.05,
) -> AuditComparison: ...
@overload
def audit(
    model_or_scores: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    base: Any = None,
    Z: Any = None,
    positive: Any = None,
    baseline: Any = None,
    H: Any = None,
    richer: Any = None,
    cluster: Any = None,
    sample_weight: Any = None,
    thresholds: Sequence[float] = (),
    reference: str | Sequence[str] | None = None,
    by: Any = None,
    time: Any = None,
    depth: int = 1,
    min_rows: int | None = None,
    bands: int = BANDS,
    bins: int = 10,
    alpha: float = 0.05,
) -> AuditReport: ...
def audit(
    model_or_scores: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    base: Any = None,
    Z: Any = None,
    positive: Any = None,
    baseline: Any = None,
    H: Any = None,
    richer: Any = None,
    cluster: Any = None,
    sample_weight: Any = None,
    thresholds: Sequence[float] = (),
    reference: str | Sequence[str] | None = None,
    by: Any = None,
    time: Any = None,
    depth: int = 1,
    min_rows: int | None = None,
    bands: int = BANDS,
    bins: int = 10,
    alpha: float = 0.05,
) -> AuditReport | AuditComparison | ClassReport:
    """Measure calibration, over all rows and in groups.

    Use rows that trained neither the base model nor the calibration.

    Parameters
    ----------
    model_or_scores : model, callable or array-like
        A calibrated model (``predict(X, base=, Z=)``), a base model that an adapter knows, a
        callable, or an array of predictions on the scale of the label. A mapping of names to
        several of these audits them side by side on the same rows.
    X : table
        Features, one row per label. May be None if predictions are arrays and groups are masks.
        For rows in pieces (Parquet files, an iterable of DataFrames) and for a Dask DataFrame
        ``y``, ``base``, ``cluster`` and ``sample_weight`` are names of columns; rows are scored
        a piece at a time (Dask's on the workers), and predictions, labels and the columns that
        the groups read are brought together.
    y : array-like
        Labels: classes of any kind, numbers in [0, 1], or any numbers. They are read as those of
        the audited model: of two classes its second (else the larger) counts as 1.
    groups : Groups, str, sequence of str, True, mapping or boolean DataFrame, optional
        Expressions over columns such as ``["sex", "sex * race", "age < 25"]`` (a numeric column
        with many values is cut into quantile bands); True for every column; or masks by name,
        matched to the rows by position. Groups may overlap. Without groups: those that the model
        was fitted for, if it was fitted for named groups, else all rows together.
    base : array-like, optional
        Scores of the base model for these rows, for models fitted on an array of scores.
    Z : table, optional
        The table that the groups speak of, if X is not one.
    positive : label, optional
        Of two classes: the label that counts as 1, which the predictions are about.
    baseline : model, callable, array-like or True, optional
        Predictions to compare with, typically the base model's; True for the model's own base.
    H : class of functions such as Trees or Groups, its short name, or True, optional
        Also search for subgroups that are wrong (``report.discoveries``), by rules of this class
        if it is made of rules, else by trees of depth 2 on all columns (also for True); and ask
        whether the class still finds anything on the level sets (``report.richness``).
    richer : class of functions or its short name, optional
        Class to compare H with in ``report.richness``; by default deeper trees.
    cluster : array-like, optional
        Person or household of every row, where they occur repeatedly: limits and p-values then
        hold although rows of a cluster depend on each other.
    sample_weight : array-like, optional
        Weights of the rows.
    thresholds : sequence of float
        Decisions are positive where the prediction is at least that: selection rates, impact
        ratios, and for 0/1 labels true and false positive rates and precision by group
        (``report.rates``); with a baseline also the decisions that flip (``report.changes``).
    reference : str or sequence of str, optional
        Names of the groups that rates are compared with, such as ``"sex = M"``. A group is
        compared with the one of its own column or crossing, else with the first. By default it
        is the largest group of the same column or crossing, and all rows for conditions and
        masks.
    by : {"day", "week", "month", "quarter", "year"}, column or array-like, optional
        Also audit slices of the rows (``report.slices``): periods of ``time``, values of a column,
        or any values. Groups and bands are those of all rows; limits hold for all slices at once.
    time : array-like, optional
        With a period as ``by``: the date of every row.
    depth : int
        Also audit intersections of up to this many of the groups; expressions that share a
        column are not crossed.
    min_rows : int, optional
        Groups with fewer rows are left out; by default that of ``Groups``, or 1.
    bands : int
        Quantile bands of a numeric column.
    bins : int
        Bins of the predictions: quantile bins for K1, K2, Kinf and the reliability curves, bins
        of equal width for the ECE.
    alpha : float
        Limits of the gaps hold for all groups at once with probability 1 - alpha.

    Returns
    -------
    AuditReport, AuditComparison for several models, ClassReport for more than two classes
        ``report.table`` has one row per group, ``report.notes`` say how numbers are computed. A
        `ClassReport` has a report per class and one of the most probable label; limits then hold
        for all of them at once.

    Raises
    ------
    ValueError, TypeError
        If lengths differ, a column is unknown, a mask is not boolean, or no group has rows.

    Warns
    -----
    UserWarning
        If a group has too few rows with weight; it is left out.

    Notes
    -----
    With f the prediction and w the weight, the standard error of a group's gap is
    sqrt(sum w^2 (y - f - gap)^2 * m / (m - 1)) / sum w with the effective number of rows
    m = (sum w)^2 / sum w^2; without weights that is the usual one.

    Time grows with the number of memberships (rows times groups a row is in), memory with rows
    and with groups, not with their product.

    Examples
    --------
    >>> import recalibrate as rc
    >>> from recalibrate.simulate import census
    >>> data = census(4000, seed=1, gap=0.1)
    >>> report = rc.audit(data.scores, data.X, data.y, groups=["SEX == 2", "AGEP"])
    >>> report.table["group"].tolist()[:3]
    ['all', 'SEX == 2', 'AGEP < 33']
    >>> bool(report.table["low"][1] > 0.05)
    True
    """
    options = dict(locals())
    if isinstance(model_or_scores, Mapping):
        return audit_each(audit, **options)
    X, Z, known = settle(X), settle(Z), None
    given = model_or_scores, baseline
    named = getattr(model_or_scores, "H", None)
    if groups is None and getattr(named, "terms", None):
        groups = named  # what it was fitted for is looked at first
    if is_collection(X) or (Z is None and X is not None and is_streamed(X)):
        from recalibrate.rows.gathering import gather

        known = audited_classes(model_or_scores, positive)

        local = gather(model_or_scores, X, y, groups, base, Z, baseline, H, cluster, sample_weight)
        model_or_scores, X, y, base = local.predictions, local.table, local.y, None
        baseline, cluster, sample_weight = local.baseline, local.cluster, local.weight
    for name, value, least in (("depth", depth, 1), ("bands", bands, 2), ("bins", bins, 1)):
        check_whole(name, value, least=least)
    check_whole("min_rows", min_rows, least=1)
    check_number("alpha", alpha, above=0.0, most=0.5)
    for threshold in thresholds:
        check_number("every threshold", threshold)
    n_rows = count_rows(X, y)
    check_aligned(X, y=y, sample_weight=sample_weight, cluster=cluster)
    predicted = raw_predictions(model_or_scores, X, base, Z)
    outputs = count_outputs(predicted)
    known = known or audited_classes(model_or_scores, positive, outputs)
    labels = read_labels(y, n_rows=n_rows, sample_weight=sample_weight, known=known)
    warn_if_one_class(labels)
    check_squares(labels)
    clusters = None if cluster is None else read_clusters(cluster, n_rows)
    after = checked_predictions(predicted, labels, "model_or_scores")
    before = read_baseline(baseline, model_or_scores, X, base, Z, labels)
    if labels.kind == "classes":
        return audit_classes(
            audit,
            labels,
            after,
            before,
            X,
            groups=groups,
            Z=Z,
            H=H,
            richer=richer,
            cluster=cluster,
            thresholds=thresholds,
            depth=depth,
            min_rows=min_rows,
            bands=bands,
            bins=bins,
            alpha=alpha,
        )
    table = X if Z is None else Z
    cut = None if by is None and time is None else cut_slices(by, time, table, n_rows)
    if H is not None and H is not False:
        table = _read_columns(table, n_rows)
    segments, left_out, covered = read_segments(
        groups,
        table,
        n_rows=n_rows,
        weight=labels.weight,
        depth=depth,
        min_rows=min_rows,
        bands=bands,
    )
    named = read_references(segments, reference)
    sample = take_sample(labels, clusters)
    predictions = [f[sample.rows] for f in (after, before) if f is not None]
    tallies = [Tally(segments, sample, f, thresholds) for f in predictions]
    scaled = [labels.scale(f) for f in predictions]
    found = find_everything(
        segments, sample, labels, scaled, observers=tallies, n_bins=bins, alpha=alpha
    )
    discoveries, rich = _search(H, richer, table, after, labels, clusters, alpha)
    if rich is not None:
        rich = rich.beside([each.name for each in found.groups() if each.after.off])
    return AuditReport(
        kind=labels.kind,
        n_rows=n_rows,
        n_clusters=None if clusters is None else int(found.clusters[0]),
        alpha=float(alpha),
        critical=found.critical,
        **_findings(found),
        left_out=left_out,
        coverage=covered,
        audited=find_audited(*given, predictions[0], segments, sample, labels),
        notes=method_notes(
            labels.kind,
            n_bins=bins,
            alpha=alpha,
            n_groups=len(found.names),
            clustered=clusters is not None,
            paired=before is not None,
            weighted=sample.weighted,
            left_out=len(left_out),
            thresholds=len(thresholds) > 0,
        ),
        slices=None
        if cut is None
        else audit_slices(
            audit, cut, segments, sample, labels, after, before, alpha=alpha, bins=bins
        ),
        discoveries=discoveries,
        richness=rich,
        rates=find_rates(
            tallies, found.sums, segments, sample, thresholds=thresholds, named=named, alpha=alpha
        ),
        changes=None
        if before is None
        else changes(before, after, labels, segments=segments, thresholds=thresholds),
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


def _read_columns(table: Any, n_rows: int) -> Table:
    if table is None:
        raise ValueError("H= searches the columns of a table: pass X or Z.")
    read = read_table(table)
    if read.n_rows != n_rows:
        raise ValueError(f"The table of H has {read.n_rows} rows, but there are {n_rows}.")
    return read


def _search(
    H: Any,
    richer: Any,
    table: Any,
    predictions: Float64,
    labels: Labels,
    clusters: NDArray[np.int64] | None,
    alpha: float,
) -> tuple[Discoveries | None, Richness | None]:
    """What is wrong beyond the given groups; nothing unless H asks for it."""
    if H is None or H is False:
        return None, None
    from recalibrate.auditing.search.discovery import discover
    from recalibrate.auditing.search.richness import richness
    from recalibrate.core.kinds import read_class

    wanted = None if H is True else read_class(H)
    rules = wanted if wanted is not None and wanted.has_rules else None
    return (
        discover(predictions, table, labels, H=rules, cluster=clusters, alpha=alpha),
        richness(predictions, table, labels, H=wanted, richer=richer, cluster=clusters),
    )
