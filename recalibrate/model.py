"""Recalibrated: a base model with its rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.boost import History, Settings
from recalibrate.certificate import Certificate
from recalibrate.labels import Labels, read_scores
from recalibrate.levels import from_margin
from recalibrate.problem import base_margin, count_scores, read_features
from recalibrate.rounds import Rounds
from recalibrate.scores import Base
from recalibrate.table import Schema


@dataclass(frozen=True, eq=False)
class Recalibrated:
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

    @property
    def n_rounds_(self) -> int:
        """Number of rounds: how often level sets were drawn."""
        return self.rounds.n_rounds

    @property
    def n_learners_(self) -> int:
        """Number of weak learners over all rounds and level sets."""
        return self.rounds.n_learners

    def predict(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Calibrated mean, or probability of label 1.

        Parameters
        ----------
        X
            New rows, as the base model takes them; columns are found by name.
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
        start, blocks, scores = self._encode(X, base, Z)
        if not self.rounds.steps and self.rounds.start is None:
            return scores
        return self._finish(self.rounds.apply(blocks, start))

    def predict_proba(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Probabilities of labels 0 and 1, shape (n, 2)."""
        if self.labels.kind == "regression":
            raise AttributeError(
                "predict_proba is for labels in [0, 1]; this model was fitted to labels between "
                f"{self.labels.low:g} and {self.labels.high:g}: use predict"
            )
        p = self.predict(X, base=base, Z=Z)
        return np.column_stack([1.0 - p, p])

    def margins(self, X: Any, base: Any = None, Z: Any = None) -> NDArray[np.float64]:
        """Scores on the link's own scale (log-odds, or means scaled to [0, 1])."""
        start, blocks, _ = self._encode(X, base, Z)
        return self.rounds.apply(blocks, start)

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

    def _finish(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """From the link's scale to the labels' own."""
        mean = from_margin(f, self.rounds.link)
        if self.labels.kind == "regression":
            return self.labels.unscale(mean)
        return np.clip(mean, 0.0, 1.0)

    def _encode(
        self, X: Any, base: Any, Z: Any
    ) -> tuple[NDArray[np.float64], list[NDArray[Any]], NDArray[np.float64]]:
        """Base scores on the link's scale, blocks of all encoders, base scores as means."""
        given = self.base.scores(X) if base is None else base
        n_rows = count_scores(given)
        margin = base_margin(
            self.base, given, self.labels, self.rounds.link, n_rows, clip=self.clip
        )
        names = tuple(dict.fromkeys(n for encoder in self.rounds.encoders for n in encoder.names))
        table = read_features(self.schema, names, X if Z is None else Z, margin)
        blocks = [encoder.encode(table) for encoder in self.rounds.encoders]
        plain = read_scores(given, n_rows=n_rows, probability=False)
        return margin, blocks, from_margin(plain, self.base.link)

    def summary(self) -> str:
        """What was fitted and what was decided, in words."""
        labels, history = self.labels, self.history_
        kind = {
            "binary": "binary labels",
            "soft": "labels in [0, 1]",
            "regression": f"labels from {labels.low:g} to {labels.high:g}",
        }[labels.kind]
        lines = [
            f"Recalibrated model on {self.base.name}, {kind}",
            f"  H                {self.H!r}",
            f"  rounds           {self.n_rounds_} ({self.n_learners_} learners), "
            f"stopped by {history.stopped}",
        ]
        if history.errors:
            lines.append(f"  training error   {history.errors[0]:.6g} -> {history.final:.6g}")
        if history.held_out:
            lines.append(
                f"  held-out error   {history.held_out[0]:.6g} -> {min(history.held_out):.6g}"
            )
        lines += [f"  note             {note}" for note in self.notes]
        if self.certificate_ is not None:
            lines += ["  " + line for line in str(self.certificate_).splitlines()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"<Recalibrated: {self.base.name}, H={self.H!r}, {self.n_rounds_} rounds, "
            f"{self.n_learners_} learners>"
        )
