"""What there is to know of scikit-learn estimators without importing scikit-learn."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.hashing import mix

LARGEST_SEED = 2**32 - 1


def weight_argument(estimator: Any) -> str | None:
    """The argument of ``fit`` that takes the weights; None if there is none."""
    parameters = inspect.signature(estimator.fit).parameters.values()
    if any(p.name == "sample_weight" for p in parameters):
        return "sample_weight"
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    if getattr(estimator, "steps", None) and _routing():  # to the steps that request it
        return "sample_weight"
    if getattr(estimator, "steps", None):  # a pipeline hands it to the step that is named
        step, last = estimator.steps[-1]
        inner = weight_argument(last) if hasattr(last, "fit") else None
        return inner and f"{step}__{inner}"
    nested = getattr(estimator, "estimator", None)  # a search hands it on to what it searches
    return None if nested is None else weight_argument(nested)


def fit_arguments(
    estimator: Any, params: Mapping[str, Any], weight: NDArray[np.float64] | None
) -> dict[str, Any]:
    """What to call ``fit`` with: further arguments, and the weights if the estimator takes them.

    With scikit-learn's metadata routing the estimator gets what it requests, under the names that
    it requests. An estimator that says nothing about weights gets them, as without routing; a
    pipeline asks its steps, and refuses those that say nothing in scikit-learn's words.
    """
    if not _routing():
        name = None if weight is None else weight_argument(estimator)
        return dict(params) if name is None else {**params, name: weight}
    from sklearn.utils.metadata_routing import (
        MetadataRouter,
        MethodMapping,
        get_routing_for_object,
    )

    requests = getattr(getattr(get_routing_for_object(estimator), "fit", None), "requests", {})
    mapping = MethodMapping().add(caller="fit", callee="fit")
    router = MetadataRouter(owner="recalibrate").add(estimator=estimator, method_mapping=mapping)
    router.validate_metadata(params=params, method="fit")
    # Weights count in the recalibration, whether the estimator requests them or not.
    weights = {} if weight is None else {"sample_weight": weight}
    silent = weights if requests.get("sample_weight", False) is None else {}
    given = params if silent else {**weights, **params}
    routed = router.route_params(params=given, caller="fit")
    return {**silent, **routed["estimator"]["fit"]}


def _routing() -> bool:
    """Whether scikit-learn's metadata routing is switched on."""
    sklearn = sys.modules.get("sklearn")
    return sklearn is not None and bool(sklearn.get_config().get("enable_metadata_routing"))


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
