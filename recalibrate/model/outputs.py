"""What a model writes and says of itself: files, graphs, decisions, explanations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from recalibrate.bases.problem import has_no_rows
from recalibrate.support.notices import listed, warn_user

if TYPE_CHECKING:
    import onnx
    from matplotlib.figure import Figure

    from recalibrate.deciding import Decision
    from recalibrate.explain.explaining import Explanation
    from recalibrate.model.recalibrated import Recalibrated


class Outputs:
    """Views of a `Recalibrated` model, each made where it is asked for."""

    @property
    def _model(self) -> Recalibrated:
        return cast("Recalibrated", self)

    def decide(
        self,
        loss: Any,
        *,
        actions: Sequence[Any] | None = None,
        between: tuple[float, float] | None = None,
    ) -> Decision:
        """The best action for every prediction under a loss, without seeing data again.

        For 0/1 labels any loss can be decided by the predicted probability; for other labels
        only squared loss, because a mean does not determine anything else.

        Parameters
        ----------
        loss
            A name ("squared", "absolute", "hinge", "logistic", "pinball(0.9)",
            "asymmetric(1, 4)"), an object of :mod:`recalibrate.losses`, a cost matrix (a row
            per label, a column per action), or a function ``loss(y, action)``. Of two classes
            label 1 is the one that :meth:`predict` is about; of more, rows are in the order of
            ``classes_``.
        actions
            The possible actions; needed for a function, unless ``between`` is given.
        between
            Range of the possible actions, searched on a grid of 1001 points.

        Returns
        -------
        Decision
            ``decision.actions(X)`` gives the best actions for new rows.

        Examples
        --------
        >>> import numpy as np, recalibrate as rc
        >>> rng = np.random.default_rng(0)
        >>> model = rc.fit(np.full(999, 0.3), rng.normal(size=(999, 1)), rng.random(999) < 0.3)
        >>> model.decide("pinball(0.9)")
        <Decision: Pinball(tau=0.9), action 0.0, 1.0 from 0.1>
        >>> model.decide(lambda y, a: abs(y - a) ** 1.5, between=(0, 1)).best([0.5])
        array([0.5])
        """
        from recalibrate.deciding import make_decision

        return make_decision(self._model, loss, actions=actions, between=between)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = True,
        base: str | os.PathLike[str] | None = None,
        trust: bool = False,
    ) -> Path:
        """Write the model to a file (.rcal), from which :func:`recalibrate.load` reads it.

        The file appears whole or not at all, holds no pickled objects, and its bytes are the
        same for the same model (fitted on the same day, or with SOURCE_DATE_EPOCH set).

        Parameters
        ----------
        path
            The file.
        overwrite
            Whether an existing file is replaced.
        base
            The base model's own file, to save the base by reference (name and checksum) instead
            of inside: loading looks for a file of that name beside the model. By default the
            base is stored as its ONNX graph; without one (callables, arrays of scores) the
            model is stored without its base, with a warning where that loses something.
        trust
            Whether the base model's file, which is opened to compare it, may be of a kind that
            can run any code when it is opened (TorchScript and .pt2 files).

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> import numpy as np, pathlib, tempfile, recalibrate as rc
        >>> rng = np.random.default_rng(0)
        >>> model = rc.fit(np.full(999, 0.5), rng.normal(size=(999, 1)), rng.random(999) < 0.5)
        >>> path = model.save(pathlib.Path(tempfile.mkdtemp()) / "model.rcal")
        >>> print(rc.load(path).summary() == model.summary())
        True
        """
        from recalibrate.files import to_bytes
        from recalibrate.support.atomic import atomic_write, check_writable

        check_writable(path, overwrite=overwrite)
        file = None if base is None else Path(base)
        data, lost = to_bytes(self._model, base_file=file, trust=trust)
        written = atomic_write(path, data, overwrite=overwrite)
        if lost:
            warn_user(lost)
        return written

    def to_onnx(
        self,
        path: str | os.PathLike[str] | None = None,
        X_sample: Any = None,
        *,
        base: Any = None,
        Z: Any = None,
        inputs: Literal["auto", "matrix", "columns"] = "auto",
        decide: Any = None,
        audit: Any = None,
        overwrite: bool = True,
    ) -> onnx.ModelProto:
        """The base model and all corrections as one ONNX graph, compared with this model.

        Inputs, outputs and metadata are described in :mod:`recalibrate.graph`. Before a file
        appears the graph is run by onnxruntime on the sample and on rows made for the purpose
        (on every threshold and beside it, missing and infinite values, unknown categories), and
        refused if it says anything else than the model.

        Parameters
        ----------
        path
            The file; None only returns the graph.
        X_sample
            Rows to compare on besides the made ones. Needed where rows cannot be made: for a
            base model that takes no table, or with H's own table.
        base, Z
            Base scores and H's own table of the sample, as for :meth:`predict`.
        inputs
            "matrix" for one float matrix of all columns, "columns" for an input per column;
            "auto" takes the base model's matrix, with columns that only H needs beside it.
        decide
            A loss, as for :meth:`decide`, or what that method returned: the graph gets another
            output, ``action``.
        audit
            A report of :func:`recalibrate.audit`, whose verdict goes into the metadata, or a
            summary of your own: text, or anything that JSON can hold.
        overwrite
            Whether an existing file is replaced.

        Returns
        -------
        onnx.ModelProto

        Raises
        ------
        ValueError
            ``ExportError`` if the base model or a learner has no ONNX form, ``ParityError`` if
            the graph disagrees with the model, with the rows that differ most. No file is left.

        Examples
        --------
        >>> import numpy as np, pandas as pd, recalibrate as rc
        >>> rng = np.random.default_rng(0)
        >>> X = pd.DataFrame({"sex": rng.choice(["F", "M"], 4000)})
        >>> y = rng.random(4000) < np.where(X["sex"] == "F", 0.3, 0.5)
        >>> graph = rc.fit(np.full(4000, 0.4), X, y, H=rc.Groups("sex")).to_onnx()
        >>> [value.name for value in graph.graph.input]
        ['base_score', 'sex']
        >>> [value.name for value in graph.graph.output]
        ['label', 'probabilities', 'score', 'score_margin']
        """
        from recalibrate.deciding import read_decision
        from recalibrate.graph import check_parity, export_model
        from recalibrate.support.atomic import atomic_write, check_writable

        if path is not None:
            check_writable(path, overwrite=overwrite)
        decision = None if decide is None else read_decision(self._model, decide)
        graph = export_model(self._model, inputs=inputs, audit=audit, decision=decision)
        check_parity(self._model, graph, X_sample, base=base, Z=Z, decision=decision)
        if path is not None:
            atomic_write(path, graph.SerializeToString(), overwrite=overwrite)
        return graph

    def explain(self, X: Any, base: Any = None, Z: Any = None, *, label: Any = None) -> Explanation:
        """How the predictions of some rows came about, step by step.

        Parameters
        ----------
        X, base, Z
            As in :meth:`predict`.
        label
            Of more than two classes: the one whose probability is explained, in log-odds against
            the rest. Steps of other classes count too: what raises their scores lowers its
            log-odds.

        Returns
        -------
        Explanation
            ``table`` has base score, level set, rule, shift and score after every step;
            ``by_stage`` and ``by_feature`` sum them up; printed, it tells the first rows' story.
            Shifts add up to the change from the base score to the final score in ``unit``:
            log-odds, logarithms of means (factors) with a log link, or the unit of y.

        Examples
        --------
        >>> import numpy as np, pandas as pd, recalibrate as rc
        >>> rng = np.random.default_rng(0)
        >>> X = pd.DataFrame({"sex": rng.choice(["F", "M"], 4000)})
        >>> y = rng.random(4000) < np.where(X["sex"] == "F", 0.3, 0.5)
        >>> model = rc.fit(np.full(4000, 0.4), X, y, rc.Groups("sex"), loop=rc.Loop(levels=1))
        >>> model.explain(X[:2], base=[0.4, 0.4]).table["rule"].iloc[1]
        'sex = M'
        """
        from recalibrate.explain.explaining import explain, explain_no_rows

        model = self._model
        classes = model.labels.classes if model.labels.kind == "classes" else ()
        if classes and label not in classes:
            raise ValueError(
                f"label={label!r} chooses the class to explain, one of {listed(classes)}"
            )
        if not classes and label is not None:
            raise ValueError("label= is for models of more than two classes")
        output = classes.index(label) if classes else 0
        if has_no_rows(X, base):
            return explain_no_rows(model, output)
        start, blocks, _ = model._encode(X, base, Z)
        return explain(model, start, blocks, output)

    def plot_errors(self) -> Figure:
        """Training and held-out loss by round, as a matplotlib figure (extra "report")."""
        from recalibrate.explain.notes import NamedLoss
        from recalibrate.explain.plots import plot_errors

        loss = NamedLoss.of(self._model.rounds.family, self._model.labels)
        return plot_errors(self._model.history_, loss)

    def summary(self) -> str:
        """What was fitted and what was decided, a line per fact; a table in notebooks."""
        from recalibrate.explain.summary import summarise

        return summarise(self._model)

    def _repr_html_(self) -> str:
        """What notebooks show: the summary as a table."""
        from recalibrate.explain.summary import summarise

        return summarise(self._model)._repr_html_()
