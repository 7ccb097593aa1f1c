"""Rows made to find differences: on every threshold, beside it, missing, infinite, unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.learning import is_score
from recalibrate.core.levels import from_margin
from recalibrate.data.table import Column
from recalibrate.graph.inputs import BASE_SCORE, Input
from recalibrate.graph.thresholds import Found, around

if TYPE_CHECKING:
    from recalibrate.model import Recalibrated

MOST_PER_COLUMN = 2000
"""Thresholds of a column that get rows of their own."""
MIXED_ROWS = 2000
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
    seed
        Draws the rest of every row.
    """

    model: Recalibrated
    ports: Sequence[Input]
    thresholds: Found
    seed: int = 0

    @property
    def possible(self) -> bool:
        """Whether every input is a column, so that rows can be made at all."""
        tensors = [port for port in self.ports if not port.columns and port.name != BASE_SCORE]
        return not tensors and not self.model.own_table

    def make(self, kinds: Kinds = ALL_KINDS) -> Rows:
        """Rows with one special value each, and rows with special values everywhere."""
        rng = np.random.default_rng(self.seed)
        columns = self._columns()
        specials = {
            name: self._specials(column, port, kinds) for name, (column, port) in columns.items()
        }
        n_rows = sum(map(len, specials.values())) + MIXED_ROWS
        about: list[str] = []
        values: dict[str, NDArray[Any]] = {}
        for name, own in specials.items():
            values[name] = own[rng.integers(0, len(own), n_rows)]
            values[name][len(about) : len(about) + len(own)] = own
            about += [name] * len(own)
        about += ["several columns"] * MIXED_ROWS
        return Rows(self._table(values), about, self._base_scores(rng, n_rows))

    def _columns(self) -> dict[str, tuple[Column | None, Input]]:
        """Columns of the graph by name, with what H knows of them."""
        schema = self.model.schema
        known = set(schema.names)
        return {
            name: (schema.columns[schema.index(name)] if name in known else None, port)
            for port in self.ports
            for name in port.columns
        }

    def _specials(self, column: Column | None, port: Input, kinds: Kinds) -> NDArray[Any]:
        categories = column.categories if column is not None else ()
        if port.kind == "string":
            unknown = [UNKNOWN_TEXT] if kinds.unknown or not categories else []
            nothing = [None] * (REPEATS * kinds.missing)
            return np.array([*categories[:MOST_PER_COLUMN], *unknown, *nothing], dtype=object)
        if any(isinstance(value, bool) for value in categories):
            return np.array([True, False, None] if kinds.missing else [True, False], dtype=object)
        name = port.columns[0] if column is None else column.name
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
        near = near[np.isfinite(near) & ~np.isin(near.astype(np.float32), own.astype(np.float32))]
        more = [np.nan] * kinds.missing + [np.inf, -np.inf] * kinds.infinite
        return np.concatenate([own, near, more * REPEATS])

    def _table(self, values: dict[str, NDArray[Any]]) -> Any:
        import pandas as pd

        schema = self.model.schema
        if schema.named:
            return pd.DataFrame(values)
        n_rows = len(next(iter(values.values())))
        names = [name for name in schema.names if not is_score(name)]
        columns = [values.get(name, np.zeros(n_rows)) for name in names]
        plain = all(column.dtype != object for column in columns)
        return np.stack([c if plain else c.astype(object) for c in columns], axis=1)

    def _base_scores(self, rng: np.random.Generator, n_rows: int) -> NDArray[np.float64] | None:
        """Scores at the thresholds of the level sets and beside them, for score-only models."""
        if not any(port.name == BASE_SCORE and not port.columns for port in self.ports):
            return None
        model = self.model
        levels = [s.partition for s in model.rounds.steps if s.partition is not None]
        levels += [model.rounds.start] if model.rounds.start is not None else []
        at = np.unique(np.concatenate([np.zeros(1), *(lv.thresholds for lv in levels)]))
        if model.base.link != model.rounds.link:
            at = from_margin(at, "logit") if model.rounds.link == "logit" else at
        if model.labels.kind == "regression":
            at = model.labels.unscale(from_margin(at, model.rounds.link))
        near = np.concatenate([at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf)])
        low, high = float(near.min()) - 0.1, float(near.max()) + 0.1
        if model.base.link == "identity" and model.labels.kind != "regression":
            near, low, high = near[(near >= 0) & (near <= 1)], 0.0, 1.0
            near = np.append(near, [0.0, 1.0])
        drawn = rng.uniform(low, high, n_rows)
        some = rng.random(n_rows) < 0.5
        drawn[some] = near[rng.integers(0, len(near), int(some.sum()))]
        return drawn
