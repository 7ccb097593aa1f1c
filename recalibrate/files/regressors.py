"""Regressors of ``Estimator(...)`` in a file: as the ONNX graphs that their adapter makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.protocol import as_base
from recalibrate.classes.estimator.spec import Scaled
from recalibrate.files.container import Arrays
from recalibrate.files.fields import Fields, number
from recalibrate.files.graphs import GraphBase, as_array, check_graph, to_bytes

COMPARED_ROWS = 500
TOLERANCE = 1e-4
"""Graphs of regressors work in float32: equality to the last bit is not to be had."""


@dataclass(frozen=True, eq=False)
class SavedRegressor:
    """A fitted regressor that came out of a file."""

    graph: GraphBase

    def predict(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        return self.graph.scores(X)

    def as_base(self) -> GraphBase:
        """The regressor as a base model, for those who want its graph."""
        return self.graph


def encode_regressors(
    models: Sequence[Any], n_columns: int, arrays: Arrays
) -> list[dict[str, Any] | None]:
    """One graph per level set that has a regressor."""
    entries: list[dict[str, Any] | None] = []
    for model in models:
        factor = model.factor if isinstance(model, Scaled) else 1.0
        inner = model.model if isinstance(model, Scaled) else model
        entries.append(
            None
            if inner is None
            else {
                "graph": arrays.add(as_array(_convert(inner, n_columns))),
                "factor": number(factor),
            }
        )
    return entries


def decode_regressors(fields: Fields, levels: int) -> tuple[Any, ...]:
    """Regressors by level set, None where there is none."""
    entries = fields.raw("models")
    if not isinstance(entries, list) or len(entries) != levels:
        raise fields.fault(f"there must be one regressor (or null) for each of {levels} level sets")
    return tuple(
        None if entry is None else _decode_regressor(fields.inside(entry, f"models[{k}]"))
        for k, entry in enumerate(entries)
    )


def _decode_regressor(fields: Fields) -> Any:
    with fields:
        content = fields.array("graph", np.uint8).tobytes()
        check_graph(content, "a regressor")
        factor = fields.number("factor", least=-1e6, most=1e6)
        saved = SavedRegressor(_open(content))
        return saved if factor == 1.0 else Scaled(saved, factor)


def _convert(model: Any, n_columns: int) -> bytes:
    name = type(model).__name__
    advice = (
        "Use another regressor, or H=Trees(...), Linear(...) or Groups(...). Pickled objects are "
        "never written, because loading them can run any code."
    )
    rows = _generated_rows(n_columns)
    base = as_base(model)
    base.scores(rows)  # an adapter may have to see rows before it trusts its graph
    graph = base.graph()
    if graph is None:
        raise TypeError(f"H=Estimator({name}) cannot be saved: {base.why_no_graph}. {advice}")
    content = to_bytes(graph)  # type: ignore[arg-type]
    worst = _largest_difference(model, content, rows)
    if not worst <= TOLERANCE:
        raise TypeError(
            f"H=Estimator({name}) cannot be saved: its ONNX graph differs from the regressor by "
            f"{worst:.2g} (relative). {advice}"
        )
    return content


def _open(content: bytes) -> GraphBase:
    return GraphBase(content, "identity", "a regressor of Estimator()", None, False)


def _generated_rows(n_columns: int) -> NDArray[np.float32]:
    """Rows of several scales, some of them whole numbers like the codes of categories."""
    rng = np.random.default_rng(0)
    scale = 10.0 ** rng.integers(-2, 4, (COMPARED_ROWS, n_columns))
    rows = (rng.normal(size=(COMPARED_ROWS, n_columns)) * scale).astype(np.float32)
    rows[: COMPARED_ROWS // 5] = rng.integers(0, 20, (COMPARED_ROWS // 5, n_columns))
    return rows


def _largest_difference(model: Any, content: bytes, rows: NDArray[np.float32]) -> float:
    """Between the regressor and its graph, relative to the size of the predictions."""
    holes = np.where(np.random.default_rng(1).random(rows.shape) < 0.2, np.float32(np.nan), rows)
    worst = 0.0
    for some in (rows, holes):
        try:
            native = np.asarray(model.predict(some), dtype=np.float64).ravel()
        except ValueError:  # a regressor that takes no missing values
            continue
        served = _open(content).scores(some)
        size = 1e-6 + float(np.abs(native).max())
        worst = max(worst, float(np.abs(native - served).max()) / size)
    return worst
