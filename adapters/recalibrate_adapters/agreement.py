"""Decides once whether a model is scored by its graph or by its own framework.

A converted graph may be wrong, and only rows can tell. So the first rows that are scored, and
rows made from them (missing values, extremes, unknown text), go through both. If the graph says
the same, it scores all rows from then on: fit, predict and the served file then see the same
numbers. Otherwise the framework does, for good, and the base has no graph. Scores never come
from a mixture of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import from_margin
from recalibrate.scores import Link
from recalibrate.support.interruptions import reraise_interruption
from recalibrate.support.ort import GraphRunner

if TYPE_CHECKING:
    import onnx

Scores = NDArray[np.float64]
Feed = dict[str, NDArray[Any]]

# Covers graphs that compute in float32; a row on the wrong side of a split is far outside.
TOLERANCE = 1e-5

ENOUGH_ROWS = 1000
"""Rows of the user's that a graph is compared on."""

EXAMPLES = 200
"""Rows that are kept, to make others from when a graph is compared."""

_DIFFERS = "the converted graph differs from the model's own predictions"


@dataclass(frozen=True)
class Candidate:
    """A graph that may be the model, and how rows become its inputs.

    ``known`` are by column the only categories that it takes.
    """

    model: onnx.ModelProto
    feed: Callable[[Any], Feed]
    known: Mapping[str, Sequence[Any]] = field(default_factory=dict)


@dataclass(eq=False)
class Decision:
    """Scores rows by a graph or by the framework, as the first rows decide.

    Attributes
    ----------
    link
        Scale of all scores.
    native
        Scores by the framework.
    candidates
        Graphs to try, in order, from the rows; an item that is a text says why there is none.
    probes
        Rows to compare on; the framework may refuse all but the first of them.
    reference
        Means by the framework, which graphs are compared with; by default those of ``native``.
    """

    link: Link
    native: Callable[[Any], Scores]
    candidates: Callable[[Any], Iterable[Candidate | str]]
    probes: Callable[[Any], Sequence[Any]]
    reference: Callable[[Any], Scores] | None = None
    chosen: Candidate | None = None
    examples: Any = None
    why_no_graph: str = field(default="no rows were scored yet, and the graph is checked on rows")
    _runner: GraphRunner | None = None
    _decided: bool = False
    _compared: int = 0

    def scores(self, rows: Any) -> Scores:
        """One score per row."""
        if not self._decided:
            self._decide(rows)
        elif self._compared < ENOUGH_ROWS and self.by_graph:
            self._compare_more(rows)
        if self.chosen is None or self._runner is None:
            return self.native(rows)
        return self._runner.run(self.chosen.feed(rows))

    def settle(self, why_no_graph: str) -> None:
        """Decide for the framework, unless a decision was made."""
        if not self._decided:
            self.why_no_graph, self._decided = why_no_graph, True

    @property
    def by_framework(self) -> bool:
        """Whether it was decided that the framework scores."""
        return self._decided and self.chosen is None

    @property
    def by_graph(self) -> bool:
        """Whether the graph scores."""
        return self.chosen is not None

    @property
    def known(self) -> Mapping[str, Sequence[Any]]:
        """By column the only categories that the graph takes, if it scores."""
        return {} if self.chosen is None else self.chosen.known

    def _decide(self, rows: Any) -> None:
        groups = list(self._accepted(self.probes(rows)))
        typical = _usual_size(groups[0][1])
        self._compared = len(rows)
        self.examples = rows[:EXAMPLES]
        reasons = []
        for candidate in self.candidates(rows):
            why = candidate if isinstance(candidate, str) else self._try(candidate, groups, typical)
            reasons.append(why)
            if not why and not isinstance(candidate, str):
                self.chosen = candidate
                break
        # That a graph is wrong says more than that another form of it could not be made.
        reasons.sort(key=lambda why: not why.startswith(_DIFFERS))
        self.why_no_graph = "" if self.chosen else next(iter(reasons), "no converter was found")
        self._decided = True

    def compare(self, rows: Any) -> None:
        """Ask the framework too; where the graph has given scores, it must say the same."""
        expected = self._expected(rows)
        if self.chosen is None or self._runner is None:
            return
        why = disagreement(self._mean(self._runner.run(self.chosen.feed(rows))), expected)
        if why:
            raise ValueError(
                f"The base model was scored by its ONNX graph, which agreed with it on "
                f"{self._compared} rows; on some of these {why}. They hold something that the "
                "first rows did not: another kind of missing value (None, NaN), a new category, a "
                f"number far out. Score at least {ENOUGH_ROWS} rows at once with a new base, such "
                "rows among them, so that this is seen in time."
            )

    def _compare_more(self, rows: Any) -> None:
        """Go on comparing while few rows have decided."""
        more = rows[: ENOUGH_ROWS - self._compared]
        self.compare(more)
        self._compared += len(more)

    def _try(self, candidate: Candidate, groups: list[tuple[Any, Scores]], typical: float) -> str:
        """Why the graph is not the model; empty if it is."""
        try:
            runner = GraphRunner(candidate.model)
            for rows, expected in groups:
                found = runner.run(candidate.feed(rows))
                why = disagreement(self._mean(found), expected, typical)
                if why:
                    return why
        except Exception as error:  # onnxruntime has no common class for its errors
            reraise_interruption(error)
            return f"onnxruntime refuses the converted model: {first_line(error)}"
        self._runner = runner
        return ""

    def _accepted(self, groups: Sequence[Any]) -> Iterator[tuple[Any, Scores]]:
        """Groups of rows with the framework's means, without those that it refuses."""
        for number, rows in enumerate(groups):
            try:
                expected = self._expected(rows)
            except Exception as error:
                reraise_interruption(error)
                # Rows of our own making may be refused; any framework may raise anything.
                if number > 0:
                    continue
                if isinstance(error, ValueError | TypeError):
                    raise
                raise ValueError(
                    f"The base model fails on these rows: {first_line(error)}"
                ) from error
            yield rows, expected

    def _expected(self, rows: Any) -> Scores:
        return self.reference(rows) if self.reference else self._mean(self.native(rows))

    def _mean(self, scores: Scores) -> Scores:
        return from_margin(scores, self.link)


