"""Rows on which a converted model is compared with the original."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Column
from recalibrate_adapters.agreement import ENOUGH_ROWS as ROWS
from recalibrate_adapters.forest import Forest
from recalibrate_adapters.frames import numeric_columns, text_columns

if TYPE_CHECKING:
    import pandas as pd

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
    first = sorted({*range(min(ROWS, len(frame))), *sorted(odd)[: 5 * ROWS]})
    return [frame.iloc[first], _scattered(frame.iloc[first]), *_made(frame.iloc[first[:ROWS]])]


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
    rows = frame.iloc[rng.integers(0, len(frame), ROWS)].reset_index(drop=True)
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind != "f":
            picked = rng.integers(0, len(frame), ROWS)
            rows[name] = column.iloc[picked].reset_index(drop=True)
            continue
        known = column.to_numpy()[np.isfinite(column.to_numpy())]
        if len(known):
            low, high = known.min(), known.max()
            margin = max(0.5 * (high - low), 0.5 * max(abs(low), abs(high)))
            rows[name] = rng.uniform(low - margin, high + margin, ROWS)
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
