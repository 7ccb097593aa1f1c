"""Tables from files and into files."""

from __future__ import annotations

import glob
import io
import os
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.commands.options import read_names
from recalibrate.data.labels import take_scores
from recalibrate.data.table import find_columns, open_frames
from recalibrate.data.values import plain_value
from recalibrate.support.checks import require
from recalibrate.support.notices import warn_user

if TYPE_CHECKING:
    import pandas as pd

CSV = (".csv", ".csv.gz", ".tsv")
PARQUET = (".parquet", ".pq")
SHOWN_LABELS = 5
SCORES = ("score", "scores", "baseline")
"""What may be a column for every class."""


KnownText = Mapping[str, Collection[str] | None]
"""Columns that a model knows as text, with their categories; None where these are not known."""
NO_TEXT: KnownText = MappingProxyType({})


def read_frame(path: str, *, text: Sequence[str] = (), known_text: KnownText = NO_TEXT) -> Any:
    """A table from a CSV or Parquet file, or from a folder or pattern of Parquet files.

    Parameters
    ----------
    path
        The file.
    text
        Columns to be read as text although they hold numbers, as lists with commas.
    known_text
        Columns that a model has known as text; those that the file does not have are ignored.
    """
    lower = path.lower()
    if os.path.isdir(path) or (glob.has_magic(path) and not os.path.exists(path)):
        import pandas as pd

        frames = [frame.rename(columns=str) for frame in open_frames(path)]
        if not frames:
            return _with_rows(path, pd.DataFrame())
        return _as_text(_with_rows(path, pd.concat(frames, ignore_index=True)), text, known_text)
    if not lower.endswith(CSV + PARQUET):
        raise ValueError(f"{path!r} is no table: the name must end in {', '.join(CSV + PARQUET)}")
    check_file(path, "table")
    if lower.endswith(PARQUET):
        require("pyarrow", "parquet")
    try:
        frame = _read(path, lower, text, known_text)
    except (ValueError, OSError) as error:  # pandas' and pyarrow's own errors are among them
        raise ValueError(f"cannot read {path!r}: {error}") from error
    return _with_rows(path, frame)


def _with_rows(path: str, frame: Any) -> Any:
    if frame.empty:
        raise ValueError(f"{path!r} has no rows")
    return frame


def _read(path: str, lower: str, text: Sequence[str], known_text: KnownText) -> Any:
    import pandas as pd

    if lower.endswith(PARQUET):
        return _as_text(pd.read_parquet(path).rename(columns=str), text, known_text)
    separator = "\t" if lower.endswith(".tsv") else ","
    names = [str(name) for name in pd.read_csv(path, sep=separator, nrows=0).columns]
    kinds = dict.fromkeys(_text_columns(names, text, known_text), str)
    # In one piece, or a column's type could change in the middle of a large file.
    options: dict[str, Any] = {"sep": separator, "dtype": kinds, "low_memory": False}
    if _pandas_version() < (3, 1):  # where the default parser can be wrong in the last bit
        options["float_precision"] = "round_trip"
    frame = pd.read_csv(path, **options)
    return frame.assign(**{name: _codes(frame[name], known_text.get(name, ())) for name in kinds})


def _pandas_version() -> tuple[int, ...]:
    """Major and minor version."""
    import pandas as pd

    return tuple(int(part) for part in pd.__version__.split(".")[:2])


def _text_columns(names: Sequence[str], text: Sequence[str], known_text: KnownText) -> list[str]:
    forced = read_names(text, names)
    find_columns(forced, names)
    return [*forced, *(name for name in known_text if name in names)]


def _codes(column: pd.Series, categories: Collection[str] | None) -> pd.Series:
    """Codes without a decimal point that they only have because others are missing.

    Whoever writes a column of numbers with gaps writes 1.0 for 1; `_as_text` reads such a column
    of a Parquet file as 1, too. Codes that the model knows with the point keep it.
    """
    present = column[column.notna()]
    if categories is None or not present.str.fullmatch(r"-?\d+\.0+").all():
        return column
    if set(categories).intersection(present):
        return column
    return column.str.replace(r"\.0+$", "", regex=True)


