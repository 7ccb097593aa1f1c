"""The audit by slices of time: every slice audited by itself, limits for all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.auditing.measure.segments import Segments
from recalibrate.auditing.measure.sweep import Sample
from recalibrate.data.labels import Float64, Labels, to_array
from recalibrate.data.table import split_columns

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from recalibrate.auditing.report import AuditReport

PERIODS = {"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
MOST_SLICES = 400
"""More than this nobody reads."""

Cut = tuple[NDArray[np.intp], list[str]]
"""Slice of every row, and the names of the slices."""

COLUMNS = ("group", "rows", "mean_prediction", "mean_outcome", "gap", "low", "high", "off")


@dataclass(frozen=True, eq=False)
class Slices:
    """Audits of slices of the rows, in the order of time; see ``by`` of `recalibrate.audit`.

    Attributes
    ----------
    names : tuple of str
        One per slice: a day, the Monday of a week, a month, ...
    reports : tuple of AuditReport
        Limits and tests of all slices together hold with the confidence of the whole report.
    """

    names: tuple[str, ...]
    reports: tuple[AuditReport, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row per slice and group: rows, means, gap with limits, whether it is off."""
        import pandas as pd

        frames = [
            report.full_table[list(COLUMNS)].assign(slice=name)
            for name, report in zip(self.names, self.reports, strict=True)
        ]
        return pd.concat(frames, ignore_index=True)[["slice", *COLUMNS]]

    def plot(self) -> Figure:
        """Gaps by group and time as a coloured map; what is off by more than noise has a frame.

        Returns
        -------
        matplotlib.figure.Figure
            Not known to pyplot.
        """
        from recalibrate.auditing.views.plots import plot_slices

        return plot_slices(self)


def cut_slices(by: Any, time: Any, table: Any, n_rows: int) -> Cut:
    """Slice of every row, and the names of the slices in their order."""
    import pandas as pd

    if by is None:
        raise ValueError('time= goes with by=, for example by="week"')
    if isinstance(by, str) and by in PERIODS:
        if time is None:
            raise ValueError(f'by="{by}" cuts time: pass time=, a date for every row')
        values = to_array(time, "time")
        _check_length("time", values, n_rows)
        try:
            dates = pd.to_datetime(pd.Series(values), utc=True).dt.tz_localize(None)
        except (ValueError, TypeError) as error:
            raise ValueError(f"time must be dates, got {values[0]!r}: {error}") from error
        periods = dates.dt.to_period(PERIODS[by])
        names = periods.dt.start_time.dt.strftime("%Y-%m-%d") if by == "week" else periods
    else:
        if time is not None:
            raise ValueError(f"time= goes with by={' or '.join(map(repr, PERIODS))}, not by={by!r}")
        names = pd.Series(_slices_of(by, table, n_rows))
    if names.isna().any():
        row = int(names.isna().to_numpy().argmax())
        raise ValueError(f"the time or slice of row {row} (from 0) is missing")
    codes, found = pd.factorize(names, sort=True)
    if len(found) > MOST_SLICES:
        raise ValueError(
            f"by= gives {len(found):,} slices, more than {MOST_SLICES}: cut time more coarsely"
        )
    return codes, [str(name) for name in found]


def _slices_of(by: Any, table: Any, n_rows: int) -> Any:
    if isinstance(by, str):
        names, columns = (None, []) if table is None else split_columns(table)
        if names is None or by not in names:
            raise ValueError(
                f"by={by!r} is neither {', '.join(map(repr, PERIODS))} nor a column of the table"
            )
        return to_array(columns[names.index(by)], "by")
    values = to_array(by, "by")
    _check_length("by", values, n_rows)
    return values


def _check_length(name: str, values: NDArray[Any], n_rows: int) -> None:
    if values.shape != (n_rows,):
        raise ValueError(f"{name} has shape {values.shape}, but there are {n_rows} rows")


def audit_slices(
    audit: Callable[..., Any],
    cut: Cut,
    segments: Segments,
    sample: Sample,
    labels: Labels,
    after: Float64,
    before: Float64 | None,
    *,
    alpha: float,
    bins: int,
    loss: str | float | None,
) -> Slices:
    """Audit every slice by itself, for the groups of the whole."""
    codes, names = cut
    slice_of = codes[sample.rows]
    groups = segments.codes(np.arange(sample.n_rows))
    y = labels.unscale(labels.values)
    present = np.unique(slice_of)
    reports = []
    weight, exposure = labels.weight, np.ones(len(y))
    if sample.exposure is not None and weight is not None:
        exposure[sample.rows] = sample.exposure
        y, weight = y * exposure, weight / exposure
    for number in present.tolist():
        own = np.flatnonzero(slice_of == number)
        rows = sample.rows[own]
        masks = _masks(segments, groups[own])
        reports.append(
            audit(
                after[rows],
                None,
                y[rows],
                groups=masks or None,
                baseline=None if before is None else before[rows],
                cluster=None if sample.cluster is None else sample.cluster[own],
                sample_weight=None if weight is None else weight[rows],
                exposure=None if sample.exposure is None else exposure[rows],
                bins=bins,
                loss=loss,
                alpha=alpha / len(present),
            )
        )
    return Slices(tuple(names[number] for number in present), tuple(reports))


def _masks(segments: Segments, codes: NDArray[np.int32]) -> dict[str, NDArray[np.bool_]]:
    """Rows of the groups that have any, but for everybody."""
    found = {}
    for g, name in enumerate(segments.names[1:], start=1):
        term = int(np.searchsorted(segments.offsets, g, side="right")) - 1
        mask = codes[:, term] == g - segments.offsets[term] + 1
        if mask.any():
            found[name] = mask
    return found
