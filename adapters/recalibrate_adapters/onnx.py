"""ONNX models of any exporter as base models: a path, the bytes of a file, or a ModelProto.

Which output is the score, and what its numbers mean, follows the rules of
`recalibrate_adapters.onnx_outputs`. Columns are found by name where every input is one column, by
position otherwise (or name them: ``OnnxBase(model, columns=[...])``).

The base's own graph is the user's with its labels and maps removed, in the operator versions
that the rest of the graph needs. The first rows that are scored decide whether it still gives the
original's numbers (see `recalibrate_adapters.agreement`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.classes import NOTHING_KNOWN
from recalibrate.graph.facts import MARK, Facts, read_facts
from recalibrate.scores import Link
from recalibrate.support.errors import ModelFileError
from recalibrate.support.interruptions import reraise_interruption
from recalibrate.support.onnxfile import read_graph
from recalibrate.support.onnxgraph import SCORE, GraphBuilder
from recalibrate.support.ort import BLOCK_ROWS, open_session, run_session
from recalibrate_adapters.agreement import (
    ENOUGH_ROWS,
    Candidate,
    DecidedBase,
    Decision,
    check_finite,
)
from recalibrate_adapters.classes import EVERY
from recalibrate_adapters.filechecks import read_content
from recalibrate_adapters.forest import CALLED_SCORE
from recalibrate_adapters.modernise import ConversionError, modernise
from recalibrate_adapters.onnx_inputs import Layout, read_layout
from recalibrate_adapters.onnx_outputs import Output, Reading, as_matrix, choose_output, read_output
from recalibrate_adapters.probes import rows_to_compare

if TYPE_CHECKING:
    import onnx

_INNER = "inner/"  # before all names of the user's graph
# Probabilities in float32 may be off by a little.
_SLACK = 1e-4


class OnnxBase(DecidedBase):
    """An ONNX model as a base.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
        A model that keeps its weights in files of their own must be given by its path.
    output : str, optional
        Name of the output that is the score.
    columns : sequence of str, optional
        Names of the columns of X, in the order of the graph's inputs.
    link : {"identity", "logit"}, optional
        Scale of the output's numbers; where it is needed an error says so.
    target_class : optional
        Class whose probability is the score; needed where there are more than two.

    Raises
    ------
    ValueError
        If it is no valid ONNX model, or its inputs and outputs leave open how to use it.

    Examples
    --------
    >>> from onnx import TensorProto, helper
    >>> X = helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 1])
    >>> p = helper.make_tensor_value_info("p", TensorProto.FLOAT, [None, 1])
    >>> graph = helper.make_graph([helper.make_node("Sigmoid", ["X"], ["p"])], "g", [X], [p])
    >>> model = helper.make_model(
    ...     graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    ... )
    >>> OnnxBase(model).scores(np.array([[0.0]]))
    array([0.5])
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | onnx.ModelProto,
        *,
        output: str | None = None,
        columns: Sequence[str] | None = None,
        link: Link | None = None,
        target_class: Any = None,
    ) -> None:
        source = _Source(model)
        proto = source.proto
        self.name = f"ONNX {source.shown}"
        self._facts = _read_ours(proto, source.shown) if output is None else None
        self.predicts_rates = self._facts is not None and self._facts.exposed
        self._layout = read_layout(proto, columns, self._facts)
        chosen = choose_output(proto, output, ours=self._facts is not None)
        # An object of its own: methods of the base, bound to the decision, would keep the base
        # with its weights until the garbage collector finds the cycle.
        self._asked = _Asked(source, self._layout, chosen)
        self._declared = link
        self.target_class = target_class
        self.unnamed_outputs = False
        self.classes: Sequence[Any] | None = None
        self._wanted = target_class  # of several outputs
        known = NOTHING_KNOWN if self._facts is None else self._facts.known
        if self._facts is not None and self._facts.classes and known.outputs == 1:
            self.classes = known.classes  # of two the second is what the score is about
            self.target_class = known.chosen if target_class is None else target_class
            self._wanted = None if target_class == known.chosen else target_class
        self.link: Link = self._read_link(link)
        values = self._try_zeros()
        if values is not None:
            self._read(values, made=True)
        probes = _first_rows if self._layout.is_tensor else rows_to_compare
        self._decision = Decision(self.link, self._asked.native, self._asked.propose, probes)

    def columns(self) -> tuple[str, ...] | None:
        """Columns that the graph takes, if they have names."""
        return self._layout.names

    def scores(self, X: Any) -> NDArray[np.float64]:
        """One score per row of X."""
        rows = self._layout.read(X)
        if self._asked.reading is None:
            self._read(self._asked.run(rows[:ENOUGH_ROWS]))
        scores = self._decision.scores(rows)
        self._check(scores)
        return scores

    def _read_link(self, link: Link | None) -> Link:
        if self._facts is None:
            return link or "identity"
        own = self._facts.family
        if link not in (None, own.link):
            raise ValueError(f"link={link!r} was given, but the file says link={own.link!r}.")
        self.deviance = own.deviance if own.positive else ""
        return own.link

    def _try_zeros(self) -> NDArray[Any] | None:
        """The output for a row of zeros; None if that cannot be tried."""
        layout = self._layout
        if layout.n_columns is None or (layout.is_tensor and None in layout.entries[0].shape[1:]):
            return None
        if layout.is_tensor:
            sizes = [size or 1 for size in layout.entries[0].shape[1:]]
            rows: Any = np.zeros([1, *sizes], dtype=np.float32)
        else:
            text = np.array([""], dtype=object)
            kinds = [e.is_text for e in layout.entries for _ in range(e.width or 0)]
            rows = _frame(layout.names, [text if is_text else np.zeros(1) for is_text in kinds])
        try:
            return self._asked.run(rows)
        except Exception as error:  # onnxruntime has no common class; real rows may well be fine
            reraise_interruption(error)
            return None

    def _read(self, values: NDArray[Any], *, made: bool = False) -> None:
        """Decide what the output's numbers are, by those of some rows, the user's or ``made``."""
        output, link = self._asked.output, self._declared
        width = int(np.prod(values.shape[1:]))
        if self._facts is not None and width > 1:  # logits of classes, which the file names
            output = replace(output, classes=self._facts.classes, speaks_of_classes="")
            self._asked.output, link = output, "logit"
        reading = read_output(output, values, link, self._wanted, self._facts)
        # A row of zeros does not tell logits of two classes from log-odds with either sign.
        open_still = made and width == 2 and link == "logit" and output.speaks_of_classes
        self._asked.reading = None if open_still else reading
        if width > 1:
            own = self._asked.output.classes
            known = len(own) == width
            self.classes = own if known else range(width)
            self.unnamed_outputs = width == 2 and not known

    def _check(self, scores: NDArray[np.float64]) -> None:
        check_finite(scores, self.name)
        outside = (scores < -_SLACK) | (scores > 1 + _SLACK)
        if self._asked.reading is not None and self._asked.reading.probability and outside.any():
            raise ValueError(
                f"Output {self._asked.output.name!r} of the ONNX graph should hold probabilities "
                f"({self._asked.output.speaks_of_classes or 'declared'}), but one is "
                f"{scores[outside][0]:g}. If they are raw scores (skl2onnx's option raw_scores), "
                "declare that they are log-odds: link='logit' (base_link of fit). Or choose "
                "another output: recalibrate_adapters.onnx.OnnxBase(model, output=...)."
            )