def _as_text(frame: pd.DataFrame, text: Sequence[str], known_text: KnownText) -> pd.DataFrame:
    """Numbers of some columns as a CSV file would have them: codes are codes in any file."""
    for name in _text_columns(list(frame.columns), text, known_text):
        column = frame[name]
        if column.dtype.kind in "iuf":
            present = column.notna().to_numpy()
            numbers = column[present]
            # Whole numbers are floats only because other rows of the column are missing.
            whole = numbers.astype(object if (numbers % 1 != 0).any() else "int64")
            texts = np.full(len(column), None, dtype=object)
            texts[present] = [str(number) for number in whole]
            frame = frame.assign(**{name: texts})
    return frame


def check_file(path: str, what: str) -> None:
    """Refuse what is not a file."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path!r} is a folder, not a {what}")
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {path!r}")


def encode_frame(frame: pd.DataFrame, path: Path) -> bytes:
    """The content of a CSV or Parquet file, whichever the name says."""
    if path.name.lower().endswith(PARQUET):
        require("pyarrow", "parquet")
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        return buffer.getvalue()
    return frame.to_csv(index=False, lineterminator="\n").encode()


@dataclass(frozen=True, eq=False)
class Labelled:
    """Features, labels and whatever else belongs to the rows of a table.

    ``positive`` is the label that counts as 1 where labels are classes, as they are in the table.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    weight: NDArray[Any] | None
    others: dict[str, NDArray[Any]]
    positive: Any = None


def read_labelled(
    args: Namespace,
    *,
    known_text: KnownText = NO_TEXT,
    classes: Sequence[Any] = (),
    **others: Any,
) -> Labelled:
    """The table of a command with its labels; what is no feature is taken out of it.

    ``others`` are names of further columns that are no features, or None. Labels may be text if
    the model tells its ``classes``, there are scores of several classes, or ``--positive`` names
    one of two. They stay as they are then; else ``--positive`` makes booleans of them.
    """
    frame = read_frame(args.data, text=args.text, known_text=known_text)
    named = {"label": args.label, "weight": args.weight, **others}
    X, values = take_columns(frame, args.data, args.drop, **named)
    if args.skip_unlabelled:
        X, values = _labelled_only(X, values, args.label)
    several = any(np.ndim(values[key]) == 2 for key in SCORES if key in values)
    y = values.pop("label")
    if args.positive is not None and not (classes or several or _are_means(args)):
        classes = _two_classes(y)
    texts = several or any(isinstance(label, str) for label in classes)
    positive = find_positive(args.positive, classes)
    y = _labels(y, args.label, args.positive if positive is None else None, texts)
    return Labelled(X, y, values.pop("weight", None), values, positive)


def find_positive(text: str | None, classes: Sequence[Any]) -> Any:
    """Which of the classes an option means; None if it is none of them.

    Examples
    --------
    >>> find_positive("0", (0, 1)), find_positive("1.0", (0, 1)), find_positive("yes", (0, 1))
    (0, 1, None)
    """
    for label in classes:
        spellings = [str(label)] if isinstance(label, str | bool) else [str(label), f"{label:.1f}"]
        if text in spellings:
            return label
    return None


def _are_means(args: Namespace) -> bool:
    """Whether options make numbers of the labels, so that these cannot be classes."""
    given = (getattr(args, name, None) for name in ("bounds", "exposure", "loss"))
    link = getattr(args, "link", None) or ""
    return any(each is not None for each in given) or link.startswith("log-") or link == "log"


