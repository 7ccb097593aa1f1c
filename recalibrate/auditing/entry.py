"""The audit: from predictions, labels and groups to a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, cast, overload

from recalibrate.auditing.comparison import AuditComparison, audit_each
from recalibrate.auditing.report import AuditReport
from recalibrate.auditing.running import AuditRequest, run
from recalibrate.groups.cells import BANDS

P = ParamSpec("P")


class _Audit(Protocol[P]):
    """What type checkers see: several models by name give a comparison."""

    @overload
    def __call__(
        self, model_or_scores: Mapping[str, Any], /, *args: P.args, **options: P.kwargs
    ) -> AuditComparison: ...
    @overload
    def __call__(
        self, model_or_scores: Any, /, *args: P.args, **options: P.kwargs
    ) -> AuditReport: ...


def _by_models(function: Callable[Concatenate[Any, P], Any]) -> _Audit[P]:
    """The function itself, with the type of its result by that of its first argument."""
    return cast("_Audit[P]", function)


@_by_models
def audit(
    model_or_scores: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    base: Any = None,
    Z: Any = None,
    positive: Any = None,
    classes: Sequence[Any] | None = None,
    baseline: Any = None,
    H: Any = None,
    richer: Any = None,
    cluster: Any = None,
    sample_weight: Any = None,
    exposure: Any = None,
    loss: str | float | None = None,
    thresholds: Sequence[float] = (),
    reference: str | Sequence[str] | None = None,
    by: Any = None,
    time: Any = None,
    depth: int = 1,
    min_rows: int | None = None,
    bands: int = BANDS,
    bins: int = 10,
    alpha: float = 0.05,
) -> Any:
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
        ``y``, ``base``, ``cluster``, ``exposure`` and ``sample_weight`` are names of columns;
        rows are scored a piece at a time (Dask's on the workers), and predictions, labels and
        the columns that the groups read are brought together.
    y : array-like
        Labels: classes of any kind, numbers in [0, 1], or any numbers. They are read as those of
        the audited model: of two classes its second (else the larger) counts as 1.
    groups : Groups, str, sequence of str, True, mapping or boolean DataFrame, optional
        Expressions over columns such as ``["sex", "sex * race", "age < 25"]`` (a numeric column
        with many values is cut into quantile bands); True for every column; or masks by name,
        matched to the rows by position. Groups may overlap. Without groups: those that the model
        was fitted for, if it was fitted for named groups, else all rows together; of several
        models those of the first that has any.
    base : array-like, optional
        Scores of the base model for these rows, for models fitted on an array of scores.
    Z : table, optional
        The table that the groups speak of, if X is not one.
    positive : label, optional
        Of two classes: the label that counts as 1, by default the one that the model (of several
        the first) predicts. Predictions of models and baselines that name their classes become
        those of this one; an array's or callable's must be about it.
    classes : sequence, optional
        All classes, in the order of the columns of predictions, for arrays and models that do
        not name them; needed where labels are text. Of two, the predictions are about the second.
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
    exposure : array-like, optional
        As in `fit`: labels are totals (claims, amounts) over so much of it, and predictions are
        rates per unit: those of y / exposure with weights sample_weight * exposure. The longer
        the exposure, the less rates vary, which limits and tests rely on.
        Required for a model that was fitted with it.
    loss : {"squared", "log_loss", "poisson", "gamma", "tweedie", "tweedie-1.7"} or float, optional
        Loss to report beside squared error and to take apart, for labels that are means: see
        `recalibrate.metrics.deviance`. By default that of the model, Poisson deviance where
        there is an exposure, and log loss for labels in [0, 1].
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
    return run(audit, AuditRequest(**options))
