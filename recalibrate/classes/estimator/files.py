"""Regressors of ``Estimator(...)`` in a file: as the ONNX graphs that their adapter makes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.graphbase import GraphBase, to_bytes
from recalibrate.bases.protocol import as_base
from recalibrate.classes.estimator.spec import Affine, Estimator, EstimatorTable, Matrix, scale
from recalibrate.data.table import Schema
from recalibrate.files import codec
from recalibrate.files.codec import ClassFiles, find_column
from recalibrate.files.document import GraphBytes
from recalibrate.support.errors import ModelFileError

COMPARED_ROWS = 500
TOLERANCE = 1e-4
"""Graphs of regressors work in float32: equality to the last bit is not to be had."""


@dataclass(frozen=True)
class SavedDescription:
    """Stands for the regressor of a saved ``Estimator(...)``, which cannot be fitted again."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class SavedRegressor:
    """A fitted regressor that came out of a file."""

    graph: GraphBase

    @classmethod
    def of(cls, content: bytes) -> SavedRegressor:
        """The regressor of a graph's bytes."""
        return cls(GraphBase(content, "identity", "a regressor of Estimator()", None, False))

    def predict(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        return self.graph.scores(X)

    def as_base(self) -> GraphBase:
        """The regressor as a base model, for those who want its graph."""
        return self.graph


def _make_regressor(graph: bytes, factor: float, shift: float) -> SavedRegressor | Affine:
    saved = SavedRegressor.of(graph)
    return saved if (factor, shift) == (1.0, 0.0) else Affine(saved, factor, shift)


REGRESSOR = codec.Record(
    Affine,
    {
        "graph": GraphBytes("a regressor"),
        "factor": codec.number(-1e12, 1e12),
        "shift": codec.number(-1e12, 1e12),
    },
    without=("model",),
    absent={"shift": 0.0},
    take=lambda own: {**vars(own), "graph": own.model.graph.content},
    make=_make_regressor,
)


def check_matrix(encoder: Matrix, schema: Schema) -> None:
    """Refuse a matrix of columns that the model does not have."""
    for name in encoder.names:
        find_column(schema, name)
    if not encoder.names or len(set(encoder.names)) < len(encoder.names):
        raise ModelFileError("a matrix needs columns, each once")


def check_regressors(table: EstimatorTable, encoder: Matrix, levels: int) -> None:
    """Refuse regressors for other level sets."""
    if len(table.models) != levels:
        raise ModelFileError(
            f"there must be one regressor (or null) for each of {levels} level sets"
        )


def convert_regressors(table: EstimatorTable, encoder: Matrix) -> EstimatorTable:
    """The table with every regressor as its graph, and its factor."""

    def convert(model: Any) -> Affine | None:
        own = scale(model, 1.0)
        return None if own.model is None else replace(own, model=_convert(own.model, width))

    width = len(encoder.names)
    return replace(table, models=tuple(convert(model) for model in table.models))


def _convert(model: Any, n_columns: int) -> SavedRegressor:
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
    saved = SavedRegressor.of(to_bytes(graph))
    worst = _largest_difference(model, saved, rows)
    if not worst <= TOLERANCE:
        raise TypeError(
            f"H=Estimator({name}) cannot be saved: its ONNX graph differs from the regressor by "
            f"{worst:.2g} (relative). {advice}"
        )
    return saved


def _generated_rows(n_columns: int) -> NDArray[np.float32]:
    """Rows of several scales, some of them whole numbers like the codes of categories."""
    rng = np.random.default_rng(0)
    scale = 10.0 ** rng.integers(-2, 4, (COMPARED_ROWS, n_columns))
    rows = (rng.normal(size=(COMPARED_ROWS, n_columns)) * scale).astype(np.float32)
    rows[: COMPARED_ROWS // 5] = rng.integers(0, 20, (COMPARED_ROWS // 5, n_columns))
    return rows


def _largest_difference(model: Any, saved: SavedRegressor, rows: NDArray[np.float32]) -> float:
    """Between the regressor and its graph, relative to the size of the predictions."""
    holes = np.where(np.random.default_rng(1).random(rows.shape) < 0.2, np.float32(np.nan), rows)
    worst = 0.0
    for some in (rows, holes):
        try:
            native = np.asarray(model.predict(some), dtype=np.float64).ravel()
        except ValueError:  # a regressor that takes no missing values
            continue
        size = 1e-6 + float(np.abs(native).max())
        worst = max(worst, float(np.abs(native - saved.predict(some)).max()) / size)
    return worst


FILES = ClassFiles(
    spec=codec.Record(
        Estimator,
        {
            "regressor": replace(codec.text(), store=repr, load=SavedDescription),
            "n_jobs": codec.whole(-codec.LARGEST),
        },
        absent={"affine": True, "exact": False},
    ),
    encoder_kind="matrix",
    encoder=codec.Record(Matrix),
    check_encoder=check_matrix,
    table=codec.Record(
        EstimatorTable,
        {"models": codec.Items(codec.Optional(REGRESSOR)), "limit": codec.number(0.0)},
    ),
    check_table=check_regressors,
    storable=convert_regressors,
)
