"""MonitorReport: what a monitor knows at one moment, and its views."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, fields
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from recalibrate.auditing.views import numbers
from recalibrate.auditing.views.columns import Cell, Column, named, numeric, texts
from recalibrate.auditing.views.numbers import Digits
from recalibrate.auditing.views.schema import plain
from recalibrate.auditing.views.text import aligned
from recalibrate.data.labels import Float64
from recalibrate.monitoring.batches import TimeKind, show_time
from recalibrate.monitoring.judging import ROWS, UNDER, Judgement, mean_gap
from recalibrate.monitoring.state import Alarm, State
from recalibrate.support.atomic import atomic_write

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from recalibrate.monitoring.advice import RefitAdvice


# --- The report of a monitor in words -----------------------------------------------------------


_NAMED = 3  # groups of the verdict
_SHOWN = 60  # groups of the plain text
_LINE = 110  # characters


def verdict(report: MonitorReport) -> str:
    """The result in a few sentences."""
    count = len(report.groups)
    what = "group is" if count == 1 else "groups are"
    limit = f"off by more than {report.tolerance:g}"
    sure = f"(chance of any false alarm, ever: at most {100 * report.alpha:g} %)"
    if not report.n_rows:
        text = "No rows with labels yet."
    elif not report.alarms:
        text = f"No alarm: there is no evidence that any of {count} {what} {limit} {sure}."
    else:
        told = "; ".join(describe(group) for group in report.alarms[:_NAMED])
        more = len(report.alarms) - _NAMED
        told += f"; and {more} more" if more > 0 else ""
        text = f"{len(report.alarms)} of {count} {what} {limit} {sure}: {told}."
    if report.advice is not None:
        text += f" {report.advice}"
    if report.hints:
        shifted = report.hints[0].name if len(report.hints) == 1 else f"{len(report.hints)} groups"
        text += f" A hint without labels: the scores of {shifted} have shifted."
    return text


def describe(group: GroupStatus) -> str:
    """An alarm: who, in which direction, since when, how much."""
    band = "" if group.where == "all scores" else f" where {group.where}"
    return (
        f"{group.name}{band} {group.direction}-predicted by {abs(group.gap_since):.3g} "
        f"({group.low_since:+.3g} to {group.high_since:+.3g}) since {group.since}"
    )


def digits_of(report: MonitorReport) -> Digits:
    """Three digits of the tolerance, or of the gaps where it is zero."""
    gaps = [abs(g.gap) for g in report.groups if math.isfinite(g.gap) and g.gap]
    unit = report.tolerance or max(gaps, default=0.0) or 0.01
    return Digits(min(max(1 - math.floor(math.log10(unit)), 0), 9))


def columns(report: MonitorReport) -> list[Column[GroupStatus]]:
    """What tables show."""
    digits = digits_of(report)

    def gap_text(gap: float, low: float, high: float) -> str:
        if not math.isfinite(gap):
            return numbers.UNKNOWN
        return f"{digits.signed(gap)} ({digits.signed(low)} to {digits.signed(high)})"

    return [
        named("group", lambda g: g.name),
        numeric("rows", lambda g: g.rows),
        Column(
            "gap so far",
            lambda g: Cell(gap_text(g.gap, g.low, g.high), g.gap, "off" if g.alarm else ""),
            "Mean outcome minus mean prediction, with limits for all groups and all times",
        ),
        numeric(
            "evidence",
            lambda g: g.evidence,
            lambda e: "> 10¹⁰⁰" if e > 1e100 else numbers.measure(e),
            f"Adjusted for all groups; alarm from {1 / report.alpha:g} on",
        ),
        numeric("p", lambda g: g.p, numbers.p_value, "Adjusted, and valid at any time"),
        named("alarm", lambda g: g.alarm_time, "number"),
        named("where", lambda g: g.where, "number"),
        named("since", lambda g: g.since, "number"),
        Column(
            "gap since",
            lambda g: Cell(
                gap_text(g.gap_since, g.low_since, g.high_since) if g.alarm else "", g.gap_since
            ),
            "Where it is off, with limits that hold whatever time was chosen",
        ),
    ]


def to_text(report: MonitorReport) -> str:
    """What print shows."""
    head = f"Monitor: {report.n_rows:,} rows in {report.n_batches:,} batches"
    if report.starts:
        head += f", {report.show_time(report.starts[0])} to {report.show_time(report.ends[-1])}"
    lines = [head, *wrap(verdict(report), _LINE, break_on_hyphens=False)]
    lines += aligned(texts(columns(report), report.groups[:_SHOWN]))
    if len(report.groups) > _SHOWN:
        lines.append(f"and {len(report.groups) - _SHOWN} more groups, see .table")
    if report.left_out:
        lines.append("Left out, too small when the monitor began: " + ", ".join(report.left_out))
    if report.hints:
        lines.append("Hints without labels (scores of the newest batch against the reference):")
        lines += [f"  {group.name}: {group.shift}" for group in report.hints]
    return "\n".join(line.rstrip() for line in lines)


SCHEMA = "recalibrate.monitor_report"
SCHEMA_VERSION = 1
_LARGEST = 700.0  # logarithm of the largest number that is shown


@dataclass(frozen=True)
class GroupStatus:
    """One group (of one class, where there are several); gaps are in units of the label.

    Attributes
    ----------
    group : str
        "all" is everybody, the first group.
    label : str
        The class; empty where there are not several.
    rows : int
        With labels.
    gap, low, high : float
        Mean outcome minus mean prediction so far; limits hold for all groups and at all times at
        once. NaN without rows.
    evidence : float
        The strongest adjusted evidence (an e-value) against "within tolerance" now; the line of
        alarm is 1 / alpha.
    p : float
        Anytime-valid adjusted p-value: 1 over the strongest evidence ever, at most 1.
    alarm : bool
        Whether the line was ever passed.
    direction : str
        "under" or "over"-predicted; empty without an alarm.
    where : str
        The band of scores with the strongest evidence; "all scores" for the group as a whole.
    alarm_time : str
        When the alarm was raised first.
    since : str
        Since when the group seems to be off.
    gap_since, low_since, high_since : float
        The gap where it is off since then; limits hold whatever time was chosen.
    rows_since : int
        Rows there since then.
    shift_p : float
        Without labels, a hint only: adjusted p-value for scores of the newest batch being drawn
        like those of the reference.
    shift : str
        The shift in words; empty if it is not more than noise.
    """

    group: str
    label: str
    rows: int
    gap: float
    low: float
    high: float
    evidence: float
    p: float
    alarm: bool
    direction: str
    where: str
    alarm_time: str
    since: str
    gap_since: float
    low_since: float
    high_since: float
    rows_since: int
    shift_p: float
    shift: str

    @property
    def name(self) -> str:
        """Group and class."""
        return f"{self.group}, class {self.label}" if self.label else self.group


@dataclass(frozen=True)
class History:
    """One group over time, by bucket.

    Attributes
    ----------
    gap, rows
        Of the bucket alone.
    running, low, high
        The mean gap up to the end of the bucket, with limits for all groups and times.
    log10_evidence
        At the end of the bucket, adjusted.
    """

    gap: tuple[float, ...]
    rows: tuple[int, ...]
    running: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    log10_evidence: tuple[float, ...]


@dataclass(frozen=True, eq=False, repr=False)
class MonitorReport:
    """What a monitor knows; made by :meth:`Monitor.report`.

    Attributes
    ----------
    n_rows, n_batches : int
        Rows with labels, and updates.
    tolerance, alpha : float
    time_kind : {"batch", "number", "date"}
    starts, ends : tuple of float
        Times of the buckets.
    groups : tuple of GroupStatus
    history : tuple of History
        One per group.
    left_out : tuple of str
        Groups that were too small when the monitor began.
    advice : RefitAdvice or None
        Whether a refit on recent rows would help, if rows were given.
    """

    n_rows: int
    n_batches: int
    tolerance: float
    alpha: float
    time_kind: TimeKind
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    groups: tuple[GroupStatus, ...]
    history: tuple[History, ...]
    left_out: tuple[str, ...]
    advice: RefitAdvice | None = None

    @property
    def alarms(self) -> tuple[GroupStatus, ...]:
        """Groups that have raised an alarm, the strongest evidence first."""
        off = [group for group in self.groups if group.alarm]
        return tuple(sorted(off, key=lambda group: -group.evidence))

    @property
    def hints(self) -> tuple[GroupStatus, ...]:
        """Groups whose scores have shifted by more than noise in the newest batch."""
        return tuple(group for group in self.groups if group.shift)

    @property
    def table(self) -> pd.DataFrame:
        """One row per group: the attributes of `GroupStatus`."""
        import pandas as pd

        names = [each.name for each in fields(GroupStatus)]
        frame = pd.DataFrame([[getattr(group, name) for name in names] for group in self.groups])
        frame.columns = pd.Index(names)
        several = any(group.label for group in self.groups)
        return frame if several else frame.drop(columns="label")

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        return verdict(self)

    def show_time(self, value: float) -> str:
        """A time of ``starts`` or ``ends`` as text."""
        return show_time(value, self.time_kind)

    def to_dict(self) -> dict[str, Any]:
        """The report as dicts, lists, strings and finite numbers; see `to_json`."""
        groups = [
            plain(group) | {"history": plain(own)}
            for group, own in zip(self.groups, self.history, strict=True)
        ]
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "verdict": self.verdict,
            "alarm": bool(self.alarms),
            "rows": self.n_rows,
            "batches": self.n_batches,
            "tolerance": self.tolerance,
            "alpha": self.alpha,
            "line": 1.0 / self.alpha,
            "times": [
                {"start": self.show_time(a), "end": self.show_time(b)}
                for a, b in zip(self.starts, self.ends, strict=True)
            ],
            "groups": groups,
            "left_out": list(self.left_out),
            "refit": plain(self.advice),
        }

    def to_json(self, path: str | os.PathLike[str] | None = None, *, indent: int | None = 2) -> str:
        """The report as JSON text, also written to a file where a path is given.

        Within a ``schema_version`` keys may be added, none is renamed, removed or given another
        meaning: verdict, alarm, rows, batches, tolerance, alpha, line (of alarm), times (of
        the buckets), groups (the attributes of `GroupStatus`, and of `History` as ``history``),
        left_out, refit (null, or the attributes of `RefitAdvice`).
        """
        text = json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)
        return _write(path, text)

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, title: str = "Calibration monitor"
    ) -> str:
        """The report as one page that needs no network, in the style of the audit's."""
        from recalibrate.monitoring.page import page

        return _write(path, page(self, title))

    def plot(self, most: int = 6) -> Figure:
        """Evidence over time with the line of alarm, and gaps with their limits.

        Parameters
        ----------
        most : int
            How many groups to show, those with the strongest evidence.

        Returns
        -------
        matplotlib.figure.Figure
            Not known to pyplot.
        """
        from recalibrate.monitoring.page import plot

        return plot(self, most)

    def __str__(self) -> str:

        return to_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from recalibrate.monitoring.page import fragment

        return fragment(self)