@dataclass(eq=False)
class _Asked:
    """The user's graph, and what it is asked for.

    Attributes
    ----------
    source
        The graph.
    layout
        How rows become its inputs.
    output
        The output that scores are read from.
    reading
        What its numbers are; None until some are seen.
    """

    source: _Source
    layout: Layout
    output: Output
    reading: Reading | None = None

    def run(self, rows: Any) -> NDArray[Any]:
        """The chosen output by the user's own graph."""
        feed = self.layout.original_feed(rows)
        size = self.layout.batch or BLOCK_ROWS
        parts = []
        for start in range(0, len(rows), size):
            part = {name: values[start : start + size] for name, values in feed.items()}
            count = len(next(iter(part.values())))
            if self.layout.batch:  # the last batch is filled up with copies of its last row
                fill = [(0, size - count)]
                part = {
                    n: np.pad(v, fill + [(0, 0)] * (v.ndim - 1), "edge") for n, v in part.items()
                }
            found = self.source.run(self.output.name, part)
            parts.append(as_matrix(found, self.output.classes)[:count])
        return np.concatenate(parts)

    def native(self, rows: Any) -> NDArray[np.float64]:
        """Scores by the user's own graph."""
        if self.reading is None:
            raise RuntimeError("the output has not been read yet")
        return self.reading.scores(self.run(rows))

    def propose(self, rows: Any) -> Iterator[Candidate | str]:
        """Graphs to try."""
        if self.layout.by_column and SCORE in (self.layout.names or ()):
            yield CALLED_SCORE
            return
        if self.reading is None:
            return
        try:
            model = modernise(self.source.proto, self.output.tensor)
        except ConversionError as error:
            yield str(error)
            return
        builder = GraphBuilder()
        builder.include(model, _INNER, self.layout.write(builder))
        score = self.reading.write(builder, _INNER + self.output.tensor)
        width = self.reading.width if self.reading.position == EVERY else 1
        model = builder.score_model(self.layout.inputs(), score, width=width)
        yield Candidate(model, self.layout.feed)


