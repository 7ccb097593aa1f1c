"""What a monitor knows, as one immutable record: an update makes a new one or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.labels import Float64
from recalibrate.monitoring.batches import Batch, Scale, TimeKind
from recalibrate.monitoring.judging import Judgement, Place, Since, Timeline, moments
from recalibrate.monitoring.watched import Shift, Watched, count_scores

MOST_SEEN = 1000
"""Batches that are known again."""


@dataclass(frozen=True)
class Rules:
    """What was asked for.

    Attributes
    ----------
    tolerance : float
        Largest gap that is all right, on the scale of the labels.
    alpha : float
        Largest chance of ever raising a false alarm.
    levels : int
        Bands of the score.
    """

    tolerance: float
    alpha: float
    levels: int


@dataclass(frozen=True)
class Alarm:
    """The first alarm of a group: when it was raised, where, and what was known then."""

    time: float
    batch: int
    rows: int
    place: Place
    since: Since


@dataclass(frozen=True, eq=False)
class State:
    """A monitor between two updates.

    Attributes
    ----------
    scale : Scale
    rules : Rules
    watched : Watched
    timeline : Timeline
    shift : Shift
    alarms : mapping from (class, group) to Alarm
    peak : ndarray of shape (classes, groups)
        The strongest evidence so far, in logarithms.
    time_kind : {"batch", "number", "date"} or None
        None before the first batch.
    max_weight : float or None
        None before the first batch with labels, unless it was given.
    n_batches, n_rows : int
        Updates, and rows with labels.
    seen : tuple of str
        Hashes of the newest batches.
    model : str
        Fingerprint of the model; empty where there is none.
    """

    scale: Scale
    rules: Rules
    watched: Watched
    timeline: Timeline
    shift: Shift
    peak: Float64
    alarms: Mapping[tuple[int, int], Alarm] = field(default_factory=dict)
    time_kind: TimeKind | None = None
    max_weight: float | None = None
    n_batches: int = 0
    n_rows: int = 0
    seen: tuple[str, ...] = ()
    model: str = ""

    @classmethod
    def begin(
        cls, scale: Scale, rules: Rules, watched: Watched, max_weight: float | None, model: str
    ) -> State:
        """Before the first batch."""
        n_classes, n_groups = scale.n_scores, len(watched.names)
        return cls(
            scale,
            rules,
            watched,
            Timeline.empty(n_classes, watched.n_bands, n_groups),
            Shift.none(n_classes, n_groups),
            np.full((n_classes, n_groups), -np.inf),
            max_weight=max_weight,
            model=model,
        )

    @property
    def judgement(self) -> Judgement:
        """The evidence as it is now."""
        tolerance = self.rules.tolerance / self.scale.span
        return Judgement(self.timeline, self.watched.bounds, tolerance, self.rules.alpha)

    def after(self, batch: Batch, digest: str, *, shifts: bool) -> State:
        """After another batch; ``shifts``: also compare its scores with the reference."""
        found = replace(
            self,
            n_batches=self.n_batches + 1,
            time_kind=batch.kind,
            seen=(*self.seen, digest)[-MOST_SEEN:],
        )
        if shifts:
            found = found._look_at_scores(batch)
        if batch.target is None:
            return found
        n_rows = self.n_rows + len(batch.scores)
        found = replace(found, n_rows=n_rows, max_weight=batch.heaviest)
        for rows in self.timeline.pieces(batch.time):
            found = found._add(batch, rows)
        return found

    def _look_at_scores(self, batch: Batch) -> State:
        watched = self.watched
        counts = count_scores(
            batch.codes, watched.offsets, len(watched.names), batch.scores, watched.cuts
        )
        shift = self.shift.look_again(
            counts,
            watched.reference,
            watched.cuts,
            alpha=self.rules.alpha,
            time=float(batch.time.max()),
        )
        return replace(self, shift=shift)

    def _add(self, batch: Batch, rows: NDArray[np.intp] | slice) -> State:
        """With some rows of a batch, and the alarms that they raise."""
        from recalibrate.kernels.audit import add_eight

        timeline, places = self.timeline.places(batch.time[rows])
        sums = timeline.sums.copy()
        codes, weight, scores = batch.codes[rows], batch.weight[rows], batch.scores[rows]
        target = batch.target[rows]  # type: ignore[index] # labelled, or nobody asks
        offsets = self.watched.offsets
        for k in range(scores.shape[1]):
            values = moments(weight, target[:, k] - scores[:, k])
            band = self.watched.band(scores[:, k], k)
            first, last = int(places.min()), int(places.max())
            for place in range(first, last + 1):
                own = slice(None) if first == last else places == place
                add_eight(codes[own], offsets, band[own], values[own], sums[place, k])
        found = replace(self, timeline=replace(timeline, sums=sums).merged())
        return found._judge()

    def _judge(self) -> State:
        """With the evidence at the newest bucket's end, and new alarms."""
        judgement = self.judgement
        evidence = self.timeline.evidence.copy()
        evidence[-1] = judgement.evidence
        alarms = dict(self.alarms)
        for k, g in np.argwhere(judgement.evidence >= judgement.log_line).tolist():
            if (k, g) not in alarms:
                place = judgement.place(k, g)
                since = judgement.since(k, g, place)
                alarms[k, g] = Alarm(
                    self.timeline.frontier, self.n_batches, self.n_rows, place, since
                )
        return replace(
            self,
            timeline=replace(self.timeline, evidence=evidence),
            alarms=alarms,
            peak=np.maximum(self.peak, judgement.evidence),
        )
