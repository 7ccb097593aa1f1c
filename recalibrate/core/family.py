r"""Families: the scale that scores are updated on, and the loss that says how far they are off.

As in generalised linear models, a family is a link and a variance: squared error on the labels
themselves, log loss on the log-odds, and deviances on the logarithm of the mean, where the variance
of a label is :math:`\phi \mu^p` (p = 1: Poisson, p = 2: gamma, between them Tweedie) [1]_. With
:math:`\mu = e^f` and labels y >= 0,

.. math:: g = y \mu^{1-p} - \mu^{2-p}, \qquad h = \mu^{2-p}

are what the loss falls by per unit of f, and its expected curvature; the variance of g is
:math:`\phi h`. All that differs between families is in this module and, for loops over rows, in
``kernels.rows``.

References
----------
.. [1] B. Jorgensen, "The Theory of Dispersion Models", 1997.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.fixedpoint import LOSS_LIMIT_BITS, RESPONSE_LIMIT_BITS
from recalibrate.core.levels import LOG_LIMIT, MARGIN_LIMIT, Link, from_margin, to_margin

Floats = NDArray[np.float64]
MARGIN_STEP_LIMIT = 4.0
"""Largest change of a log-odds, or of a logarithm, in one step: Newton's on saturated rows has no
bound."""
SCORE_LIMIT = 2.0**40
"""Regression scores are kept inside +- this many label ranges, far from float64's own limit."""
STANDARD_UNIT = 0.45
"""What one log-odds is in standard deviations of a label: sqrt(p (1 - p)) at a p of about .3."""
LEAST_NOISE = 2.0**-40
"""Of labels in [0, 1]: what their sums cannot tell from none."""
RATIO_BITS = 10
"""Labels of more than 2**10 times their mean are cut, where the loss looks at that ratio."""
KINDS: tuple[Link, ...] = ("identity", "logit", "log")
DEFAULT_POWER = 1.5
"""Of a Tweedie deviance that does not say its own, as in xgboost and LightGBM."""
POWERS = {"poisson": 1.0, "gamma": 2.0, "tweedie": DEFAULT_POWER}


class Curve(NamedTuple):
    """What kernels have to know of a family: the number of its link, and its power."""

    kind: int
    power: float


