"""LSBoost from a constant: a regressor and a binary classifier for scikit-learn."""

from recalibrate.estimators.classifier import LSBoostClassifier
from recalibrate.estimators.regressor import LSBoostRegressor

__all__ = ["LSBoostClassifier", "LSBoostRegressor"]