def _write(path: str | os.PathLike[str] | None, content: str) -> str:
    if path is not None:
        atomic_write(path, content.encode())
    return content


def make_report(state: State, advice: RefitAdvice | None) -> MonitorReport:
    """The views' record of a state."""
    judged = state.judgement if len(state.timeline) else None
    keys = [(k, g) for k in range(state.scale.n_scores) for g in range(len(state.watched.names))]
    gaps = None if judged is None else judged.gaps()
    return MonitorReport(
        n_rows=state.n_rows,
        n_batches=state.n_batches,
        tolerance=state.rules.tolerance,
        alpha=state.rules.alpha,
        time_kind=state.time_kind or "batch",
        starts=tuple(state.timeline.start.tolist()),
        ends=tuple(state.timeline.end.tolist()),
        groups=tuple(_status(state, judged, gaps, k, g) for k, g in keys),
        history=_histories(state, judged, keys),
        left_out=state.watched.left_out,
        advice=advice,
    )


def _histories(
    state: State, judged: Judgement | None, keys: list[tuple[int, int]]
) -> tuple[History, ...]:
    if judged is None:
        return tuple(History((), (), (), (), (), ()) for _ in keys)
    sums, span = state.timeline.sums.sum(axis=2), state.scale.span
    running, low, high = judged.running()
    in_units = [array * span for array in (mean_gap(sums), running, low, high)]
    evidence = state.timeline.evidence / np.log(10.0)
    rows = sums[..., ROWS].astype(np.int64)
    return tuple(
        History(
            tuple(in_units[0][:, k, g].tolist()),
            tuple(rows[:, k, g].tolist()),
            *(tuple(array[:, k, g].tolist()) for array in (*in_units[1:], evidence)),
        )
        for k, g in keys
    )