class DecidedBase:
    """What bases have in common that are scored by a `Decision`."""

    exact = False
    _decision: Decision

    @property
    def why_no_graph(self) -> str:
        """Why there is no graph; empty if there is one."""
        return self._decision.why_no_graph

    def graph(self) -> onnx.ModelProto | None:
        """The model as a graph, once rows have been scored; None: see `why_no_graph`."""
        chosen = self._decision.chosen
        return None if chosen is None else chosen.model

    @property
    def examples(self) -> Any:
        """Some of the first rows that were scored; None before that."""
        return self._decision.examples


def disagreement(found: Scores, expected: Scores, typical: float | None = None) -> str:
    """How a graph's results differ from the framework's; empty if they do not.

    Parameters
    ----------
    found, expected
        Means or probabilities.
    typical
        Their usual size; by default the mean of these.

    Examples
    --------
    >>> disagreement(np.array([0.5, 0.25]), np.array([0.5, 0.75]))
    "the converted graph differs from the model's own predictions in 1 of 2 rows, by up to 0.5"
    >>> disagreement(np.array([0.5]), np.array([0.5]))
    ''
    """
    # Near 0 the error of a sum is relative to its parts, not to what is left of them.
    usual = _usual_size(expected) if typical is None else typical
    with np.errstate(invalid="ignore"):  # infinite minus infinite
        error = np.abs(found - expected)
        near = error <= TOLERANCE * np.maximum(np.abs(expected), usual)
    wrong = ~near & (np.isfinite(found) | np.isfinite(expected))
    if not wrong.any():
        return ""
    largest = error.max(where=np.isfinite(error), initial=0.0)
    return f"{_DIFFERS} in {int(wrong.sum())} of {len(wrong)} rows, by up to {largest:.3g}"


def check_finite(scores: Scores, name: str) -> Scores:
    """The scores, if all of them are finite.

    Examples
    --------
    >>> check_finite(np.array([0.5]), "model")
    array([0.5])
    """
    finite = np.isfinite(scores).reshape(len(scores), -1).all(axis=1)
    if finite.all():
        return scores
    row = int(np.argmin(finite))
    raise ValueError(
        f"The base model ({name}) gives {scores[row]} for row {row} (from 0), but scores must be "
        "finite. Look at what it makes of that row: a missing or infinite value, or one far from "
        "those that it was trained on."
    )


def _usual_size(values: Scores) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.mean()) if len(finite) else 0.0


def first_line(error: Exception) -> str:
    """An error's class and the first line of its text, for messages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {next(iter(lines), '')}"[:300]
