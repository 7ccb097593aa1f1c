"""The report's figures, by matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from recalibrate.auditing.records import Calibration, Curve, GroupAudit
from recalibrate.auditing.views.columns import everybody_first, worst_curves
from recalibrate.auditing.views.text import confidence
from recalibrate.support.checks import check_whole, require
from recalibrate.support.notices import listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from recalibrate.auditing.report import AuditReport
    from recalibrate.auditing.slices import Slices

# Told apart also by readers who see colours differently; marks and lines differ too.
AFTER, BEFORE, FAINT = "#0067a6", "#c2560a", "0.6"
_PANEL, _COLUMNS, _WORST = 3.2, 3, 5
_ROW = 0.3  # inches per group of a forest plot
_TICKS = 8  # names of slices below a map


def plot_reliability(report: AuditReport, groups: str | Sequence[str] | None) -> Figure:
    """One diagram per group; by default all rows and the worst groups."""
    shown = _choose(report, groups)
    columns = min(len(shown), _COLUMNS)
    rows = math.ceil(len(shown) / columns)
    figure = make_figure(_PANEL * columns, (_PANEL + 0.2) * rows + 0.4)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes, group in zip(panels.flat, shown, strict=False):
        _draw_curves(axes, group)
    for axes in panels.flat[len(shown) :]:
        axes.set_visible(False)
        # Shared axes have their numbers on the last row only; here that is empty.
        panels[-2][list(panels[-1]).index(axes)].tick_params(labelbottom=True)
    figure.supxlabel("mean prediction", fontsize="medium")
    figure.supylabel("mean outcome", fontsize="medium")
    if report.overall_before is not None:
        _legend(figure, panels.flat[0])
    return figure


def _choose(report: AuditReport, groups: str | Sequence[str] | None) -> list[GroupAudit]:
    if groups is None:
        return [report.groups[0], *worst_curves(report, _WORST)]
    names = [groups] if isinstance(groups, str) else list(groups)
    known = {group.name: group for group in report.groups}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(
            f"groups must name groups of the report, got {listed(unknown) or 'none'}; "
            f"there are {listed(list(known))}"
        )
    return [known[name] for name in names]


def _draw_curves(axes: Axes, group: GroupAudit) -> None:
    start = group.after.curve.prediction[0]
    axes.axline((start, start), slope=1, color=FAINT, linestyle="--", linewidth=1)
    if group.before is not None:
        _draw_curve(axes, group.before.curve, BEFORE, "before", hollow=True)
    _draw_curve(axes, group.after.curve, AFTER, "after", hollow=False)
    axes.set_title(
        f"{shortened(group.name, 38)}\n{group.rows:,} rows", fontsize="small", parse_math=False
    )
    axes.grid(alpha=0.3)


def _draw_curve(axes: Axes, curve: Curve, colour: str, label: str, *, hollow: bool) -> None:
    axes.plot(
        curve.prediction,
        curve.outcome,
        color=colour,
        label=label,
        marker="o",
        markersize=4,
        markerfacecolor="white" if hollow else colour,
        linestyle=":" if hollow else "-",
    )
    if not hollow:  # two bands on top of each other would say little
        axes.fill_between(curve.prediction, curve.low, curve.high, color=colour, alpha=0.16)
        axes.vlines(curve.prediction, curve.low, curve.high, color=colour, alpha=0.5, linewidth=1)


def plot_gaps(report: AuditReport, most: int) -> Figure:
    """A forest plot of gaps with their simultaneous limits, worst groups first."""
    check_whole("most", most, least=1)
    groups = everybody_first(report, most)
    paired = report.overall_before is not None
    figure, axes = _forest([group.name for group in groups])
    for place, group in enumerate(groups):
        if group.before is not None:
            _draw_gap(axes, place - 0.14, group.before, BEFORE, "before", small=True)
        _draw_gap(axes, place + 0.14 * paired, group.after, AFTER, "after", small=False)
    axes.set_xlabel(
        f"mean outcome minus mean prediction, {confidence(report)} limits for all groups at once\n"
        "(filled: off by more than noise)",
        fontsize="small",
    )
    if paired:
        _legend(figure, axes)
    return figure


def _draw_gap(
    axes: Axes, place: float, own: Calibration, colour: str, label: str, *, small: bool
) -> None:
    axes.errorbar(
        own.gap,
        place,
        xerr=[[own.gap - own.low], [own.high - own.gap]] if math.isfinite(own.low) else None,
        color=colour,
        label=label,
        marker="o",
        markersize=4 if small else 5.5,
        markerfacecolor=colour if own.off else "white",
        linewidth=1 if small else 1.8,
    )


def plot_slices(slices: Slices) -> Figure:
    """Gaps by group and slice as colours, with a frame around what is more than noise."""
    table = slices.table
    names = table["group"].unique().tolist()
    gaps = table.pivot(index="group", columns="slice", values="gap").loc[names, list(slices.names)]
    off = table.pivot(index="group", columns="slice", values="off").loc[names, list(slices.names)]
    reach = float(gaps.abs().max().max()) or 1.0
    figure = make_figure(2.5 + 0.45 * len(slices.names), _ROW * len(names) + 1.6)
    axes = figure.add_subplot()
    image = axes.imshow(gaps, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto")
    for y, x in zip(*off.eq(True).to_numpy().nonzero(), strict=True):
        axes.plot(x, y, marker="s", markersize=7, markerfacecolor="none", color="black")
    axes.set_yticks(range(len(names)), [shortened(n, 48) for n in names], fontsize="small")
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    ticks = dict.fromkeys(
        np.linspace(0, len(slices.names) - 1, _TICKS).round().astype(int).tolist()
    )
    axes.set_xticks(list(ticks), [slices.names[k] for k in ticks], fontsize="small", rotation=30)
    figure.colorbar(image, ax=axes, label="gap (frames: more than noise)")
    return figure


def plot_discoveries(report: AuditReport) -> Figure:
    """Predicted and observed means of the subgroups found by searching."""
    if report.discoveries is None:
        raise ValueError("nothing was searched: call audit with H=True, or with a class of rules")
    found = report.discoveries.subgroups
    if not found:
        raise ValueError(
            "there is nothing to plot: " + (report.discoveries.note or "no subgroup is off")
        )
    figure, axes = _forest(
        [f"{shortened(each.rule, 48)}  (n = {each.rows:,})" for each in found], zero=False
    )
    places = range(len(found))
    predicted = [each.mean_prediction for each in found]
    observed = [each.mean_outcome for each in found]
    axes.hlines(places, predicted, observed, color=FAINT, linewidth=2, zorder=1)
    axes.plot(predicted, places, "o", color=BEFORE, markerfacecolor="white", label="predicted")
    axes.errorbar(
        observed,
        list(places),
        xerr=[
            [each.gap - each.low for each in found],
            [each.high - each.gap for each in found],
        ],
        color=AFTER,
        label="observed (limits corrected for the search)",
        linestyle="",
        marker="o",
    )
    axes.set_xlabel("mean, on the rows that were not searched", fontsize="small")
    _legend(figure, axes)
    return figure


def _forest(names: Sequence[str], *, zero: bool = True) -> tuple[Figure, Axes]:
    """A figure with one line per name, the first on top."""
    figure = make_figure(8.0, _ROW * len(names) + 1.3)
    axes = figure.add_subplot()
    if zero:
        axes.axvline(0, color=FAINT, linewidth=1)
    labels = [shortened(name, 60) for name in names]
    axes.set_yticks(range(len(names)), labels, fontsize="small", parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def shortened(name: str, most: int) -> str:
    """A name that leaves room for the plot."""
    return name if len(name) <= most else name[: most - 1] + "…"


def make_figure(width: float, height: float) -> Figure:
    """A figure of its own, unknown to pyplot: nothing to close, nothing shown by itself."""
    made: Figure = require("matplotlib.figure", "report").Figure(
        figsize=(width, height), layout="constrained"
    )
    return made


def _legend(figure: Figure, axes: Axes) -> None:
    """One entry per label, above everything."""
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(
        handles.values(), handles.keys(), loc="outside upper right", ncols=2, fontsize="small"
    )
