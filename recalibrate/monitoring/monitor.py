"""Monitor: batches in, alarms out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recalibrate.bases.protocol import predicts_rates
from recalibrate.data.labels import Labels, check_aligned, require_exposure, to_array
from recalibrate.data.table import settle_both
from recalibrate.graph.facts import Facts
from recalibrate.graph.served import ServedModel
from recalibrate.model import Recalibrated
from recalibrate.monitoring.batches import (
    Batch,
    Scale,
    TimeKind,
    read_predictions,
    read_rates,
    read_targets,
    read_time,
    read_weights,
    rows_of,
    show_time,
)
from recalibrate.monitoring.report import MonitorReport, make_report
from recalibrate.monitoring.state import Rules, State
from recalibrate.monitoring.watched import Codes, warn_unknown, watch
from recalibrate.support.checks import check_number, check_range, check_whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from recalibrate.groups.groupset import GroupSet


# --- What a monitor checks before it begins, and before it takes a batch ------------------------


def _fingerprint(model: Any) -> str:
    """What tells one recalibrated model from another; empty for all other models."""
    if not isinstance(model, Recalibrated):
        return ""
    from recalibrate.files import to_bytes

    return hashlib.blake2b(to_bytes(model)[0], digest_size=16).hexdigest()


def _read_scale(model: Any, bounds: Any, classes: Sequence[Any] | None) -> Scale:
    """What labels and scores are, as far as it is known before the first batch."""
    if classes is not None:
        if bounds is not None:
            raise ValueError("bounds= is for a regression, but there are classes=.")
        return _with_classes(classes)
    exposed = predicts_rates(model)
    if bounds is not None:
        return Scale(*check_range("bounds", bounds), exposed=exposed)
    labels = model.facts if isinstance(model, ServedModel) else getattr(model, "labels", None)
    if isinstance(labels, Labels | Facts):
        if labels.kind == "regression":
            return Scale(labels.low, labels.high, exposed=exposed)
        known = labels.audited if isinstance(labels, Labels) else labels.known
        return Scale(
            classes=tuple(known.classes or ()) if labels.classes else (), chosen=known.chosen
        )
    named = getattr(model, "classes_", None)
    return Scale(exposed=exposed) if named is None else _with_classes(named)


def _with_classes(classes: Sequence[Any]) -> Scale:
    labels = tuple(np.asarray(classes).tolist() if hasattr(classes, "dtype") else classes)
    if len(labels) < 2:
        raise ValueError(f"classes must name two classes or more, got {list(labels)!r}.")
    if len(set(labels)) < len(labels):
        raise ValueError(f"classes has a label more than once: {list(labels)!r}.")
    return Scale(classes=() if set(labels) == {0, 1} else labels)


def _check_time(state: State, batch: Batch, late: bool) -> None:
    """Refuse times of another kind, and times that go backwards."""
    kind = batch.kind
    words = {"batch": "had no time", "number": "had numbers as time", "date": "had dates as time"}
    if state.time_kind is not None and state.time_kind != kind:
        raise ValueError(
            f"Earlier batches {words[state.time_kind]}, this one {words[kind]}: give the same kind."
        )
    first = float(batch.time.min())
    if batch.target is not None and first < state.timeline.frontier and not late:
        raise ValueError(
            f"time goes backwards: the batch begins at {show_time(first, kind)}, but rows up to "
            f"{show_time(state.timeline.frontier, kind)} were added before. Nothing was added; "
            "pass late=True if these are labels that arrived late."
        )


def _check_new(state: State, digest: str) -> None:
    """Refuse a batch that was added before."""
    if digest in state.seen:
        raise ValueError(
            "The same rows were added before: labels, scores, groups and weights are all equal. "
            "Nothing was added; pass force=True if these are other rows."
        )


LEVELS = 5
FILE_PATH = str | os.PathLike[str]


class Monitor:
    """Watch the calibration of a model in production, by group, with control of false alarms.

    Every group has a test martingale in either direction, for its mean gap and for bands of its
    scores. While all gaps are within the tolerance, the chance that the monitor **ever** raises an
    alarm is at most ``alpha``: for any number of batches of any size, however often one looks,
    and whatever one does after looking. What it keeps of the stream is of fixed size.

    Parameters
    ----------
    model : model or callable, optional
        What is served; None if every batch comes with ``scores=``.
    groups : Groups, str, sequence of str or True, optional
        Expressions over columns, as for :func:`recalibrate.audit`; True for every column. Bands of
        numeric columns and categories are those of the rows given to `start`, or of the first
        batch. Without groups all rows are watched as one.
    tolerance : float
        Gaps (mean outcome minus mean prediction) up to this size are all right; on the scale of
        the labels.
    alpha : float
        Largest chance of a false alarm, over all groups and all times.
    levels : int
        Bands of the score that are watched in every group (multicalibration); 1: mean gaps only.
    bounds : (float, float), optional
        Smallest and largest possible label of a regression; by default those of the model's
        fit, or 0 and 1.
    classes : sequence, optional
        Labels of the classes, where they are not 0 and 1: of two the one that scores are for
        last, of more in the order of the columns of scores. By default the model's.
    depth, min_rows : int, optional
        Crossings of groups and smallest groups, as for the audit.
    max_weight : float, optional
        Largest possible weight of a row; by default twice the largest of the first batch.

    See Also
    --------
    recalibrate.audit : measures one table, without a tolerance and without time.

    Notes
    -----
    With z = w (y - p) a gambler with stake lambda against "the gap is at most tol" has wealth
    prod (1 + lambda z) / (1 + lambda w tol). It is bounded from below by sums of powers of z [1]_,
    mixed over 15 stakes (more in bands of low scores, where no row can lose much) and over the time
    from which on the gambler bets [2]_, and compared with 1 / alpha after multiplication with the
    hypothesis' share. Rows of a group must be drawn independently given the past; labels that
    arrive late must not do so because of what they are.

    References
    ----------
    .. [1] X. Fan, I. Grama, Q. Liu, "Exponential inequalities for martingales with applications",
       Electronic Journal of Probability 20 (2015).
    .. [2] A. Ramdas, P. Grünwald, V. Vovk, G. Shafer, "Game-theoretic statistics and safe
       anytime-valid inference", Statistical Science 38 (2023).

    Examples
    --------
    >>> import numpy as np, pandas as pd, recalibrate as rc
    >>> rng = np.random.default_rng(0)
    >>> monitor = rc.Monitor(groups="sex", tolerance=0.01)
    >>> for week in range(20):
    ...     X = pd.DataFrame({"sex": rng.choice(["F", "M"], 1000)})
    ...     drifted = (X["sex"] == "F") & (week >= 10)
    ...     y = rng.random(1000) < np.where(drifted, 0.55, 0.4)
    ...     for group in monitor.update(X, y, scores=np.full(1000, 0.4), time=week):
    ...         print(f"week {week}: {group}")
    week 10: sex = F
    week 11: all
    >>> monitor.table.set_index("group").loc["sex = F", "since"]
    '10'
    """

    def __init__(
        self,
        model: Any = None,
        groups: Any = None,
        *,
        tolerance: float = 0.01,
        alpha: float = 0.05,
        levels: int = LEVELS,
        bounds: tuple[float, float] | None = None,
        classes: Sequence[Any] | None = None,
        depth: int = 1,
        min_rows: int | None = None,
        max_weight: float | None = None,
    ) -> None:
        scale = _read_scale(model, bounds, classes)
        check_number("tolerance", tolerance, least=0.0, most=scale.span)
        check_number("alpha", alpha, above=0.0, most=0.5)
        check_whole("levels", levels, least=1, most=100)
        check_whole("depth", depth, least=1)
        check_whole("min_rows", min_rows, least=1)
        check_number("max_weight", max_weight, above=0.0)
        self.model = model
        self._groups, self._depth, self._min_rows = groups, depth, min_rows
        self._scale = scale
        self._rules = Rules(float(tolerance), float(alpha), int(levels))
        self._max_weight = None if max_weight is None else float(max_weight)
        self._state: State | None = None

    def start(self, X: Any, *, scores: Any = None, base: Any = None, Z: Any = None) -> Monitor:
        """Fix groups and bands by a reference, typically the calibration rows; no labels needed.

        Without it the first batch is the reference.

        Parameters
        ----------
        X, scores, base, Z
            As for `update`.

        Returns
        -------
        Monitor
            Itself.
        """
        if self._state is not None:
            raise ValueError("This monitor has begun already; make a new one for other groups.")
        X, Z = settle_both(X, Z)
        n_rows = rows_of(X, scores, None)
        check_aligned(X, scores=scores, base=base)
        self._state = self._begin(X, scores, base, Z, n_rows)
        return self

    def update(
        self,
        X: Any,
        y: Any,
        *,
        time: Any = None,
        scores: Any = None,
        base: Any = None,
        Z: Any = None,
        sample_weight: Any = None,
        exposure: Any = None,
        late: bool = False,
        force: bool = False,
        allow_unknown: bool = False,
    ) -> tuple[str, ...]:
        """Add a batch of any size.

        A batch that is refused changes nothing.

        Parameters
        ----------
        X : table
            The rows, with the columns that the model and the groups need. May be None if
            scores are given and there are no groups.
        y : array-like or None
            Their labels. None if they are not known yet: then the scores are compared with
            the reference, and nothing else; pass the rows again when labels have arrived.
        time : date, number, or array-like, optional
            When the rows happened: one time for the batch or one for every row. Without it batches
            are counted.
        scores : array-like, optional
            Predictions, if they are not to be asked of the model; a column per class for more
            than two classes.
        base, Z
            Base scores, and H's own table, as for :meth:`recalibrate.Recalibrated.predict`.
        sample_weight : array-like, optional
            Weights of the rows.
        exposure : array-like, optional
            As in :func:`recalibrate.fit`: labels are totals over so much of it, predictions are
            rates, and a row counts as often as it has exposure. Required for a model that was
            fitted with it.
        late : bool
            Whether labels have arrived late, so that times may be before those of earlier batches.
        force : bool
            Add the batch although the same rows were added before.
        allow_unknown : bool
            Add the batch although a column of the groups seems to have been recoded: most rows
            have values that no group is for, or nobody is in a band or condition that many rows
            of the reference were in. Such rows count in the groups of other columns only.

        Returns
        -------
        tuple of str
            Groups whose first alarm this is; empty if there is none.

        Raises
        ------
        ValueError, TypeError
            If the batch is empty or was added before, columns are missing, a column seems to have
            been recoded, labels are outside of their bounds, or time goes
            backwards.

        Warns
        -----
        UserWarning
            If a column has values that no group is for.
        """
        X, Z = settle_both(X, Z)
        n_rows = rows_of(X, scores, y)
        aligned = {"y": y, "scores": scores, "base": base, "time": time, "exposure": exposure}
        check_aligned(X, sample_weight=sample_weight, **aligned)
        require_exposure(self._scale.exposed and y is not None, exposure)
        y, sample_weight = read_rates(y, exposure, sample_weight, n_rows)
        state = self._state or self._begin(X, scores, base, Z, n_rows)
        codes, unknown = state.watched.codes(
            X if Z is None else Z, n_rows, allow_unknown=allow_unknown
        )
        batch = self._read(state, codes, X, y, n_rows, time, scores, base, Z, sample_weight)
        _check_time(state, batch, late)
        digest = batch.digest()
        if not force:
            _check_new(state, digest)
        warn_unknown(unknown)
        fresh = self._state is not None and not late
        after = state.after(batch, digest, shifts=fresh)
        new = [key for key in after.alarms if key not in state.alarms]
        self._state = after
        return tuple(dict.fromkeys(after.watched.names[g] for _, g in new))

    @property
    def groups(self) -> GroupSet | None:
        """The groups as they are bound; None before the first rows, or where there are none."""
        return None if self._state is None else self._state.watched.groups

    @property
    def alarm(self) -> bool:
        """Whether any group has ever raised an alarm."""
        return self._state is not None and bool(self._state.alarms)

    @property
    def table(self) -> pd.DataFrame:
        """One row per group (and class); see `MonitorReport`."""
        return self.report().table

    def report(
        self,
        X_recent: Any = None,
        y_recent: Any = None,
        *,
        scores: Any = None,
        base: Any = None,
        Z: Any = None,
        sample_weight: Any = None,
        exposure: Any = None,
    ) -> MonitorReport:
        """Everything that the monitor knows, as a record with views.

        Parameters
        ----------
        X_recent, y_recent : table, array-like, optional
            Recent rows in the order of time: the model is refitted on the first 60 % of them, and
            the report says what that gains on the others.
        scores, base, Z, sample_weight, exposure
            Of these rows, as for `update`.

        Returns
        -------
        MonitorReport
        """
        state = self._known()
        advice = None
        if X_recent is not None or y_recent is not None:
            from recalibrate.monitoring.advice import advise

            require_exposure(state.scale.exposed, exposure)
            if exposure is not None:
                n_rows = rows_of(X_recent, scores, y_recent)
                y_recent, sample_weight = read_rates(y_recent, exposure, sample_weight, n_rows)
            advice = advise(self.model, X_recent, y_recent, state, scores, base, Z, sample_weight)
        return make_report(state, advice)

    def plot(self, most: int = 6) -> Figure:
        """Evidence and gap over time; see :meth:`MonitorReport.plot`."""
        return self.report().plot(most)

    def to_html(self, path: FILE_PATH | None = None, *, title: str = "Calibration monitor") -> str:
        """The report as one page; see :meth:`MonitorReport.to_html`."""
        return self.report().to_html(path, title=title)

    def to_json(self, path: FILE_PATH | None = None, *, indent: int | None = 2) -> str:
        """The report as JSON; see :meth:`MonitorReport.to_json`. The state is for `save`."""
        return self.report().to_json(path, indent=indent)

    def save(self, path: FILE_PATH, *, overwrite: bool = True) -> Path:
        """Write the state to a JSON file, which appears whole or not at all.

        It holds sums, group expressions and categories, no rows; the model is not in it.

        Examples
        --------
        >>> import pathlib, tempfile, recalibrate as rc
        >>> monitor = rc.Monitor()
        >>> monitor.update(None, [0, 1, 1], scores=[0.2, 0.5, 0.9])
        ()
        >>> path = monitor.save(pathlib.Path(tempfile.mkdtemp()) / "monitor.json")
        >>> rc.Monitor.load(path)
        <Monitor: 3 rows in 1 batch, 1 group, no alarm>
        """
        from recalibrate.monitoring.files import to_bytes
        from recalibrate.support.atomic import atomic_write

        return atomic_write(path, to_bytes(self._known()), overwrite=overwrite)

    @classmethod
    def load(cls, path: FILE_PATH, model: Any = None) -> Monitor:
        """Read a state; it goes on where it was saved.

        Parameters
        ----------
        path
            The file.
        model
            The model that it watches; None if batches come with scores.

        Raises
        ------
        ModelFileError
            A ValueError, if the file is not the state of a monitor, or is damaged.
        ValueError
            If the model is not the one that was watched.
        """
        from recalibrate.monitoring.files import from_bytes

        state = from_bytes(Path(path).read_bytes())
        if model is not None and state.model and _fingerprint(model) != state.model:
            raise ValueError(
                f"{os.fspath(path)!r} watches another model (its fingerprint differs). After a "
                "refit start a new monitor; the old one's evidence is about the old model."
            )
        found = cls.__new__(cls)
        found.model = model
        found._groups, found._depth, found._min_rows = None, 1, None
        found._scale, found._rules, found._state = state.scale, state.rules, state
        found._max_weight = state.max_weight
        return found

    def _known(self) -> State:
        if self._state is None:
            raise ValueError("This monitor has seen no rows yet: call start or update first.")
        return self._state

    def _begin(self, X: Any, scores: Any, base: Any, Z: Any, n_rows: int) -> State:
        raw = None if scores is None else to_array(scores, "scores")
        scale = self._scale
        if raw is not None and raw.ndim == 2 and raw.shape[1] > 2 and not scale.classes:
            scale = Scale(classes=tuple(range(raw.shape[1])))
        found = read_predictions(self.model, X, base, Z, raw, scale, n_rows)
        table = X if Z is None else Z
        watched = watch(
            self._groups,
            table,
            found,
            levels=self._rules.levels,
            depth=self._depth,
            min_rows=self._min_rows,
        )
        return State.begin(scale, self._rules, watched, self._max_weight, _fingerprint(self.model))

    def _read(
        self,
        state: State,
        codes: Codes,
        X: Any,
        y: Any,
        n_rows: int,
        time: Any,
        scores: Any,
        base: Any,
        Z: Any,
        sample_weight: Any,
    ) -> Batch:
        found = read_predictions(self.model, X, base, Z, scores, state.scale, n_rows)
        target = None if y is None else read_targets(y, state.scale, n_rows)
        weight, heaviest = read_weights(sample_weight, n_rows, state.max_weight)
        kind: TimeKind = "batch"
        when = np.full(n_rows, state.n_batches + 1.0)
        if time is not None:
            when, kind = read_time(time, n_rows)
        return Batch(codes, found, target, weight, when, kind, heaviest)

    def __repr__(self) -> str:
        if self._state is None:
            return "<Monitor: no rows yet>"
        state = self._state
        batches = f"{state.n_batches:,} batch{'' if state.n_batches == 1 else 'es'}"
        count = len(state.watched.names)
        groups = f"{count:,} group{'' if count == 1 else 's'}"
        off = len({g for _, g in state.alarms})
        alarm = f"alarm in {off}" if off else "no alarm"
        return f"<Monitor: {state.n_rows:,} rows in {batches}, {groups}, {alarm}>"
