"""The values of one column: numbers that float32 can hold, or categories with a code each.

A column is a 1-d numpy array, or a Series where pandas has a dtype of its own. What a column
holds is decided by the types of its values: bool, number and text, its *families*.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.notices import listed

Value = str | int | float | bool
Taken = Literal["any", "no infinities", "finite"]
"""Numbers that a base model takes."""

_FLOAT32_EXACT = 2**24  # every integer up to this magnitude is a float32

FEW_ROWS = 16
"""So many texts are looked up one by one: counting distinct ones takes longer to begin with."""


class UnreadableColumnError(ValueError):
    """A column holds what is neither numbers nor text: dates, lists."""


def families_of(name: str, values: Any) -> set[str]:
    """Which of bool, number and text a column holds; whatever else it holds is refused."""
    import pandas as pd

    if values.dtype.kind in "biuf":
        return {"bool" if values.dtype.kind == "b" else "number"}
    if isinstance(values.dtype, pd.StringDtype | pd.CategoricalDtype):
        return {"text"}
    present = values[~pd.isna(values)]
    types = set(map(type, present)) if values.dtype.kind not in "Mmc" else {values.dtype}
    families = {family_of(type_) for type_ in types}
    if "other" in families:
        odd = next(type_ for type_ in types if family_of(type_) == "other")
        raise UnreadableColumnError(
            f"Column {name!r} holds {getattr(odd, '__name__', odd)} values, which are neither "
            "numbers nor text. Derive numbers from them (for a date: year, weekday, days since an "
            "event), convert them to text, or drop the column."
        )
    return families


def family_of(type_: Any) -> str:
    """One of bool, number, text and other, for the type of a value."""
    if type_ is str:
        return "text"
    # numpy counts timedelta64 among the integers
    if not isinstance(type_, type) or issubclass(type_, np.timedelta64):
        return "other"
    if issubclass(type_, bool | np.bool_):
        return "bool"
    if issubclass(type_, int | float | np.integer | np.floating | Decimal):
        return "number"
    return "text" if issubclass(type_, str) else "other"


def read_numbers(name: str, values: Any, *, wide: bool = False) -> NDArray[Any]:
    """Numbers that a cast turns into the float32 column; a view where that is possible.

    ``wide`` is for those who compare in float64: all integers that it can hold are taken.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        _check_integers(name, values, wide)
        return values
    import pandas as pd

    if values.dtype.name == "category":
        values = values.to_numpy(dtype=object)
    if "text" in families_of(name, values):
        row, value = next((i, v) for i, v in enumerate(values) if isinstance(v, str))
        raise ValueError(
            f"Column {name!r} is numeric, but holds text in these data: {value!r} in row {row} "
            "(from 0). Convert it to numbers first, for example with pandas.to_numeric."
        )
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        _check_integers(name, values, wide)
        return values
    missing = np.asarray(pd.isna(values))
    present = values[~missing]
    whole = np.asarray(present, dtype=object if values.dtype.kind == "O" else None)
    _check_integers(name, whole, wide)
    column = np.full(len(values), np.nan)
    column[~missing] = np.asarray(present, dtype=np.float64)
    return column


def _check_integers(name: str, values: NDArray[Any], wide: bool) -> None:
    if values.dtype.kind == "O":  # Python integers of any size, possibly among floats
        values = values[[isinstance(v, int | np.integer) for v in values]]
    elif values.dtype.kind not in "iu" or values.dtype.itemsize < 4:
        return
    type_ = np.finfo(np.float64 if wide else np.float32)
    exact = 2 ** (type_.nmant + 1)  # every integer up to this magnitude
    if not values.size or (values.max() <= exact and values.min() >= -exact):
        return
    large = values[(values > exact) | (values < -exact)]
    if not large.size:
        return
    magnitude = np.abs(large)
    odd_part = magnitude // (magnitude & -magnitude)  # must fit the bits of the type
    lossy = large[(odd_part >= exact) | (magnitude >= 2**type_.maxexp)]
    if lossy.size and wide:
        raise ValueError(
            f"Column {name!r} holds integers that float64 cannot hold, for example {lossy[0]}."
        )
    if lossy.size:
        raise ValueError(
            f"Column {name!r} holds integers that float32 cannot hold, for example {lossy[0]}. If "
            "they are identifiers, make them categories (categorical=, or convert them to text); "
            "if they are quantities, scale them or convert them to float (they are then rounded)."
        )


def refuse_values(matrix: NDArray[Any], names: Sequence[str], taken: Taken) -> None:
    """Refuse numbers that a base model does not take, as its own framework does."""
    if taken == "any":
        return
    bad = np.isinf(matrix) if taken == "no infinities" else ~np.isfinite(matrix)
    if bad.any():
        columns = [names[int(j)] for j in np.flatnonzero(bad.any(axis=0))]
        what = "infinite" if taken == "no infinities" else "missing (NaN) or infinite"
        narrow = " (Numbers beyond the range of float32 count as infinite.)"
        raise ValueError(
            f"The base model does not take {what} values, but there are some in: "
            f"{listed(columns)}.{narrow if matrix.dtype == np.float32 else ''}"
        )


