"""Rows made to find differences: on every threshold, beside it, missing, infinite, unknown.

A base model may refuse some of that. What it takes is found out from its examples: rows that it
has scored before, with one value exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.learning import is_score
from recalibrate.core.levels import softmax, to_margin
from recalibrate.data.table import Column
from recalibrate.graph.inputs import BASE_SCORE, Input
from recalibrate.graph.thresholds import Found, around
from recalibrate.support.interruptions import reraise_interruption

if TYPE_CHECKING:
    from recalibrate.model import Recalibrated

MOST_PER_COLUMN = 2000
"""Thresholds of a column that get rows of their own."""
MIXED_ROWS = 2000
MOST_CELLS = 4_000_000
"""Numbers in all made rows: of a wide table fewer rows are made, at least `MIXED_ROWS`."""
MOST_TEXTS = 200
"""Categories that are looked for in the graph of a base model, for columns of its own."""
MOST_ASKED = 64
"""Columns whose values are shown to the base model one by one, if it refuses rows."""
REPEATS = 20
"""Rows for every kind of missing or infinite value of a column."""
EXTREMES = (0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 1e6, -1e6)
"""Sums of numbers much larger than these would overflow in bases that are no trees."""
UNKNOWN_TEXT = "a text that no category is called"


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the form that a model takes, and what is special about each.

    ``about`` names the column that a row was made for, or where the row comes from.
    """

    X: Any
    about: list[str]
    base: NDArray[np.float64] | None = None
    Z: Any = None

    def __len__(self) -> int:
        return len(self.about)

    def take(self, chosen: NDArray[np.intp] | slice) -> Rows:
        """Some of the rows."""
        picked = np.arange(len(self))[chosen]
        return Rows(
            _take(self.X, picked),
            [self.about[k] for k in picked],
            None if self.base is None else self.base[picked],
            _take(self.Z, picked),
        )


def _take(X: Any, rows: NDArray[np.intp]) -> Any:
    if X is None:
        return None
    if hasattr(X, "iloc"):
        return X.iloc[rows].reset_index(drop=True)
    return [X[k] for k in rows] if isinstance(X, list | tuple) else X[rows]


@dataclass(frozen=True)
class Kinds:
    """Which special values rows may have: not every base model takes all of them.

    Attributes
    ----------
    unknown
        Texts that are no category.
    far
        Numbers far from those of ordinary data: exponentials of them are infinite.
    missing, infinite
        NaN and None; infinite numbers.
    """

    unknown: bool = True
    far: bool = True
    missing: bool = True
    infinite: bool = True


ALL_KINDS = Kinds()


