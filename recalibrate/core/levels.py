"""Level sets: which one a score belongs to, and the grid that scores are rounded to.

The level of a score is the number of thresholds at or below it, so ties go up. Thresholds are
stored float64 numbers and only ever compared with: no rounding function is involved, hence no
rounding rule (banker's or other) that could differ between Python and a serving runtime.
Under the logit link thresholds and values are log-odds, under the log link logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.fixedpoint import snap

# --- Objects with many small arrays, pickled as one piece each ----------------------------------


class Compact:
    """A dataclass whose arrays are bytes in its pickle.

    A boosted model has thousands of tables with a few numbers each. As arrays, every one of them
    would cost a pickle a hundred bytes, and ``joblib.load(mmap_mode="r")``, as scikit-learn's
    checks use it, a file handle of its own: more than a process may have.
    """

    def __getstate__(self) -> dict[str, Any]:
        state = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type] # subclasses are dataclasses
        return {name: _as_bytes(value) for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, _as_array(value))


class _Bytes(tuple[str, tuple[int, ...], bytes]):
    """The dtype, shape and content of an array."""

    __slots__ = ()


def _as_bytes(value: Any) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype.hasobject:
        return value
    return _Bytes((value.dtype.str, value.shape, value.tobytes()))


def _as_array(value: Any) -> Any:
    if not isinstance(value, _Bytes):
        return value
    dtype, shape, content = value
    # A copy, because arrays of bytes cannot be written to, unlike those of other pickles.
    return np.frombuffer(content, dtype=dtype).reshape(shape).copy()


Link = Literal["identity", "logit", "log"]
"""Scale of scores: means, log-odds, or logarithms of means.

What is fitted has the name of a family, which says the loss, too: see ``core.family``.
"""

MARGIN_LIMIT = 16.0
"""Log-odds are kept inside +-16 (probabilities of 1.1e-7): a score of 0 or 1 has none."""

LOG_LIMIT = 24.0
"""Logarithms of means are kept inside +-24, the largest label being 1: a mean of 0 has none."""

MARGIN_STEP = 2.0**-24
"""Log-odds of a probability, and probabilities of log-odds, are rounded to multiples of this.

Logarithms and exponentials differ in their last bit from one library to the next. Rounded this
coarsely (6e-8), a serving runtime that takes its own gets the same number, hence the same level.
"""

QUANTILE_CELLS = 1 << 16
"""Quantile levels are cut at the borders of this many equal cells of the score's range."""


def to_margin(scores: NDArray[np.float64], link: str) -> NDArray[np.float64]:
    """Means or probabilities on the scale of the link.

    Log-odds are clipped at :data:`MARGIN_LIMIT`, logarithms at :data:`LOG_LIMIT`, and rounded to
    :data:`MARGIN_STEP`.
    """
    if link == "identity":
        return scores
    with np.errstate(divide="ignore"):
        if link != "logit":
            logarithm = np.log(np.maximum(scores, 0.0))
            return snap(np.clip(logarithm, -LOG_LIMIT, LOG_LIMIT), MARGIN_STEP)
        margin = np.log(scores) - np.log(1.0 - scores)
    return snap(np.clip(margin, -MARGIN_LIMIT, MARGIN_LIMIT), MARGIN_STEP)


def from_margin(margin: NDArray[np.float64], link: str) -> NDArray[np.float64]:
    """Inverse of :func:`to_margin`, up to its clipping and rounding; of classes the softmax."""
    if link == "identity":
        return margin
    if link != "logit":
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(margin))
    return softmax(margin) if margin.ndim == 2 else sigmoid(margin)


def to_class_scores(scores: NDArray[np.float64], link: Link) -> NDArray[np.float64]:
    """Log-probabilities of classes, from their probabilities or logits, a column per class.

    They are cut at -:data:`MARGIN_LIMIT` and rounded to :data:`MARGIN_STEP`.

    Examples
    --------
    >>> to_class_scores(np.array([[0.0, 0.5, 0.5]]), "identity").round(3)
    array([[-16.   ,  -0.693,  -0.693]])
    """
    if link == "identity":
        with np.errstate(divide="ignore"):
            z = np.log(scores)
    else:
        z = scores - scores.max(axis=1, keepdims=True)
        z = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    return np.asfortranarray(snap(np.clip(z, -MARGIN_LIMIT, 0.0), MARGIN_STEP))


def softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of classes from their scores: everywhere by this formula, as in graphs.

    Examples
    --------
    >>> softmax(np.array([[0.0, 0.0, -1000.0]]))
    array([[0.5, 0.5, 0. ]])
    """
    shares = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def sigmoid(margin: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map log-odds to probabilities: everywhere by this formula, which graphs compute, too.

    Parameters
    ----------
    margin : ndarray of float64

    Returns
    -------
    ndarray of float64

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate.scores import sigmoid
    >>> sigmoid(np.array([-1000.0, 0.0, 1000.0]))
    array([0. , 0.5, 1. ])
    """
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-margin)))


@dataclass(frozen=True, eq=False)
class Levels(Compact):
    """A partition of the scores, with a value per level when scores are rounded to it.

    Attributes
    ----------
    thresholds
        Ascending; ``level(f) = #{thresholds <= f}``.
    values
        The grid: one value per level, or None for a partition that rounds nothing.
    steps
        m for the uniform grid {0, 1/m, ..., 1} under the identity link, else 0; only a hint
        that lets levels be guessed by arithmetic.
    """

    thresholds: NDArray[np.float64]
    values: NDArray[np.float64] | None = None
    steps: int = field(default=0)

    def __post_init__(self) -> None:
        self.thresholds.setflags(write=False)
        if self.values is not None:
            self.values.setflags(write=False)

    @property
    def count(self) -> int:
        """Number of level sets."""
        return len(self.thresholds) + 1

    def index(self, f: NDArray[np.float64]) -> NDArray[np.int32]:
        """Level of every score.

        Examples
        --------
        >>> import numpy as np
        >>> Levels.uniform(2).index(np.array([0.0, 0.24, 0.25, 0.75, 1.0])).tolist()
        [0, 0, 1, 2, 2]
        """
        from recalibrate.kernels.rows import level_index

        if not len(self.thresholds):
            return np.zeros(len(f), dtype=np.int32)
        out = np.empty(len(f), dtype=np.int32)
        level_index(f, self.thresholds, self.steps, out)
        return out

    def round(self, f: NDArray[np.float64]) -> NDArray[np.float64]:
        """Value of every score's level; the scores themselves for a mere partition."""
        return f if self.values is None else self.values[self.index(f)]

    def along(self, slope: float, shift: float) -> Levels:
        """The same partition of ``slope * f + shift``, for a slope above 0."""
        return self if self.count == 1 else Levels(self.thresholds * slope + shift)

    @classmethod
    def single(cls) -> Levels:
        """Everything in one level set."""
        return cls(np.empty(0))

    @classmethod
    def uniform(cls, steps: int, link: str = "identity") -> Levels:
        """The grid {0, 1/steps, ..., 1}: steps + 1 values, thresholds half-way between."""
        k = np.arange(steps + 1)
        values = k / steps
        thresholds = (2 * k[1:] - 1) / (2 * steps)
        if link == "identity":
            return cls(thresholds, values, steps)
        return cls(to_margin(thresholds, link), to_margin(values, link))

    @classmethod
    def around(cls, values: NDArray[np.float64]) -> Levels:
        """A grid of given values; a score goes to the nearest one, ties up."""
        values = np.unique(values)
        return cls((values[:-1] + values[1:]) / 2, values)

    @classmethod
    def from_cells(cls, weight: NDArray[np.int64], low: float, high: float, count: int) -> Levels:
        """At most ``count`` levels of about equal weight.

        ``weight`` holds the summed weights of equal cells of [low, high]; cuts are cell borders,
        so that the result follows from integer sums alone.
        """
        total = int(weight.sum())
        reached = np.cumsum(weight)
        targets = [(total * k + count - 1) // count for k in range(1, count)]
        cuts = np.searchsorted(reached, targets, side="left") + 1
        occupied = np.flatnonzero(weight)
        if len(occupied):
            cuts = cuts[(cuts > occupied[0]) & (cuts <= occupied[-1])]
        width = (high - low) / len(weight)
        return cls(np.unique(low + cuts * width))
