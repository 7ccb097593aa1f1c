"""A foreign regressor does not say why."""

from __future__ import annotations

from recalibrate.classes.estimator.spec import EstimatorTable, Matrix
from recalibrate.explain.reasons import Floats, Reasons


class EstimatorReasons(Reasons[EstimatorTable, Matrix]):
    """Which model it was, and no more."""

    def words(self, row: int) -> str:
        return "the level set's regressor"

    def parts(self) -> dict[str, Floats]:
        return {}


REASONS = EstimatorReasons
