"""The rows of a fit, encoded for one class H, and runs of the loop on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.problem import Problem, base_margin, count_scores, cut_losses, read_features
from recalibrate.bases.protocol import Base
from recalibrate.core.boost import Boosted, Settings, boost
from recalibrate.core.family import family
from recalibrate.core.fixedpoint import Scale, Weights, label_bits, make_scale
from recalibrate.core.learning import FunctionClass, Learner, StatsSource
from recalibrate.core.part import Rows
from recalibrate.core.rounds import Rounds
from recalibrate.data.labels import read_more_labels
from recalibrate.rows.memory import EncodedInMemory
from recalibrate.rows.store import Encoded, Store, weights_of
from recalibrate.support.hashing import average


@dataclass(frozen=True, eq=False)
class Training:
    """What every run of the loop needs, wherever the rows are.

    Attributes
    ----------
    problem
        Kind and bounds of the labels, link and schema.
    learner
        The class, bound to the columns.
    scale
        Fixed point of all sums.
    encoded
        The rows.
    """

    problem: Problem
    learner: Learner
    scale: Scale
    encoded: Encoded

    def start(self, settings: Settings) -> Rounds:
        """The model before its first step."""
        outputs = self.problem.labels.outputs
        return Rounds(settings.link, settings.grid, (self.learner.encoder,), outputs=outputs)

    def run(
        self, settings: Settings, *, held_out: Encoded | None = None, progress: bool | None = None
    ) -> Boosted:
        """One run of the loop on all rows; those of ``held_out`` only validate."""
        with self.encoded.open(self.scale) as source, self._validating(held_out) as aside:
            start = self.start(settings)
            return boost(source, self.learner, settings, start, held_out=aside, progress=progress)

    def returned_loss(self, model: Rounds, rows: Encoded) -> float:
        """Mean loss of the predictions of encoded rows as they are returned, inside bounds."""
        weight = rows.weights()
        with rows.open(self.scale) as source:
            losses = self.problem.returned_losses(rows.labels(), source.scores(model))
        return average(losses, weight.astype(np.float64) if len(weight) else None)

    @contextmanager
    def _validating(self, held_out: Encoded | None) -> Iterator[StatsSource | None]:
        if held_out is None:
            yield None
        else:
            with held_out.open(self.scale) as source:
                yield source

    def open_alone(self, held_out: Encoded) -> AbstractContextManager[StatsSource]:
        """Held-out rows as a source, with a scale made for their number and weights."""
        y, quantised = held_out.labels(), held_out.weights()
        weight = quantised.astype(np.float64) if len(quantised) else None
        scale = make_scale(len(y), weight, newton=False, exact_bits=label_bits(y))
        return held_out.reweighted(scale.quantise_weight(weight)).open(scale)

    def hold_out(self, store: Store) -> Encoded:
        """Rows that were set aside, encoded like the others."""
        weights = store.size.weights
        scale = self.scale if weights is None else self.scale.held_out(weights)
        return store.encode((self.learner.encoder,), scale.quantise_weight)

    def read_held_out(self, base: Base, given: Any, clip: bool) -> tuple[Encoded, float]:
        """Validation rows that the user gave, encoded like the others.

        And what cutting their base scores took off the mean loss.
        """
        parts = _validation_parts(given)
        problem, labels = self.problem, self.problem.labels
        X = parts["X"]
        scores = parts["base"] if parts.get("base") is not None else base.scores(X)
        n_rows = count_scores(scores)
        margin = base_margin(base, scores, labels, problem.link, n_rows, clip=clip)
        features = X if parts.get("Z") is None else parts["Z"]
        table = read_features(
            problem.table.schema, self.learner.encoder.names, features, margin, labels
        )
        own = read_more_labels(
            labels,
            parts["y"],
            n_rows=n_rows,
            sample_weight=parts.get("sample_weight"),
            exposure=parts.get("exposure"),
            what="y of validation=",
        )
        self._check_weights(own.weight)
        block = self.learner.encoder.encode(table)
        ones = np.ones(n_rows) if own.weight is None else own.weight
        weight = self.scale.held_out(Weights.of(ones)).quantise_weight(ones)
        cut = cut_losses(base, scores, own, problem.link, margin)
        return (
            EncodedInMemory(Rows((block,), own.values, margin, weight)),
            0.0 if cut is None else average(cut, own.weight),
        )

    def _check_weights(self, weight: NDArray[np.float64] | None) -> None:
        """Held-out weights need the room that weights of the fitted rows make."""
        if weight is None or self.scale.weighted:
            return
        if not self.problem.given.weighted:
            raise ValueError(
                "validation= has a sample_weight but the calibration rows have none; give both "
                "or neither"
            )
        if (weight != weight[0]).any():
            raise ValueError(
                "validation= has rows of different sample_weight, but all calibration rows weigh "
                "the same; let both differ or neither"
            )


def _bits_of_labels(piece: Problem) -> int | None:
    """Work: bits after the point that hold every label of a piece, see ``core.fixedpoint``."""
    return label_bits(piece.labels.values)


def prepare(store: Store, H: FunctionClass, settings: Settings) -> Training:
    """Bind the class to the columns of all rows and encode them."""
    bits = None
    if settings.replaces:
        found = list(store.map(_bits_of_labels))
        bits = None if None in found else max(bit for bit in found if bit is not None)
    own = family(settings.link)
    scale = make_scale(
        store.size.n_rows,
        weights_of(store),
        newton=own.newton,
        exact_bits=bits,
        extra_bits=own.extra_bits,
    )
    learner = H.bind(store.columns(scale))
    encoded = store.encode((learner.encoder,), scale.quantise_weight)
    return Training(store.problem, learner, scale, encoded)


def _validation_parts(given: Any) -> Mapping[str, Any]:
    keys = ("X", "y", "base", "Z", "sample_weight", "exposure")
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - set(keys))
        if unknown or "X" not in given or "y" not in given:
            raise ValueError(
                f"validation= needs the entries 'X' and 'y' (optional: 'base', 'Z', "
                f"'sample_weight', 'exposure'), got {sorted(given)}"
            )
        return given
    if isinstance(given, Sequence) and len(given) == 2:
        return {"X": given[0], "y": given[1]}
    raise TypeError(
        "validation= must be a pair (X, y), a dict with 'X' and 'y', a share such as 0.2, or "
        f"False; got {type(given).__name__}"
    )
