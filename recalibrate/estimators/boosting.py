"""LSBoost as an estimator of its own: what the regressor and the classifier share."""

from __future__ import annotations

from typing import Any, Self

from recalibrate.bases.constant import Constant
from recalibrate.classes.trees.spec import Trees
from recalibrate.estimators.base import FitsModel

SMALL_TREES = Trees(depth=2)
"""H of a loop of the user's own and of Algorithm 1, where none is given: the trees of the default
fit are made for many small steps."""


class LSBoost(FitsModel):
    """Boosting from a constant."""

    def _boost(self, base: Constant, X: Any, y: Any, weight: Any, **options: Any) -> Self:
        """Boost; everything is in place but the loop."""
        default = self.loop is None and self.alpha is None and self.B is None
        H = SMALL_TREES if self.H is None and not default else self.H
        return self._fit(base, X, y, weight, H=H, **options)
