"""What there is to know of scikit-learn estimators without importing scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from recalibrate.support.hashing import mix

LARGEST_SEED = 2**32 - 1


def weight_argument(estimator: Any) -> str | None:
    """The argument of ``fit`` that takes the weights; None if there is none."""
    parameters = inspect.signature(estimator.fit).parameters.values()
    if any(p.name == "sample_weight" for p in parameters):
        return "sample_weight"
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    if getattr(estimator, "steps", None):  # a pipeline hands it to the step that is named
        step, last = estimator.steps[-1]
        inner = weight_argument(last) if hasattr(last, "fit") else None
        return inner and f"{step}__{inner}"
    nested = getattr(estimator, "estimator", None)  # a search hands it on to what it searches
    return None if nested is None else weight_argument(nested)


def seed_estimator(estimator: Any, *salts: int) -> None:
    """Give it a number wherever it, or a part of it, would draw one by chance."""
    open_seeds = [
        name
        for name, value in sorted(estimator.get_params(deep=True).items())
        if value is None and name.split("__")[-1] == "random_state"
    ]
    if open_seeds:
        drawn = mix(np.arange(len(open_seeds), dtype=np.uint64), *salts) % np.uint64(LARGEST_SEED)
        estimator.set_params(**dict(zip(open_seeds, drawn.tolist(), strict=True)))
