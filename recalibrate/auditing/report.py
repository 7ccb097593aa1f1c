"""Compute a table of calibration by group, and the frozen report that holds it."""

import inspect
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate import metrics
from recalibrate.groupset import bind
from recalibrate.labels import Labels, read_labels, read_scores
from recalibrate.scores import ScoreColumn, as_base, predicted_mean
from recalibrate.table import read_table

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_Z_95 = 1.959963984540054  # two-sided 95 % point of the normal distribution
_BINS = 10
_PREDICTION_COLUMNS = ("mean_prediction", "gap", "gap_se", "low", "high", "ece", "k2")


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport:
    """The result of `audit`: one row per group.

    Attributes
    ----------
    table : DataFrame
        Columns, all in the units of the label:

        - group, rows, share: name, number of rows, share of the total weight;
        - mean_prediction, mean_outcome, and gap = outcome minus prediction, so that a positive
          gap means that the group is under-predicted;
        - gap_se, low, high: standard error of the gap and its 95 % normal limits. The limits
          hold for each group by itself: among 100 calibrated groups about five gaps lie outside;
        - ece: expected calibration error within the group over ten bins of equal width;
        - k2: squared calibration error within the group over ten quantile bins of its
          predictions [1]_, sum_b P(b | g) (E[y - f | b, g])^2.

        With a baseline, the columns that depend on predictions are also there for the baseline,
        called before_mean_prediction, before_gap and so on.
    kind : {"binary", "soft", "regression"}
        How the labels were read.
    n_rows : int
        Rows audited.

    References
    ----------
    .. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
       "Multicalibration as Boosting for Regression", ICML 2023.
    """

    table: "pd.DataFrame"
    kind: str
    n_rows: int

    def __str__(self) -> str:
        # Narrow enough to read: the frame has the rest.
        left_out = ["gap_se"] + [
            f"before_{x}" for x in ("mean_prediction", "gap_se", "low", "high")
        ]
        shown = self.table.drop(columns=left_out, errors="ignore")
        head = f"Audit of {self.n_rows:,} rows ({self.kind} labels), 95 % limits per group"
        body = shown.to_string(index=False, float_format=lambda value: f"{value:.3g}")
        return f"{head}\n{body}"

    __repr__ = __str__


def audit(
    model_or_scores: Any,
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    base: Any = None,
    Z: Any = None,
    baseline: Any = None,
    sample_weight: Any = None,
) -> AuditReport:
    """Measure calibration, over all rows and in groups.

    Use rows that trained neither the base model nor the calibration.

    Parameters
    ----------
    model_or_scores : model, callable or array-like
        A calibrated model (``predict(X, base=, Z=)``), a base model that an adapter knows, a
        callable, or an array of predictions on the scale of the label.
    X : table
        Features, one row per label. May be None if predictions are arrays and groups are masks.
    y : array-like
        Labels: 0/1, or numbers.
    groups : Groups, str, sequence of str, mapping or boolean DataFrame, optional
        Expressions over columns such as ``["sex", "sex * race", "age < 25"]``, or masks by
        name, matched to the rows by position. Without groups only all rows are audited.
    base : array-like, optional
        Scores of the base model for these rows, for models fitted on an array of scores.
    Z : table, optional
        The table that the groups speak of, if X is not one.
    baseline : model, callable or array-like, optional
        Predictions to compare with, typically the base model's.
    sample_weight : array-like, optional
        Weights of the rows.

    Returns
    -------
    AuditReport

    Raises
    ------
    ValueError, TypeError
        If lengths differ, a column is unknown, a mask is not boolean, or no group has rows.

    Warns
    -----
    UserWarning
        If a group has no rows or no weight; it is left out.

    Notes
    -----
    With f the prediction and w the weight, the standard error of a group's gap is
    sqrt(sum w^2 (y - f - gap)^2 * m / (m - 1)) / sum w with the effective number of rows
    m = (sum w)^2 / sum w^2; without weights that is the usual one.

    Examples
    --------
    >>> from recalibrate.auditing import audit
    >>> from recalibrate.simulate import census
    >>> data = census(4000, seed=1, gap=0.1)
    >>> report = audit(data.scores, data.X, data.y, groups=["SEX == 2"])
    >>> report.table["group"].tolist()
    ['all', 'SEX == 2']
    >>> bool(report.table["low"][1] > 0.05)
    True
    """
    n_rows = _count_rows(X, y)
    labels = read_labels(y, n_rows=n_rows, sample_weight=sample_weight)
    after = _predictions(model_or_scores, X, base, Z, labels, "model_or_scores")
    before = None
    if baseline is not None:
        before = _predictions(baseline, X, base, Z, labels, "baseline")
    rows = [
        _row(name, mask, labels, after, before)
        for name, mask in _with_weight(_groups(groups, X if Z is None else Z, labels), labels)
    ]
    import pandas as pd

    return AuditReport(table=pd.DataFrame(rows), kind=labels.kind, n_rows=n_rows)


