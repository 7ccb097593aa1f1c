"""LSBoost as an estimator of its own: what the regressor and the classifier share."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from recalibrate.bases.constant import Constant
from recalibrate.classes.trees.spec import Trees
from recalibrate.estimators.base import FitsModel, Float64

SMALL_TREES = Trees(depth=2)
"""H of a loop of the user's own and of Algorithm 1, where none is given: the trees of the default
fit are made for many small steps."""


class LSBoost(FitsModel):
    """Boosting from the weighted mean label."""

    def _boost(
        self,
        X: Any,
        y: Float64,
        weight: Float64 | None,
        bounds: tuple[float, float] | None,
    ) -> Self:
        """Boost from the weighted mean label; everything is in place but the loop."""
        start = float(np.average(y, weights=weight))
        # The mean of equal numbers may differ from them in the last bit.
        base = Constant(float(np.clip(start, *(bounds or (0.0, 1.0)))))
        default = self.loop is None and self.alpha is None and self.B is None
        H = SMALL_TREES if self.H is None and not default else self.H
        return self._fit(base, X, y, weight, H=H, bounds=bounds)
