"""Numbers as readers want them: as many digits as mean something, and a real minus sign."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recalibrate.auditing.report import AuditReport

UNKNOWN = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TYPED = str.maketrans(
    {MINUS: "-", UNKNOWN: "-", SIGMA: "sigma", "\N{MULTIPLICATION SIGN}": "x", "±": "+-"}
    | {sign: plain for plain, sign in zip("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True)}
)


@dataclass(frozen=True)
class Digits:
    """Numbers in units of the label, all with the same number of decimals.

    Examples
    --------
    >>> Digits(3).value(0.12345), Digits(3).signed(0.05), Digits(0).value(45123.4)
    ('0.123', '+0.050', '45,123')
    """

    decimals: int

    @classmethod
    def of(cls, report: AuditReport) -> Digits:
        """Three decimals for labels in [0, 1], else three digits of the spread of predictions."""
        if report.kind != "regression":
            return cls(3)
        curve = report.groups[0].after.curve
        values = (*curve.prediction, *curve.outcome)
        spread = max(values) - min(values) or max(abs(value) for value in values) or 1.0
        return cls(min(max(2 - math.floor(math.log10(spread)), 0), 9))

    def value(self, number: float) -> str:
        """A level: a prediction, an outcome."""
        return _fixed(number, self.decimals, "")

    def signed(self, number: float) -> str:
        """A difference: a gap, a limit of one."""
        return _fixed(number, self.decimals, "+")


def measure(number: float) -> str:
    """Three significant digits; very small and very large numbers with a power of ten.

    Examples
    --------
    >>> measure(0.19432), measure(7.812e-05), measure(-123456.0)
    ('0.194', '7.81 × 10⁻⁵', '−123,456')
    """  # noqa: RUF002 - signs as readers see them
    if not math.isfinite(number):
        return UNKNOWN
    if number == 0:
        return "0"
    exponent = math.floor(math.log10(abs(number)))
    if -4 <= exponent < 6:
        return _fixed(number, max(2 - exponent, 0), "")
    mantissa, _, power = f"{number:.2e}".partition("e")
    return _minus(
        f"{mantissa} \N{MULTIPLICATION SIGN} 10{str(int(power)).translate(_SUPERSCRIPTS)}"
    )


def p_value(p: float) -> str:
    """A probability; below a thousandth only that."""
    return "< 0.001" if p < 0.001 else _fixed(p, 3, "")


def percent(share: float) -> str:
    """A share in percent."""
    return f"{_fixed(100 * share, 1, '')} %"


def sigmas(number: float) -> str:
    """A multiple of a standard deviation, with its unit."""
    return f"{_fixed(number, 1, '')} {SIGMA}"


def cell(column: str, value: Any, digits: Digits) -> str:
    """A label or number of a table, by the name of its column.

    Examples
    --------
    >>> cell("before_gap", 0.05, Digits(3)), cell("mean_outcome", 0.05, Digits(3))
    ('+0.050', '0.050')
    >>> cell("rows", 1094, Digits(3)), cell("ece", 0.01234, Digits(3))
    ('1,094', '0.0123')
    """
    if isinstance(value, float):
        own = column.removeprefix("before_")
        if own in ("gap", "low", "high"):
            return digits.signed(value)
        return digits.value(value) if own.startswith("mean_") else measure(value)
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return f"{value:,}" if whole and column == "rows" else str(value)


def typed(text: str) -> str:
    """The same in characters that every terminal and every file has.

    Examples
    --------
    >>> typed(measure(-7.812e-05)), typed(sigmas(2.5)), typed(UNKNOWN)
    ('-7.81e-5', '2.5 sigma', '-')
    """
    return text.translate(_TYPED).replace(" x 10", "e")


def _fixed(number: float, decimals: int, sign: str) -> str:
    if not math.isfinite(number):
        return UNKNOWN
    text = f"{number:{sign},.{decimals}f}"
    # What rounds to zero has no sign.
    return text.lstrip("+-") if not text.strip("+-0.,") else _minus(text)


def _minus(text: str) -> str:
    return text.replace("-", MINUS, 1) if text.startswith("-") else text