# --- input --------------------------------------------------------------------------------------


def _count_rows(X: Any, y: Any) -> int:
    """Rows of X, which labels, scores and masks must match; of y where X does not say."""
    for thing in (X, y):
        shape = getattr(thing, "shape", None)
        if isinstance(shape, Sequence) and len(shape) > 0:
            return int(shape[0])
        if isinstance(thing, (list, tuple)):
            return len(thing)
    raise TypeError(f"y must be an array or a list with one label per row, got {type(y).__name__}.")


def _predictions(model: Any, X: Any, base: Any, Z: Any, labels: Labels, argument: str) -> Floats:
    n_rows = len(labels.values)
    if _takes_base(model):
        predicted = model.predict(X, base=base, Z=Z)
    else:
        source = as_base(model)
        predicted = source.values if isinstance(source, ScoreColumn) else predicted_mean(source, X)
    try:
        values = read_scores(predicted, n_rows=n_rows, probability=False)
    except ValueError as error:
        raise ValueError(f"Predictions of {argument}: {error}") from error
    outside = (values < 0.0) | (values > 1.0)
    if labels.kind == "binary" and outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"Predictions of {argument} must be probabilities for 0/1 labels, but "
            f"{int(outside.sum())} of {n_rows} are not in [0, 1]; the first is {values[row]} in "
            f"row {row} (from 0). Turn log-odds into probabilities with 1 / (1 + exp(-score))."
        )
    return values


def _takes_base(model: Any) -> bool:
    """Whether predict is ours. A scikit-learn classifier's predict gives classes, not means."""
    predict = getattr(model, "predict", None)
    if predict is None or isinstance(model, type):
        return False
    try:
        parameters = inspect.signature(predict).parameters
    except (TypeError, ValueError):  # compiled methods may have no signature
        return False
    return "base" in parameters and "Z" in parameters


def _groups(groups: Any, table: Any, labels: Labels) -> Iterator[tuple[str, Mask]]:
    """Give (name, mask) of every group, all rows first."""
    n_rows = len(labels.values)
    yield "all", np.ones(n_rows, dtype=np.bool_)
    if groups is None:
        return
    if isinstance(groups, Mapping) or hasattr(groups, "columns"):
        yield from _named_masks(groups, n_rows)
    else:
        yield from _term_masks(_terms(groups), table, labels)


def _named_masks(groups: Any, n_rows: int) -> Iterator[tuple[str, Mask]]:
    names = list(groups) if isinstance(groups, Mapping) else list(groups.columns)
    if not names:
        raise ValueError("groups is empty. Leave it out to audit all rows only.")
    if len({str(name) for name in names}) < len(names):
        raise ValueError(f"groups has a name more than once: {[str(name) for name in names]}.")
    for name in names:
        mask = np.asarray(groups[name])
        if mask.dtype != np.bool_:
            raise TypeError(
                f"The mask of group {str(name)!r} has dtype {mask.dtype}, not bool. Use a "
                "comparison or .astype(bool), after filling missing values."
            )
        if mask.shape != (n_rows,):
            raise ValueError(
                f"The mask of group {str(name)!r} has shape {mask.shape}, but there are "
                f"{n_rows} rows. Masks are matched to rows by position."
            )
        yield str(name), mask


