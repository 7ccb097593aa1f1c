"""What counts as a table: frames of other libraries, rows in pieces (Parquet files), Dask's."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recalibrate.support.optional import require

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 1 << 18
"""Rows read from a Parquet file at a time."""


def is_streamed(X: Any) -> bool:
    """Whether X is rows in pieces: a path, several paths, or an iterable of DataFrames.

    Examples
    --------
    >>> is_streamed("rows/*.parquet"), is_streamed([[1.0, 2.0], [3.0, 4.0]])
    (True, False)
    """
    if _is_path(X):
        return True
    if isinstance(X, (list, tuple)):
        return bool(X) and all(_is_path(item) or _is_frame(item) for item in X)
    # Tables, tensors and datasets can be indexed; what can only be called or iterated gives rows.
    tables = ("__array__", "__getitem__", "shape", "to_pandas", "columns", "__arrow_c_stream__")
    if isinstance(X, type | Set) or any(hasattr(X, name) for name in tables):
        return False
    return callable(X) or isinstance(X, Iterable)


def is_collection(X: Any) -> bool:
    """Whether X is a Dask DataFrame, known by where its class comes from: Dask is not imported.

    Examples
    --------
    >>> is_collection([[1.0, 2.0]])
    False
    """
    root = type(X).__module__.partition(".")[0]
    return root in ("dask", "dask_expr") and hasattr(X, "to_delayed") and hasattr(X, "columns")


def settle(X: Any) -> Any:
    """A table of another library that is lazy or foreign, as rows at hand; else X as it is.

    Eager frames (polars, Arrow, whatever has ``to_pandas``) stay what they are: a base model that
    was trained on them gets them, and H reads them as pandas. Columns in a dict, rows in dicts and
    structured arrays become a DataFrame.

    Examples
    --------
    >>> settle([[1.0, 2.0]])
    [[1.0, 2.0]]
    """
    if isinstance(X, np.ndarray) and X.dtype.names is not None:
        return _frame(X)
    if hasattr(X, "iloc") or hasattr(X, "__array__") or hasattr(X, "to_pandas"):
        return X
    if _is_records(X) or _is_columns(X):
        return _frame(X)
    _refuse_data_sets(X)
    if hasattr(X, "collect") and type(X).__name__ == "LazyFrame":  # polars, narwhals
        return X.collect()
    if hasattr(X, "toPandas"):  # Spark
        return X.toPandas()
    if hasattr(X, "__arrow_c_stream__"):  # DuckDB and others that speak Arrow
        return require("pyarrow", "parquet").table(X).to_pandas()
    return X


def settle_both(X: Any, Z: Any) -> tuple[Any, Any]:
    """Rows of the base model, and H's own table, as rows at hand.

    Where H has a table of its own, what X holds is the base model's affair: a vectorizer of dicts
    gets dicts.
    """
    rows = Z is not None and (_is_records(X) or _is_columns(X))
    return X if rows else settle(X), settle(Z)


def _is_records(X: Any) -> bool:
    return isinstance(X, list) and bool(X) and all(isinstance(row, dict) for row in X)


def _is_columns(X: Any) -> bool:
    """Whether X is a dict of columns; a dict of tensors is something that a function may take."""
    return isinstance(X, dict) and bool(X) and all(np.ndim(column) == 1 for column in X.values())


def _frame(X: Any) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(X)


def _refuse_data_sets(X: Any) -> None:
    """Rows in a framework's own form cannot be read back."""
    names = ("DMatrix", "QuantileDMatrix", "Dataset", "Pool", "FeaturesData")
    kind = type(X)
    if kind.__name__ in names and kind.__module__.partition(".")[0] in (
        "xgboost",
        "lightgbm",
        "catboost",
        "_catboost",
    ):
        raise TypeError(
            f"X is a {kind.__name__} of {kind.__module__.partition('.')[0].strip('_')}, whose rows "
            "cannot be read back. Pass the table or array that it was made from."
        )


def open_frames(X: Any) -> Iterator[pd.DataFrame]:
    """One DataFrame after the other.

    Parameters
    ----------
    X
        A Parquet file, a folder of them, a pattern such as "rows/*.parquet", a list of these;
        an iterable of DataFrames, or a function without arguments that returns one.
    """
    if _is_path(X):
        X = [X]
    if isinstance(X, (list, tuple)) and all(_is_path(item) for item in X):
        for item in X:
            for path in _parquet_files(os.fspath(item)):
                yield from _read_parquet(path)
        return
    for place, frame in enumerate(X() if callable(X) else X):
        frame = settle(frame)
        frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
        if not _is_frame(frame):
            raise TypeError(
                f"X gives a {type(frame).__name__} (number {place}, from 0) where a "
                "DataFrame was expected; X in pieces is an iterable of DataFrames"
            )
        yield frame


def _is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))


def _is_frame(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "columns")


def _parquet_files(text: str) -> list[str]:
    path = Path(text)
    if path.is_file():
        return [text]
    found = sorted(_files_in(path) if path.is_dir() else _matches(text))
    if not found:
        raise FileNotFoundError(
            f"X is the text {text!r}, but there is no such Parquet file, no folder with files "
            "*.parquet in it, and no file that the pattern matches. If X holds documents for the "
            "base model, give H a table of its own with Z="
        )
    return found


def _files_in(folder: Path) -> list[str]:
    """Files of a folder, without what begins with a dot or _: others' scraps, not rows."""
    return [
        str(file)
        for file in folder.rglob("*.parquet")
        if file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]


def _matches(pattern: str) -> list[str]:
    return [name for name in glob.glob(pattern, recursive=True) if Path(name).is_file()]


def _read_parquet(path: str) -> Iterator[pd.DataFrame]:
    with require("pyarrow.parquet", "parquet").ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            yield batch.to_pandas()
