"""ONNX files, checked before a runtime sees them.

A graph is a program of numeric operators. What could reach beyond it is refused here (operators
of unknown libraries, weights in files outside of the model's folder), and so is what a runtime
would follow without a check: tensors whose numbers are not there, trees with circles.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.checks import ModelFileError
from recalibrate.support.threads import Pool, reraise_interruption

if TYPE_CHECKING:
    import onnx


# --- onnxruntime sessions, opened in one way: for served models, saved bases and adapters -------


BLOCK_ROWS = 1 << 16
"""Rows per call of the runtime: bounds its temporary memory, and is too large to cost time."""

MOST_CHARACTERS = 1 << 24
"""Characters of an array of texts of fixed width, at four bytes each: one long text in a million
rows would fill the memory."""


def open_session(model: bytes | str, threads: int | None = None) -> Any:
    """A session on the CPU, from the bytes of a model or the path of its file.

    With one thread scores do not depend on how the runtime shares out its sums.
    """
    import onnxruntime

    onnxruntime.disable_telemetry_events()  # this library tells nobody what it is used for
    options = onnxruntime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4  # errors are raised: printing them as well would be noise
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_session(
    session: Any, feed: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None
) -> list[Any]:
    """Outputs of a session for such inputs: those with these names, or all.

    onnxruntime asks Python for every text in an array of objects, and crashes if that raises, as
    it may in the main thread, where signals are handled (Ctrl-C, time limits). It therefore gets
    arrays of fixed width, which it reads alone, or objects in a thread of their own.
    """
    inputs = {name: _fixed_width(values) for name, values in feed.items()}
    run: Callable[[], list[Any]] = partial(session.run, outputs, inputs)
    if all(values.dtype != object for values in inputs.values()):
        return run()
    with Pool(1) as pool:
        return pool.submit(run).result()


def _fixed_width(values: NDArray[Any]) -> NDArray[Any]:
    """Texts as an array of fixed width, unless that would change them or be too large."""
    if values.dtype != object:
        return values
    texts = values.ravel().tolist()
    if set(map(type, texts)) != {str} or "\0" in "".join(texts):  # where onnxruntime would cut them
        return values
    width = max(map(len, texts))
    return values if width * len(texts) > MOST_CHARACTERS else values.astype(f"U{max(width, 1)}")


class GraphRunner:
    """A graph that follows the contract of ``Base.graph()``, ready to score rows.

    It runs on one thread: sums in onnxruntime may depend on the number of threads, and scores
    must be the same numbers in ``fit``, in ``predict`` and on every machine.

    Parameters
    ----------
    model : onnx.ModelProto or bytes
        Graph with one output, one score per row. Inputs: one matrix, or one per column.

    Examples
    --------
    >>> from onnx import TensorProto, helper
    >>> X = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", 1])
    >>> score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["N", 1])
    >>> graph = helper.make_graph([helper.make_node("Neg", ["X"], ["score"])], "g", [X], [score])
    >>> model = helper.make_model(
    ...     graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    ... )
    >>> GraphRunner(model).run({"X": np.array([[1.0], [-0.5]], dtype=np.float32)})
    array([-1. ,  0.5])
    """

    def __init__(self, model: onnx.ModelProto | bytes) -> None:
        self._content = model if isinstance(model, bytes) else model.SerializeToString()
        self._session: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # A session cannot be copied or sent to another process; it is made anew there.
        return {"_content": self._content, "_session": None}

    def run(self, feed: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        """One score per row of the inputs, which are given by name, or a column for every class."""
        if self._session is None:
            self._session = open_session(self._content, threads=1)
        n_rows = len(next(iter(feed.values())))
        parts = []
        for start in range(0, n_rows, BLOCK_ROWS):
            part = {name: values[start : start + BLOCK_ROWS] for name, values in feed.items()}
            parts.append(np.asarray(run_session(self._session, part)[0], dtype=np.float64))
        if not parts:
            return np.empty(0)
        scores = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return scores if scores.ndim == 2 and scores.shape[1] > 1 else scores.reshape(-1)


DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
"""Operators that a plain onnxruntime has; others would need a library of the file's choice."""
MOST_BYTES = 2**31 - 2**20
"""More does not fit into a protobuf message."""
PACKED = ("UINT4", "INT4", "FLOAT4E2M1", "UINT2", "INT2")
"""Types of which several numbers are in a byte."""
TREES = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")


