"""Values at which a model changes its mind: where a graph could disagree, if it did."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from recalibrate.core.rounds import Rounds
from recalibrate.graph.forms import form_of
from recalibrate.support.onnxgraph import ML_DOMAIN

Found = dict[str, set[float]]


def learner_thresholds(rounds: Rounds) -> Found:
    """Numbers that H's learners compare a column with, by column."""
    found: Found = defaultdict(set)
    for k, encoder in enumerate(rounds.encoders):
        tables = [step.table for step in rounds.steps if step.encoder == k]
        for column, value in form_of(encoder.kind).thresholds(encoder, tables):
            found[column].add(value)
    return found


def graph_thresholds(model: onnx.ModelProto, columns: tuple[str, ...]) -> Found:
    """Numbers that the trees of a graph compare its columns with.

    Right for graphs whose trees look at the columns as they come in; for others the numbers are
    just numbers, and do no harm.
    """
    found: Found = defaultdict(set)
    for node in model.graph.node:
        if node.domain == ML_DOMAIN and node.op_type.startswith("TreeEnsemble"):
            given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            splits = _splits(given)
            for column, value in zip(given.get("nodes_featureids", []), splits, strict=False):
                if column < len(columns) and np.isfinite(value):
                    found[columns[column]].add(float(value))
    return found


def graph_texts(model: onnx.ModelProto, most: int) -> list[str]:
    """Texts that a graph looks up, whatever the column: some of them are its categories."""
    found: dict[str, None] = {}
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "keys_tensor" and attribute.t.data_type == TensorProto.STRING:
                texts = numpy_helper.to_array(attribute.t).reshape(-1)[:most]
                found.update(dict.fromkeys(map(str, texts.tolist())))
    return list(found)[:most]


def _splits(given: dict[str, Any]) -> NDArray[Any]:
    for name in ("nodes_splits", "nodes_values_as_tensor"):
        if name in given:
            return numpy_helper.to_array(given[name])
    return np.asarray(given.get("nodes_values", []))


def around(
    values: set[float], most: int, kind: type[np.float32 | np.float64]
) -> NDArray[np.float64]:
    """The numbers and their neighbours in a type; an even choice where there are too many."""
    with np.errstate(over="ignore"):
        at = np.unique(np.array(sorted(values), dtype=np.float64).astype(kind))
        if len(at) > most:
            at = at[np.linspace(0, len(at) - 1, most).astype(int)]
        sides = np.nextafter(at, kind(-np.inf)), np.nextafter(at, kind(np.inf))
    return np.unique(np.concatenate([at, *sides])).astype(np.float64)