def _terms(groups: Any) -> tuple[str, ...]:
    terms = getattr(groups, "terms", groups)
    if isinstance(terms, str):
        return (terms,)
    if not isinstance(terms, Iterable):
        raise TypeError(
            "groups must be a Groups object, expressions such as "
            f'["sex", "age < 25"], or masks by name; got {type(groups).__name__}.'
        )
    terms = tuple(terms)
    if not terms:
        raise ValueError("groups is empty. Leave it out to audit all rows only.")
    return terms


def _term_masks(terms: tuple[str, ...], X: Any, labels: Labels) -> Iterator[tuple[str, Mask]]:
    if X is None:
        raise ValueError("Expressions as groups need a table: pass X or Z, or give masks by name.")
    table = read_table(X)
    n_rows = len(labels.values)
    if table.n_rows != n_rows:
        raise ValueError(f"The groups' table has {table.n_rows} rows, but there are {n_rows}.")
    yield from bind(terms, table, weight=labels.weight).masks(table)


def _with_weight(groups: Iterator[tuple[str, Mask]], labels: Labels) -> Iterator[tuple[str, Mask]]:
    """Leave out, with a warning, groups about which nothing can be said."""
    kept = skipped = 0
    for name, mask in groups:
        if mask.any() if labels.weight is None else (labels.weight[mask] > 0).any():
            kept += 1
            yield name, mask
        else:
            skipped += 1
            warnings.warn(
                f"The group {name!r} has no rows with weight and is left out.",
                UserWarning,
                stacklevel=2,
            )
    if skipped and kept == 1:  # all rows are always there
        raise ValueError("No group has any rows with weight. Check the groups against the table.")


# --- numbers ------------------------------------------------------------------------------------


def _row(
    name: str, mask: Mask, labels: Labels, after: Floats, before: Floats | None
) -> dict[str, Any]:
    y = labels.values[mask]
    weight = np.ones(len(y)) if labels.weight is None else labels.weight[mask]
    total = float(len(mask)) if labels.weight is None else float(labels.weight.sum())
    width = labels.high - labels.low
    row: dict[str, Any] = {
        "group": name,
        "rows": int(mask.sum()),
        "share": float(weight.sum()) / total,
        "mean_outcome": labels.low + width * float(np.average(y, weights=weight)),
    }
    row |= _measure(labels.scale(after[mask]), y, weight, labels)
    if before is not None:
        old = _measure(labels.scale(before[mask]), y, weight, labels)
        row |= {f"before_{key}": value for key, value in old.items()}
    # Prediction before outcome, as they are read.
    first = ("group", "rows", "share", "mean_prediction", "mean_outcome")
    return {key: row[key] for key in first} | row


def _measure(f: Floats, y: Floats, weight: Floats, labels: Labels) -> dict[str, float]:
    """All numbers of one group and one set of predictions, f and y scaled to [0, 1]."""
    width = labels.high - labels.low
    gap, error = _gap(y - f, weight)
    gap, error = width * gap, width * error
    values = (
        labels.low + width * float(np.average(f, weights=weight)),
        gap,
        error,
        gap - _Z_95 * error,
        gap + _Z_95 * error,
        width * float(metrics.ece(f, y, sample_weight=weight)),
        width**2 * float(metrics.k2(f, y, sample_weight=weight, bins=_BINS)),
    )
    return dict(zip(_PREDICTION_COLUMNS, values, strict=True))


def _gap(residual: Floats, weight: Floats) -> tuple[float, float]:
    """Weighted mean of the residuals and its standard error (NaN for a single row)."""
    total = float(weight.sum())
    gap = float(np.average(residual, weights=weight))
    effective = total**2 / float((weight**2).sum())
    if effective <= 1.0 + 1e-12:  # one row carries all the weight; rounding may add a little
        return gap, math.nan
    spread = float((weight**2 * (residual - gap) ** 2).sum()) * effective / (effective - 1.0)
    return gap, math.sqrt(spread) / total
