"""torch models: nn.Module, TorchScript and ExportedProgram, on whatever device they are.

A model gets one tensor and gives one number per row (shape [N] or [N, 1]), or one per class
(shape [N, C]). Features are float32, float64 input is rounded once; a model whose weights are
float64 gets float64. Rows may have any shape; for images or text give H its own table with
``Z=``.

The model runs in batches, in eval mode and without gradients; afterwards the training flags of
all its parts are as they were. On a CPU, scores come from the model's ONNX graph where that says
the same, so that they are those of the exported file; on another device the model itself scores.
"""

from __future__ import annotations

import io
import logging
import operator
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.labels import read_scores
from recalibrate.data.table import find_columns
from recalibrate.data.values import read_numbers
from recalibrate.scores import Link, runs_code
from recalibrate.support.checks import ModelFileError, require
from recalibrate.support.onnxgraph import OPSET, TYPES, GraphBuilder, value_info
from recalibrate.support.threads import reraise_interruption
from recalibrate_adapters.agreement import Candidate, DecidedBase, Decision, first_line
from recalibrate_adapters.classes import EVERY, class_score
from recalibrate_adapters.frames import numbers

if TYPE_CHECKING:
    import onnx
    import torch


# --- A user's rows as the numbers of the one tensor that a torch model takes --------------------


MORE_COLUMNS = (
    " If X has more columns than the model takes, tell it which ones are its own: "
    'model.feature_names = ["age", ...].'
)


def _read_floats(X: Any, names: tuple[str, ...] | None, wide: bool) -> NDArray[Any]:
    """A DataFrame's columns, or an array of any rank, as float32 or float64."""
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    dtype = np.float64 if wide else np.float32
    if hasattr(X, "iloc"):
        given = [str(name) for name in X.columns]
        chosen = find_columns(names or given, given)
        try:
            columns = [numbers(given[j], X.iloc[:, j], wide=wide) for j in chosen]
        except ValueError as error:
            raise ValueError(f"{error}{'' if names else MORE_COLUMNS}") from error
        return np.column_stack(columns).astype(dtype)
    array = np.asarray(X)
    if names is not None and array.shape[1:] != (len(names),):
        raise ValueError(
            f"X has shape {array.shape}, but the torch model takes {len(names)} columns."
        )
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # beyond float32 is infinite, as documented
            return np.array(array, dtype=dtype)
    if array.ndim == 2:
        columns = [read_numbers(f"x{j}", array[:, j], wide=wide) for j in range(array.shape[1])]
        return np.column_stack(columns).astype(dtype)
    flat = read_numbers("X", array.reshape(-1), wide=wide)
    return flat.astype(dtype).reshape(array.shape)


def _holds_whole(X: Any) -> bool:
    """Whether all numbers are of an integer type."""
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    types = list(X.dtypes) if hasattr(X, "iloc") else [np.asarray(X).dtype]
    return all(getattr(kind, "kind", "") in "iu" for kind in types)


def _refuse_several(X: Any) -> None:
    """One tensor is what a base model takes."""
    parts = list(X.values()) if isinstance(X, dict) else X
    if isinstance(parts, tuple | list) and any(np.ndim(part) > 1 for part in parts[:9]):
        raise ValueError(
            f"X is a {type(X).__name__} of {len(parts)} arrays, but a torch model is asked with "
            "one tensor. Pass a function of X that calls the model with all of them and returns "
            "one score per row (and a table for H as Z=)."
        )


# --- What a torch model's numbers are: read off the last operation that computes them -----------
#
# The model's own graph of operations is followed backwards from its output, past operations that
# only change shape or type. No rows are needed, and nothing is guessed: where the last operation is
# none of the known ones, the user has to say what comes out.


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


def _decide_link(model: Any, link: Link | None) -> Link:
    """The scale of a model's scores: as declared, or as its last operation says.

    Raises
    ------
    ValueError
        If neither says it, or both do and differ.
    """
    operation = _last_operation(model)
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


