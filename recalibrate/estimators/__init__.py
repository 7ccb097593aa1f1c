"""Estimators for scikit-learn: recalibration around another estimator, LSBoost from a constant."""

from recalibrate.estimators.classifier import LSBoostClassifier
from recalibrate.estimators.recalibrated import RecalibratedClassifier, RecalibratedRegressor
from recalibrate.estimators.regressor import LSBoostRegressor

__all__ = [
    "LSBoostClassifier",
    "LSBoostRegressor",
    "RecalibratedClassifier",
    "RecalibratedRegressor",
]
