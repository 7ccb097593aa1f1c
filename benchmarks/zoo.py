"""Every kind of base model that people have, tried from fit to file to graph.

    python benchmarks/zoo.py                 # all; a line per model, then the counts
    python benchmarks/zoo.py sklearn torch   # those whose names have one of these words

For each model: its scores must be those of its own framework, a saved and loaded model must predict
the same numbers, and its ONNX graph must give them in onnxruntime. What is refused must say why;
the reasons are printed, for a reader to judge.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import recalibrate as rc
from recalibrate.graph import ExportError
from recalibrate.scores import predicted_mean

SAME = 1e-5
"""Base scores of converted models, relative to their mean: some operators compute in float32."""

QUICK = {"loop": rc.Loop(levels=2, max_rounds=2)}


@dataclass(frozen=True)
class Given:
    """A model, rows for it, and what its own framework says about them."""

    model: Any
    X: Any
    y: NDArray[Any]
    means: Callable[[Any], Any] | None = None
    H: Any = None
    Z: Any = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A name, and how to make the model."""

    name: str
    build: Callable[[], Given]


@dataclass(frozen=True)
class Verdict:
    """What came of it: works, no graph, refused, skipped, WRONG or unclear; and why."""

    kind: str
    reason: str = ""


def examine(case: Case, folder: Path) -> Verdict:
    """Try one model."""
    try:
        given = case.build()
    except Exception as error:  # the framework's own fault: not fitted by these rows
        return Verdict("skipped", _first_line(error))
    half = len(given.y) // 2
    seen, new = _rows(given.X, slice(0, half)), _rows(given.X, slice(half, None))
    seen_Z, new_Z = _rows(given.Z, slice(0, half)), _rows(given.Z, slice(half, None))
    try:
        H = given.H if given.H is not None else rc.Groups("sex")
        settings = {"H": H, "Z": seen_Z, **QUICK, **given.options}
        model = rc.fit(given.model, seen, given.y[:half], **settings)
        expected = model.predict(new, Z=new_Z, base=_scores(given, new))
    except (ValueError, TypeError) as error:
        return Verdict("refused", _first_line(error))
    except Exception as error:
        return Verdict("unclear", f"fit: {type(error).__name__}: {_first_line(error)}")
    if given.means is not None and not isinstance(given.model, np.ndarray):
        own = np.asarray(given.means(new), dtype=np.float64).reshape(-1)
        off = np.abs(predicted_mean(model.base, new) - own) / max(1.0, np.abs(own).mean())
        if not off.max() <= SAME:
            return Verdict("WRONG", f"base scores differ by up to {off.max():.3g}")
    return _files(given, model, new, new_Z, expected, folder)


def _files(
    given: Given, model: Any, new: Any, Z: Any, expected: NDArray[np.float64], folder: Path
) -> Verdict:
    """The saved model and the graph."""
    scores = _scores(given, new)
    try:
        model.save(folder / "model.rcal")
        loaded = rc.load(folder / "model.rcal")
        if loaded.base.graph() is None and scores is None:
            loaded = rc.load(folder / "model.rcal", base=given.model)
        back = loaded.predict(new, Z=Z, base=scores)
    except Exception as error:
        return Verdict("unclear", f"save: {type(error).__name__}: {_first_line(error)}")
    if not np.array_equal(back, expected):
        return Verdict("WRONG", f"saved and loaded: off by {np.abs(back - expected).max():.3g}")
    few = slice(0, 50)
    sample, sample_Z = _rows(new, few), _rows(Z, few)
    try:
        part = None if scores is None else scores[few]
        model.to_onnx(folder / "model.onnx", sample, Z=sample_Z, base=part)
    except ExportError as error:
        return Verdict("no graph", _first_line(error))
    except Exception as error:
        return Verdict("unclear", f"graph: {type(error).__name__}: {_first_line(error)}")
    served = rc.load(folder / "model.onnx").predict(new, Z=Z, base=scores)
    bound = 0.0 if model.base.exact else SAME * max(1.0, float(np.abs(expected).mean()))
    off = np.abs(served - expected.astype(np.float32))
    if not off.max() <= bound + np.spacing(np.float32(np.abs(expected).max())):
        return Verdict("WRONG", f"served: off by {off.max():.3g}")
    return Verdict("works")


def _rows(X: Any, rows: slice) -> Any:
    if X is None:
        return None
    if hasattr(X, "iloc"):
        return X.iloc[rows].reset_index(drop=True)
    return X[rows]


def _scores(given: Given, X: Any) -> NDArray[np.float64] | None:
    """Base scores to pass along, for a model that is an array of scores."""
    if not isinstance(given.model, np.ndarray) or given.means is None:
        return None
    return np.asarray(given.means(X), dtype=np.float64)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next(iter(lines), type(error).__name__)[:400]


def cases() -> Iterator[Case]:
    """All configurations."""
    import zoo_boosted
    import zoo_others
    import zoo_sklearn

    yield from zoo_sklearn.cases()
    yield from zoo_boosted.cases()
    yield from zoo_others.cases()


def main() -> None:
    parser = argparse.ArgumentParser(description="Try every kind of base model.")
    parser.add_argument("words", nargs="*", help="only models whose names have one of these")
    words = parser.parse_args().words
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if words and not any(word in case.name for word in words):
                continue
            begun = time.perf_counter()
            verdict = examine(case, Path(folder))
            counts[verdict.kind] += 1
            seconds = time.perf_counter() - begun
            print(f"{verdict.kind:9} {seconds:5.1f} s  {case.name}  {verdict.reason}", flush=True)
    total = sum(counts.values()) - counts["skipped"]
    shown = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    print(f"{total} models: {shown}")


if __name__ == "__main__":
    main()
