"""Records of what an audit found beyond the groups it was given; see ``records``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

MOST_NAMED = 3
"""Groups that a sentence names."""


@dataclass(frozen=True)
class Subgroup:
    """A subgroup on which the predictions are wrong.

    Attributes
    ----------
    rule : str
        In words, for readers: ``age <= 25 and sex == 'F' and score in [0.2, 0.4)``.
    expression : str
        Its conditions on columns, all of them, as `Groups` takes them; empty where there are
        none, or where the rule is one of the groups that were searched.
    score_low, score_high : float or None
        Predictions it is about, from (included) and to (excluded); None where it has no limit.
    rows : int
        Rows of the subgroup, over both halves.
    share : float
        Share of the total weight.
    tested_rows : int
        Rows in the half that tested it, which the numbers below come from.
    mean_prediction, mean_outcome, gap, gap_se : float
        On that half; gap is outcome minus prediction.
    corrected_gap, low, high : float
        The gap without what being chosen for its size adds to it, and limits of the true gap.
    p, p_holm : float
        Two-sided, by itself and adjusted for all candidates (weighted Holm).
    """

    rule: str
    expression: str
    score_low: float | None
    score_high: float | None
    rows: int
    share: float
    tested_rows: int
    mean_prediction: float
    mean_outcome: float
    gap: float
    gap_se: float
    corrected_gap: float
    low: float
    high: float
    p: float
    p_holm: float

    def __str__(self) -> str:
        p = "< 0.0001" if self.p_holm < 1e-4 else f"= {self.p_holm:.2g}"
        return (
            f"{self.rule}: predicted {self.mean_prediction:.3g}, observed "
            f"{self.mean_outcome:.3g} (gap {self.gap:+.2g}; "
            f"corrected for the search {self.corrected_gap:+.2g}, {self.low:+.2g} to "
            f"{self.high:+.2g}), n = {self.rows:,}, adjusted p {p}"
        )


@dataclass(frozen=True)
class Discoveries:
    """Where the predictions are wrong, found on half of the rows and tested on the others.

    Attributes
    ----------
    subgroups : tuple of Subgroup
        Most evidence first; each is still off when those before it are put right.
    candidates : int
        Rules that were tested.
    merged : int
        Rules that are off too, but say no more than the subgroups.
    searched_rows, tested_rows : int
        Rows of the two halves; they change places, so that each suggests rules to the other.
    alpha : float
        Chance that anything is reported although the predictions are right everywhere.
    note : str
        Why nothing could be searched, if so.
    """

    subgroups: tuple[Subgroup, ...]
    candidates: int
    merged: int
    searched_rows: int
    tested_rows: int
    alpha: float
    note: str = ""

    @property
    def table(self) -> pd.DataFrame:
        """One row per subgroup."""
        return _frame(self.subgroups, Subgroup)

    def __str__(self) -> str:
        if self.note:
            return self.note
        head = (
            f"Searched {self.searched_rows:,} and {self.tested_rows:,} rows, tested "
            f"{self.candidates} candidates on the respective others at level {self.alpha:g}"
        )
        if not self.subgroups:
            return f"{head}: no subgroup is off by more than noise"
        return "\n".join([f"{head}:", *(f"  {each}" for each in self.subgroups)])


@dataclass(frozen=True)
class LevelGain:
    """What a class of functions gains on one level set, on rows it was not fitted on.

    Attributes
    ----------
    low, high : float or None
        Predictions of the level set, from (included) and to (excluded).
    rows : int
    share : float
        Share of the total weight.
    gain, gain_se : float
        Mean fall of the squared error against the predictions.
    constant_gain, constant_gain_se : float
        What the level set's best constant alone gains: plain miscalibration.
    """

    low: float | None
    high: float | None
    rows: int
    share: float
    gain: float
    gain_se: float
    constant_gain: float
    constant_gain_se: float


@dataclass(frozen=True)
class ClassGain:
    """What a class of functions gains on the level sets of the predictions, held out.

    Attributes
    ----------
    role : str
        "H" or "richer".
    described : str
        The class.
    step : float
        Share of the fitted functions of every level set that the gain is for, chosen on other
        rows: near 0 where the class finds nothing but noise.
    gain, gain_se : float
        Mean fall of the squared error against the predictions, over all rows.
    covariance, covariance_se : float
        Mean of h(x) (y - f(x)), with the witness h: what multicalibration says is zero.
    beats : bool
        Whether that is more than noise: more than three standard errors.
    levels : tuple of LevelGain
    witness : ndarray of float64, shape (n,)
        h of every row, fitted on other rows and in the unit of the labels; NaN for rows of weight
        zero. Not part of the JSON.
    """

    role: str
    described: str
    step: float
    gain: float
    gain_se: float
    covariance: float
    covariance_se: float
    beats: bool
    levels: tuple[LevelGain, ...]
    witness: NDArray[np.float64] = field(repr=False, compare=False, metadata={"json": False})


@dataclass(frozen=True)
class Richness:
    """The weak-learning check: what H, or a richer class, still finds on the level sets.

    Attributes
    ----------
    mse : float
        Mean squared error of the predictions, which the gains compare with.
    constant_gain, constant_gain_se : float
        What a constant per level set gains, held out: plain miscalibration.
    H : ClassGain
    richer : ClassGain or None
    verdict : str
        In a sentence.
    """

    mse: float
    constant_gain: float
    constant_gain_se: float
    H: ClassGain
    richer: ClassGain | None
    verdict: str

    def beside(self, groups: Sequence[str]) -> Richness:
        """The same beside groups that are off by more than noise: the verdict mentions them."""
        if self.H.beats or not groups:
            return self
        named = ", ".join(groups[:MOST_NAMED])
        more = f" and {len(groups) - MOST_NAMED} more" if len(groups) > MOST_NAMED else ""
        said = (
            f"{self.verdict} But groups of the audit are off by more than noise ({named}{more}), "
            "which tells more than a search that has to find them: multicalibrate for them, too."
        )
        return replace(self, verdict=said)

    @property
    def classes(self) -> tuple[ClassGain, ...]:
        """H, and the richer class if there is one."""
        return (self.H,) if self.richer is None else (self.H, self.richer)

    @property
    def table(self) -> pd.DataFrame:
        """One row per class and level set."""
        import pandas as pd

        rows = [
            {"class": each.role, "described": each.described, **asdict(level)}
            for each in self.classes
            for level in each.levels
        ]
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        lines = [self.verdict, f"  squared error       {self.mse:.6g}"]
        lines.append(
            f"  constants gain      {_with_error(self.constant_gain, self.constant_gain_se)}"
        )
        for each in self.classes:
            what = f"{each.role} ({each.described})"
            lines.append(f"  {what} gains {_with_error(each.gain, each.gain_se)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class MovedRow:
    """A row whose prediction changed a lot; rows are numbered from 0."""

    row: int
    before: float
    after: float
    shift: float
    outcome: float | None


@dataclass(frozen=True)
class Flips:
    """Decisions of a group at a threshold (positive where the prediction is at least that).

    Attributes
    ----------
    group : str
    threshold : float
    rows : int
    positive_before, positive_after : float
        Share of the group's weight with a positive decision.
    up, down : int
        Rows that became positive, and that no longer are.
    up_share, down_share : float
        Their shares of the group's weight.
    """

    group: str
    threshold: float
    rows: int
    positive_before: float
    positive_after: float
    up: int
    down: int
    up_share: float
    down_share: float


@dataclass(frozen=True)
class Changes:
    """What is different between two sets of predictions for the same rows.

    Attributes
    ----------
    changed_share : float
        Share of the weight whose prediction differs at all.
    mean_shift, mean_absolute_shift, largest_shift : float
        Of after minus before; the last in size.
    rank_correlation : float
        Spearman's, weighted; NaN where one of the two is constant.
    auc_before, auc_after : float
        Weighted area under the ROC curve; NaN unless labels are 0/1 and both occur.
    rows : tuple of MovedRow
        The largest changes, largest first.
    flips : tuple of Flips
        By threshold and group.
    """

    changed_share: float
    mean_shift: float
    mean_absolute_shift: float
    largest_shift: float
    rank_correlation: float
    auc_before: float
    auc_after: float
    rows: tuple[MovedRow, ...]
    flips: tuple[Flips, ...]

    @property
    def table(self) -> pd.DataFrame:
        """Flipped decisions, one row per threshold and group."""
        return _frame(self.flips, Flips)

    @property
    def rows_table(self) -> pd.DataFrame:
        """The largest changes, one row each."""
        return _frame(self.rows, MovedRow)

    def __str__(self) -> str:
        lines = [
            f"{self.changed_share:.1%} of the predictions changed, by "
            f"{self.mean_absolute_shift:.3g} on average and {self.largest_shift:.3g} at most; "
            "rank correlation "
            f"{self.rank_correlation:.4f}"
        ]
        if self.auc_before == self.auc_before:
            lines.append(f"AUC {self.auc_before:.4f} -> {self.auc_after:.4f}")
        for each in self.flips:
            lines.append(
                f"at {each.threshold:g}, {each.group}: {each.up:,} of {each.rows:,} decisions "
                f"became positive, {each.down:,} negative"
            )
        return "\n".join(lines)


def _frame(records: Sequence[Any], kind: Any) -> pd.DataFrame:
    """Records as a frame; its columns are there also when no record is."""
    import pandas as pd

    names = list(kind.__dataclass_fields__)
    return pd.DataFrame([asdict(each) for each in records], columns=names)


def _with_error(value: float, error: float) -> str:
    return f"{value:.3g} (standard error {error:.2g})"
