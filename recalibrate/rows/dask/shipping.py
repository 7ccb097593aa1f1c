"""Models on their way to other processes, and their predictions there.

A base whose graph gives the very same scores travels as that graph and needs no framework where
it arrives. Any other has to be an object that can be pickled, and its framework installed there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from recalibrate.bases.graphbase import GraphBase
from recalibrate.bases.protocol import Base, ScoreColumn
from recalibrate.data.classes import sort_classes
from recalibrate.data.labels import Labels
from recalibrate.data.scores import check_score_names, take_scores
from recalibrate.support.interruptions import reraise_interruption
from recalibrate.support.optional import require


@dataclass(frozen=True, eq=False)
class Packed:
    """A base or model, packed; opened once by every worker, and forgotten with its package."""

    content: bytes

    def __getstate__(self) -> dict[str, bytes]:
        return {"content": self.content}

    def open(self) -> Any:
        """The base or model."""
        return self._opened

    @cached_property
    def _opened(self) -> Any:
        return require("distributed.protocol.pickle", "dask").loads(self.content)


def travelling(base: Base) -> Base:
    """The form in which a base travels."""
    if isinstance(base, ScoreColumn):
        return ScoreColumn(base.values[:0], base.link, base.name)
    return (GraphBase.of(base) if base.exact else None) or base


def pack(base: Base, model: Any = None) -> Packed:
    """Pack a base, or a model on it; a TypeError says what to do if the base cannot travel."""
    pickle = require("distributed.protocol.pickle", "dask")
    own = travelling(base)
    try:
        content = pickle.dumps(own if model is None else replace(model, base=own))
    except Exception as error:  # every framework has its own
        reraise_interruption(error)
        raise TypeError(
            f"The base model ({base.name}) cannot be sent to the workers: it has no ONNX graph "
            f"with the same scores, and pickling it failed ({error}). Compute its scores as a "
            "column and pass the column's name as the base model."
        ) from error
    return Packed(content)


def predict_partitions(model: Any, X: Any, base: Any = None) -> Any:
    """Predictions for a Dask DataFrame, as a Dask Series; of several classes a Dask DataFrame.

    ``base`` names the column of scores, or those of all classes.
    """
    names = check_score_names(base)
    dask = require("dask", "dask")
    packed = dask.delayed(pack(model.base, model), traverse=False)
    several = model.labels.kind == "classes"
    classes = list(model.labels.columns) if several else None
    meta: Any = [(label, "f8") for label in classes] if classes else ("prediction", "f8")
    return X.map_partitions(
        predict_partition, packed, names, classes, meta=meta, align_dataframes=False
    )


def both_classes(p: Any, labels: Labels) -> Any:
    """Probabilities of both classes as a Dask DataFrame, from those of the one that counts as 1."""
    names = (0, 1) if labels.chosen is not None else labels.classes or (0, 1)
    both = p.to_frame(name="1").assign(**{"0": 1.0 - p})[["0", "1"]]
    return both.rename(columns=dict(zip(("0", "1"), names, strict=True)))[list(sort_classes(names))]


def predict_partition(
    frame: Any, packed: Packed, names: tuple[str, ...], classes: list[Any] | None
) -> Any:
    """Task: predictions for the rows of a partition."""
    import pandas as pd

    values = np.empty(0) if classes is None else np.empty((0, len(classes)))
    if len(frame):
        given = take_scores([frame[name] for name in names])
        values = packed.open().predict(frame, base=given)
    if classes is not None:
        return pd.DataFrame(values, index=frame.index, columns=classes)
    return pd.Series(values, index=frame.index, name="prediction")
