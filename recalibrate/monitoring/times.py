"""When batches happened: dates or numbers as users have them, as float64."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any, Literal, get_args

import numpy as np

from recalibrate.data.vectors import Float64, to_array, to_floats

TimeKind = Literal["batch", "number", "date"]
"""What times are: the count of batches where none is given, numbers, or dates and times."""

KINDS = get_args(TimeKind)
_DAY = 86_400.0


def read_time(time: Any, n_rows: int) -> tuple[Float64, TimeKind]:
    """Times of the rows as numbers (dates: seconds since 1970, without a zone in UTC).

    Examples
    --------
    >>> read_time("2024-01-02", 2)
    (array([1.7041536e+09, 1.7041536e+09]), 'date')
    >>> read_time([3, 5.5], 2)
    (array([3. , 5.5]), 'number')
    """
    single = np.ndim(time) == 0
    values = to_array([time] if single else time, "time")
    if values.shape != (1 if single else n_rows,):
        raise ValueError(
            f"time has shape {values.shape}, but there are {n_rows} rows: give one time for the "
            "batch, or one for every row."
        )
    kind: TimeKind = "number"
    if values.dtype.kind in "MOUT" and not _is_number(values[0]):
        found, kind = _read_dates(values), "date"
    else:
        found = to_floats(values, "time", "Give dates or numbers.")
    bad = ~np.isfinite(found)
    if bad.any():
        raise ValueError(
            f"time is missing or infinite for {int(bad.sum())} rows, the first is row "
            f"{int(bad.argmax())} (from 0): give the time of every row."
        )
    return (np.repeat(found, n_rows) if single else found), kind


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, np.timedelta64)


def _read_dates(values: Any) -> Float64:
    import pandas as pd

    try:
        dates = pd.DatetimeIndex(pd.to_datetime(pd.Series(values), utc=True, format="ISO8601"))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"time must be dates (such as '2024-05-31'), or numbers; got {values[0]!r}: {error}"
        ) from error
    micros = dates.as_unit("us").asi8
    return np.where(dates.isna(), np.nan, micros / 1e6)


def show_time(value: float, kind: TimeKind) -> str:
    """A time as readers want it.

    Examples
    --------
    >>> show_time(1704153600.0, "date"), show_time(3.0, "number"), show_time(2.0, "batch")
    ('2024-01-02', '3', 'batch 2')
    """
    if kind == "batch":
        return f"batch {value:.0f}"
    if kind == "number":
        return f"{value:.10g}"
    moment = datetime.fromtimestamp(value, UTC)
    if value % _DAY == 0:
        return date(moment.year, moment.month, moment.day).isoformat()
    return moment.strftime("%Y-%m-%d %H:%M")
