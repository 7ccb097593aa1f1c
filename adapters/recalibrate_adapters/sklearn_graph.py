"""ONNX graphs of scikit-learn models, as proposals.

`recalibrate_adapters.agreement` decides whether a proposal says what the model says.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from recalibrate.support.interruptions import reraise_interruption
from recalibrate.support.onnxgraph import SCORE, value_info
from recalibrate_adapters.agreement import Candidate, first_line
from recalibrate_adapters.classes import EVERY
from recalibrate_adapters.forest import CALLED_SCORE, NO_NAMES
from recalibrate_adapters.frames import InputKind, column_feed, matrix_feed, text_columns
from recalibrate_adapters.sklearn_task import Task
from recalibrate_adapters.sklearn_writer import Block, NotWrittenError, Part, Width, Writer

if TYPE_CHECKING:
    import pandas as pd


def propose(
    model: Any, task: Task, frame: pd.DataFrame, *, named: bool
) -> Iterator[Candidate | str]:
    """Graphs of a model for rows like these, the most accurate first; texts say what failed.

    Parameters
    ----------
    model
        A fitted model of scikit-learn.
    task
        Which of its outputs is the score.
    frame
        Rows, which tell numbers from text.
    named
        Whether the model knows the names of its columns.
    """
    texts = text_columns(frame)
    if texts and not named:
        yield NO_NAMES
        return
    if texts and SCORE in frame.columns:
        yield CALLED_SCORE
        return
    widths: tuple[Width, ...] = ("float64", "float32")
    for width in widths:
        try:
            yield _candidate(model, task, [str(name) for name in frame], texts, width)
        except NotWrittenError as error:
            yield str(error)
        except Exception as error:  # parts of models are private and may change
            reraise_interruption(error)
            yield f"its parts cannot be read ({first_line(error)})"


def _candidate(
    model: Any, task: Task, names: list[str], texts: list[str], width: Width
) -> Candidate:
    """The model as one graph; a matrix cannot hold text, so with text each column is an input."""
    writer = Writer(width)
    kinds: dict[str, InputKind] = {name: "string" if name in texts else "float64" for name in names}
    if texts:
        inputs = [value_info(name, kind, ["N", 1]) for name, kind in kinds.items()]
        block: Block = tuple(Part(name, (name,), name in texts) for name in names)
    else:
        inputs = [value_info("X", "float64", ["N", len(names)])]
        block = (Part("X", tuple(names)),)
    score = _write_score(writer, model, task, block)
    feed = partial(column_feed, kinds=kinds) if texts else matrix_feed
    # Columns of a matrix are told by their position.
    known = {n if texts else str(names.index(n)): v for n, v in writer.known.items()}
    outputs = len(task.classes or ()) if task.position == EVERY else 1
    graph = writer.score_model(inputs, score, known=known, width=outputs)
    return Candidate(graph, feed, writer.known)


def _write_score(writer: Writer, model: Any, task: Task, block: Block) -> str:
    if task.position is None:
        return writer.outputs(model, block, "predict")
    on_margins = task.link == "logit"
    found = writer.outputs(model, block, "decision_function" if on_margins else task.method)
    if on_margins and len(model.classes_) == 2:
        return found if task.position == 1 else writer.op("Neg", found)
    return found if task.position == EVERY else writer.columns(found, [task.position])
