"""Exact tree ensembles: against a slow and obvious walk, onnxruntime and the reference."""

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from recalibrate.ensemble import Ensemble, Tree, join_trees, snap_step

THRESHOLDS = np.float32([-1.0, 0.0, 0.1, 0.3, 1.0])


def random_tree(rng: Any, sets: dict[int, int], columns: int, depth: int) -> Tree:
    """A tree on ``columns`` columns; ``sets`` says how many codes the categorical ones have."""
    nodes: list[list[Any]] = []
    subsets = {}

    def grow(room: int) -> int:
        k = len(nodes)
        if room == 0 or (k and rng.random() < 0.15):
            # few distinct values: runtimes look for equal subtrees
            nodes.append([-1, 0.0, False, 0, 0, rng.choice([0.5, -0.25, rng.normal()])])
            return k
        column = int(rng.integers(columns))
        nodes.append([column, rng.choice(THRESHOLDS), rng.random() < 0.5, 0, 0, 0.0])
        if column in sets:
            size = rng.choice([0, 1, 2, rng.integers(sets[column] + 1)])
            subsets[k] = rng.choice(np.arange(1, sets[column] + 1), size=size, replace=False)
        nodes[k][3] = grow(room - 1)
        nodes[k][4] = grow(room - 1)
        return k

    grow(depth)
    return Tree(*zip(*nodes, strict=True), subsets)


def random_case(seed: int) -> tuple[Ensemble, Any]:
    """An ensemble and rows on its thresholds, next to them, missing, infinite, unknown."""
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 5))
    # 30 and 64 are where onnxruntime changes its way to hold a set
    sets = {j: int(rng.choice([3, 30, 31, 64, 90])) for j in range(columns) if rng.random() < 0.5}
    count = int(rng.integers(0, 10))
    trees = [random_tree(rng, sets, columns, int(rng.integers(5))) for _ in range(count)]
    ensemble = join_trees(columns, trees, bias=float(rng.choice([0.0, 0.3])))
    return ensemble, random_rows(rng, sets, columns, int(rng.choice([1, 60])))


def random_rows(rng: Any, sets: dict[int, int], columns: int, n_rows: int) -> Any:
    values = np.concatenate([THRESHOLDS, np.float32([np.nan, np.inf, -np.inf, 7.0])])
    X = rng.choice(values, size=(n_rows, columns))
    shift = rng.choice(np.float32([-np.inf, np.inf]), size=X.shape)
    X = np.where(rng.random(X.shape) < 0.5, np.nextafter(X, shift), X)
    for j, count in sets.items():
        X[:, j] = rng.choice([*range(1, count + 3), np.nan, 70_000], size=n_rows)
    return X


def walk(e: Ensemble, row: Any) -> float:
    """What the documentation says, word by word."""
    total = e.bias
    for root in e.roots:
        k = root
        while e.feature[k] != -1:
            x = float(row[e.feature[k]])
            if np.isnan(x):
                left = e.missing_left[k]
            elif e.subset[k] >= 0:
                left = x in e.subsets[e.subset[k]]
            else:
                left = x <= e.threshold[k]
            k = e.left[k] if left else e.right[k]
        total += e.value[k]
    return total


def as_model(e: Ensemble) -> onnx.ModelProto:
    nodes = [helper.make_node("Cast", ["X"], ["wide"], to=TensorProto.DOUBLE), e.node("wide", "y")]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", e.n_columns])],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["N", 1])],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


def run(e: Ensemble, X: Any, *, threads: int = 1, batch: int | None = None) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(as_model(e).SerializeToString(), options)
    edges = [*range(0, len(X), batch or len(X)), len(X)]
    return np.concatenate([session.run(None, {"X": X[a:b]})[0][:, 0] for a, b in pairwise(edges)])


def stump(members: Any = None, *, threshold: float = 0.5, missing_left: bool = False) -> Tree:
    subsets = {} if members is None else {0: members}
    return Tree([0, -1, -1], [threshold, 0, 0], [missing_left, 0, 0], [1, 0, 0], [2, 0, 0],
                [0.0, 1.0, -1.0], subsets)  # fmt: skip