def _last_operation(model: Any) -> str | None:
    """Name of the operation that gives a model's numbers; None if it cannot be followed.

    Examples
    --------
    >>> from torch import nn
    >>> _last_operation(nn.Sequential(nn.Linear(3, 1), nn.Sigmoid(), nn.Flatten(0)))
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


# --- A torch model as an ONNX graph, by whichever of torch's exporters can do it ----------------


_TYPES = {
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "int64": "INT64",
}
_SHAPES = "torch.fx.experimental.symbolic_shapes"
_INNER = "inner/"  # before all names of torch's own graph

Exporter = Callable[[Any, Any], "onnx.ModelProto"]


def exporters(model: Any) -> list[Exporter]:
    """The exporters that may know a kind of model, the best one first."""
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return [_export_program]
    if isinstance(model, torch.jit.ScriptModule):
        return [_export_trace]
    # The tracer is quick and needs no further package, but does not know control flow.
    return [_export_trace, _export_module]


def _try_export(exporter: Exporter, model: Any, sample: Any) -> onnx.ModelProto | str:
    """The model as a graph, or why there is none.

    Parameters
    ----------
    exporter
        One of `exporters`.
    model : nn.Module, ScriptModule or ExportedProgram
        In eval mode.
    sample : Tensor
        Two rows: a batch of one may be taken for a constant.
    """
    try:
        with _quiet():
            return exporter(model, sample)
    except SystemError:  # the tracer's warning, an error for us, inside of torch's own code
        return "torch cannot trace the model: what it does depends on the numbers in the rows"
    except ImportError as error:
        return f"torch's newer exporter, which knows more models, needs a package ({error})"
    except Exception as error:  # the model's own code runs here and may raise anything
        reraise_interruption(error)
        return f"torch cannot export the model to ONNX ({first_line(error)})"


def _score_graph(
    exported: onnx.ModelProto, sample: Any, width: int | None, column: int | None, link: Link
) -> onnx.ModelProto:
    """An exported model with one input "X" and one float64 output "score".

    Parameters
    ----------
    exported
        As the exporter made it.
    sample : Tensor
        Rows as the model takes them: their shape and type.
    width
        Number of outputs per row; None: one, without a dimension of its own.
    column
        Which of several outputs is the score; None: there is only one.
    link
        Whether several outputs are logits or probabilities.
    """
    from onnx import TensorProto

    kind = str(sample.dtype).removeprefix("torch.")
    taken = kind if kind in TYPES else "float32"
    inputs = [value_info("X", taken, ["N", *sample.shape[1:]])]
    builder = GraphBuilder()
    source = builder.cast("X", getattr(TensorProto, _TYPES[kind]))
    builder.include(exported, _INNER, {exported.graph.input[0].name: source})
    score = _INNER + exported.graph.output[0].name
    if column is not None and width is not None:
        wide = builder.cast(score, "float64")
        score = builder.class_score(wide, column, width, logits=link == "logit")
        if column == EVERY:
            return builder.score_model(inputs, score, width=width)
    return builder.score_model(inputs, score)


def _export_trace(model: Any, sample: Any) -> onnx.ModelProto:
    """By running the model once and writing down what it does."""
    import onnx
    import torch

    target = io.BytesIO()
    with warnings.catch_warnings():
        # The tracer only warns where it writes down one branch of several: an error for us.
        tracing: Any = torch.jit  # its type hints do not name the warning
        warnings.simplefilter("error", tracing.TracerWarning)
        export: Callable[..., Any] = torch.onnx.export
        export(
            model,
            (sample,),
            target,
            dynamo=False,
            opset_version=OPSET,
            input_names=["X"],
            output_names=["outputs"],
            dynamic_axes={"X": {0: "N"}, "outputs": {0: "N"}},
        )
    return onnx.load_from_string(target.getvalue())


def _export_module(model: Any, sample: Any) -> onnx.ModelProto:
    """By torch.export, which refuses what it cannot follow."""
    import torch

    rows = {0: torch.export.Dim("N")}
    return _export_new(model, args=(sample,), dynamic_shapes=(rows,))


def _export_program(model: Any, sample: Any) -> onnx.ModelProto:
    return _export_new(model)


def _export_new(model: Any, **options: Any) -> onnx.ModelProto:
    import torch

    require("onnxscript", "torch")
    export: Callable[..., Any] = torch.onnx.export
    program = export(model, dynamo=True, opset_version=OPSET, verbose=False, **options)
    proto: onnx.ModelProto = program.model_proto
    return proto


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporters' notes on themselves away from the user."""
    names = ("torch", "torch.onnx", "torch.export", "torch.fx", _SHAPES, "onnxscript", "onnx_ir")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        # What it could not follow is printed, too; the error says enough.
        sink = io.StringIO()
        with warnings.catch_warnings(), redirect_stdout(sink), redirect_stderr(sink):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


# --- torch models: nn.Module, TorchScript and ExportedProgram, on whatever device they are ------


Scores = NDArray[np.float64]

BATCH_BYTES = 2**25
BATCH_ROWS = 8192
PROBES = 256


