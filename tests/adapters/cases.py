"""What the contract suite needs to know of a model; every cases_*.py lists its framework's."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model, rows for it, and what its own framework predicts.

    Attributes
    ----------
    name
        Says which adapter and which kind of model, such as "xgboost binary dart".
    build
        Trains the model: small, and the same at every call.
    frame
        Random valid rows from their number and a seed: the model's own columns in its own order,
        float64 or integer, text or Categorical; no missing values.
    native
        The mean or probability that the framework's own predict gives for a frame.
    exact
        Whether onnxruntime has to give the same bits as the adapter.
    has_graph
        Whether there has to be a graph.
    options
        What ``as_base`` needs besides the model: ``link``, ``target_class``.
    missing
        Whether the model takes rows with missing numbers.
    named
        Whether the model knows its columns' names, so that the adapter picks them.
    rounds
        Whether the adapter reads features as float32, so that float64 is rounded.
    large
        Whether to run this case with 100,000 rows; one per adapter.
    alone
        Whether to check, in a process of its own, what the adapter imports; one per adapter.
    frameworks
        Frameworks that may be imported: the model's own (see ``FRAMEWORKS``).
    save
        Writes the model to a file in a folder and returns the file's path; None: no file format.
    state
        Everything that must not change, as something that can be compared.
    deviance
        That the model was trained by, if it is one of counts, amounts or rates.
    rtol
        Relative tolerance against ``native``; 1e-5 covers a framework that sums in float32.
    """

    name: str
    build: Callable[[], Any]
    frame: Callable[[int, int], pd.DataFrame]
    native: Callable[[Any, pd.DataFrame], Any]
    exact: bool
    has_graph: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    missing: bool = True
    named: bool = True
    rounds: bool = True
    large: bool = False
    alone: bool = False
    frameworks: tuple[str, ...] = ()
    save: Callable[[Any, Path], Path] | None = None
    state: Callable[[Any], Any] = pickle.dumps
    deviance: str = ""
    rtol: float = 1e-5

    def __str__(self) -> str:
        return self.name


FRAMEWORKS = ("xgboost", "lightgbm", "catboost", "torch")
"""Frameworks that no other framework's adapter may import."""


def floats(frame: pd.DataFrame) -> list[str]:
    """Columns that hold floating-point numbers."""
    return [name for name in frame if frame[name].dtype.kind == "f"]


def with_missing(frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """The frame with a fifth of its floating-point numbers missing, and one row of them all."""
    rng = np.random.default_rng(seed)
    frame = frame.copy()
    for name in floats(frame):
        frame.loc[rng.random(len(frame)) < 0.2, name] = np.nan
    frame.loc[frame.index[0], floats(frame)] = np.nan
    return frame


def as_float32(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its floating-point numbers rounded to float32."""
    return frame.astype(dict.fromkeys(floats(frame), np.float32))


def with_neighbours(values: np.ndarray) -> np.ndarray:
    """Numbers, and those next to them, in float32 and in float64."""
    found = []
    for dtype in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            at = np.asarray(values).astype(dtype)
            found += [at, np.nextafter(at, dtype(-np.inf)), np.nextafter(at, dtype(np.inf))]
    joined = np.concatenate([part.astype(np.float64) for part in found])
    return joined[np.isfinite(joined)]


def input_type(value) -> type:
    """numpy's type for an input of a session."""
    kinds = {"float": np.float32, "double": np.float64, "int64": np.int64, "string": object}
    return kinds[value.type.removeprefix("tensor(").removesuffix(")")]
