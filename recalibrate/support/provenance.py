"""Where a fitted model comes from: what its files, graphs and audits say about it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Provenance:
    """Where a fitted model comes from.

    Attributes
    ----------
    version : str
        Of this library, when it was fitted.
    date : str
        Day of the fit (UTC), or that of SOURCE_DATE_EPOCH where it is set.
    data : str
        Fingerprint of the calibration rows: columns, labels and weights. The same for the same
        rows, whatever their order.
    base : str
        Fingerprint of the base model: of its scores for these rows.
    seed : int
    """

    version: str
    date: str
    data: str
    base: str
    seed: int


def today() -> str:
    """The day as 2025-01-31, in UTC; that of SOURCE_DATE_EPOCH (in seconds) where it is set.

    Examples
    --------
    >>> import os
    >>> os.environ["SOURCE_DATE_EPOCH"] = "86400"
    >>> today()
    '1970-01-02'
    >>> del os.environ["SOURCE_DATE_EPOCH"]
    """
    given = os.environ.get("SOURCE_DATE_EPOCH", "").strip()
    if not given:
        return datetime.now(UTC).date().isoformat()
    try:
        return datetime.fromtimestamp(int(given), UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"SOURCE_DATE_EPOCH must be a number of seconds since 1970, got {given!r}"
        ) from None


def library_version() -> str:
    """Of this library."""
    from recalibrate import __version__

    return __version__
