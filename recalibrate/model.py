"""The fitted model as users hold it: base, schema and rounds come in, predictions and files leave.

``fit`` and ``load`` make it; audits, estimators and commands use it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import (
    Features,
    base_margin,
    check_own_table,
    count_scores,
    has_no_rows,
)
from recalibrate.bases.protocol import Base
from recalibrate.bases.wrappers import ChainedBase, select_columns
from recalibrate.core.boost import History, Settings
from recalibrate.core.certificate import Certificate
from recalibrate.core.learning import is_score
from recalibrate.core.levels import from_margin
from recalibrate.core.rounds import Rounds
from recalibrate.data.labels import Bounds, Labels, check_score_names, read_scores, take_scores
from recalibrate.data.table import Schema, is_collection, is_streamed, open_frames, settle_both
from recalibrate.support.notices import counted, listed, printable, warn_user
from recalibrate.support.provenance import Provenance
from recalibrate.support.threads import threads_for

if TYPE_CHECKING:
    import onnx
    from matplotlib.figure import Figure

    from recalibrate.deciding import Decision
    from recalibrate.explain.explaining import Explanation

__all__ = [
    "Recalibrated",
]


# --- What scikit-learn asks of a model that is fitted and stays as it is ------------------------


class _Frozen:
    """A fitted model that scorers, displays and cross-validation of scikit-learn can be given.

    It is to them what scikit-learn's ``FrozenEstimator`` is: cloning it and fitting it leave it as
    it is.
    """

    labels: Any

    def fit(self, X: Any = None, y: Any = None, **_: Any) -> Self:
        """The model as it is.

        To learn from new rows, use :meth:`recalibrate.Recalibrated.refit`; to be trained on every
        fold of a cross-validation, :class:`recalibrate.RecalibratedClassifier`.
        """
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        means = self.labels.kind == "regression"
        return Tags(
            estimator_type="regressor" if means else "classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=None if means else ClassifierTags(),
            regressor_tags=RegressorTags() if means else None,
        )


# --- What a model writes and says of itself: files, graphs, decisions, explanations -------------


class _Outputs:
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
        from recalibrate.explain.summary import plot_errors

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


# --- Recalibrated: a base model with its rounds, and what it predicts ---------------------------


@dataclass(frozen=True, eq=False)
class Recalibrated(_Outputs, _Frozen):
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
    def link(self) -> str:
        """Scale of the corrections: "identity" (added to means), "logit" or "log" (factors)."""
        return self.rounds.family.link

    @property
    def bounds_(self) -> Bounds:
        """Smallest and largest possible prediction; None where there is no limit."""
        return self.labels.bounds

    @property
    def predicts_rates(self) -> bool:
        """Whether the model was fitted with ``exposure=``: it predicts y per unit of exposure."""
        return self.labels.exposed

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted: the order of the columns of :meth:`predict_proba`.

        For one class against the rest: False and True. Which of two classes :meth:`predict` is
        about (``positive=`` of :func:`recalibrate.fit`) does not change the order.
        """
        labels = self.labels
        if labels.kind == "regression":
            raise AttributeError("a regression model has no classes")
        if labels.chosen is not None:
            return np.array([False, True])
        return np.array(labels.columns or (0, 1))

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
        """Calibrated mean, or probability of the class that counts as 1.

        Of two classes that is the one that ``positive=`` named in `fit`, else the second of
        :attr:`classes_`; :meth:`summary` says which. Of more than two classes: the probabilities
        of all, as :meth:`predict_proba`. Of a model that was fitted with ``exposure=``: rates, y
        per unit of exposure; multiply them by the exposure of the new rows to have totals.

        Parameters
        ----------
        X
            New rows, as the base model takes them; columns are found by name. For rows in
            pieces (Parquet files, an iterable of DataFrames) ``base`` is the name of a column, or
            the names of one for every class; likewise for a Dask DataFrame, where the result is a
            Dask Series, or a Dask DataFrame with a column for every class.
        base
            Their base scores, instead of asking the base model. Needed where the model was
            fitted on an array of scores. Of several classes: columns as `fit` was given them.
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
            from recalibrate.rows.dask import predict_partitions

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
            from recalibrate.rows.dask import both_classes

            return both_classes(p, self.labels)  # type: ignore[no-any-return]
        both = np.column_stack([1.0 - p, p])
        return both if self.labels.chosen is not None else self.labels.in_columns(both)

    def margins(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Scores on the link's own scale (log-odds, or means scaled to [0, 1])."""
        return self.answers(X, base, Z)[0]

    def answers(
        self, X: Any, base: Any = None, Z: Any = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Both at once: :meth:`margins` and :meth:`predict`."""
        margins, means = self._answers(X, base, Z)
        return self._in_columns(margins), self._in_columns(means)

    def _answers(
        self, X: Any, base: Any = None, Z: Any = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Margins and predictions with columns in the order of the base's scores."""
        X, Z = settle_both(X, Z)
        if has_no_rows(X, base):
            outputs = self.labels.outputs
            nothing = np.empty(0) if outputs == 1 else np.empty((0, outputs))
            return nothing, nothing.copy()
        start, blocks, given = self._encode(X, base, Z)
        margins = self.rounds.apply(blocks, start)
        unchanged = not self.rounds.steps and self.rounds.start is None
        return margins, self._base_means(given) if unchanged else self._finish(margins)

    def _in_columns(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Columns of several classes in the order of :attr:`classes_`."""
        return self.labels.in_columns(values) if self.labels.kind == "classes" else values

    def staged_predict(
        self, X: Any, base: Any = None, Z: Any = None
    ) -> Iterator[NDArray[np.float64]]:
        """Predictions before the first and after every step, one after the other."""
        X, Z = settle_both(X, Z)
        if has_no_rows(X, base):
            yield from (self.predict(X, base, Z) for _ in range(1 + len(self.rounds.steps)))
            return
        start, blocks, _ = self._encode(X, base, Z)
        state = self.rounds.begin(start)
        yield self._in_columns(self._finish(state.f))
        for step in self.rounds.steps:
            state = state.advance(step, blocks[step.encoder])
            yield self._in_columns(self._finish(state.f))

    def _predict_pieces(self, X: Any, base: Any) -> NDArray[np.float64]:
        """Predictions for rows that are read a piece at a time."""
        names = check_score_names(base)
        pieces = open_frames(X)
        found = [self.predict(each, take_scores([each[k] for k in names])) for each in pieces]
        if not found:
            raise ValueError(f"X has no rows: {X!r}")
        return np.concatenate(found)

    def _finish(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """From the link's scale to the labels' own."""
        mean = self.rounds.family.from_margin(f)
        if self.labels.kind != "regression" or self.clip:
            mean = np.clip(mean, 0.0, 1.0)  # a last update that is not rounded may leave the range
        if self.labels.kind != "regression":
            return mean
        return self.labels.within(self.labels.unscale(mean))

    def _unlimited(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same as `_finish`, without the bounds of predictions."""
        mean = self.rounds.family.from_margin(f)
        return self.labels.unscale(mean) if self.labels.kind == "regression" else mean

    def _encode(
        self, X: Any, base: Any, Z: Any
    ) -> tuple[NDArray[np.float64], list[NDArray[Any]], Any]:
        """Base scores on the link's scale, blocks of all encoders, base scores as given."""
        X, Z = settle_both(X, Z)
        check_own_table(Z, X)
        given = self.base.scores(X) if base is None else base
        n_rows = count_scores(given)
        margin = base_margin(
            self.base, given, self.labels, self.rounds.link, n_rows, clip=self.clip
        )
        rows = self._in_fitted_order(X) if Z is None else Z
        table = self._features.read(rows, margin)
        return margin, self.rounds.encode(table, threads_for(n_rows)), given

    @cached_property
    def _features(self) -> Features:
        """The columns that the encoders look at."""
        names = dict.fromkeys(name for each in self.rounds.encoders for name in each.names)
        return Features.of(self.schema, tuple(names), self.labels)

    def _base_means(self, given: Any) -> NDArray[np.float64]:
        """Base scores as predictions: those of a model that corrects nothing."""
        outputs = self.labels.outputs
        plain = read_scores(given, n_rows=len(given), probability=False, outputs=outputs)
        means = from_margin(plain, self.base.link)
        return self.labels.within(means) if self.labels.kind == "regression" else means

    def _in_fitted_order(self, X: Any) -> Any:
        """X with its columns where the fitted array had them, if the base model knows their names.

        The base finds columns by name; H, which saw an array, by position.
        """
        if self.schema.named:
            return X
        names = self.base.columns()
        own = len([name for name in self.schema.names if not is_score(name)])
        return select_columns(X, names) if names and len(names) == own else X

    def __repr__(self) -> str:
        H = repr(self.H)
        H = H if self.H.described == H else "None"
        return printable(
            f"<Recalibrated: {self.base.name}, H={H}, {counted(self.n_rounds_, 'round')}, "
            f"{counted(self.n_learners_, 'learner')}>"
        )
