"""A scikit-learn model as ONNX nodes, part by part.

Pipelines, unions, votes, stacks, bags and calibrators are followed down to single estimators, and
each of these is written by whoever knows it best: our own writers (trees, encoders, curves), the
adapter of its framework (xgboost, LightGBM, CatBoost), or skl2onnx. Numbers are float64 all the
way: what is rounded in between would put rows on the wrong side of splits that follow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from recalibrate.support.onnxgraph import ML_DOMAIN, OPSET, GraphBuilder, pruned
from recalibrate.support.threads import reraise_interruption
from recalibrate_adapters.agreement import first_line
from recalibrate_adapters.forest import Forest
from recalibrate_adapters.sklearn_trees import (
    forest_link,
    predicting_class,
    read_forest,
    tree_readers,
)
from recalibrate_adapters.treeops import RewriteError, rewrite_trees

if TYPE_CHECKING:
    import onnx

__all__ = [
    "Block",
    "NotWrittenError",
    "Part",
    "RewriteError",
    "Writer",
    "computed",
    "unwrapped",
]


# --- Nodes of ours inside of the graph that skl2onnx builds -------------------------------------


class _OperatorNodes(GraphBuilder):
    """The nodes of one operator, from its inputs to its outputs.

    Versions of operators are not told: skl2onnx refuses ai.onnx.ml 5, which is set later.
    """

    def __init__(self, scope: Any, operator: Any) -> None:
        super().__init__(scope.get_unique_operator_name("recalibrate") + "/")
        self._operator = operator

    def finish(self, container: Any, result: str) -> None:
        """Give out a matrix in the type that is asked for; of a classifier the classes too."""
        outputs = self._operator.outputs
        double = type(outputs[-1].type).__name__ == "DoubleTensorType"
        self.same(self.cast(result, "float64" if double else "float32"), outputs[-1].full_name)
        if len(outputs) > 1:
            classes = np.asarray(self._operator.raw_operator.classes_)
            whole = classes.dtype.kind in "biu"
            values = classes.astype(np.int64) if whole else classes.astype(str).astype(object)
            best = self.op("ArgMax", result, axis=1, keepdims=0)
            label = self.op("Gather", self.constant(values), best, axis=0)
            self.same(label, outputs[0].full_name)
        container.nodes.extend(self.nodes)
        container.initializers.extend(self.initializers)


# --- Our own converters inside of models that skl2onnx converts ---------------------------------
#
# skl2onnx asks these for every tree model it meets inside of others, as in AdaBoost. Its own ignore
# missing values, and fail on categorical features.


def _own_converters() -> dict[type, Any]:
    """What ``convert_sklearn`` takes as ``custom_conversion_functions``."""
    return dict.fromkeys(tree_readers(), _convert_trees)


def _own_shapes() -> dict[type, Any]:
    """What ``convert_sklearn`` takes as ``custom_shape_calculators``."""
    return dict.fromkeys(tree_readers(), _set_shapes)


def _set_shapes(operator: Any) -> None:
    """Shapes of the outputs; their types are those of the input, double or float."""
    from skl2onnx.common.data_types import (
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )

    model = operator.raw_operator
    n_rows = operator.inputs[0].get_first_dimension()
    double = isinstance(operator.inputs[0].type, DoubleTensorType)
    number = DoubleTensorType if double else FloatTensorType
    if not hasattr(model, "classes_"):
        operator.outputs[0].type = number([n_rows, 1])
        return
    text = np.asarray(model.classes_).dtype.kind not in "biu"
    operator.outputs[0].type = (StringTensorType if text else Int64TensorType)([n_rows])
    operator.outputs[1].type = number([n_rows, len(model.classes_)])


def _convert_trees(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of a tree model to the graph that skl2onnx builds."""
    model = operator.raw_operator
    if len(operator.inputs) != 1:
        raise RewriteError("a tree model inside has several inputs")
    nodes = _OperatorNodes(scope, operator)
    source = operator.inputs[0].full_name
    if not _forest(model, 0 if hasattr(model, "classes_") else None).wide:
        source = nodes.cast(source, "float32")  # which it reads, whatever it is given
    if hasattr(model, "classes_"):
        options = container.get_options(model, {"raw_scores": False}, fail=False) or {}
        result = _write_classes(nodes, model, source, raw=bool(options.get("raw_scores")))
    else:
        forest = _forest(model, None)
        result = forest.write_sums(nodes, source)[0]
        result = nodes.op("Exp", result) if forest.response == "exp" else result
    nodes.finish(container, result)


