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
from recalibrate.data.table import Column
from recalibrate.scores import Link
from recalibrate.support.onnxfile import GraphRunner
from recalibrate.support.threads import reraise_interruption
from recalibrate_adapters.forest import Forest
from recalibrate_adapters.frames import numeric_columns, text_columns

if TYPE_CHECKING:
    import onnx
    import pandas as pd


# --- Rows on which a converted model is compared with the original ------------------------------


_MADE_ROWS = 256
_COLUMNS = 64  # as many columns are tried one by one
_UNKNOWN_TEXT = "unknown to the model"


class Novelty:
    """Lets the original model see every new text and every first missing or infinite number.

    A graph takes whatever it is fed. The model may refuse: unknown categories, missing values; or
    tell things apart that are the same to a graph, such as None and NaN. So rows that hold
    something it has not seen are shown to it: it raises its own error, and its answers are
    compared.

    Parameters
    ----------
    compare
        Asks the model about rows; an error if the graph has another answer.
    """

    def __init__(self, compare: Callable[[Any], Any]) -> None:
        self._compare = compare
        self._seen: dict[str, set[object]] = {}

    def check(self, frame: pd.DataFrame) -> None:
        """Raise what the model raises, or that the graph disagrees."""
        found = {str(name): _oddities(frame[name]) for name in frame.columns}
        rows = sorted(
            {
                row
                for name, oddities in found.items()
                for value, row in oddities.items()
                if value not in self._seen.get(name, ())
            }
        )
        if rows:
            self._compare(frame.iloc[rows])
        for name, oddities in found.items():
            self._seen.setdefault(name, set()).update(oddities)


def rows_to_compare(frame: pd.DataFrame) -> list[pd.DataFrame]:
    """Groups of rows: the first rows, with all oddities; then some made from them.

    Made rows have numbers in and around the range seen, for the case that few rows were seen;
    then missing values, unknown texts, zeros and numbers far out, each in one column, so that a
    model that refuses them in one column is still compared in the others.
    """
    odd = {row for name in frame.columns for row in _oddities(frame[name]).values()}
    first = sorted({*range(min(ENOUGH_ROWS, len(frame))), *sorted(odd)[: 5 * ENOUGH_ROWS]})
    return [
        frame.iloc[first],
        _scattered(frame.iloc[first]),
        *_made(frame.iloc[first[:ENOUGH_ROWS]]),
    ]


def forest_rows(forest: Forest, seed: int = 0) -> pd.DataFrame:
    """Rows on and beside the thresholds of trees, with all kinds of values that they take."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    columns = {}
    for j, column in enumerate(forest.schema.columns):
        if column.kind == "categorical":
            columns[column.name] = _some_categories(column, rng)
        else:
            columns[column.name] = _some_numbers(forest, j, rng)
    return pd.DataFrame(columns)


def _oddities(column: pd.Series[Any]) -> dict[object, int]:
    """Texts, and kinds of numbers that are not finite, each with the first row that has it."""
    import pandas as pd

    found: dict[object, int] = {}
    for row in np.flatnonzero(column.isna().to_numpy())[::-1]:
        found[type(column.iloc[row])] = int(row)  # None, NaN and NA may be three things
        if column.dtype.kind != "O":
            break
    if column.dtype.kind == "f":
        infinite = np.isinf(column.to_numpy())
        return found | ({np.inf: int(infinite.argmax())} if infinite.any() else {})
    if column.dtype.kind in "biu":
        return found
    codes, values = pd.factorize(column)
    rows = np.full(len(values), len(codes))
    np.minimum.at(rows, codes[codes >= 0], np.flatnonzero(codes >= 0))
    return found | dict(zip(values, rows.tolist(), strict=True))


def _scattered(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of values that are independent of each other, numbers from a widened range."""
    rng = np.random.default_rng(0)
    rows = frame.iloc[rng.integers(0, len(frame), ENOUGH_ROWS)].reset_index(drop=True)
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind != "f":
            picked = rng.integers(0, len(frame), ENOUGH_ROWS)
            rows[name] = column.iloc[picked].reset_index(drop=True)
            continue
        known = column.to_numpy()[np.isfinite(column.to_numpy())]
        if len(known):
            low, high = known.min(), known.max()
            margin = max(0.5 * (high - low), 0.5 * max(abs(low), abs(high)))
            rows[name] = rng.uniform(low - margin, high + margin, ENOUGH_ROWS)
    return rows.astype({name: frame[name].dtype for name in frame.columns})


def _made(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    import pandas as pd

    numeric, texts = numeric_columns(frame)[:_COLUMNS], text_columns(frame)[:_COLUMNS]
    few = frame.iloc[:3]
    for name in numeric:
        yield few.assign(**{name: np.nan})
    for name in texts:
        yield few.assign(**{name: _UNKNOWN_TEXT})
        gaps = frame[name][frame[name].isna()]  # the kind of nothing that the user has
        nothing = gaps.iloc[0] if len(gaps) else np.nan
        yield few.assign(**{name: pd.Series([nothing] * len(few), few.index, dtype=object)})
    if numeric:
        yield frame.assign(**dict.fromkeys(numeric, 0.0))
    for name in numeric:
        size = 10.0 * np.nanmax(np.abs(np.append(frame[name].to_numpy(dtype=float), 1.0)))
        if np.isfinite(size):
            yield few.assign(**{name: size})
            yield few.assign(**{name: -size})


def _some_numbers(forest: Forest, j: int, rng: np.random.Generator) -> NDArray[np.float64]:
    thresholds = np.concatenate(
        [np.zeros(1)] + [e.threshold[(e.feature == j) & (e.subset < 0)] for e in forest.ensembles]
    )
    values = np.concatenate(
        [_with_neighbours(thresholds, np.float32)]
        + [_with_neighbours(thresholds, np.float64)] * forest.wide
    )
    values = values[np.isfinite(values)]
    column = rng.choice(values, _MADE_ROWS)
    if forest.values != "finite":
        column[rng.random(_MADE_ROWS) < 0.1] = np.nan
    return np.asarray(column)


def _with_neighbours(values: NDArray[np.float64], dtype: Any) -> NDArray[np.float64]:
    """Numbers in some precision, and those next to them."""
    with np.errstate(over="ignore"):
        at = values.astype(dtype)
        beside = [np.nextafter(at, dtype(side)) for side in (-np.inf, np.inf)]
    return np.concatenate([at, *beside]).astype(np.float64)


def _some_categories(column: Column, rng: np.random.Generator) -> NDArray[Any]:
    """Categories as the user has them, one that is unknown, and none at all."""
    kinds = {type(value) for value in column.categories}
    unknown = _UNKNOWN_TEXT if str in kinds else None if bool in kinds else -1.0
    known = np.empty(len(column.categories) + 2, dtype=object)
    known[:] = [*column.categories, unknown, None]
    picked = rng.choice(known, _MADE_ROWS)
    return picked if kinds & {str, bool} else picked.astype(np.float64)


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
