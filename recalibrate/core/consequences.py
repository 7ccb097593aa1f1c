r"""What follows from a multicalibration error, if H is a weak learner.

For a class H that is closed under affine maps, f with m + 1 values and K2(f, h) <= a for all h in
H with h^2 <= 1 [1]_:

- if H is a (gamma, gamma / m)-weak learner (on every set of mass above gamma / m where the best
  predictor beats the best constant by gamma, some h does, too) and a <= gamma^3 / (16 m), the
  squared error is within 3 gamma of the smallest possible one;
- if H weakly learns another class C in that sense, with gamma = c / (4 B), f is c-approximately
  multicalibrated for the functions of C with squares up to B, as soon as

.. math:: a < \frac{c^3}{2^9 m B'^2}, \quad a < \frac{c \gamma^2}{32 m B'^2}, \quad
    B' = (1 + \sqrt{2 B / c})^2.

References
----------
.. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell, "Multicalibration as
   Boosting for Regression", ICML 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from recalibrate.support.checks import check_number


@dataclass(frozen=True)
class Consequences:
    """What a certificate implies on the fitted rows, if H is a weak learner.

    Attributes
    ----------
    error
        Largest K2 of the h in H with h^2 <= 1.
    m
        Steps of the grid.
    """

    error: float
    m: int

    @property
    def gamma(self) -> float:
        """Smallest gamma that the error is small enough for: (16 m error)^(1/3)."""
        return float((16.0 * self.m * self.error) ** (1.0 / 3.0))

    @property
    def mass(self) -> float:
        """Sets of less mass may be anything to the weak learner: gamma / m."""
        return self.gamma / self.m

    @property
    def excess(self) -> float:
        """How far the squared error can be above the smallest possible one: 3 gamma."""
        return 3.0 * self.gamma

    def transfer(self, B: float = 1.0) -> float:
        """Multicalibration error for a class that H weakly learns, functions with squares to B.

        Examples
        --------
        >>> from recalibrate.core.consequences import Consequences
        >>> round(Consequences(1e-9, 200).transfer(), 3)
        0.27
        """
        check_number("B", B, above=0.0)
        low, high = 0.0, 1.0
        while self._allowed(high, B) <= self.error:
            low, high = high, 2.0 * high
        for _ in range(200):
            middle = (low + high) / 2.0
            low, high = (low, middle) if self._allowed(middle, B) > self.error else (middle, high)
        return high

    def _allowed(self, c: float, B: float) -> float:
        """Error below which functions of the other class have a K2 of at most c."""
        wider = (1.0 + sqrt(2.0 * B / c)) ** 2
        gamma = c / (4.0 * B)
        both = c**3 / (512.0 * self.m * wider**2), c * gamma**2 / (32.0 * self.m * wider**2)
        return min(both)

    def __str__(self) -> str:
        lines = [
            f"K2 of h in H with h^2 <= 1 is at most {self.error:.3g}, hence gamma = "
            f"{self.gamma:.3g}:"
        ]
        if self.excess < 1.0:
            lines.append(
                f"if H is a weak learner for this gamma on sets of mass above {self.mass:.2g}, the "
                f"squared error is within 3 gamma = {self.excess:.3g} of the smallest possible one"
            )
        else:
            lines.append("no useful bound on the squared error follows")
        other = self.transfer()
        lines.append(
            f"a class C (squares up to 1) that H weakly learns with gamma = {other / 4.0:.3g} has "
            f"a K2 of at most {other:.3g}"
            if other < 1.0
            else "no useful bound on K2 follows for other classes that H weakly learns"
        )
        return "\n".join(lines)