@dataclass(frozen=True, eq=False)
class RowMaker:
    """Makes rows from what is known about the columns.

    Attributes
    ----------
    model
        The model that will predict them.
    ports
        Inputs of the graph; columns that are not among them do not matter.
    thresholds
        Numbers that the base model and the learners compare columns with.
    examples
        By column values that the base model has taken before.
    texts
        Texts that the base model may know, for its own columns.
    most_rows
        Most rows to make.
    seed
        Draws the rest of every row.
    """

    model: Recalibrated
    ports: Sequence[Input]
    thresholds: Found
    examples: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    texts: Sequence[str] = ()
    most_rows: int = MOST_CELLS
    seed: int = 0

    @property
    def possible(self) -> bool:
        """Whether every input is a column, so that rows can be made at all."""
        tensors = [port for port in self.ports if not port.columns and port.name != BASE_SCORE]
        return not tensors and not self.model.own_table

    def make(self, kinds: Kinds = ALL_KINDS) -> Rows:
        """Rows with special values everywhere, every value of a column at least once."""
        return self._rows(
            {
                name: self._specials(name, column, port, kinds)
                for name, (column, port) in self._columns().items()
            }
        )

    def make_accepted(self, asked: Callable[[Rows], Any]) -> Rows | None:
        """Rows of values that the model takes; None if there are no examples to try them on.

        ``asked`` raises whatever the model raises for rows that it refuses.
        """
        columns = self._columns()
        background = {name: self.examples.get(name) for name in columns}
        if any(values is None for name, values in background.items() if self._is_base(name)):
            return None
        specials: dict[str, NDArray[Any]] = {}
        left = MOST_ASKED
        for name, (column, port) in columns.items():
            found = self._specials(name, column, port, ALL_KINDS)
            if not self._is_base(name):
                specials[name] = found
                continue
            known = _distinct(self.examples[name])
            fresh = _distinct(found) if left > 0 else known[:0]
            left -= 1
            specials[name] = np.concatenate([known, self._taken(asked, name, fresh)])
        return self._rows(specials)

    def _taken(self, asked: Callable[[Rows], Any], name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Of some values of a column those that the model takes, in an example's row."""
        if not len(values):
            return values
        rows = {
            other: np.resize(self.examples.get(other, np.zeros(1)), len(values))
            for other in self._columns()
        }
        rows[name] = values
        try:
            asked(
                Rows(
                    self._table(rows, len(values)),
                    [name] * len(values),
                    self._no_scores(len(values)),
                )
            )
        except Exception as error:  # any framework may raise anything
            reraise_interruption(error)
            if len(values) == 1:
                return values[:0]
            half = len(values) // 2
            halves = [self._taken(asked, name, part) for part in (values[:half], values[half:])]
            return np.concatenate(halves)
        return values

    def _no_scores(self, n_rows: int) -> NDArray[np.float64] | None:
        return self._base_scores(np.random.default_rng(self.seed), n_rows)

    def _is_base(self, name: str) -> bool:
        return any(name in port.columns and "base" in port.used_by for port in self.ports)

    def _rows(self, specials: dict[str, NDArray[Any]]) -> Rows:
        rng = np.random.default_rng(self.seed)
        most = max(MIXED_ROWS, MOST_CELLS // max(len(specials), 1))
        n_rows = min(sum(map(len, specials.values())) + MIXED_ROWS, most, self.most_rows)
        about = ["several columns"] * n_rows
        values: dict[str, NDArray[Any]] = {}
        at = 0
        for name, own in specials.items():
            # All of them, again and again, each time in another order.
            turns = -(-n_rows // len(own))
            values[name] = rng.permuted(np.tile(own, (turns, 1)), axis=1).reshape(-1)[:n_rows]
            if at + len(own) <= n_rows:
                values[name][at : at + len(own)] = own
                about[at : at + len(own)] = [name] * len(own)
                at += len(own)
        return Rows(self._table(values, n_rows), about, self._base_scores(rng, n_rows))

    def _columns(self) -> dict[str, tuple[Column | None, Input]]:
        """Columns of the graph by name, with what H knows of them."""
        schema = self.model.schema
        known = set(schema.names)
        return {
            name: (schema.columns[schema.index(name)] if name in known else None, port)
            for port in self.ports
            for name in port.columns
        }

    def _specials(
        self, name: str, column: Column | None, port: Input, kinds: Kinds
    ) -> NDArray[Any]:
        known = port.known.get(name)
        if known is not None:
            return np.array(known, dtype=object if port.kind == "string" else np.float64)
        categories = column.categories if column is not None else ()
        seen = _distinct(self.examples.get(name, np.zeros(0)))
        if port.kind == "string":
            texts = [*categories[:MOST_PER_COLUMN]] or [*seen] or [*self.texts]
            unknown = [UNKNOWN_TEXT] if kinds.unknown or not texts else []
            nothing = [None] * (REPEATS * kinds.missing)
            return np.array([*texts, *unknown, *nothing], dtype=object)
        if any(isinstance(value, bool) for value in categories):
            return np.array([True, False, None] if kinds.missing else [True, False], dtype=object)
        thresholds = self.thresholds.get(name, set())
        if port.kind == "int64":
            whole = {int(v) for v in thresholds | {0.0} if abs(v) < 2**53}
            beside = {k + d for k in whole for d in (-1, 0, 1)}
            return np.array(sorted(beside | {int(v) for v in categories[:MOST_PER_COLUMN]}))
        own = np.array([float(v) for v in categories[:MOST_PER_COLUMN]], dtype=np.float64)
        near = around(thresholds, MOST_PER_COLUMN, np.float32)
        if port.kind == "float64":
            near = np.append(near, around(thresholds, MOST_PER_COLUMN, np.float64))
        near = np.append(near, np.array(EXTREMES if kinds.far else EXTREMES[:-2], np.float32))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is left out
            near = np.append(near, _outward(seen).astype(port.kind))
            known_already = np.isin(near.astype(np.float32), own.astype(np.float32))
        near = near[np.isfinite(near) & ~known_already]
        more = [np.nan] * kinds.missing + [np.inf, -np.inf] * kinds.infinite
        return np.concatenate([own, near, more * REPEATS])

    def _table(self, values: dict[str, NDArray[Any]], n_rows: int) -> Any:
        """A table of columns, of which there may be none."""
        import pandas as pd

        schema = self.model.schema
        if schema.named:
            return pd.DataFrame(values, index=range(n_rows))
        names = [name for name in schema.names if not is_score(name)]
        columns = [values.get(name, np.zeros(n_rows)) for name in names]
        plain = all(column.dtype != object for column in columns)
        return np.stack([c if plain else c.astype(object) for c in columns], axis=1)

    def _class_scores(self, rng: np.random.Generator, n_rows: int) -> NDArray[np.float64]:
        """Scores of classes, from even ones to certain ones."""
        spread = rng.choice([0.1, 1.0, 4.0, 40.0], (n_rows, 1))
        logits = spread * rng.normal(size=(n_rows, self.model.rounds.outputs))
        return logits if self.model.base.link == "logit" else softmax(logits)

    def _base_scores(self, rng: np.random.Generator, n_rows: int) -> NDArray[np.float64] | None:
        """Scores at the thresholds of the level sets and beside them, for score-only models."""
        if not any(port.name == BASE_SCORE and not port.columns for port in self.ports):
            return None
        model = self.model
        if model.rounds.outputs > 1:
            return self._class_scores(rng, n_rows)
        levels = [s.partition for s in model.rounds.steps if s.partition is not None]
        levels += [model.rounds.start] if model.rounds.start is not None else []
        at = np.unique(np.concatenate([np.zeros(1), *(lv.thresholds for lv in levels)]))
        own, labels = model.rounds.family, model.labels
        if model.base.link != own.link or labels.kind == "regression":
            at = own.from_margin(at)
        if labels.kind == "regression":
            at = labels.unscale(at)
        if model.base.link == "log":
            at = to_margin(at, "log")
        near = np.concatenate([at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf)])
        low, high = float(near.min()) - 0.1, float(near.max()) + 0.1
        if model.base.link == "identity" and model.labels.kind != "regression":
            near, low, high = near[(near >= 0) & (near <= 1)], 0.0, 1.0
            near = np.append(near, [0.0, 1.0])
        drawn = rng.uniform(low, high, n_rows)
        some = rng.random(n_rows) < 0.5
        drawn[some] = near[rng.integers(0, len(near), int(some.sum()))]
        return drawn


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Different values, None and NaN once each, a few of them where there are many."""
    import pandas as pd

    found: NDArray[Any] = np.asarray(pd.factorize(values, use_na_sentinel=False)[1])
    chosen = np.linspace(0, len(found) - 1, min(len(found), MOST_TEXTS)).astype(int)
    if values.dtype == object:
        return np.asarray(found[chosen])
    return np.asarray(np.sort(found)[chosen], dtype=np.float64)


def _outward(seen: NDArray[Any]) -> NDArray[np.float64]:
    """The ends of what was seen, and numbers further and further beyond them."""
    numbers = seen[np.isfinite(seen)] if seen.dtype.kind == "f" else np.zeros(0)
    if not len(numbers):
        return numbers
    low, high = float(numbers.min()), float(numbers.max())
    steps = np.array([0.0, 0.1, 1.0, 10.0]) * ((high - low) or max(abs(low), 1.0))
    return np.concatenate([low - steps, high + steps])
