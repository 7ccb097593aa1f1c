"""A base model that is a random, exact tree ensemble; and the comparison that all tests share."""

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper

from recalibrate.ensemble import Ensemble, Tree, join_trees
from recalibrate.graph import export_model, load_served

BATCHES = (1, 7, 64, None)


def random_ensemble(rng, columns, trees=8, depth=3, scale=0.3) -> Ensemble:
    n, inner = 2 ** (depth + 1) - 1, 2**depth - 1
    child = np.minimum(2 * np.arange(n) + 1, n - 1)
    made = []
    for _ in range(trees):
        feature = np.full(n, -1)
        feature[:inner] = rng.integers(0, columns, inner)
        threshold = rng.normal(size=n).astype(np.float32).astype(np.float64)
        values = rng.normal(size=n) * scale
        right = np.minimum(child + 1, n - 1)
        made.append(Tree(feature, threshold, rng.random(n) < 0.5, child, right, values))
    return join_trees(columns, made, bias=0.1)


@dataclass(frozen=True, eq=False)
class TreeBase:
    """Scores are sums of leaves, in Python and in the graph."""

    ensemble: Ensemble
    names: tuple[str, ...] | None = None
    link: str = "logit"
    name: str = "random trees"
    why_no_graph: str = ""
    exact: bool = True
    by_column: bool = False

    def columns(self):
        return self.names

    def scores(self, X):
        own = X[list(self.names)] if self.names is not None and hasattr(X, "loc") else X
        return self.ensemble.evaluate(np.asarray(own, dtype=np.float32))

    def graph(self):
        ensemble = self.ensemble
        if self.by_column:
            inputs = [_float(name, 1) for name in self.names]
            first = [helper.make_node("Concat", list(self.names), ["x"], axis=1)]
        else:
            inputs, first = [_float("x", ensemble.n_columns)], []
        nodes = [
            *first,
            helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.DOUBLE),
            ensemble.node("wide", "sum"),
            helper.make_node("Reshape", ["sum", "shape"], ["score"]),
        ]
        score = helper.make_tensor_value_info("score", TensorProto.DOUBLE, ["N"])
        shape = helper.make_tensor("shape", TensorProto.INT64, [1], [-1])
        graph = helper.make_graph(nodes, "trees", inputs, [score], initializer=[shape])
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _float(name, width):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width])


def expected_outputs(model, X, *, base=None, Z=None):
    """What a graph has to answer for some rows, by output."""
    mean = model.predict(X, base=base, Z=Z)
    margins = model.margins(X, base=base, Z=Z)
    expected = {"score_margin": margins, "score": mean.astype(np.float32)}
    if model.labels.kind != "regression":
        first = (mean > 0.5).astype(np.int64)
        classes = model.classes_
        expected["label"] = np.asarray(classes)[first]
        expected["probabilities"] = np.stack([1.0 - mean, mean], axis=1).astype(np.float32)
    return expected


def assert_same(model, X, *, base=None, Z=None, inputs="auto"):
    """Margins, scores, labels and probabilities are the model's, however the rows are cut."""
    data = export_model(model, inputs=inputs).SerializeToString()
    expected = expected_outputs(model, X, base=base, Z=Z)
    for threads in (1, 2):
        served = load_served(data, threads)
        feed = served.feed(X, base=base, Z=Z)
        for size in BATCHES:
            parts = [slice(k * size, (k + 1) * size) for k in range(10)] if size else [slice(None)]
            answers = [
                served.answer({name: values[rows] for name, values in feed.items()})
                for rows in parts
                if rows.start is None or rows.start < len(expected["score"])
            ]
            assert set(answers[0]) == set(expected)
            for name, values in expected.items():
                found = np.concatenate([answer[name] for answer in answers])
                np.testing.assert_array_equal(found, values[: len(found)], err_msg=name)
    return served