class _Source:
    """The graph, with all its weights, and a session on it."""

    def __init__(self, model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> None:
        import onnx

        folder = None
        if isinstance(model, onnx.ModelProto):
            self.shown, content = "model", model.SerializeToString()
        elif isinstance(model, bytes):
            self.shown, content = "bytes", model
        else:
            folder = Path(model).parent
            self.shown, content = f"file {Path(model).name!r}", read_content(model)
        self.proto = read_graph(content, f"the ONNX {self.shown}", folder)
        self._session: Any = None
        self.session  # noqa: B018 - a model that onnxruntime refuses is refused here

    def __getstate__(self) -> dict[str, Any]:
        # A session cannot be copied or sent to another process; it is made anew there.
        return {**self.__dict__, "_session": None}

    def run(self, output: str, feed: dict[str, NDArray[Any]]) -> Any:
        """An output for some tensors; a ValueError where the graph does not run on them."""
        try:
            return run_session(self.session, feed, [output])[0]
        except Exception as error:  # onnxruntime has no common class for its errors
            reraise_interruption(error)
            raise ValueError(
                f"The ONNX {self.shown} does not run on these rows: {error}"
            ) from error

    @property
    def session(self) -> Any:
        if self._session is None:
            try:
                self._session = open_session(self.proto.SerializeToString(), threads=1)
            except Exception as error:  # onnxruntime has no common class for its errors
                reraise_interruption(error)
                raise ModelFileError(
                    f"onnxruntime refuses the ONNX {self.shown}: {error}"
                ) from error
        return self._session


def _read_ours(proto: onnx.ModelProto, shown: str) -> Facts | None:
    """The facts of a file of ours; refused if it cannot score rows alone."""
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    if MARK not in metadata:
        return None
    facts = read_facts(metadata, f"the ONNX {shown}")
    if any(value.name == "base_score" for value in proto.graph.input):
        raise ValueError(
            "The file was exported for scores that the user computes (input 'base_score'), so it "
            "cannot score rows alone. Pass its predictions as the base instead."
        )
    if facts.own_table:
        raise ValueError(
            "The model in the file was fitted with a table of its own for H (Z=), so it cannot "
            "score X alone. Pass its predictions as the base instead."
        )
    return facts


def _frame(names: Sequence[str] | None, columns: Sequence[NDArray[Any]]) -> Any:
    import pandas as pd

    known = [f"x{j}" for j in range(len(columns))] if names is None else names
    return pd.DataFrame(dict(zip(known, columns, strict=True)))


def _first_rows(rows: NDArray[Any]) -> list[NDArray[Any]]:
    return [rows[:ENOUGH_ROWS]]
