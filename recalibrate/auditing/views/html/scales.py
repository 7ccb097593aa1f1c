"""From numbers to places in a chart, and round numbers for its axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from recalibrate.auditing.views.numbers import MINUS


@dataclass(frozen=True)
class Scale:
    """A linear map from [low, high] to [start, stop]; numbers outside land on the nearer end.

    Examples
    --------
    >>> scale = Scale(0.0, 1.0, 100.0, 0.0)
    >>> scale(0.25), scale(7.0)
    (75.0, 0.0)
    """

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, number: float) -> float:
        share = (min(max(number, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self, about: int = 5) -> list[tuple[float, str]]:
        """Round numbers within the scale, with their labels.

        Examples
        --------
        >>> [label for _, label in Scale(-0.07, 0.12, 0.0, 1.0).ticks(4)]
        ['−0.05', '0', '0.05', '0.10']
        """  # noqa: RUF002 - a minus sign as readers see it
        step = _step((self.high - self.low) / about)
        decimals = max(-math.floor(math.log10(step) + 1e-9), 0)
        slack = 1e-9 * step
        first, last = (self.low - slack) / step, (self.high + slack) / step
        places = range(math.ceil(first), math.floor(last) + 1)
        return [(k * step, _label(k * step, decimals)) for k in places]


def extent(numbers: Iterable[float]) -> tuple[float, float]:
    """Smallest and largest of the finite numbers, never the same; 0 and 1 if there are none.

    Examples
    --------
    >>> extent([3.0, float("nan"), 1.0]), extent([2.0])
    ((1.0, 3.0), (1.0, 3.0))
    """
    finite = [number for number in numbers if math.isfinite(number)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    # Numbers that differ in their last bits only leave no room for ticks.
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    room = 0.5 * abs(low) or 0.5
    return low - room, high + room


def _step(wanted: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten, as ratios go."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return min(
        (factor * power for factor in (1, 2, 5, 10)), key=lambda s: abs(math.log(s / wanted))
    )


def _label(number: float, decimals: int) -> str:
    if number == 0:
        return "0"
    return f"{number:,.{decimals}f}".replace("-", MINUS)