def read_graph(content: bytes, where: str, folder: Path | None = None) -> onnx.ModelProto:
    """The graph of a file's bytes, checked; a :class:`ModelFileError` that begins with ``where``.

    Parameters
    ----------
    content
        The bytes.
    where
        What they are, for messages.
    folder
        Where weights in files of their own may be read from, and nowhere else; None: nowhere.
        They are in the graph then.
    """
    from onnx import ModelProto, TensorProto

    model = ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:  # protobuf's own class of errors, which onnx does not export
        reraise_interruption(error)
        raise ModelFileError(f"{where} is not an ONNX graph: {error}") from error
    if not model.graph.output or not model.opset_import:
        raise ModelFileError(f"{where} is not an ONNX graph: it has no output")
    local = {function.domain for function in model.functions}
    size = len(content)
    for part in _walk(model):
        if any(isinstance(value, bytes) for value in _texts(part)):
            raise ModelFileError(f"{where} is not an ONNX graph: a name in it is not text")
        domain = getattr(part, "domain", "")
        if part is not model and domain not in DOMAINS and domain not in local:
            raise ModelFileError(f"{where} uses operators of the unknown domain {domain[:80]!r}")
        if isinstance(part, TensorProto):
            size += _bring_in(part, where, folder, MOST_BYTES - size)
            _check_tensor(part, where)
        elif getattr(part, "op_type", "") in TREES:
            _check_trees(part, where)
    return model


def _walk(part: Any) -> Iterator[Any]:
    """All parts of a protobuf message, itself included."""
    waiting = [part]
    while waiting:
        part = waiting.pop()
        yield part
        for field, value in part.ListFields():
            if field.message_type is not None:
                waiting.extend([value] if hasattr(value, "ListFields") else value)


def _texts(part: Any) -> Iterator[Any]:
    """Names in a part; protobuf leaves those that are not UTF-8 as bytes."""
    for field, value in part.ListFields():
        if field.type == field.TYPE_STRING:
            yield from ([value] if isinstance(value, str | bytes) else value)


# --- tensors ------------------------------------------------------------------------------------


def _bring_in(tensor: onnx.TensorProto, where: str, folder: Path | None, left: int) -> int:
    """Read the numbers of a tensor that are in another file; gives how many bytes they are."""
    if tensor.data_location != tensor.EXTERNAL and not tensor.external_data:
        return 0
    named = f"{where} keeps the tensor {tensor.name[:80]!r} in another file"
    if folder is None:
        raise ModelFileError(
            f"{named}, but a model in memory, or inside of a file, may not refer to files. Pass "
            "the path of the model's own file."
        )
    told = {entry.key: entry.value for entry in tensor.external_data}
    file = _own_file(told.get("location", ""), folder, named)
    start, size = (_whole(told.get(key, "0"), named) for key in ("offset", "length"))
    size = size or max(file.stat().st_size - start, 0)
    if start + size > file.stat().st_size or size > left:
        raise ModelFileError(
            f"{named}, {size:,} bytes from byte {start:,}: the file is not as long, or too much "
            "for one graph. Run the graph in a function that returns scores, and pass that."
        )
    with open(file, "rb") as opened:
        opened.seek(start)
        tensor.raw_data = opened.read(size)
    del tensor.external_data[:]
    tensor.data_location = tensor.DEFAULT
    return size


def _own_file(location: str, folder: Path, named: str) -> Path:
    """A file inside of the model's folder; links out of it are followed, and refused."""
    home = Path(os.path.realpath(folder))
    plain = bool(location) and "\0" not in location and len(location) < 4096
    file = Path(os.path.realpath(home / location)) if plain else home
    if home not in file.parents or not file.is_file():
        raise ModelFileError(f"{named}, {location[:80]!r}, which is none in the model's own folder")
    return file


