"""What a torch model's numbers are: read off the last operation that computes them.

The model's own graph of operations is followed backwards from its output, past operations that
only change shape or type. No rows are needed, and nothing is guessed: where the last operation is
none of the known ones, the user has to say what comes out.
"""

from __future__ import annotations

from typing import Any

from recalibrate.scores import Link
from recalibrate.support.interruptions import reraise_interruption

# The model gives probabilities.
_PROBABILITY = {"sigmoid", "softmax"}
# Any numbers whose softmax are the probabilities can be read as logits, log-probabilities too.
_LOGITS = {"logsoftmax"}
# These do not change what a number means. Dropout does nothing in eval mode.
_TRANSPARENT = {
    "clamp", "clip", "clone", "contiguous", "detach", "double", "dropout", "flatten", "float",
    "getitem", "identity", "ravel", "reshape", "select", "slice", "squeeze", "to", "unsqueeze",
    "view",
}  # fmt: skip


def decide_link(model: Any, link: Link | None) -> Link:
    """The scale of a model's scores: as declared, or as its last operation says.

    Raises
    ------
    ValueError
        If neither says it, or both do and differ.
    """
    operation = last_operation(model)
    found: Link | None = None
    if operation in _PROBABILITY:
        found = "identity"
    elif operation in _LOGITS:
        found = "logit"
    if link is None and found is None:
        last = f"its last operation is {operation}" if operation else "its code cannot be followed"
        raise ValueError(
            f"Whether the torch model {type(model).__name__} gives logits, probabilities or "
            f'means cannot be seen from the model ({last}). Declare it: base_link="logit" for '
            'logits (log-odds), base_link="identity" for probabilities or for the mean of a '
            "regression."
        )
    if link is not None and found is not None and link != found:
        raise ValueError(
            f"base_link={link!r} was given, but the torch model {type(model).__name__} ends in "
            f"{operation}, whose scale is {found!r}. Leave base_link out, or pass the model "
            "without that operation."
        )
    return link or found or "identity"


def last_operation(model: Any) -> str | None:
    """Name of the operation that gives a model's numbers; None if it cannot be followed.

    Examples
    --------
    >>> from torch import nn
    >>> last_operation(nn.Sequential(nn.Linear(3, 1), nn.Sigmoid(), nn.Flatten(0)))
    'sigmoid'
    """
    import torch

    if isinstance(model, torch.jit.ScriptModule):
        return _last_of_script(model)
    if isinstance(model, torch.export.ExportedProgram):
        return _last_of_graph(model.graph, {})
    try:
        traced = torch.fx.symbolic_trace(model)
    except Exception as error:  # the model's own code runs here and may raise anything
        reraise_interruption(error)
        return None
    return _last_of_graph(traced.graph, dict(traced.named_modules()))


def _last_of_graph(graph: Any, modules: dict[str, Any]) -> str | None:
    import torch

    node = next(node for node in graph.nodes if node.op == "output").args[0]
    if isinstance(node, tuple | list) and len(node) == 1:
        node = node[0]
    while isinstance(node, torch.fx.Node):
        name = _name_of(node, modules)
        if name not in _TRANSPARENT:
            return name
        node = node.args[0] if node.args else None
    return None


def _name_of(node: Any, modules: dict[str, Any]) -> str | None:
    if node.op == "call_module":
        return _plain(type(modules[node.target]).__name__)
    if node.op == "call_method":
        return _plain(node.target)
    if node.op == "call_function":
        return _plain(node.target.__name__)
    return None  # an input or a parameter


def _last_of_script(model: Any) -> str | None:
    outputs = list(model.inlined_graph.outputs())
    value = outputs[0] if len(outputs) == 1 else None
    while value is not None:
        node = value.node()
        name = _plain(node.kind().removeprefix("aten::"))
        if name not in _TRANSPARENT:
            return None if name.startswith("prim::") else name
        value = next(iter(node.inputs()), None)
    return None


def _plain(name: str) -> str:
    """One spelling for nn.LogSoftmax, log_softmax and aten.log_softmax.int."""
    return name.partition(".")[0].replace("_", "").lower()
