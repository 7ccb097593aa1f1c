r"""What a run of Algorithm 1 proves, in numbers.

For an exact oracle over H and the next un-rounded update f~ of the output f,

.. math:: \sup_{h \in H_B} K_2(f, h) \le B \, (err(f) - err(\tilde f)) + B \, P(skipped).

Group indicators scaled by sqrt(B) are in H_B, hence the mean gap of a group of share p is at
most sqrt(K2 / B) / p. All of this speaks of the rows that were fitted; the held-out estimate is
the part that speaks of new rows.

A class of rounded columns proves it for these, and for H itself with what rounding can change:
if every h of H with h^2 <= B differs by at most l from one of rounded columns, K2 is at most
((sqrt(B) + l) sqrt(err(f) - err(f~)) + l sqrt(err(f)))^2, because its root is a norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt

from recalibrate.support.checks import check_number

# --- What follows from a multicalibration error, if H is a weak learner -------------------------
#
# For a class H that is closed under affine maps, f with m + 1 values and K2(f, h) <= a for all h in
# H with h^2 <= 1 [1]_:
#
# - if H is a (gamma, gamma / m)-weak learner (on every set of mass above gamma / m where the best
#   predictor beats the best constant by gamma, some h does, too) and a <= gamma^3 / (16 m), the
#   squared error is within 3 gamma of the smallest possible one;
# - if H weakly learns another class C in that sense, with gamma = c / (4 B), f is c-approximately
#   multicalibrated for the functions of C with squares up to B, as soon as
#
# .. math:: a < \frac{c^3}{2^9 m B'^2}, \quad a < \frac{c \gamma^2}{32 m B'^2}, \quad
#     B' = (1 + \sqrt{2 B / c})^2.
#
# References
# ----------
# .. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell, "Multicalibration as
#    Boosting for Regression", ICML 2023.


@dataclass(frozen=True)
class _Consequences:
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
        >>> from recalibrate.core.certificate import _Consequences
        >>> round(_Consequences(1e-9, 200).transfer(), 3)
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


NORMAL_95 = 1.959963984540054


@dataclass(frozen=True)
class HeldOut:
    """How much H still improves the model on rows that were not fitted.

    What is estimated is B times the largest fall of the squared error that functions of H, one
    for every level set, could bring on new rows: no h of H with h^2 <= B has a larger K2 there.

    Attributes
    ----------
    rows
        Number of held-out rows.
    estimate
        B times the mean of (y - v) (h(x) - v), with h fitted on four fifths of the held-out rows
        and measured on the other fifth, in turn. Noise makes it neither larger nor smaller where
        H is a linear space; it can be below zero.
    low, high
        95 % limits. Below: the fall of the squared error by these h, which is less than the
        largest possible, minus its standard errors. Above: ``ceiling``, which is more, plus its
        standard errors. With fewer than 30 rows they are 0 and B.
    ceiling
        B times the fall with H fitted on the held-out rows themselves: includes what H fits of
        their noise.
    """

    rows: int
    estimate: float
    low: float
    high: float
    ceiling: float


@dataclass(frozen=True)
class Certificate:
    """The guarantee of a run of Algorithm 1.

    Attributes
    ----------
    alpha, B, m
        As given, and the grid's number of steps ceil(2B / alpha).
    rounds
        Accepted rounds, T - 1 <= 2B / alpha.
    errors
        Squared error before the first and after every round, the rejected one last.
    exact
        Whether every step was exact least squares over H, and the model is the one it is about.
    reason
        Why it was not; empty when it was.
    bound
        B * (err(f) - err(f~)) + B * skipped, with what rounding of columns may hide (``lost``);
        what the run itself proves if ``exact``. Like errors and alpha for labels in [0, 1].
    skipped
        Share of the rows' weight on level sets left alone as too small.
    group_shares
        Share of every group of H, when H is groups.
    held_out
        Estimate on validation rows, when there were any.
    unit
        Range of the labels: gaps are in their own unit.
    lost
        By how much a function of H with h^2 <= B may change when columns are rounded.
    """

    alpha: float
    B: float
    m: int
    rounds: int
    errors: tuple[float, ...]
    exact: bool
    reason: str
    bound: float
    skipped: float
    group_shares: Mapping[str, float] = field(default_factory=dict)
    held_out: HeldOut | None = None
    unit: float = 1.0
    lost: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the run proves alpha-approximate multicalibration on the fitted rows."""
        return self.exact and self.bound <= self.alpha

    def gap_limit(self, share: float, *, proven: bool = False) -> float:
        """Largest mean gap that the guarantee allows in a group of this share of the rows.

        In the labels' own unit.

        Parameters
        ----------
        share
            Share p of the group, in (0, 1].
        proven
            Use the run's own bound instead of alpha.

        Examples
        --------
        >>> from recalibrate import Certificate
        >>> c = Certificate(0.01, 1.0, 200, 3, (0.2, 0.19, 0.18, 0.1799), True, "", 1e-4, 0.0)
        >>> c.gap_limit(0.5), c.gap_limit(0.5, proven=True)
        (0.2, 0.02)
        """
        if not 0 < share <= 1:
            raise ValueError(f"a group's share must be in (0, 1], got {share!r}")
        worst = self.bound if proven else self.alpha
        return round(self.unit * sqrt(max(worst, 0.0) / self.B) / share, 12)

    @property
    def gap_limits(self) -> dict[str, tuple[float, float]]:
        """For every group of H: the gap that alpha allows, and the one that the run proves."""
        return {
            name: (self.gap_limit(share), self.gap_limit(share, proven=True))
            for name, share in self.group_shares.items()
            if share > 0
        }

    def consequences(self) -> _Consequences:
        """What follows on the fitted rows, if H is a weak learner: printed, in words.

        Raises
        ------
        ValueError
            If the run proves nothing.

        Examples
        --------
        >>> from recalibrate import Certificate
        >>> c = Certificate(0.01, 1.0, 200, 3, (0.2, 0.19, 0.18, 0.1799), True, "", 1e-8, 0.0)
        >>> found = c.consequences()
        >>> round(found.gamma, 4), round(found.excess, 4)
        (0.0317, 0.0952)
        """
        if not self.exact:
            raise ValueError(f"the certificate gives no guarantee, because {self.reason}")
        return _Consequences(max(self.bound, 0.0) / self.B, self.m)

    def __str__(self) -> str:
        lines = [
            f"Algorithm 1: alpha = {self.alpha:g}, B = {self.B:g}, m = {self.m}; "
            f"{self.rounds} rounds, squared error {self.errors[0]:.4g} -> "
            f"{self.errors[self.rounds]:.4g} (labels scaled to [0, 1])",
            f"K2 (training): at most {self.bound:.3g} for every h in H with h(x)^2 <= {self.B:g}"
            if self.exact
            else f"K2 (training): no guarantee, because {self.reason}",
        ]
        if self.exact and self.lost:
            lines.append(
                "rounded columns: included in that bound; rounding changes h(x) by at most "
                f"{self.lost:.2g}"
            )
        if self.skipped:
            lines.append(
                f"small level sets: {self.skipped:.2%} of the weight is left as it is; included in "
                "that bound"
            )
        if self.held_out is not None:
            h = self.held_out
            value, low, high = (max(each, 0.0) for each in (h.estimate, h.low, h.high))
            lines.append(
                f"K2 (held out): at most about {value:.3g} (95 % interval {low:.3g} to "
                f"{high:.3g}, {h.rows:,} held-out rows)"
            )
        return "\n".join(lines)