@dataclass(frozen=True)
class Family:
    """A link and a loss; see :func:`family` for their names.

    Attributes
    ----------
    link
        "identity", "logit" or "log": the scale of the scores.
    power
        The label's variance grows with this power of its mean; the loss has the unit of the label
        to the power of two minus this. Log loss has no unit, and counts as 2.
    """

    link: Link
    power: float

    @property
    def name(self) -> str:
        """What :func:`family` finds it by, and files call it."""
        return self.link if self.link != "log" else f"log-{self.deviance}"

    @property
    def deviance(self) -> str:
        """Name of the deviance of a log link, as in "poisson" or "tweedie-1.5"."""
        known = {power: name for name, power in POWERS.items() if name != "tweedie"}
        return known.get(self.power, f"tweedie-{self.power:g}")

    @property
    def loss(self) -> str:
        """The loss in words."""
        if self.link == "log":
            kind, _, power = self.deviance.partition("-")
            return f"{kind.capitalize()} deviance{f' of power {power}' if power else ''}"
        return "squared error" if self.link == "identity" else "log loss"

    @property
    def curve(self) -> Curve:
        """For kernels."""
        return Curve(KINDS.index(self.link), self.power)

    @property
    def newton(self) -> bool:
        """Whether rows differ in the curvature of their loss."""
        return self.link != "identity"

    @property
    def known_noise(self) -> bool:
        """Whether the mean says the variance of a label: 0/1 labels have no choice."""
        return self.link == "logit"

    @property
    def positive(self) -> bool:
        """Whether labels and predictions are never negative, and count in units of their own."""
        return self.link == "log"

    @property
    def range(self) -> tuple[float, float]:
        """Where scores are, that level sets are drawn from."""
        limit = {"logit": MARGIN_LIMIT, "log": LOG_LIMIT}
        return (0.0, 1.0) if self.link == "identity" else (-limit[self.link], limit[self.link])

    @property
    def score_limit(self) -> float:
        """Scores are kept inside of +- this."""
        return SCORE_LIMIT if self.link == "identity" else self.range[1]

    @property
    def step_limit(self) -> float:
        """Largest change of a score by one step."""
        return MARGIN_STEP_LIMIT if self.newton else inf

    @property
    def extra_bits(self) -> int | None:
        """Bits that responses need above those of labels; None: none, and few below the point."""
        return ceil(RATIO_BITS * (self.power - 1.0)) if self.link == "log" else None

    @property
    def response_limit(self) -> float:
        """Responses are cut here."""
        return float(2.0 ** (RESPONSE_LIMIT_BITS + (self.extra_bits or 0)))

    @property
    def loss_limit(self) -> float:
        """Losses are cut here."""
        spare = 1 if self.extra_bits is None else 0
        return float(2.0 ** (LOSS_LIMIT_BITS - spare + (self.extra_bits or 0)))

    def to_margin(self, means: Floats) -> Floats:
        """Means on the scale of the scores."""
        return to_margin(means, self.link)

    def from_margin(self, f: Floats) -> Floats:
        """Means of scores."""
        return from_margin(f, self.link)

    def slopes(self, y: Floats, f: Floats) -> tuple[Floats, Floats]:
        """What the loss falls by per unit of the score, and its expected curvature, by row.

        Examples
        --------
        >>> import numpy as np
        >>> y, f = np.array([3.0]), np.zeros(1)
        >>> [tuple(map(float, np.ravel(family(name).slopes(y, f)))) for name in
        ...  ("identity", "logit", "log-poisson")]
        [(3.0, 1.0), (2.5, 0.25), (2.0, 1.0)]
        """
        mean = self.from_margin(f)
        if self.link == "log":
            size = mean ** (2.0 - self.power)
            return y * mean ** (1.0 - self.power) - size, size
        return y - mean, mean * (1.0 - mean) if self.newton else np.ones(np.shape(f))

    def losses(self, y: Floats, f: Floats) -> Floats:
        """Loss of every row: squared error, log loss, or unit deviance."""
        if self.link == "identity":
            return (y - f) ** 2
        if self.link == "logit" and f.ndim == 2:
            return np.asarray(np.logaddexp.reduce(f, axis=1) - np.sum(y * f, axis=1))
        if self.link == "logit":
            return np.asarray(np.logaddexp(0.0, f) - y * f)
        return np.asarray(2.0 * (self.fit_of(1.0, y, f) - self._best(y)))

    def fit_of(self, weight: Floats | float, label: Floats, f: Floats) -> Floats:
        """Negative log likelihood of summed labels, up to what does not depend on f.

        In units of the noise; ``label`` is weighted.
        """
        if self.link == "identity":
            return (0.5 * weight * f - label) * f
        if self.link == "logit":
            return np.asarray(weight * np.logaddexp(0.0, f) - label * f)
        p = self.power
        with np.errstate(over="ignore"):  # scores that are only tried; infinite is far enough
            first = -label * f if p == 1 else label * np.exp((1.0 - p) * f) / (p - 1.0)
            second = weight * f if p == 2 else weight * np.exp((2.0 - p) * f) / (2.0 - p)
        return np.asarray(first + second)

    def _best(self, y: Floats) -> Floats:
        """What :meth:`fit_of` says of the labels themselves."""
        if self.power == 2.0:
            return 1.0 + np.log(y)
        some = np.where(y > 0, y, 1.0)
        if self.power == 1.0:
            return np.where(y > 0, y - y * np.log(some), 0.0)
        power = 2.0 - self.power
        return np.where(y > 0, some**power / ((self.power - 1.0) * power), 0.0)

    def noise(self, y: Floats, f: Floats, weight: Floats | None) -> float:
        """Variance of a summed response per unit of summed curvature: that of rows as they are.

        1 where labels have no choice. Elsewhere what rows say of it, each with its own weight: so
        it is right for rows with large exposure and for labels that vary by more than a
        Poisson variable.
        """
        if self.known_noise:
            return 1.0
        from recalibrate.support import hashing

        g, h = self.slopes(y, f)
        w = np.ones(len(y)) if weight is None else weight
        size = hashing.total(w * h)
        least = self.least_noise(y, weight)
        return max(hashing.total((w * g) ** 2) / size, least) if size > 0 else 1.0

    def least_noise(self, y: Floats, weight: Floats | None) -> float:
        """What :meth:`noise` is at least: one event's, the smallest total above zero.

        A few rows without an event scatter little and know nothing: of counts the variance is the
        mean, or more.
        """
        if not self.positive or self.power >= 2.0:
            return LEAST_NOISE
        totals = y if weight is None else y * weight
        some = totals[totals > 0]
        if not len(some):
            return 1.0
        from recalibrate.support import hashing

        mean = hashing.average(y, np.ones(len(y)) if weight is None else weight)
        return float(some.min() * mean ** (1.0 - self.power))

    def unit(self, noise: float) -> float:
        """What one log-odds, or one unit of a logarithm, is in the unit of the scores."""
        return 1.0 if self.newton else STANDARD_UNIT * float(np.sqrt(noise))

    def step(self, newton: Floats) -> Floats:
        """What to add to the scores of rows that move together, from Newton's step for them.

        The rows of a leaf whose labels are r times what is predicted are off by log(r); Newton's
        step says r - 1, too far up. Down it stays behind, which is as well: rows without an event
        do not say how far to go.

        Examples
        --------
        >>> import numpy as np
        >>> family("log-poisson").step(np.array([1.0, -0.5])).round(3)
        array([ 0.693, -0.5  ])
        """
        if self.link == "log":
            newton = np.where(newton > 0, np.log1p(np.maximum(newton, 0.0)), newton)
        return np.clip(newton, -self.step_limit, self.step_limit)


@lru_cache(maxsize=64)
def family(name: str) -> Family:
    """The family of a name: "identity", "logit", "log" (Poisson), or "log-" and a deviance.

    Examples
    --------
    >>> family("log") == family("log-poisson"), family("log-tweedie-1.7").power
    (True, 1.7)
    """
    link, _, deviance = name.partition("-")
    if link == "log":
        power = POWERS.get(deviance or "poisson", nan)
        if deviance.startswith("tweedie-"):
            with suppress(ValueError):
                power = float(deviance.removeprefix("tweedie-"))
        if 1.0 <= power <= 2.0:
            return Family("log", power)
    elif name == "identity":
        return Family("identity", 0.0)
    elif name == "logit":
        return Family("logit", 2.0)
    raise ValueError(
        f'link must be "identity", "logit", "log", "log-poisson", "log-gamma" or '
        f'"log-tweedie-1.5" (a power between 1 and 2), got {name!r}'
    )