class TorchBase(DecidedBase):
    """A torch model as a base.

    Parameters
    ----------
    model : nn.Module, ScriptModule or ExportedProgram
        If it has an attribute ``feature_names``, these columns are taken from a DataFrame.
    link : {"identity", "logit"} or None
        What comes out: log-odds ("logit"), or probabilities or means ("identity"). None: as the
        model's last operation says (sigmoid, softmax, log_softmax), else an error.
    target_class : int or None
        Number of the output whose probability is the score, for models with one per class. With
        two classes the default is 1.

    Examples
    --------
    >>> import numpy as np, torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Sigmoid())
    >>> base = TorchBase(model)
    >>> base.link
    'identity'
    >>> base.scores(np.zeros((3, 2))).shape
    (3,)
    """

    def __init__(self, model: Any, *, link: Link | None = None, target_class: Any = None) -> None:
        self._model = _Model(model)
        self.target_class = target_class
        number = _read_class(target_class)
        self._names = _feature_names(model)
        self._whole: bool | None = None
        self.link: Link = _decide_link(self._model.source, link)
        self.name = f"torch {type(model).__name__}"
        # An object of its own: methods of the base, bound to the decision, would keep the base
        # with its weights until the garbage collector finds the cycle.
        self._asked = _Asked(self._model, self.link, number)
        self._decision = Decision(
            link=self.link,
            native=self._asked.native,
            candidates=self._asked.candidates,
            probes=_first_rows,
        )

    def __repr__(self) -> str:
        return f"<TorchBase: {self.name}, link={self.link!r}>"

    @property
    def classes(self) -> range | None:
        """As many as outputs, once there are some."""
        return None if self._asked.count is None else range(self._asked.count)

    @property
    def unnamed_outputs(self) -> bool:
        """Whether the score is one of two outputs, which have no names."""
        return self._asked.count == 2

    def columns(self) -> tuple[str, ...] | None:
        """The model's ``feature_names``, if it has any."""
        return self._names

    def scores(self, X: Any) -> Scores:
        """One score per row of X: a DataFrame, array or tensor whose first dimension is rows."""
        rows = self._read(X)
        if self._model.device.type == "cpu":
            return _checked(self._decision.scores(rows))
        self._decision.scores(rows[:PROBES])  # only to find out about the graph
        return self._asked.native(rows)

    def _read(self, X: Any) -> torch.Tensor:
        """Rows as one tensor of the model's floats, or int64 if whole numbers were given so."""
        import torch

        floats = torch.float64 if self._model.dtype == torch.float64 else torch.float32
        if isinstance(X, torch.Tensor):
            whole = not X.is_floating_point() and X.dtype != torch.bool
            rows: torch.Tensor = X.detach().to(torch.int64 if whole else floats)
        else:
            _refuse_several(X)
            rows = torch.from_numpy(_read_floats(X, self._names, floats == torch.float64))
            rows = rows.to(torch.int64) if self._takes_whole(X, rows) else rows
        if rows.ndim == 0 or len(rows) == 0:
            raise ValueError(f"X must have at least one row, but its shape is {tuple(rows.shape)}.")
        return rows

    def _takes_whole(self, X: Any, rows: torch.Tensor) -> bool:
        """Whether whole numbers stay whole, as embeddings want them; found out by trying once."""
        import torch

        if not _holds_whole(X) or not len(rows):
            return False
        if self._whole is None:
            self._whole = False
            try:
                self._model.run(rows[:2])
            except ValueError:
                with suppress(ValueError):
                    self._model.run(rows[:2].to(torch.int64))
                    self._whole = True
        return self._whole


def _refuse_pickle(path: Path) -> None:
    """Refuse a file of torch.save, whether it is trusted or not: it is a pickle."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = [name.partition("/")[2] for name in archive.namelist()]
        pickled = "data.pkl" in names and "constants.pkl" not in names
    else:  # files of torch 1.5 and before
        with path.open("rb") as file:
            pickled = file.read(1) == b"\x80"
    if pickled:
        raise ModelFileError(
            f"{str(path)!r} is a file of torch.save, a pickle, and not TorchScript. A pickle could "
            "run any code, so it is not opened here: load it yourself (torch.load), and pass the "
            "module; a state_dict has to be loaded into its module first."
        )


@runs_code(
    "holds a program (TorchScript), parts of which run while it is opened", check=_refuse_pickle
)
def read_script(path: Path, *, link: Link | None = None, target_class: Any = None) -> TorchBase:
    """A TorchScript file as a base; pickled modules are refused."""
    import torch

    try:
        with _quiet_about_scripts():
            load: Callable[..., Any] = torch.jit.load
            model = load(str(path), map_location="cpu")
    except Exception as error:  # torch raises whatever its reader, or the file's code, does
        reraise_interruption(error)
        raise ModelFileError(
            f"{str(path)!r} is not a TorchScript file ({first_line(error)})"
        ) from error
    return TorchBase(model, link=link, target_class=target_class)


@runs_code("is an archive of torch.export, which may hold pickles")
def read_program(path: Path, *, link: Link | None = None, target_class: Any = None) -> TorchBase:
    """A file of torch.export.save as a base."""
    import torch

    try:
        program = torch.export.load(str(path))
    except Exception as error:  # torch raises whatever its reader of the archive does
        reraise_interruption(error)
        raise ModelFileError(
            f"{str(path)!r} is not a file of torch.export.save ({first_line(error)})"
        ) from error
    return TorchBase(program, link=link, target_class=target_class)


@contextmanager
def _quiet_about_scripts() -> Iterator[None]:
    """TorchScript is deprecated as a whole, which is for its users to decide about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