def _write_classes(nodes: _OperatorNodes, model: Any, source: str, *, raw: bool) -> str:
    """One column per class."""
    forest = _forest(model, 1)
    if forest_link(model, 1) == "logit":
        margin = forest.write_sums(nodes, source)[0]
        both = nodes.concat([nodes.op("Neg", margin), margin])
        return both if raw else nodes.op("Sigmoid", both)
    if forest.response == "softmax":
        sums = nodes.concat(forest.write_sums(nodes, source))
        return sums if raw else nodes.op("Softmax", sums)
    forests = [_forest(model, k) for k in range(len(model.classes_))]
    return nodes.concat([part.write_sums(nodes, source)[0] for part in forests])


def _forest(model: Any, position: int | None) -> Forest:
    forest = read_forest(model, position, None)
    if forest is None or forest.why_no_graph:
        raise RewriteError(f"the trees of a {type(model).__name__} inside cannot be read")
    return forest


Width = Literal["float64", "float32"]
Method = Literal["predict_proba", "decision_function", "predict"]

_ML_OPSET_OF_CONVERTERS = 3


class NotWrittenError(Exception):
    """A part of the model has no graph; the message says which and why."""


@dataclass(frozen=True)
class Part:
    """Columns side by side in one tensor: a float64 matrix, or one column of text.

    ``sources`` are the input columns that they are, unchanged; None for what was computed.
    """

    tensor: str
    sources: tuple[str | None, ...]
    text: bool = False

    @property
    def width(self) -> int:
        return len(self.sources)


Block = tuple[Part, ...]
Transform = Callable[["Writer", Any, Block], Block]
Predict = Callable[["Writer", Any, Block, Method], str]


def computed(tensor: str, width: int) -> Block:
    """A block of numbers that are no input columns."""
    return (Part(tensor, (None,) * width),)