def _whole(text: str, named: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ModelFileError(f"{named}, at {text[:40]!r}, which is no place in it")
    return int(text)


def _check_tensor(tensor: onnx.TensorProto, where: str) -> None:
    """Refuse a tensor that says it is larger, or smaller, than its numbers are."""
    from onnx import TensorProto, helper

    count = 1
    for size in tensor.dims:
        count *= size
    named = f"{where} has a tensor {tensor.name[:80]!r} of shape {list(tensor.dims)[:8]}"
    if any(size < 0 for size in tensor.dims) or count > MOST_BYTES:
        raise ModelFileError(f"{named}, which is none")
    if tensor.data_type == TensorProto.STRING:
        found = len(tensor.string_data)
    elif tensor.HasField("raw_data"):
        try:
            kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{named} and of type {tensor.data_type}, which is none"
            ) from error
        if TensorProto.DataType.Name(tensor.data_type) in PACKED:
            return  # onnxruntime counts these
        found, rest = divmod(len(tensor.raw_data), kind.itemsize)
        found += bool(rest)
    else:
        return  # numbers of the message itself, which onnxruntime counts
    if found != count:
        raise ModelFileError(f"{named}, but with {found} numbers")


# --- trees --------------------------------------------------------------------------------------


def _check_trees(node: onnx.NodeProto, where: str) -> None:
    """Refuse trees with nodes that do not exist, or that are met twice."""
    lists = {own.name: np.array(own.ints, dtype=np.int64) for own in node.attribute if own.ints}
    modes = next((own.strings for own in node.attribute if own.name == "nodes_modes"), ())
    try:
        if node.op_type == "TreeEnsemble":
            sound = _are_joined(lists)
        else:
            sound = _are_apart(lists, np.array([mode == b"LEAF" for mode in modes]))
    except (KeyError, ValueError):  # lists that are missing, or of different lengths
        sound = False
    if not sound:
        raise ModelFileError(
            f"{where}: the node {node.name[:80]!r} ({node.op_type}) does not hold trees: some of "
            "its nodes are missing, or come twice"
        )


def _are_joined(lists: dict[str, NDArray[np.int64]]) -> bool:
    """Whether there are trees in a list of nodes beside one of leaves."""
    count, leaves = len(lists["nodes_featureids"]), len(lists["leaf_targetids"])
    sides = []
    for side in ("true", "false"):
        child, leaf = lists[f"nodes_{side}nodeids"], lists[f"nodes_{side}leafs"]
        if len(child) != count or ((leaf != 0) & (leaf != 1)).any():
            return False
        if ((child < 0) | (child >= np.where(leaf == 1, leaves, count))).any():
            return False
        sides.append(np.where(leaf == 1, -1, child))
    return _count_met(lists["tree_roots"], *sides) > 0


def _are_apart(lists: dict[str, NDArray[np.int64]], leaf: NDArray[np.bool_]) -> bool:
    """Whether there are trees in a list of nodes that are known by tree and number."""
    trees, nodes = lists["nodes_treeids"].tolist(), lists["nodes_nodeids"].tolist()
    place = {key: at for at, key in enumerate(zip(trees, nodes, strict=True))}
    if len(place) < len(trees) or len(leaf) != len(trees):
        return False
    sides = []
    for side in ("true", "false"):
        wanted = zip(trees, lists[f"nodes_{side}nodeids"].tolist(), strict=True)
        found = np.array([place.get(key, len(trees)) for key in wanted])
        sides.append(np.where(leaf, -1, found))  # leaves say nothing about children
    below = np.concatenate(sides)
    roots = np.setdiff1d(np.arange(len(trees)), below)
    return _count_met(roots, *sides) == len(trees)


def _count_met(roots: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    """Nodes that are met from the roots, level by level; 0 if one is met twice, or is none.

    A child of -1 is no node.
    """
    met = np.zeros(len(left), dtype=bool)
    front = roots
    while len(front):
        inside = (front >= 0) & (front < len(left))
        if not inside.all() or met[front].any() or len(np.unique(front)) < len(front):
            return 0
        met[front] = True
        front = np.concatenate([left[front], right[front]])
        front = front[front != -1]
    return int(met.sum())