def _two_classes(values: NDArray[Any]) -> tuple[Any, ...]:
    """Labels of two different values that can be classes, text or whole numbers; else nothing.

    Examples
    --------
    >>> _two_classes(np.array(["no", "yes", "no"])), _two_classes(np.array([0.5, 1.5]))
    (('no', 'yes'), ())
    """
    import pandas as pd

    found = [plain_value(value) for value in pd.unique(values[~pd.isna(values)])]
    whole = all(not isinstance(value, float) or value.is_integer() for value in found)
    return tuple(found) if len(found) == 2 and whole else ()


def _labelled_only(
    X: pd.DataFrame, values: dict[str, NDArray[Any]], name: str
) -> tuple[pd.DataFrame, dict[str, NDArray[Any]]]:
    """Rows that have a label; how many have none is said in a warning."""
    import pandas as pd

    labelled = ~pd.isna(values["label"])
    skipped = int((~labelled).sum())
    if not labelled.any():
        raise ValueError(f"no row has a label: all {skipped} values of {name!r} are missing")
    if skipped:
        warn_user(f"skipped {skipped:,} of {len(X):,} rows, whose label {name!r} is missing")
    return X[labelled], {key: own[labelled] for key, own in values.items()}


def take_columns(
    frame: pd.DataFrame, path: str, drop: Sequence[str], **named: str | None
) -> tuple[pd.DataFrame, dict[str, NDArray[Any]]]:
    """Features, and the named columns that are none; names that are None are left out."""
    names = [str(name) for name in frame.columns]
    dropped = read_names(drop, names)
    special = {
        key: read_names([name], names) if key in SCORES else [name]
        for key, name in named.items()
        if name is not None
    }
    found = [name for own in special.values() for name in own]
    _find(path, [*found, *dropped], names)
    taken = {*found, *dropped}
    values = {
        key: take_scores([frame[name].to_numpy() for name in own]) for key, own in special.items()
    }
    return frame[[name for name in names if name not in taken]], values


def scores_of(frame: pd.DataFrame, text: str, path: str) -> NDArray[Any]:
    """Scores from a column, or one for every class; an error lists those that the file has."""
    return take_columns(frame, path, (), scores=text)[1]["scores"]


def _find(path: str, wanted: Sequence[str], names: Sequence[str]) -> None:
    try:
        find_columns(list(dict.fromkeys(wanted)), names)
    except ValueError as error:
        raise ValueError(f"{path!r}: {str(error).removeprefix('X: ')}") from None


def read_classes(text: str | None, y: NDArray[Any]) -> list[Any] | None:
    """Classes in the order of the scores, as the labels have them.

    Examples
    --------
    >>> read_classes("2,0,1", np.array([0, 1, 1])), read_classes(None, np.array([0, 1]))
    ([2, 0, 1], None)
    """
    if text is None:
        return None
    numeric = y.dtype.kind in "iuf"
    names = read_names([text], [])
    try:
        return [int(name) for name in names] if numeric else list(names)
    except ValueError:
        raise ValueError(f"--classes {text}: the labels are numbers, so classes must be") from None


def _labels(
    values: NDArray[Any], name: str, positive: str | None, named: bool = False
) -> NDArray[Any]:
    """Labels as they are, or whether they are ``positive``; text only if the classes are known."""
    import pandas as pd

    missing = int(pd.isna(values).sum())
    if missing:
        raise ValueError(
            f"the label column {name!r} has {missing} missing values; remove these rows, or leave "
            "them out with --skip-unlabelled"
        )
    present = list(dict.fromkeys(str(value) for value in pd.unique(values)))
    shown = ", ".join(repr(value) for value in present[:SHOWN_LABELS])
    if positive is None:
        if values.dtype.kind not in "biuf" and not named:
            raise ValueError(
                f"the label column {name!r} holds {shown}; say which value counts as 1 with "
                f"--positive, for example --positive {present[-1]!r}"
            )
        return values
    if positive not in present:
        raise ValueError(f"--positive {positive!r} is no value of {name!r}, which holds {shown}")
    return np.asarray(np.array([str(value) for value in values]) == positive)
