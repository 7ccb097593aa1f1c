"""Columns whose rows come in pieces: their kind and categories are known at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.table import Column, Kind, read_categorical
from recalibrate.data.values import (
    Value,
    category_key,
    factorize,
    families_of,
    plain_value,
    read_numbers,
    sort_categories,
)

MOST_CATEGORIES = 1 << 24
"""Codes are float32, which holds integers up to this."""


class GrowingColumn:
    """One column, seen piece by piece.

    Categories are numbered as they come. `recode` translates these numbers to the codes of
    `column`, which are those that all rows at once would have given.

    Parameters
    ----------
    name
        Name of the column.
    forced
        Whether numbers are categories too.
    """

    def __init__(self, name: str, *, forced: bool = False) -> None:
        self.name = name
        self.forced = forced
        self._kinds: set[str] = set()
        self._numbers: dict[object, int] = {}
        self._values: list[Value] = []

    def __repr__(self) -> str:
        return f"GrowingColumn({self.name!r}, {sorted(self._kinds)}, {self._values})"

    def encode(self, values: Any) -> NDArray[np.float32]:
        """Values of some rows as float32: numbers, or provisional codes; NaN where missing."""
        families = families_of(self.name, values)
        kind = "categories" if self.forced or not families else _kind(families)
        if families:
            self._add_kinds({kind})
        if kind != "categories":
            with np.errstate(over="ignore"):  # beyond float32: infinite, as documented
                return np.asarray(read_numbers(self.name, values), dtype=np.float32)
        codes, uniques = factorize(self.name, values)
        occurring = np.unique(codes[codes >= 0])
        mapped = np.full(len(uniques) + 1, np.nan, dtype=np.float32)  # the last is for -1, missing
        spelled = np.asarray(uniques, dtype=object)
        mapped[occurring] = [self._number(plain_value(spelled[k])) for k in occurring]
        return np.take(mapped, codes)

    def merge(self, other: GrowingColumn) -> None:
        """Take in what another process saw of the column."""
        self._add_kinds(other._kinds)
        for value in other._values:
            self._number(value)

    def column(self) -> Column:
        """The column, once all rows were seen."""
        return Column(self.name, self._kind(), sort_categories(self._values))

    def recode(self, values: NDArray[np.float32], column: Column) -> NDArray[np.float32]:
        """Codes of the finished column in the place of provisional ones.

        The very same array for numbers, or if nothing changes.
        """
        order = {category_key(value): k for k, value in enumerate(column.categories, start=1)}
        codes = [order[category_key(value)] for value in self._values]
        if codes == list(range(1, len(codes) + 1)):
            return values
        lookup = np.array([np.nan, *codes], dtype=np.float32)
        return np.take(lookup, np.nan_to_num(values, nan=0.0).astype(np.intp))

    def _kind(self) -> Kind:
        if self._kinds and self._kinds != {"categories"}:
            return "numeric"
        return "categorical"

    def _add_kinds(self, kinds: set[str]) -> None:
        self._kinds |= kinds
        if len(self._kinds) > 1:
            raise ValueError(
                f"Column {self.name!r} holds {' in some pieces and '.join(sorted(self._kinds))} "
                "in others. Convert it to one type, or read it as categories with categorical=."
            )

    def _number(self, value: Value) -> int:
        key = category_key(value)
        if key not in self._numbers:
            if len(self._values) + 1 >= MOST_CATEGORIES:
                raise ValueError(
                    f"Column {self.name!r} has {MOST_CATEGORIES} categories: too many for float32."
                )
            self._values.append(value)
            self._numbers[key] = len(self._values)
        return self._numbers[key]


def _kind(families: set[str]) -> str:
    if families == {"bool"}:
        return "bool"
    return "numbers" if families == {"number"} else "categories"


def growing(names: Sequence[str], categorical: Sequence[str] | None) -> list[GrowingColumn]:
    """Columns that nothing is known of yet."""
    forced = read_categorical(categorical, names)
    return [GrowingColumn(name, forced=name in forced) for name in names]