# --- meaning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_evaluate_is_the_walk_of_every_row(seed):
    ensemble, X = random_case(seed)
    expected = [walk(ensemble, row) for row in X]
    np.testing.assert_array_equal(ensemble.evaluate(X), expected)
    np.testing.assert_array_equal(ensemble.evaluate(X.astype(np.float64)), expected)
    np.testing.assert_array_equal(ensemble.evaluate(np.asfortranarray(X)), expected)


def test_threads_change_no_bit():
    rng = np.random.default_rng(0)
    ensemble = join_trees(3, [random_tree(rng, {}, 3, 5) for _ in range(20)], bias=0.1)
    X = random_rows(rng, {}, 3, 3000)
    one = ensemble.evaluate(X, threads=1)
    np.testing.assert_array_equal(ensemble.evaluate(X, threads=3), one)
    np.testing.assert_array_equal(ensemble.evaluate(X), one)


def test_a_fraction_is_in_no_set():
    ensemble = join_trees(1, [stump([2, 3])])
    X = np.array([[2.0], [2.5], [0.0], [-2.0], [np.inf], [3.0]])
    assert ensemble.evaluate(X).tolist() == [1.0, -1.0, -1.0, -1.0, -1.0, 1.0]


def test_a_matrix_of_another_shape_or_type_is_refused():
    ensemble = join_trees(1, [stump()])
    for X in (np.zeros((2, 3)), np.zeros(2), np.zeros((2, 1), dtype=np.int64)):
        with pytest.raises(ValueError, match="matrix with 1 columns"):
            ensemble.evaluate(X)


# --- exact sums ---------------------------------------------------------------------------------


def test_sums_do_not_depend_on_the_order_of_trees():
    rng = np.random.default_rng(1)
    trees = [random_tree(rng, {}, 2, 4) for _ in range(50)]
    X = random_rows(rng, {}, 2, 200)
    forward = join_trees(2, trees, bias=0.7).evaluate(X)
    np.testing.assert_array_equal(join_trees(2, trees[::-1], bias=0.7).evaluate(X), forward)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 1e6, 1e12])
def test_leaves_are_multiples_of_a_step_that_leaves_room(scale):
    rng = np.random.default_rng(2)
    trees = [random_tree(rng, {}, 2, 4) for _ in range(30)]
    trees = [tree._replace(value=np.array(tree.value) * scale) for tree in trees]
    e = join_trees(2, trees, bias=scale)
    largest = scale + sum(max(abs(v) for v in tree.value) for tree in trees)
    step = snap_step(largest)
    for number in [e.bias, *e.value]:
        assert number / step == round(number / step)
    assert largest / step < 2**53
    assert step == 2.0**-36 or largest / step >= 2**35
    sums = e.evaluate(random_rows(rng, {}, 2, 100))
    assert np.isfinite(sums).all()


def test_trees_of_one_leaf_are_part_of_the_bias():
    e = join_trees(1, [Tree([-1], [0], [False], [0], [0], [0.25]), stump()], bias=0.5)
    assert e.bias == 0.75
    assert len(e.roots) == 1


def test_nodes_that_the_root_does_not_reach_are_dropped():
    tree = Tree([0, -1, -1, 0, -1], [1, 0, 0, 9, 0], [0] * 5, [4, 0, 0, 1, 0], [2, 0, 0, 2, 0],
                [0, 5.0, 2.0, 0, 3.0])  # fmt: skip
    e = join_trees(1, [tree])
    assert e.feature.tolist() == [0, -1, -1]
    assert e.evaluate(np.array([[0.0], [2.0]])).tolist() == [3.0, 2.0]


# --- damaged trees ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": [0, 0, 0]}, "exactly one parent"),
        ({"left": [2, 0, 0]}, "exactly one parent"),
        ({"left": [3, 0, 0]}, "not among the nodes"),
        ({"right": [-1, 0, 0]}, "not among the nodes"),
        ({"feature": [1, -1, -1]}, "uses another one"),
        ({"feature": [-2, -1, -1]}, "uses another one"),
        ({"value": [0.0, np.nan, 1.0]}, "finite"),
        ({"threshold": [np.nan, 0, 0]}, "not a number"),
        ({"subsets": {0: [0, 1]}}, "whole numbers from 1"),
        ({"subsets": {0: [1.5]}}, "whole numbers from 1"),
    ],
)
def test_what_is_not_a_tree_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        join_trees(1, [stump()._replace(**changes)])


