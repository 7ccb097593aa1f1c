"""How a prediction came about: level set, rule and shift of every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.learning import Reasons, reasons_of
from recalibrate.core.levels import Levels
from recalibrate.core.rounds import Block, Scores
from recalibrate.support.notices import counted

if TYPE_CHECKING:
    import pandas as pd

    from recalibrate.data.labels import Labels
    from recalibrate.model import Recalibrated

MOST_CELLS = 20_000_000
"""Rows times steps that are kept."""
MOST_SHOWN_ROWS, MOST_SHOWN_STEPS, MOST_SHOWN_FEATURES = 5, 12, 5
LEVEL_SET = "(level set)"
"""Stands for what a step adds to all rows of a level set."""
ROUNDING, LIMITS = "(rounding)", "(bounds)"
"""Stand for what rounding base scores to the grid, and keeping predictions in bounds, adds."""
MOST_TERMS = 3
"""Terms of a sum that are spelled out."""
NEGLIGIBLE = 1e-9
"""Terms of less than this share of the largest are what rounding leaves of none."""


@dataclass(frozen=True, eq=False)
class _StepOnRows:
    """One step on the explained rows.

    Attributes
    ----------
    stage
        Number and kind of the stage that the step belongs to.
    partition, level
        The level sets, and those of the rows.
    shift
        What the step changes the explained prediction by, in the unit of the explanation.
    factor
        What one unit of the step's own table is worth in that unit, by row: 1 on the scale of
        the link. A step of another class lowers the explained class's log-odds where it raises
        its own, by less than that.
    after
        Predictions after the step.
    reasons
        Why.
    label
        Of several classes: the one whose score the step changes.
    """

    stage: str
    partition: Levels
    level: NDArray[np.int32]
    shift: Scores
    factor: Scores
    after: Scores
    reasons: Reasons[Any, Any]
    label: Any = None

    def words(self, row: int) -> str:
        """The rule that moved a row."""
        rule = self.reasons.words(row)
        if not rule:
            return "the whole level set" if self.shift[row] else "left alone"
        return self._terms(row) if self.reasons.additive else rule

    def _terms(self, row: int) -> str:
        """What the terms of a sum add to the shift."""
        added = {name: float(part[row]) for name, part in self.parts.items()}
        least = NEGLIGIBLE * max(map(abs, added.values()))
        terms = sorted(added.items(), key=lambda term: -abs(term[1]))
        terms = [(name, value) for name, value in terms if abs(value) > least]
        said = [f"{value:+.3g} by {name}" for name, value in terms[:MOST_TERMS]]
        others = [value for _, value in terms[MOST_TERMS:]]
        if others:
            said.append(f"{sum(others):+.3g} by {counted(len(others), 'other')}")
        return ", ".join(said) or "left alone"

    @cached_property
    def parts(self) -> dict[str, Scores]:
        """What every feature added; the level set has the rest, so that all add up."""
        parts = {name: self.factor * part for name, part in self.reasons.parts().items()}
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
    limiting
        What keeping predictions within their bounds adds in the end; zero where none leaves them.
    link
        The scale that shifts add up on: "logit" for log-odds (of several classes those of the
        explained one against the rest), "log" for logarithms of means (there they are factors of
        predictions), "identity" for the predictions themselves.
    unit
        The same in words: what shifts are measured in.
    steps
        All steps, in order.
    finish
        From the link's scale to predictions.
    label
        Of several classes: the one whose probability is explained.
    """

    base: Scores
    begun: Scores
    final: Scores
    rounding: Scores
    limiting: Scores
    link: str
    unit: str
    steps: tuple[_StepOnRows, ...]
    finish: Callable[[Scores], Scores]
    label: Any = None

    @property
    def shift(self) -> Scores:
        """Sum of all shifts, per row: final minus base in this unit."""
        return np.asarray(sum((step.shift for step in self.steps), self.rounding + self.limiting))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One line per row and step, the base first.

        Columns: row (from 0), step (0 is the base), stage, level and its scores from
        ``level_low`` (included) to ``level_high``, rule, shift (in :attr:`unit`), score
        (the prediction after the step). A prediction that would leave its bounds has a last line
        that says so. Of several classes, ``class`` is the one whose score a step changes, and the
        level is that of its probability.
        """
        import pandas as pd

        lines: list[tuple[Any, ...]] = []
        bounds = [self._bounds(step.partition) for step in self.steps]
        nowhere = (-1, np.nan, np.nan)
        for row in range(len(self.base)):
            rounding, limiting = self.rounding[row], self.limiting[row]
            rule = "base score, rounded to the grid" if rounding else "base score"
            lines.append((row, 0, "base", None, *nowhere, rule, rounding, self.begun[row]))
            for k, step in enumerate(self.steps):
                level = int(step.level[row])
                low, high = bounds[k][level], bounds[k][level + 1]
                moved = (step.words(row), step.shift[row], step.after[row])
                lines.append((row, k + 1, step.stage, step.label, level, low, high, *moved))
            if limiting:
                end = (len(self.steps) + 1, "bounds", None, *nowhere, "kept within the bounds")
                lines.append((row, *end, limiting, self.final[row]))
        names = ["row", "step", "stage", "class", "level", "level_low", "level_high"]
        frame = pd.DataFrame(lines, columns=[*names, "rule", "shift", "score"])
        return frame if self.label is not None else frame.drop(columns="class")

    @cached_property
    def by_stage(self) -> pd.DataFrame:
        """One line per row and stage: number of steps, their summed shift, score after them.

        Rounding base scores to the grid, and keeping predictions within bounds, are stages without
        steps where they change anything.
        """
        import pandas as pd

        lines = []
        if self.rounding.any():
            lines += self._by_row("rounding", 0, self.rounding, self.begun)
        for stage, group in groupby(self.steps, key=lambda step: step.stage):
            steps = list(group)
            total = np.sum([step.shift for step in steps], axis=0)
            lines += self._by_row(stage, len(steps), total, steps[-1].after)
        if self.limiting.any():
            lines += self._by_row("bounds", 0, self.limiting, self.final)
        frame = pd.DataFrame(lines, columns=["row", "stage", "steps", "shift", "score"])
        return frame.sort_values("row", kind="stable", ignore_index=True)

    @cached_property
    def by_feature(self) -> pd.DataFrame:
        """One line per row and feature: what it added over all steps, largest first.

        "(level set)" is what steps add to all rows of a level set, whatever their features;
        "(rounding)" and "(bounds)" are what the grid and the bounds add, where they do.
        """
        import pandas as pd

        total: dict[str, Scores] = {}
        for step in self.steps:
            for name, part in step.parts.items():
                total[name] = total.get(name, 0.0) + part
        others = {ROUNDING: self.rounding, LIMITS: self.limiting}
        total |= {name: part for name, part in others.items() if part.any()}
        lines = [
            (row, name, part[row], abs(part[row]))
            for name, part in total.items()
            for row in range(len(self.base))
        ]
        frame = pd.DataFrame(lines, columns=["row", "feature", "shift", "size"])
        frame = frame.sort_values(["row", "size"], ascending=[True, False], kind="stable")
        return frame.drop(columns="size").reset_index(drop=True)

    @staticmethod
    def _by_row(stage: str, steps: int, shift: Scores, after: Scores) -> list[tuple[Any, ...]]:
        return [(row, stage, steps, shift[row], after[row]) for row in range(len(shift))]

    def _bounds(self, partition: Levels) -> Scores:
        """Predictions at which the level sets begin and end; the outer ends are infinite."""
        return np.concatenate([[-np.inf], self.finish(partition.thresholds), [np.inf]])

    def __str__(self) -> str:
        if not len(self.base):
            return "no rows"
        shown = range(min(len(self.base), MOST_SHOWN_ROWS))
        blocks = ["\n".join(self._lines(row)) for row in shown]
        more = len(self.base) - len(shown)
        return "\n\n".join(blocks) + (f"\n\n... and {more} more rows" if more else "")

    __repr__ = __str__

    def _factor(self, row: int) -> str:
        """Of shifts on the log scale: what they multiply the prediction by."""
        return f", a factor of {np.exp(self.shift[row]):.3g}" if self.link == "log" else ""

    def _lines(self, row: int) -> list[str]:
        explained = "" if self.label is None else f"class {self.label!r}, "
        head = (
            f"Row {row}: {explained}base score {self.base[row]:.4g}, final score "
            f"{self.final[row]:.4g} ({self.shift[row]:+.3g} {self.unit}{self._factor(row)})"
        )
        if not self.steps:
            return [head, "  nothing was corrected"]
        if len(self.steps) <= MOST_SHOWN_STEPS:
            lines = [head, *(self._step_line(k, row) for k in range(len(self.steps)))]
            if self.rounding[row]:
                start = f"  base score, rounded to the grid: {self.rounding[row]:+.3g}"
                lines.insert(1, f"{start} -> {self.begun[row]:.4g}")
            if self.limiting[row]:
                end = f"  kept within the bounds: {self.limiting[row]:+.3g}"
                lines.append(f"{end} -> {self.final[row]:.4g}")
            return lines
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
        whose = "" if step.label in (None, self.label) else f"class {step.label!r}, "
        return (
            f"  {k + 1:>2} ({step.stage}) {whose}{inside}{step.words(row)}: {step.shift[row]:+.3g} "
            f"-> {step.after[row]:.4g}"
        )


def explain(
    model: Recalibrated, margin: Scores, blocks: Sequence[Block], output: int = 0
) -> Explanation:
    """Follow rows through all steps of a model.

    Parameters
    ----------
    model
        The model.
    margin
        Base scores of the rows, on the link's scale.
    blocks
        The rows as every encoder sees them.
    output
        Of several classes: the number of the one that is explained.
    """
    rounds, labels = model.rounds, model.labels
    several = rounds.outputs > 1

    def predict(scores: Scores) -> Scores:
        """Before they are kept within the bounds, which happens once, in the end."""
        means = model._unlimited(scores)
        return means[:, output] if several else means

    if len(margin) * len(rounds.steps) > MOST_CELLS:
        raise ValueError(
            f"{len(margin)} rows through {len(rounds.steps)} steps are too many to explain at "
            f"once; pass at most {MOST_CELLS // len(rounds.steps)} rows"
        )
    link = rounds.family.link
    # On the identity link scores are labels scaled to [0, 1]; the user's labels have another unit.
    unit = labels.span if link == "identity" else 1.0
    state, steps = rounds.begin(margin), []
    begun = state.f
    number, encoder, kind = 0, -1, ""
    for step in rounds.steps:
        scores, before = state.f, state.column(step.output)
        drawn = state if step.partition is None else state.draw(step.partition, step.output)
        level = drawn.drawn_level
        state = state.advance(step, blocks[step.encoder])
        reasons = reasons_of(
            step.table, rounds.encoders[step.encoder], model.schema, blocks[step.encoder], level
        )
        if (step.encoder, reasons.kind) != (encoder, kind):
            number, encoder, kind = number + 1, step.encoder, reasons.kind
        change = state.column(step.output) - before
        if step.output == output:
            factor = np.full(len(change), unit)
        else:
            factor = _taken_from(scores, output, step.output, change)
        steps.append(
            _StepOnRows(
                stage=f"{number} {kind}",
                partition=drawn.partition or Levels.single(),
                level=level,
                shift=factor * change,
                factor=factor,
                after=predict(state.f),
                reasons=reasons,
                label=labels.classes[step.output] if several else None,
            )
        )
    rounding = (begun - margin) * unit
    limiting, final = np.zeros(len(margin)), predict(state.f)
    unchanged = not rounds.steps and rounds.start is None  # the base's own predictions, any of them
    if not several and not unchanged:
        limiting, final = _moved_by_bounds(model, state.f), model._finish(state.f)
    return Explanation(
        base=predict(margin),
        begun=predict(begun),
        final=final,
        rounding=rounding[:, output] if several else rounding,
        limiting=limiting,
        link=link,
        unit=_unit(link, labels),
        steps=tuple(steps),
        finish=model._finish,
        label=labels.classes[output] if several else None,
    )


def explain_no_rows(model: Recalibrated, output: int = 0) -> Explanation:
    """What there is to say of no rows; parameters as in :func:`explain`."""
    link, labels, nothing = model.rounds.family.link, model.labels, np.empty(0)
    return Explanation(
        base=nothing,
        begun=nothing,
        final=nothing,
        rounding=nothing,
        limiting=nothing,
        link=link,
        unit=_unit(link, labels),
        steps=(),
        finish=model._finish,
        label=labels.classes[output] if model.rounds.outputs > 1 else None,
    )


def _taken_from(scores: Scores, explained: int, moved: int, change: Scores) -> Scores:
    r"""What a class's log-odds change by, per unit that the score of another class changes by.

    With :math:`s_k` the score of class k and :math:`w_j = e^{s_j} / \sum_{i \ne k} e^{s_i}` the
    share of class j among the others, the log-odds of k change by
    :math:`-\log(1 + w_j (e^d - 1))` if :math:`s_j` changes by d.
    """
    others = np.delete(scores, explained, axis=1)
    share = np.exp(scores[:, moved] - np.logaddexp.reduce(others, axis=1))
    effect = -np.log1p(share * np.expm1(change))
    return np.asarray(np.divide(effect, change, out=-share, where=change != 0))


def _moved_by_bounds(model: Recalibrated, f: Scores) -> Scores:
    """How far predictions are moved to stay within their bounds, on the scale of shifts."""
    limited, free = model._finish(f), model._unlimited(f)
    if model.link == "log":
        return np.where(limited == free, 0.0, np.log(limited) - np.log(free))
    # Means of log-odds never leave the bounds.
    return limited - free if model.link == "identity" else np.zeros(len(f))


def _unit(link: str, labels: Labels) -> str:
    """What shifts are measured in."""
    if link == "logit" and labels.kind == "regression":
        return f"log-odds of y scaled to [{labels.low:g}, {labels.high:g}]"
    known = {"logit": "log-odds", "log": "on the log scale"}
    return known.get(link, "in the unit of y")
