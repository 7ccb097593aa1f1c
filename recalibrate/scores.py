"""What an adapter needs: the protocol of base models, and the ways to make and read one.

The interface for packages that register adapters of their own; it stays where it is.
"""

from recalibrate.bases.protocol import (
    Base,
    CallableBase,
    ScoreColumn,
    as_base,
    predicted_mean,
    runs_code,
)
from recalibrate.core.levels import Link, from_margin, sigmoid

__all__ = [
    "Base",
    "CallableBase",
    "Link",
    "ScoreColumn",
    "as_base",
    "from_margin",
    "predicted_mean",
    "runs_code",
    "sigmoid",
]
