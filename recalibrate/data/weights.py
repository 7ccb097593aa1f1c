"""How much rows count: weights, and exposure, which makes rates of totals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.data.scores import checked_vector, refuse
from recalibrate.data.vectors import Float64

ALL_WEIGHTS_ZERO = "sample_weight is zero for every row: at least one row must count."


def read_weight(sample_weight: Any, n_rows: int) -> Float64:
    """Weights of all rows, checked."""
    weight = read_some_weights(sample_weight, n_rows)
    if not weight.any():
        raise ValueError(ALL_WEIGHTS_ZERO)
    return weight


def read_some_weights(sample_weight: Any, n_rows: int) -> Float64:
    """Weights of some of the rows, checked; unlike those of all rows they may all be zero."""
    weight = checked_vector(
        sample_weight, "sample_weight", n_rows, "Use weight 0 for rows that are not to count."
    )
    refuse(weight < 0.0, weight, "sample_weight must not be negative", "Use 0 to leave a row out.")
    return weight


def read_exposure(exposure: Any, n_rows: int) -> Float64:
    """Exposures of the rows, checked."""
    advice = "Leave rows without exposure out: they say nothing about a rate."
    found = checked_vector(exposure, "exposure", n_rows, advice)
    refuse(found <= 0.0, found, "exposure must be above zero", advice)
    return found


def require_exposure(exposed: bool, exposure: Any) -> None:
    """Refuse labels without exposure beside predictions that are rates: they are totals then.

    Compared with rates as they are, totals look wrong in every group.
    """
    if exposed and exposure is None:
        raise ValueError(
            "The model was fitted with exposure=, so it predicts rates: y per unit of exposure. "
            "Pass exposure= here, too (on the command line --exposure), with totals as y: rates "
            "times exposure, if y holds rates."
        )


def per_exposure(values: NDArray[Any], exposure: Float64) -> Float64:
    """Rates: totals by exposure."""
    if values.dtype.kind == "O":
        raise ValueError("exposure= needs totals (counts, amounts) as labels, but y holds text.")
    return np.asarray(values / exposure, dtype=np.float64)


def by_exposure(weight: Float64 | None, exposure: Float64) -> Float64:
    """Weights of rows that count as often as they have exposure."""
    return exposure if weight is None else weight * exposure