class Writer(GraphBuilder):
    """Collects the nodes of a model.

    Parameters
    ----------
    width
        Precision of the parts that skl2onnx converts: some of its operators know only float32.

    Attributes
    ----------
    known
        By input column, the categories without which the model refuses a row.
    float32_scores
        Tensors that a model computes in float32, whose last bits a graph cannot follow.
    """

    def __init__(self, width: Width) -> None:
        super().__init__()
        self.width: Width = width
        self.known: dict[str, list[Any]] = {}
        self.float32_scores: set[str] = set()
        self._inner = 0

    def transform(self, step: Any, block: Block) -> Block:
        """What a fitted transformer makes of a block."""
        if step is None or step == "passthrough":
            return block
        from sklearn.feature_selection import SelectorMixin

        step = unwrapped(step)
        if isinstance(step, SelectorMixin):
            return self.pick(block, step.get_support(indices=True))
        write = _transforms().get(predicting_class(step))
        if write is not None:
            return write(self, step, block)
        tensor = self.convert(step, block, None)
        return computed(tensor, _count_outputs(step, block))

    def outputs(self, model: Any, block: Block, method: Method) -> str:
        """What a method of a fitted model gives, as a float64 matrix.

        One column, or one per class; `decision_function` of two classes is one column.
        """
        model = unwrapped(model)
        if _has_steps(model) and self.reads_float32(part.tensor for part in block):
            raise NotWrittenError(
                f"a {type(model).__name__} splits scores that a model inside computes in float32: "
                "beside a split their last bit, which a graph cannot follow, changes predictions"
            )
        write = _predicts().get(predicting_class(model))
        if write is not None:
            return write(self, model, block, method)
        if not is_ours(model):
            from recalibrate_adapters.sklearn_models import write_foreign

            return write_foreign(self, model, block, method)
        return self.convert(model, block, method)

    def reads_float32(self, tensors: Iterable[str]) -> bool:
        """Whether any of the tensors is computed from scores of a model in float32."""
        if not self.float32_scores:
            return False
        reached = set(tensors)
        for node in reversed(self.nodes):  # they are in the order of computation
            if not reached.isdisjoint(node.output):
                reached.update(node.input)
        return not reached.isdisjoint(self.float32_scores)

    def pick(self, block: Block, positions: Sequence[int]) -> Block:
        """Some columns of a block, in this order."""
        places = [(part, j) for part in block for j in range(part.width)]
        picked: list[tuple[Part, list[int]]] = []
        for position in positions:
            part, j = places[int(position)]
            if picked and picked[-1][0] is part:
                picked[-1][1].append(j)
            else:
                picked.append((part, [j]))
        return tuple(self._some(part, columns) for part, columns in picked)

    def _some(self, part: Part, columns: list[int]) -> Part:
        if columns == list(range(part.width)):
            return part
        sources = tuple(part.sources[j] for j in columns)
        return Part(self.columns(part.tensor, columns), sources, part.text)

    def single(self, block: Block) -> list[Part]:
        """The columns of a block, one by one."""
        count = sum(part.width for part in block)
        return [part for j in range(count) for part in self.pick(block, [j])]

    def matrix(self, block: Block) -> str:
        """All columns as one matrix of numbers."""
        texts = [part.sources[0] for part in block if part.text]
        if texts:
            raise NotWrittenError(
                f"the text of column {texts[0]!r} reaches a part that takes numbers"
            )
        return self.concat([part.tensor for part in block])

    def rows(self, block: Block) -> str:
        """Zeros, one per row [N, 1]: what constants are added to."""
        count = self.op("Shape", block[0].tensor, start=0, end=1)
        shape = self.op("Concat", count, self.constant(np.array([1], dtype=np.int64)), axis=0)
        return self.op("Expand", self.constant(np.zeros((1, 1))), shape)

    def place(self, column: str, cuts: ArrayLike) -> str:
        """How many of the ascending cuts a column [N, 1] reaches (x >= cut), int64 [N].

        By a tree, whose comparisons are exact and which needs no memory for rows times cuts; NaN
        reaches all.
        """
        from recalibrate.graph.trees import Leaf, flatten, search

        below = np.nextafter(np.asarray(cuts, dtype=np.float64), -np.inf).tolist()
        tree = search(0, below, [Leaf(float(k)) for k in range(len(below) + 1)])
        found = self.trees(flatten([tree], 1, lambda _: 0), column)
        return self.flat(self.cast(found, "int64"))

    def sum_of(self, tensors: Sequence[str], weights: Sequence[float] | None = None) -> str:
        """Their mean, weighted or not."""
        shares = np.ones(len(tensors)) if weights is None else np.asarray(weights, dtype=float)
        parts = [
            tensor if share == 1.0 else self.op("Mul", tensor, self.number(float(share)))
            for tensor, share in zip(tensors, shares, strict=True)
        ]
        total = parts[0] if len(parts) == 1 else self.op("Sum", *parts)
        return self.op("Div", total, self.number(float(shares.sum())))

    def both(self, second: str) -> str:
        """Probabilities of two classes from that of the second."""
        return self.concat([self.op("Sub", self.number(1.0), second), second])

    def take_in(self, model: onnx.ModelProto, feed: Mapping[str, str]) -> str:
        """Nodes of another graph; its last output, in float64."""
        self._inner += 1
        prefix = f"inner{self._inner}/"
        self.include(model, prefix, feed)
        return self.cast(prefix + model.graph.output[-1].name, "float64")

    def convert(self, model: Any, block: Block, method: Method | None) -> str:
        """By skl2onnx; of a classifier the numbers per class."""
        sources, types = {}, []
        if any(part.text for part in block):
            for number, part in enumerate(self.single(block)):
                name = f"c{number}"
                kind: Width | Literal["string"] = "string" if part.text else self.width
                types.append((name, kind, 1))
                sources[name] = part.tensor if part.text else self.cast(part.tensor, self.width)
        else:
            matrix = self.matrix(block)
            types.append(("X", self.width, sum(part.width for part in block)))
            sources["X"] = self.cast(matrix, self.width)
        try:
            converted = _convert(_as_parent(model), types, raw=method == "decision_function")
        except Exception as error:  # converters raise whatever they come across
            reraise_interruption(error)
            kind_of = type(model).__name__
            inner = error.args[0] if isinstance(error, KeyError) and error.args else None
            if isinstance(inner, type):  # it looks converters up by the class
                why = f"skl2onnx has no converter for {inner.__name__}, a part of {kind_of}"
            elif "Unable to find a shape calculator" in str(error):
                why = f"skl2onnx has no converter for {kind_of}"
            else:
                why = f"skl2onnx cannot convert {kind_of} ({first_line(error)})"
            raise NotWrittenError(why) from error
        found = self.take_in(converted, sources)
        if method is not None and self.width == "float32":
            self.float32_scores.add(found)
        if method == "decision_function" and len(getattr(model, "classes_", ())) == 2:
            return self.columns(found, [1])
        return self.column(found) if method == "predict" else found


