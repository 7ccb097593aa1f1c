"""Recalibrated: a base model with its rounds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import base_margin, count_scores, read_features
from recalibrate.bases.protocol import Base
from recalibrate.bases.wrappers import ChainedBase, select_columns
from recalibrate.core.boost import History, Settings
from recalibrate.core.certificate import Certificate
from recalibrate.core.learning import is_score
from recalibrate.core.levels import from_margin
from recalibrate.core.rounds import Rounds
from recalibrate.data.inputs import is_collection, is_streamed, open_frames, settle
from recalibrate.data.labels import Labels
from recalibrate.data.scores import read_scores
from recalibrate.data.table import Schema
from recalibrate.support.frozen import Frozen
from recalibrate.support.notices import listed, printable, warn_user
from recalibrate.support.provenance import Provenance
from recalibrate.support.threads import threads_for

if TYPE_CHECKING:
    import onnx
    from matplotlib.figure import Figure

    from recalibrate.deciding import Decision
    from recalibrate.explain.explaining import Explanation


@dataclass(frozen=True, eq=False)
class Recalibrated(Frozen):
    """A base model with corrections on its level sets; made by :func:`recalibrate.fit`.

    Attributes
    ----------
    base
        The base model, as its adapter presents it.
    rounds
        All corrections; the model is the base and this list.
    H
        The class that the model was fitted for.
    history_
        Errors by round, and why the run stopped.
    certificate_
        What a run of Algorithm 1 proves; None for other runs.
    own_table
        Whether H was given a table of its own (``Z=``).
    n_rows
        Number of calibration rows; 0 where it is not known.
    provenance
        Library version, date, seed, and fingerprints of the calibration rows and of the base
        model; None for models of files that do not say.
    """

    base: Base
    rounds: Rounds
    H: Any
    schema: Schema
    labels: Labels
    settings: Settings
    history_: History
    certificate_: Certificate | None = None
    clip: bool = False
    notes: tuple[str, ...] = field(default=())
    own_table: bool = False
    n_rows: int = 0
    provenance: Provenance | None = None

    @property
    def n_rounds_(self) -> int:
        """Number of rounds: how often level sets were drawn."""
        return self.rounds.n_rounds

    @property
    def n_learners_(self) -> int:
        """Number of weak learners over all rounds and level sets."""
        return self.rounds.n_learners

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the columns of :meth:`predict_proba`.

        For one class against the rest: False and True.
        """
        labels = self.labels
        if labels.kind == "regression":
            raise AttributeError("a model that was fitted to numbers has no classes")
        if labels.chosen is not None:
            return np.array([False, True])
        return np.array(labels.classes or (0, 1))

    @property
    def fingerprint_(self) -> str:
        """Of the fitted model, a checksum: equal for equal corrections of the same base.

        It covers all that predictions depend on; the base counts by its own fingerprint, that of
        its scores for the calibration rows. A model that is loaded again has the same one.
        """
        from recalibrate.files import fingerprint

        return fingerprint(self)

    def as_base(self) -> Base:
        """The model as a base: `fit` appends rounds to it on new labels."""
        return ChainedBase(self)

    def refit(self, X: Any, y: Any, H: Any = None, **options: Any) -> Recalibrated:
        """The model with further rounds, fitted to recent rows; what it has learned stays.

        Short for ``fit(model, X, y, H)``: rounds are validated on the recent rows, and where
        these support no correction the predictions stay as they are.

        Parameters
        ----------
        X, y
            Rows that the model was not fitted on, and their labels.
        H
            The class to be multicalibrated for; by default the model's own.
        **options
            Further arguments of :func:`recalibrate.fit`.

        Returns
        -------
        Recalibrated
            A new model; this one is not changed.

        Raises
        ------
        ValueError
            If the model was fitted on an array of scores or a table ``Z=``: then its
            predictions are the base of ``fit``.

        Examples
        --------
        >>> import numpy as np, pandas as pd, recalibrate as rc
        >>> rng = np.random.default_rng(0)
        >>> X = pd.DataFrame({"sex": rng.choice(["F", "M"], 4000)})
        >>> y, H = rng.random(4000) < 0.4, rc.Groups("sex")
        >>> model = rc.fit(lambda X: np.full(len(X), 0.4), X, y, H)
        >>> recent = rng.random(4000) < np.where(X["sex"] == "F", 0.3, 0.5)
        >>> model.refit(X, recent).predict(pd.DataFrame({"sex": ["F", "M"]})).round(1)
        array([0.3, 0.5])
        """
        from recalibrate.fitting.entry import fit

        return fit(self, X, y, self.H if H is None else H, **options)

    def predict(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Calibrated mean, or probability of label 1 (the second of :attr:`classes_`).

        Of more than two classes: the probabilities of all, as :meth:`predict_proba`.

        Parameters
        ----------
        X
            New rows, as the base model takes them; columns are found by name. For rows in
            pieces (Parquet files, an iterable of DataFrames) ``base`` is the name of a column;
            likewise for a Dask DataFrame, where the result is a Dask Series.
        base
            Their base scores, instead of asking the base model. Needed where the model was
            fitted on an array of scores.
        Z
            H's own table, where ``fit`` was given one.

        Examples
        --------
        >>> import numpy as np, pandas as pd, recalibrate as rc
        >>> rng = np.random.default_rng(0)
        >>> X = pd.DataFrame({"sex": rng.choice(["F", "M"], 4000)})
        >>> y = rng.random(4000) < np.where(X["sex"] == "F", 0.3, 0.5)
        >>> model = rc.fit(np.full(4000, 0.4), X, y, H=rc.Groups("sex"))
        >>> new = pd.DataFrame({"sex": ["F", "M"]})
        >>> model.predict(new, base=[0.4, 0.4]).round(1)
        array([0.3, 0.5])
        """
        if is_collection(X):
            from recalibrate.rows.dask.shipping import predict_partitions

            return predict_partitions(self, X, base)  # type: ignore[no-any-return]
        if Z is None and is_streamed(X):
            return self._predict_pieces(X, base)
        return self.answers(X, base, Z)[1]

    def predict_proba(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Probabilities of :attr:`classes_`, shape (n, K); of a Dask DataFrame a Dask DataFrame."""
        if self.labels.kind == "regression":
            raise AttributeError(
                "predict_proba is for labels in [0, 1]; this model was fitted to labels between "
                f"{self.labels.low:g} and {self.labels.high:g}: use predict"
            )
        p = self.predict(X, base=base, Z=Z)
        if self.labels.kind == "classes":
            return p
        if is_collection(X):
            from recalibrate.rows.dask.shipping import both_classes

            return both_classes(p)  # type: ignore[no-any-return]
        return np.column_stack([1.0 - p, p])

    def margins(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Scores on the link's own scale (log-odds, or means scaled to [0, 1])."""
        return self.answers(X, base, Z)[0]

    def answers(
        self, X: Any, base: Any = None, Z: Any = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Both at once: :meth:`margins` and :meth:`predict`."""
        start, blocks, scores = self._encode(X, base, Z)
        margins = self.rounds.apply(blocks, start)
        unchanged = not self.rounds.steps and self.rounds.start is None
        return margins, scores if unchanged else self._finish(margins)

    def staged_predict(
        self, X: Any, base: Any = None, Z: Any = None
    ) -> Iterator[NDArray[np.float64]]:
        """Predictions before the first and after every step, one after the other."""
        start, blocks, _ = self._encode(X, base, Z)
        state = self.rounds.begin(start)
        yield self._finish(state.f)
        for step in self.rounds.steps:
            state = state.advance(step, blocks[step.encoder])
            yield self._finish(state.f)

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
            per label, a column per action), or a function ``loss(y, action)``.
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

        return make_decision(self, loss, actions=actions, between=between)

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
        data, lost = to_bytes(self, base_file=file, trust=trust)
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
            An audit's summary (text, or anything that JSON can hold) for the metadata.
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
        decision = None if decide is None else read_decision(self, decide)
        if decision is not None and self.labels.kind == "classes":
            raise ValueError(
                "decide= is for two classes; of several, take the graph's probabilities times the "
                "cost matrix, and of each row the cheapest action"
            )
        graph = export_model(self, inputs=inputs, audit=audit, decision=decision)
        check_parity(self, graph, X_sample, base=base, Z=Z, decision=decision)
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
            Of more than two classes: the one whose probability is explained. Its steps are those
            that change its own score; what other classes gain is taken from it in proportion.

        Returns
        -------
        Explanation
            ``table`` has base score, level set, rule, shift and score after every step;
            ``by_stage`` and ``by_feature`` sum them up; printed, it tells the first rows' story.
            Shifts add up to the final score minus the base score on the scale of ``unit``.

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
        from recalibrate.explain.explaining import explain

        classes = list(self.labels.classes) if self.labels.kind == "classes" else [label]
        if label not in classes or (len(classes) == 1 and label is not None):
            raise ValueError(
                f"label={label!r} chooses the class to explain, one of {listed(classes)}"
                if len(classes) > 1
                else "label= is for models of more than two classes"
            )
        start, blocks, _ = self._encode(X, base, Z)
        output = classes.index(label)
        return explain(self.rounds, self.schema, start, blocks, self._finish, output)

    def plot_errors(self) -> Figure:
        """Training and held-out error by round, as a matplotlib figure (extra "report")."""
        from recalibrate.explain.plots import plot_errors

        return plot_errors(self.history_, self.rounds.link)

    def _predict_pieces(self, X: Any, base: Any) -> NDArray[np.float64]:
        """Predictions for rows that are read a piece at a time."""
        if base is not None and not isinstance(base, str):
            raise TypeError(
                "base must be the name of a column where rows come in pieces, got "
                f"{type(base).__name__}"
            )
        pieces = (frame for frame in open_frames(X) if len(frame))
        found = [self.predict(frame, None if base is None else frame[base]) for frame in pieces]
        if not found:
            raise ValueError(f"X has no rows: {X!r}")
        return np.concatenate(found)

    def _finish(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """From the link's scale to the labels' own."""
        mean = from_margin(f, self.rounds.link)
        if self.labels.kind != "regression" or self.clip:
            mean = np.clip(mean, 0.0, 1.0)  # a last update that is not rounded may leave the range
        return self.labels.unscale(mean) if self.labels.kind == "regression" else mean

    def _encode(
        self, X: Any, base: Any, Z: Any
    ) -> tuple[NDArray[np.float64], list[NDArray[Any]], NDArray[np.float64]]:
        """Base scores on the link's scale, blocks of all encoders, base scores as means."""
        X, Z = settle(X), settle(Z)
        given = self.base.scores(X) if base is None else base
        n_rows = count_scores(given)
        margin = base_margin(
            self.base, given, self.labels, self.rounds.link, n_rows, clip=self.clip
        )
        names = tuple(dict.fromkeys(n for encoder in self.rounds.encoders for n in encoder.names))
        rows = self._in_fitted_order(X) if Z is None else Z
        table = read_features(self.schema, names, rows, margin, self.labels)
        blocks = self.rounds.encode(table, threads_for(n_rows))
        outputs = self.labels.outputs
        plain = read_scores(given, n_rows=n_rows, probability=False, outputs=outputs)
        return margin, blocks, from_margin(plain, self.base.link)

    def _in_fitted_order(self, X: Any) -> Any:
        """X with its columns where the fitted array had them, if the base model knows their names.

        The base finds columns by name; H, which saw an array, by position.
        """
        names = self.base.columns()
        own = len([name for name in self.schema.names if not is_score(name)])
        if self.schema.named or not names or len(names) != own:
            return X
        return select_columns(X, names)

    def summary(self) -> str:
        """What was fitted and what was decided, in words."""
        from recalibrate.explain.summary import summarise

        return summarise(self)

    def _repr_html_(self) -> str:
        """What notebooks show: the summary as a table."""
        from recalibrate.explain.summary import summarise

        return summarise(self)._repr_html_()

    def __repr__(self) -> str:
        return printable(
            f"<Recalibrated: {self.base.name}, H={self.H!r}, {self.n_rounds_} rounds, "
            f"{self.n_learners_} learners>"
        )