# Functions and not lambdas, so that a base can be sent to other processes.


def _first_rows(rows: torch.Tensor) -> list[torch.Tensor]:
    return [rows[:PROBES], rows[:1]]


def _feed(rows: torch.Tensor) -> dict[str, NDArray[Any]]:
    return {"X": rows.cpu().numpy()}


@dataclass(eq=False)
class _Asked:
    """A model, and what it is asked for.

    Attributes
    ----------
    model
        The model.
    link
        Scale of its scores.
    target_class
        Number of the output that is the score; None: the second of two, or all.
    count
        Its outputs per row, where they are several; None until some are seen.
    """

    model: _Model
    link: Link
    target_class: int | None
    count: int | None = None

    def native(self, rows: torch.Tensor) -> Scores:
        """Scores by the model itself."""
        return _checked(self._reduce(self.model.run(rows)))

    def _reduce(self, outputs: Scores) -> Scores:
        """One score per row from the model's outputs."""
        column = self._column(outputs)
        if column is None:
            return outputs.reshape(-1)
        return class_score(outputs, column, logits=self.link == "logit")

    def _column(self, outputs: Scores) -> int | None:
        """Which of several outputs per row is the score; None where there is one only."""
        if outputs.ndim == 1 or outputs.shape[1] == 1:
            if self.target_class is not None:
                raise ValueError(
                    f"target_class={self.target_class} was given, but the torch model gives one "
                    "number per row, not one per class. Leave target_class (or positive) out."
                )
            return None
        count = outputs.shape[1]
        self.count = count
        chosen = self.target_class
        if chosen is None:
            chosen = 1 if count == 2 else EVERY
        if chosen >= count:
            raise ValueError(
                f"The torch model gives {count} numbers per row, one for each of the classes 0 to "
                f"{count - 1}. Say which of them y is about: target_class=, got "
                f"{self.target_class}."
            )
        if self.link == "identity":
            _check_probabilities(outputs)
        return chosen

    def candidates(self, rows: torch.Tensor) -> Iterable[Candidate | str]:
        """Graphs to try."""
        sample = self.model.place(rows[[0, 0]] if len(rows) == 1 else rows[:2])
        outputs = self.model.run(rows[:1])
        width = None if outputs.ndim == 1 else outputs.shape[1]
        failed: list[str] = []
        for exporter in exporters(self.model.source):
            with self.model.evaluating():
                exported = _try_export(exporter, self.model.source, sample)
            if isinstance(exported, str):
                failed.append(exported)
                continue
            model = _score_graph(exported, sample, width, self._column(outputs), self.link)
            yield Candidate(model, _feed)
        if failed:  # all of them: the second may only lack a package
            yield "; ".join(dict.fromkeys(failed))


