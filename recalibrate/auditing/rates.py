"""Records of what groups' decisions and rankings are like; see ``records``."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

TITLES = {
    "selection_rate": "selection rate",
    "tpr": "true positive rate (TPR)",
    "fpr": "false positive rate (FPR)",
    "ppv": "precision (PPV)",
    "auc": "AUC",
}
MEANINGS = {
    "selection_rate": "share of the group with a prediction of at least the threshold",
    "tpr": "share selected of the rows whose outcome is 1",
    "fpr": "share selected of the rows whose outcome is 0",
    "ppv": "share of the selected rows whose outcome is 1",
    "auc": "chance that a row of outcome 1 has a higher prediction than a row of outcome 0",
}


WIDEST_NAMED = 0.3
"""Widest limits of a group that a headline names. With ten groups it takes about 45 rows of either
outcome for an AUC of .7, 90 rows for a share of a half and 17 for one of zero; rows of unequal
weight or in clusters count as the limits say. Without it the lowest rate is often that of the
smallest group: with 12 rows an AUC has a standard error of .15."""


@dataclass(frozen=True)
class Estimate:
    """A rate of one group, and how it compares with that of the reference group.

    Attributes
    ----------
    value, low, high : float
        The rate and its limits in [0, 1], which hold for all groups at once.
    rows : int
        Rows that it is a share of (of an AUC: all rows of the group).
    difference, difference_low, difference_high : float
        The rate minus that of the reference group.
    ratio, ratio_low, ratio_high : float
        The rate divided by that of the reference group; of selection rates the impact ratio.
        The upper limit is NaN where the reference's rate may be zero.
    """

    value: float
    low: float
    high: float
    rows: int
    difference: float
    difference_low: float
    difference_high: float
    ratio: float
    ratio_low: float
    ratio_high: float

    @property
    def precise(self) -> bool:
        """Whether the group's rows are enough for a headline: limits of at most 0.3 apart."""
        return self.high - self.low <= WIDEST_NAMED


@dataclass(frozen=True)
class Rate:
    """One rate of one group.

    Attributes
    ----------
    measure : {"selection_rate", "tpr", "fpr", "ppv", "auc"}
    threshold : float or None
        A decision is positive where the prediction is at least that; None for the AUC.
    group, reference : str
        Names of the group and of the one that it is compared with.
    after, before : Estimate
        Of the audited predictions, and of the baseline (None without).
    """

    measure: str
    threshold: float | None
    group: str
    reference: str
    after: Estimate
    before: Estimate | None = None


@dataclass(frozen=True)
class Rates:
    """Rates of all groups: decisions at thresholds, and the ranking of rows.

    Attributes
    ----------
    rates : tuple of Rate
        By measure and threshold, then by group in the order of the report.
    thresholds : tuple of float
    alpha : float
        For each rate and threshold, the limits of all groups hold at once with probability
        1 - alpha. They do not hold for all rates and thresholds together.
    """

    rates: tuple[Rate, ...]
    thresholds: tuple[float, ...]
    alpha: float

    @property
    def table(self) -> pd.DataFrame:
        """One row per rate and group; numbers of the baseline are called before_value and so on."""
        import pandas as pd

        names = [each.name for each in fields(Estimate)]
        rows: list[dict[str, Any]] = []
        for rate in self.rates:
            row: dict[str, Any] = {
                "measure": rate.measure,
                "threshold": rate.threshold,
                "group": rate.group,
                "reference": rate.reference,
            }
            row |= {name: getattr(rate.after, name) for name in names}
            if rate.before is not None:
                row |= {f"before_{name}": getattr(rate.before, name) for name in names}
            rows.append(row)
        return pd.DataFrame(rows)

    def of(self, measure: str, threshold: float | None = None) -> tuple[Rate, ...]:
        """One rate of all groups; empty where the labels do not have it."""
        return tuple(
            each for each in self.rates if (each.measure, each.threshold) == (measure, threshold)
        )

    def __str__(self) -> str:
        lines = [
            line
            for threshold in self.thresholds
            for line in _extremes(self.of("selection_rate", threshold))
        ]
        return "\n".join([*lines, *_extremes(self.of("auc"))])


def _extremes(rates: tuple[Rate, ...]) -> list[str]:
    """The rate of all rows, and the group that is farthest below its reference.

    Only groups with `Estimate.precise` limits are named.
    """
    if not rates:
        return []
    everybody, *groups = rates
    at = "" if everybody.threshold is None else f" at {everybody.threshold:g}"
    line = f"{TITLES[everybody.measure]}{at}: {everybody.after.value:.3f} over all rows"
    against = "difference" if everybody.measure == "auc" else "ratio"
    known = [
        each
        for each in groups
        if each.after.precise
        and each.group != each.reference
        and not math.isnan(getattr(each.after, against))
    ]
    if known:
        least = min(known, key=lambda each: getattr(each.after, against))
        own = least.after
        line += f"; lowest against its reference: {own.value:.3f} ({own.low:.3f} to {own.high:.3f})"
        line += f" for {least.group}, {_compared(own, against).format(least.reference)}"
    return [line]


def _compared(own: Estimate, against: str) -> str:
    """The comparison with a reference in words, whose name is still to be filled in."""
    if against == "difference":
        limits = f"{own.difference_low:+.3f} to {own.difference_high:+.3f}"
        return f"{own.difference:+.3f} from that of {{}} ({limits})"
    if math.isnan(own.ratio_low):
        return f"{own.ratio:.2f} times that of {{}}"
    upper = "no upper limit" if math.isnan(own.ratio_high) else f"{own.ratio_high:.2f}"
    return f"{own.ratio:.2f} times that of {{}} ({own.ratio_low:.2f} to {upper})"
