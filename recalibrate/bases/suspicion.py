"""Base scores that are too good: made on the rows that trained the base, or labels themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.levels import from_margin
from recalibrate.data.labels import Labels
from recalibrate.support.notices import warn_user

TOO_FEW_ROWS = 20
"""Fewer rows say nothing about whether a base has seen them."""

TOO_GOOD_AUC = 0.999
"""A base that ranks more of the pairs of 0/1 labels right may have seen them."""

TOO_GOOD_LEFT = 1e-4
"""A base that leaves less of the variance of a regression has probably seen the labels."""

CERTAIN = 1e-4
"""Mean variance p (1 - p) below which a base claims to know every label."""


def warn_if_too_good(labels: Labels, margin: NDArray[np.float64], link: str) -> None:
    """Calibration rows that trained the base make every later number look better than it is."""
    mean = from_margin(margin, link)
    if labels.kind == "classes":
        hit = (labels.strata == mean.argmax(axis=1)).astype(np.float64)
        many = len(hit) >= TOO_FEW_ROWS and float(hit.mean()) > TOO_GOOD_AUC
        suspicious = many and _hides_noise(hit, mean.max(axis=1))
    elif labels.kind == "binary":
        suspicious = _separates(labels.values, mean) and _hides_noise(labels.values, mean)
    elif labels.kind == "regression" and len(mean) >= TOO_FEW_ROWS:
        left = float(np.mean((labels.values - mean) ** 2))
        suspicious = left < TOO_GOOD_LEFT * float(np.var(labels.values))
    else:
        suspicious = False
    if suspicious:
        warn_user(
            "the base scores predict the labels almost perfectly. If the base model was trained "
            "on these rows, corrections fitted here will not hold on new ones: calibrate on rows "
            "that it has not seen."
        )


def _separates(y: NDArray[np.float64], p: NDArray[np.float64]) -> bool:
    """Whether almost every positive row ranks above almost every negative one."""
    positive, negative = p[y == 1], p[y == 0]
    if min(len(positive), len(negative)) < TOO_FEW_ROWS / 2:
        return False
    right = np.searchsorted(np.sort(negative), positive, side="left").sum()
    return bool(right > TOO_GOOD_AUC * len(positive) * len(negative))


def _hides_noise(y: NDArray[np.float64], p: NDArray[np.float64]) -> bool:
    """Whether there are fewer errors than the probabilities themselves announce.

    An honest model of an easy task errs as often as it says. On its training rows a model errs
    less, or it is certain of everything, as fully grown trees are.
    """
    noise = p * (1 - p)
    if float(np.mean(noise)) < CERTAIN:
        return True
    spread = float(np.sqrt(np.sum(noise * (1 - 2 * p) ** 2)))
    surplus = float(np.sum((y - p) ** 2 - noise))
    return surplus < -2.0 * spread  # two standard errors