class _Model:
    """Runs a torch model without leaving traces in it."""

    def __init__(self, model: Any) -> None:
        import torch

        self.source = getattr(model, "_orig_mod", model)  # of torch.compile
        if isinstance(self.source, torch.export.ExportedProgram):
            _refuse_training_mode(self.source)
            self.module: Any = self.source.module()
            tensors: list[Any] = list(self.source.state_dict.values())
        elif isinstance(self.source, torch.nn.Module):
            self.module = self.source
            tensors = [*self.source.parameters(), *self.source.buffers()]
        else:
            raise TypeError(
                f"The torch object {type(model).__name__} is not a model. Pass an nn.Module, a "
                "TorchScript module or an ExportedProgram."
            )
        floating = [t for t in tensors if t.is_floating_point()]
        self.device = tensors[0].device if tensors else torch.device("cpu")
        self.dtype = floating[0].dtype if floating else torch.float32

    def __getstate__(self) -> dict[str, Any]:
        # Programs have no pickles, but files; the module of one is made anew on the other side.
        import torch

        save: Any = None
        if isinstance(self.source, torch.export.ExportedProgram):
            save = torch.export.save
        elif isinstance(self.source, torch.jit.ScriptModule):
            save = torch.jit.save
        if save is None:
            return {"source": self.source}
        content = BytesIO()
        with _quiet_about_scripts():
            save(self.source, content)
        return {save.__module__.split(".")[1]: content.getvalue()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        import torch

        ((kind, content),) = state.items()
        if kind == "source":
            source = content
        else:
            load: Any = torch.export.load if kind == "export" else torch.jit.load
            with _quiet_about_scripts():
                source = load(BytesIO(content))
        self.__init__(source)  # type: ignore[misc]

    def place(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows on the model's device; floating-point numbers in its precision."""
        return rows.to(self.device, self.dtype if rows.is_floating_point() else None)

    def run(self, rows: torch.Tensor) -> Scores:
        """Outputs of shape [N] or [N, C], batch by batch."""
        per_row = max(1, rows[0].numel() * rows.element_size())
        size = max(1, min(BATCH_ROWS, BATCH_BYTES // per_row))
        with self.evaluating():
            parts = [self._outputs(rows[i : i + size]) for i in range(0, len(rows), size)]
        return np.concatenate(parts)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Eval mode without gradients; afterwards every part is in the mode it was in."""
        import torch

        if self.module is not self.source:  # an exported program is in the mode it was made in
            with torch.no_grad():
                yield
            return
        parts = [part for part in self.module.modules() if hasattr(part, "training")]
        flags = [part.training for part in parts]
        try:
            self.module.eval()
            with torch.no_grad():
                yield
        finally:
            for part, flag in zip(parts, flags, strict=True):
                part.training = flag

    def _outputs(self, rows: torch.Tensor) -> Scores:
        import torch

        try:
            outputs = self.module(self.place(rows))
        except (RuntimeError, AssertionError, IndexError, TypeError, ValueError) as error:
            raise ValueError(
                f"The torch model failed on {len(rows)} rows of shape {tuple(rows.shape[1:])} and "
                f"type {rows.dtype}: {error}.{MORE_COLUMNS if rows.ndim == 2 else ''}"
            ) from error
        if not isinstance(outputs, torch.Tensor):
            raise ValueError(
                f"The torch model returns {type(outputs).__name__}, not a tensor. Pass a function "
                "of X that picks the scores from it."
            )
        if outputs.ndim not in (1, 2) or len(outputs) != len(rows) or 0 in outputs.shape:
            raise ValueError(
                f"The torch model returns a tensor of shape {tuple(outputs.shape)} for "
                f"{len(rows)} rows; it must be [N], [N, 1] or [N, classes]."
            )
        values: NDArray[np.float64] = outputs.detach().to("cpu", torch.float64).numpy()
        return values


def _checked(scores: Scores) -> Scores:
    return read_scores(scores, n_rows=len(scores), probability=False, outputs=None)


def _refuse_training_mode(program: Any) -> None:
    """Dropout and batch statistics are fixed when a program is exported."""
    trains = {"dropout": 2, "batch_norm": 5}  # position of the argument that says so
    for node in program.graph.nodes:
        name = getattr(node.target, "__name__", "").partition(".")[0]
        position = trains.get(name)
        if position is not None and len(node.args) > position and node.args[position] is True:
            raise ValueError(
                f"The ExportedProgram was made in training mode (it has an active {name}). Call "
                "model.eval() before torch.export.export."
            )


def _read_class(target_class: Any) -> int | None:
    if target_class is None:
        return None
    try:
        number = operator.index(target_class)
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(
            "Classes of a torch model are the numbers of its outputs, from 0: "
            f"target_class={target_class!r} is none of them."
        )
    return number


def _feature_names(model: Any) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names", None)
    if not isinstance(names, Sequence) or isinstance(names, str) or not names:
        return None
    return tuple(str(name) for name in names)


def _check_probabilities(outputs: Scores) -> None:
    total = outputs.sum(axis=1)
    # float32 probabilities of many classes add up to 1 to about this
    wrong = np.flatnonzero(~(np.abs(total - 1.0) <= 1e-3))
    if len(wrong):
        raise ValueError(
            f"The torch model was declared to give probabilities, but the {outputs.shape[1]} "
            f"numbers of row {wrong[0]} add up to {total[wrong[0]]:.6g}. Declare logits with "
            'base_link="logit", or pass a function of X that gives the score.'
        )
