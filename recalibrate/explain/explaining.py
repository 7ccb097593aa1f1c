"""How a prediction came about: level set, rule and shift of every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.learning import EVERYONE
from recalibrate.core.levels import Levels
from recalibrate.core.rounds import Block, Rounds, Scores
from recalibrate.data.table import Schema
from recalibrate.explain.reasons import Reasons, reasons_of

if TYPE_CHECKING:
    import pandas as pd

MOST_CELLS = 20_000_000
"""Rows times steps that are kept."""
MOST_SHOWN_ROWS, MOST_SHOWN_STEPS, MOST_SHOWN_FEATURES = 5, 12, 5
LEVEL_SET = "(level set)"
"""Stands for what a step adds to all rows of a level set."""
SAID = {EVERYONE: "everyone"}


@dataclass(frozen=True, eq=False)
class StepOnRows:
    """One step on the explained rows.

    Attributes
    ----------
    stage
        Number and kind of the stage that the step belongs to.
    partition, level
        The level sets, and those of the rows.
    shift
        What was added to the rows' scores, on the link's scale.
    after
        Predictions after the step.
    reasons
        Why.
    """

    stage: str
    partition: Levels
    level: NDArray[np.int32]
    shift: Scores
    after: Scores
    reasons: Reasons[Any, Any]

    def words(self, row: int) -> str:
        """The rule that moved a row."""
        rule = self.reasons.words(row)
        if not rule:
            return "the whole level set" if self.shift[row] else "left alone"
        return SAID.get(rule, rule)

    def parts(self) -> dict[str, Scores]:
        """What every feature added; the level set has the rest, so that all add up."""
        parts = {SAID.get(name, name): own for name, own in self.reasons.parts().items()}
        parts[LEVEL_SET] = self.shift - sum(parts.values(), np.zeros(len(self.shift)))
        return parts


@dataclass(frozen=True, eq=False)
class Explanation:
    """How predictions came about; made by ``model.explain``.

    Attributes
    ----------
    base, begun, final
        Predictions of the base model, the same rounded to the grid (where scores are), and of
        this model.
    rounding
        What rounding to the grid first adds to the base scores; zero where nothing is rounded.
    link
        The scale that shifts add up on: "logit" for log-odds, "log" for logarithms of means (there
        they are factors of predictions), "identity" for means of labels scaled to [0, 1].
    steps
        All steps, in order.
    finish
        From the link's scale to predictions.
    """

    base: Scores
    begun: Scores
    final: Scores
    rounding: Scores
    link: str
    steps: tuple[StepOnRows, ...]
    finish: Callable[[Scores], Scores]

    @property
    def unit(self) -> str:
        """What shifts are measured in."""
        known = {"logit": "log-odds", "log": "on the log scale"}
        return known.get(self.link, "on labels scaled to [0, 1]")

    @property
    def shift(self) -> Scores:
        """Sum of all shifts, per row: final minus base on the link's scale."""
        return np.asarray(sum((step.shift for step in self.steps), self.rounding))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One line per row and step, the base first.

        Columns: row (from 0), step (0 is the base), stage, level and its scores from
        ``level_low`` (included) to ``level_high``, rule, shift (on the link's scale), score
        (the prediction after the step).
        """
        import pandas as pd

        lines = []
        bounds = [self._bounds(step.partition) for step in self.steps]
        for row in range(len(self.base)):
            rounding = self.rounding[row]
            rule = "base score, rounded to the grid" if rounding else "base score"
            score = self.begun[row]
            lines.append((row, 0, "base", -1, np.nan, np.nan, rule, rounding, score))
            for k, step in enumerate(self.steps):
                level = int(step.level[row])
                low, high = bounds[k][level], bounds[k][level + 1]
                moved = (step.words(row), step.shift[row], step.after[row])
                lines.append((row, k + 1, step.stage, level, low, high, *moved))
        names = ["row", "step", "stage", "level", "level_low", "level_high"]
        return pd.DataFrame(lines, columns=[*names, "rule", "shift", "score"])

    @cached_property
    def by_stage(self) -> pd.DataFrame:
        """One line per row and stage: number of steps, their summed shift, score after them."""
        import pandas as pd

        lines = []
        for stage, group in groupby(self.steps, key=lambda step: step.stage):
            steps = list(group)
            total = np.sum([step.shift for step in steps], axis=0)
            lines += [
                (row, stage, len(steps), total[row], steps[-1].after[row])
                for row in range(len(self.base))
            ]
        frame = pd.DataFrame(lines, columns=["row", "stage", "steps", "shift", "score"])
        return frame.sort_values("row", kind="stable", ignore_index=True)

    @cached_property
    def by_feature(self) -> pd.DataFrame:
        """One line per row and feature: what it added over all steps, largest first.

        "(level set)" is what steps add to all rows of a level set, whatever their features.
        """
        import pandas as pd

        total: dict[str, Scores] = {}
        for step in self.steps:
            for name, own in step.parts().items():
                total[name] = total.get(name, 0.0) + own
        lines = [
            (row, name, own[row], abs(own[row]))
            for name, own in total.items()
            for row in range(len(self.base))
        ]
        frame = pd.DataFrame(lines, columns=["row", "feature", "shift", "size"])
        frame = frame.sort_values(["row", "size"], ascending=[True, False], kind="stable")
        return frame.drop(columns="size").reset_index(drop=True)

    def _bounds(self, partition: Levels) -> Scores:
        """Predictions at which the level sets begin and end; the outer ends are infinite."""
        return np.concatenate([[-np.inf], self.finish(partition.thresholds), [np.inf]])

    def __str__(self) -> str:
        shown = range(min(len(self.base), MOST_SHOWN_ROWS))
        blocks = ["\n".join(self._lines(row)) for row in shown]
        more = len(self.base) - len(shown)
        return "\n\n".join(blocks) + (f"\n\n... and {more} more rows" if more else "")

    __repr__ = __str__

    def _factor(self, row: int) -> str:
        """Of shifts on the log scale: what they multiply the prediction by."""
        return f", a factor of {np.exp(self.shift[row]):.3g}" if self.link == "log" else ""

    def _lines(self, row: int) -> list[str]:
        head = (
            f"Row {row}: base score {self.base[row]:.4g}, final score {self.final[row]:.4g} "
            f"({self.shift[row]:+.3g} {self.unit}{self._factor(row)})"
        )
        if not self.steps:
            return [head, "  nothing was corrected"]
        if len(self.steps) <= MOST_SHOWN_STEPS:
            return [head, *(self._step_line(k, row) for k in range(len(self.steps)))]
        lines = [head, "  by stage"]
        stages = self.by_stage[self.by_stage["row"] == row]
        for stage, steps, shift, score in stages[["stage", "steps", "shift", "score"]].to_numpy():
            count = f"{steps} step{'' if steps == 1 else 's'}"
            lines.append(f"    {stage:<14} {count:>10}  {shift:+.3g} -> {score:.4g}")
        lines.append("  by feature")
        features = self.by_feature[self.by_feature["row"] == row][["feature", "shift"]]
        for feature, shift in features.head(MOST_SHOWN_FEATURES).to_numpy():
            lines.append(f"    {shift:+.3g} {feature}")
        rest = features["shift"].iloc[MOST_SHOWN_FEATURES:]
        if len(rest):
            lines.append(f"    {rest.sum():+.3g} by {len(rest)} others")
        return lines

    def _step_line(self, k: int, row: int) -> str:
        step = self.steps[k]
        level = int(step.level[row])
        low, high = self._bounds(step.partition)[level : level + 2]
        inside = f"score in [{low:.3g}, {high:.3g}), "
        if np.isinf(low) or np.isinf(high):
            inside = f"score < {high:.3g}, " if np.isinf(low) else f"score >= {low:.3g}, "
        if step.partition.count == 1:
            inside = ""
        return (
            f"  {k + 1:>2} ({step.stage}) {inside}{step.words(row)}: {step.shift[row]:+.3g} "
            f"-> {step.after[row]:.4g}"
        )


def explain(
    rounds: Rounds,
    schema: Schema,
    margin: Scores,
    blocks: Sequence[Block],
    finish: Callable[[Scores], Scores],
    output: int = 0,
) -> Explanation:
    """Follow rows through all steps of a model, or those of one of its classes.

    Parameters
    ----------
    rounds
        The model.
    schema
        Columns that its rules speak of.
    margin
        Base scores of the rows, on the link's scale.
    blocks
        The rows as every encoder sees them.
    finish
        From the link's scale to predictions.
    output
        Of several classes: the one that is explained.
    """
    several = rounds.outputs > 1

    def predict(scores: Scores) -> Scores:
        return finish(scores)[:, output] if several else finish(scores)

    if len(margin) * len(rounds.steps) > MOST_CELLS:
        raise ValueError(
            f"{len(margin)} rows through {len(rounds.steps)} steps are too many to explain at "
            f"once; pass at most {MOST_CELLS // len(rounds.steps)} rows"
        )
    state, steps = rounds.begin(margin), []
    begun = state.f
    number, encoder, kind = 0, -1, ""
    for step in rounds.steps:
        if step.output != output:
            state = state.advance(step, blocks[step.encoder])
            continue
        before = state.column(output)
        drawn = state if step.partition is None else state.draw(step.partition, output)
        level = drawn.drawn_level
        state = state.advance(step, blocks[step.encoder])
        reasons = reasons_of(
            step.table, rounds.encoders[step.encoder], schema, blocks[step.encoder], level
        )
        if (step.encoder, reasons.kind) != (encoder, kind):
            number, encoder, kind = number + 1, step.encoder, reasons.kind
        partition = drawn.partition or Levels.single()
        shift = state.column(output) - before
        steps.append(
            StepOnRows(f"{number} {kind}", partition, level, shift, predict(state.f), reasons)
        )
    moved = begun - margin
    return Explanation(
        predict(margin),
        predict(begun),
        predict(state.f),
        moved[:, output] if several else moved,
        rounds.family.link,
        tuple(steps),
        finish,
    )