def _convert(model: Any, types: Sequence[tuple[str, str, int]], *, raw: bool) -> onnx.ModelProto:
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    kinds = {"float64": DoubleTensorType, "float32": FloatTensorType, "string": StringTensorType}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its own dependencies and unrelated options
        converted = convert_sklearn(
            model,
            initial_types=[(name, kinds[kind]([None, width])) for name, kind, width in types],
            options={id(model): {"raw_scores": True}} if raw else None,
            target_opset={"": OPSET, ML_DOMAIN: _ML_OPSET_OF_CONVERTERS},
            custom_conversion_functions=_own_converters(),
            custom_shape_calculators=_own_shapes(),
        )
    return rewrite_trees(_numbers_only(converted))


def _as_parent(model: Any) -> Any:
    """The model as the class that it predicts like: skl2onnx looks at the class itself."""
    kind = predicting_class(model)
    if kind is type(model):
        return model
    parent = copy(model)
    parent.__class__ = kind
    return parent


def _numbers_only(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without labels and maps, which keep operators alive that nothing needs."""
    outputs = list(model.graph.output)
    name = outputs[-1].name
    for node in model.graph.node:
        if node.op_type == "ZipMap" and name in node.output:
            name = node.input[0]
    result = pruned(model, [name])
    del result.graph.output[:]
    result.graph.output.add().name = name
    return result


def _has_steps(model: Any) -> bool:
    """Whether predictions jump: those of trees and neighbours, other frameworks' included."""
    kind = predicting_class(model)
    named = kind.__name__.startswith(("AdaBoost", "KNeighbors", "RadiusNeighbors"))
    return named or kind in tree_readers() or not is_ours(model)


def _count_outputs(step: Any, block: Block) -> int:
    try:
        return len(step.get_feature_names_out())
    except Exception as error:  # not every transformer has names; some need the input's
        reraise_interruption(error)
        components = getattr(step, "n_components", None)
        return int(components) if components else sum(part.width for part in block)


def unwrapped(model: Any) -> Any:
    """The model inside of search objects, chosen thresholds, self-training, one-step pipelines."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.pipeline import Pipeline
    from sklearn.semi_supervised import SelfTrainingClassifier

    wrappers = {
        SelfTrainingClassifier: "estimator_",
        BaseSearchCV: "best_estimator_",
        FixedThresholdClassifier: "estimator_",
        TunedThresholdClassifierCV: "estimator_",
        FrozenEstimator: "estimator",
    }
    for kind, attribute in wrappers.items():
        if isinstance(model, kind) and hasattr(model, attribute):
            return unwrapped(getattr(model, attribute))
    if isinstance(model, Pipeline) and type(model).__module__.startswith("imblearn."):
        # Samplers change the rows that a pipeline is fitted to, and do nothing to new ones.
        steps = [(name, step) for name, step in model.steps if not hasattr(step, "fit_resample")]
        return unwrapped(Pipeline(steps))
    if isinstance(model, Pipeline) and len(model.steps) == 1:
        return unwrapped(model[0])
    return model


def boosted_by_us(model: Any) -> Any:
    """What an estimator of ours has fitted, a model with a graph; None for all other models.

    A classifier's must be about the labels 0 and 1.
    """
    fitted = getattr(model, "model_", None)
    if not type(model).__module__.startswith("recalibrate.") or fitted is None:
        return None
    classes = getattr(model, "classes_", None)
    return fitted if classes is None or list(classes) == [0, 1] else None


def is_ours(model: Any) -> bool:
    """Whether scikit-learn's adapter is the one for the model."""
    from recalibrate.bases.protocol import find_adapter

    if boosted_by_us(model) is not None:
        return False
    entry = find_adapter(model)
    return entry is None or entry.name == "sklearn"


@cache
def _transforms() -> dict[type, Transform]:
    from recalibrate_adapters import sklearn_models, sklearn_steps
    from recalibrate_adapters.sklearn_models import kernel_transforms
    from recalibrate_adapters.sklearn_steps import encoder_writers

    return {
        **sklearn_steps.writers(),
        **encoder_writers(),
        **sklearn_models.transforms(),
        **kernel_transforms(),
    }


@cache
def _predicts() -> dict[type, Predict]:
    from recalibrate_adapters import sklearn_models, sklearn_trees
    from recalibrate_adapters.sklearn_models import kernel_writers

    trees = dict.fromkeys(sklearn_trees.tree_readers(), sklearn_models.write_trees)
    return {**trees, **sklearn_models.writers(), **kernel_writers()}