def test_trees_without_a_split_are_refused():
    leaf = {name: np.int32([-1]) for name in ("feature", "subset")}
    ends = {name: np.int32([0]) for name in ("roots", "left", "right")}
    values = {"threshold": np.zeros(1), "missing_left": np.array([False]), "value": np.ones(1)}
    with pytest.raises(ValueError, match="without a split"):
        Ensemble(1, subsets=(), **leaf, **ends, **values)


# --- runtimes -----------------------------------------------------------------------------------


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(100))
def test_onnxruntime_gives_the_same_bits(seed):
    ensemble, X = random_case(seed)
    expected = ensemble.evaluate(X)
    np.testing.assert_array_equal(run(ensemble, X), expected)
    np.testing.assert_array_equal(run(ensemble, X, threads=2), expected)


@pytest.mark.parity
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", [1, 7, 1000, None])
def test_onnxruntime_gives_the_same_bits_in_any_batch(threads, batch):
    rng = np.random.default_rng(3)
    sets = {1: 40}
    # more than 80 trees and 50 rows: from there on onnxruntime divides trees among threads
    trees = [random_tree(rng, sets, 3, 4) for _ in range(100)]
    ensemble, X = join_trees(3, trees, bias=0.1), random_rows(rng, sets, 3, 1500)
    np.testing.assert_array_equal(
        run(ensemble, X, threads=threads, batch=batch), ensemble.evaluate(X)
    )


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(20))
def test_the_reference_evaluator_gives_the_same_bits(seed):
    from onnx.reference import ReferenceEvaluator

    ensemble, X = random_case(seed)
    (found,) = ReferenceEvaluator(as_model(ensemble)).run(None, {"X": X[:20]})
    np.testing.assert_array_equal(found[:, 0], ensemble.evaluate(X[:20]))


@pytest.mark.parity
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_missing_values_in_splits_that_onnxruntime_folds(first, second):
    # x in {1} -> 1, else x in {2} -> 1, else 2: folded to x in {1, 2}
    tree = Tree([0, -1, 0, -1, -1], [0] * 5, [first, 0, second, 0, 0], [1, 0, 3, 0, 0],
                [2, 0, 4, 0, 0], [0, 1.0, 0, 1.0, 2.0], {0: [1], 2: [2]})  # fmt: skip
    ensemble, X = join_trees(1, [tree]), np.array([[1], [2], [3], [np.nan]], dtype=np.float32)
    assert ensemble.evaluate(X).tolist() == [1, 1, 2, 1 if first or second else 2]
    np.testing.assert_array_equal(run(ensemble, X), ensemble.evaluate(X))


@pytest.mark.parity
def test_trees_of_one_leaf_and_no_trees_at_all():
    X = np.zeros((2, 1), dtype=np.float32)
    lone = join_trees(1, [Tree([-1], [0], [0], [0], [0], [0.25])], bias=1.0)
    assert lone.bias == 1.25
    for ensemble in (lone, join_trees(1, []), join_trees(1, [], bias=0.5)):
        np.testing.assert_array_equal(run(ensemble, X), ensemble.evaluate(X))


@pytest.mark.parity
def test_root_whose_leaf_and_node_would_have_the_same_number():
    # onnxruntime up to 1.23 takes such a root for a leaf
    second = Tree([0, -1, 0, -1, -1], [1, 0, 2, 0, 0], [0] * 5, [1, 0, 3, 0, 0], [2, 0, 4, 0, 0],
                  [0, 1.0, 0, 2.0, 3.0])  # fmt: skip
    ensemble = join_trees(1, [stump(), second])
    node = ensemble.node("X", "y")
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    for root in attributes["tree_roots"]:
        true, false = (attributes[f"nodes_{side}nodeids"][root] for side in ("true", "false"))
        assert true != false
    X = np.array([[0], [1.5], [2.5]], dtype=np.float32)
    np.testing.assert_array_equal(run(ensemble, X), ensemble.evaluate(X))
