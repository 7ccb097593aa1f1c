r"""Student's t corrected for skewness, by Hall's transformation.

.. math:: t + a t^2 + a^2 t^3 / 3 + b

with b = g / 6 for the skewness g of the sum of residuals, and a = g / 3 where the variance comes
from the same residuals, a = -g / 6 where it does not [1]_.

References
----------
.. [1] P. Hall, "On the removal of skewness by transformation", JRSS B 1992.
"""

from __future__ import annotations

from recalibrate.data.vectors import Float64


def skewness_terms(skewness: Float64, own: Float64) -> tuple[Float64, Float64]:
    """The a and b of the transformation, for variances that are ``own`` to this share."""
    return skewness * (3.0 * own - 1.0) / 6.0, skewness / 6.0


def unskewed(t: Float64, a: Float64, b: Float64) -> Float64:
    """The transformation."""
    return t + a * t**2 + a**2 * t**3 / 3.0 + b