def _status(
    state: State,
    judged: Judgement | None,
    gaps: tuple[Float64, Float64, Float64, Float64] | None,
    k: int,
    g: int,
) -> GroupStatus:
    span, kind = state.scale.span, state.time_kind or "batch"
    rows, gap, low, high, evidence = 0.0, np.nan, np.nan, np.nan, 0.0
    if judged is not None and gaps is not None:
        rows, gap, low, high = (float(array[k, 0, g]) for array in gaps)
        evidence = float(judged.evidence[k, g])
    alarm = state.alarms.get((k, g))
    place, since = (None, None) if alarm is None else _present(judged, alarm, k, g)
    return GroupStatus(
        group=state.watched.names[g],
        label=str(state.scale.classes[k]) if state.scale.n_scores > 1 else "",
        rows=int(rows),
        gap=gap * span,
        low=low * span,
        high=high * span,
        evidence=float(np.exp(min(evidence, _LARGEST))),
        p=float(np.exp(-max(float(state.peak[k, g]), 0.0))),
        alarm=alarm is not None,
        direction="" if place is None else ("under" if place.direction == UNDER else "over"),
        where="" if place is None else _band(state, k, place.cell),
        alarm_time="" if alarm is None else show_time(alarm.time, kind),
        since="" if since is None else show_time(since.time, kind),
        gap_since=np.nan if since is None else since.gap * span,
        low_since=np.nan if since is None else since.low * span,
        high_since=np.nan if since is None else since.high * span,
        rows_since=0 if since is None else since.rows,
        shift_p=float(state.shift.p[k, g]),
        shift=_shift(state, k, g),
    )


def _present(judged: Judgement | None, alarm: Alarm, k: int, g: int) -> tuple[Any, Any]:
    """Where and since when, as it looks now; as it looked at the alarm once evidence has fallen."""
    if judged is None or judged.evidence[k, g] < judged.log_line:
        return alarm.place, alarm.since
    place = judged.place(k, g)
    return place, judged.since(k, g, place)


def _band(state: State, k: int, cell: int) -> str:
    edges = state.watched.edges[k] * state.scale.span + state.scale.low
    if cell == 0:
        return "all scores"
    if cell == 1:
        return f"score < {edges[0]:.3g}"
    if cell > len(edges):
        return f"score >= {edges[-1]:.3g}"
    return f"score in [{edges[cell - 2]:.3g}, {edges[cell - 1]:.3g})"


def _shift(state: State, k: int, g: int) -> str:
    shift = state.shift
    if shift.p[k, g] > state.rules.alpha:
        return ""
    cut = shift.cut[k, g] * state.scale.span + state.scale.low
    return (
        f"{100 * shift.before[k, g]:.1f} % of scores were below {cut:.3g}, now "
        f"{100 * shift.now[k, g]:.1f} %"
    )