def refuse_unknown(name: str, values: Any, known: Sequence[Value | None]) -> None:
    """Refuse categories that a base model does not know and would not take.

    Examples
    --------
    >>> refuse_unknown("sex", np.array(["F", "M"], dtype=object), ["F", "M"])
    >>> refuse_unknown("sex", np.array(["F", "X"], dtype=object), ["F", "M"])
    Traceback (most recent call last):
    ...
    ValueError: Column 'sex' holds 'X' in row 1 (from 0), a category that the base model does ...
    """
    codes, uniques = factorize(name, values)
    found = [plain_value(value) for value in np.asarray(uniques, dtype=object)]
    new = [k for k, value in enumerate(found) if value not in known]
    if None not in known and (codes == -1).any():
        new, found = [*new, -1], [*found, "nothing (a missing value)"]
    if new:
        row = int(np.flatnonzero(np.isin(codes, new))[0])
        raise ValueError(
            f"Column {name!r} holds {found[codes[row]]!r} in row {row} (from 0), a category that "
            f"the base model does not know, and it refuses unknown ones. It knows: "
            f"{listed(known, 10)}."
        )


def refuse_kind(name: str, values: Sequence[Any], categories: Sequence[Value]) -> None:
    """Refuse values none of which has the type of a category: codes in the place of text.

    All of them would count as unknown, without a word.

    Examples
    --------
    >>> refuse_kind("sex", [0, 1], ["F", "M"])
    Traceback (most recent call last):
    ...
    ValueError: Column 'sex' holds numbers such as 0, but was fitted to categories of text: ...
    """
    words = {"text": "text", "number": "numbers", "bool": "booleans", "other": "other values"}
    kinds = sorted({family_of(type(value)) for value in categories})
    found = [family_of(type(plain_value(value))) for value in values]
    if values and kinds and not set(found) & set(kinds):
        raise ValueError(
            f"Column {name!r} holds {words[found[0]]} such as {plain_value(values[0])!r}, but was "
            f"fitted to categories of {' and '.join(words[kind] for kind in kinds)}: "
            f"{listed(categories, 5)}. Pass the categories themselves."
        )


def is_categorical(name: str, values: Any) -> bool:
    """Whether a column is read as categories: unless it holds only bools, or only numbers."""
    return families_of(name, values) not in ({"bool"}, {"number"})


def factorize(name: str, values: Any) -> tuple[NDArray[Any], Any]:
    """Position of every row's value among the distinct ones (-1 = missing), and these."""
    import pandas as pd

    if values.dtype.name == "category":
        return values.cat.codes.to_numpy(), values.dtype.categories
    if values.dtype.kind in "UST":
        values = values.astype(object)
    if len(families_of(name, values)) == 1:
        return pd.factorize(values)
    # True and 1 are the same to pandas, so bools are wrapped while it counts; plain values,
    # because a numpy 1 also equals a tuple that holds True
    pairs = zip(values, pd.isna(values), strict=True)
    keys = (None if missing else category_key(plain_value(value)) for value, missing in pairs)
    codes, uniques = pd.factorize(np.fromiter(keys, dtype=object, count=len(values)))
    return codes, [key[1] if isinstance(key, tuple) else key for key in uniques]


def few_texts(values: Any) -> list[str]:
    """The values of a short column of text without a missing one; none if it is another."""
    if len(values) > FEW_ROWS or values.dtype.name not in ("object", "str", "string"):
        return []
    texts = list(values)
    return texts if all(type(text) is str for text in texts) else []


def read_categories(name: str, values: Any) -> tuple[tuple[Value, ...], NDArray[np.float32] | None]:
    """Distinct values that occur, as plain values, sorted by family and then by value.

    And every row's place among them, from 1 (NaN: missing), where all are text: of a million
    texts the order is known then, and none has to be looked up.
    """
    codes, uniques = factorize(name, values)
    if values.dtype.name == "category":
        uniques = uniques[np.unique(codes[codes >= 0])]
    if len(uniques) >= _FLOAT32_EXACT:
        raise ValueError(f"Column {name!r} has {len(uniques)} categories: too many for float32.")
    plain = [plain_value(value) for value in np.asarray(uniques, object)]
    if values.dtype.name == "category" or not all(type(value) is str for value in plain):
        distinct = {category_key(value): value for value in plain}
        return sort_categories(list(distinct.values())), None
    order = sorted(range(len(plain)), key=plain.__getitem__)
    places = np.full(len(plain) + 1, np.nan, dtype=np.float32)  # the last is for -1, missing
    places[order] = np.arange(1, len(plain) + 1)
    return tuple(map(plain.__getitem__, order)), np.take(places, codes)


def sort_categories(values: Sequence[Value]) -> tuple[Value, ...]:
    """Distinct plain values by family and then by value."""
    families: dict[str, list[Any]] = {}
    for value in values:
        families.setdefault(family_of(type(value)), []).append(value)
    return tuple(value for family in sorted(families) for value in sorted(families[family]))


def plain_value(value: Any) -> Value:
    """Category as a plain Python value; equal numbers become the same one."""
    if type(value) is str:
        return value
    family = family_of(type(value))
    if family == "bool":
        return bool(value)
    if family == "number":
        whole = isinstance(value, int | np.integer) or float(value).is_integer()
        return int(value) if whole else float(value)
    return str.__str__(value) if family == "text" else str(value)


def category_key(value: Value) -> object:
    """Key under which 1 and 1.0 are one category, but 1, True and "1" are three."""
    return ("bool", value) if isinstance(value, bool) else value  # because True == 1


def tag_value(value: Value) -> list[str | int | bool]:
    """Category with its type, for JSON."""
    # a float as text: JSON has no infinities
    return [type(value).__name__, repr(value) if isinstance(value, float) else value]


def untag_value(tagged: list[Any]) -> Value:
    """Category from the result of `tag_value`."""
    name, value = tagged
    if name == "float" and isinstance(value, str):
        return float(value)
    if name in ("str", "int", "bool") and type(value).__name__ == name:
        return value  # type: ignore[no-any-return]
    raise ValueError(f"unknown category {tagged!r}")
