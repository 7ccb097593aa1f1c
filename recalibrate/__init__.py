"""Post-hoc multicalibration of any model by level-set boosting (LSBoost).

The public names are listed in ``__all__`` and loaded on first use (PEP 562), so that
``import recalibrate`` costs milliseconds and imports no framework.

References
----------
.. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
   "Multicalibration as Boosting for Regression", ICML 2023.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recalibrate import losses, metrics
    from recalibrate.auditing import AuditFailed, AuditReport, audit
    from recalibrate.classes.estimator import Estimator
    from recalibrate.classes.groups import Groups
    from recalibrate.classes.linear import Linear
    from recalibrate.classes.polynomial import Polynomial
    from recalibrate.classes.trees import Trees
    from recalibrate.core.certificate import Certificate
    from recalibrate.estimators import (
        LSBoostClassifier,
        LSBoostRegressor,
        RecalibratedClassifier,
        RecalibratedRegressor,
    )
    from recalibrate.fitting.arguments import Engine, Loop
    from recalibrate.fitting.entry import fit
    from recalibrate.loading import load
    from recalibrate.model import Recalibrated
    from recalibrate.monitoring import Monitor

__version__ = "0.2.0"

__all__ = [
    "AuditFailed",
    "AuditReport",
    "Certificate",
    "Engine",
    "Estimator",
    "Groups",
    "LSBoostClassifier",
    "LSBoostRegressor",
    "Linear",
    "Loop",
    "Monitor",
    "Polynomial",
    "Recalibrated",
    "RecalibratedClassifier",
    "RecalibratedRegressor",
    "Trees",
    "__version__",
    "audit",
    "fit",
    "load",
    "losses",
    "metrics",
]

# Where each lazy name lives. No module may be called like a public function (hence `fitting`
# and `auditing`): importing a submodule binds its name here and would shadow the function.
_HOME = {
    "AuditFailed": "recalibrate.auditing",
    "AuditReport": "recalibrate.auditing",
    "Certificate": "recalibrate.core.certificate",
    "Engine": "recalibrate.fitting.arguments",
    "Estimator": "recalibrate.classes.estimator",
    "Groups": "recalibrate.classes.groups",
    "LSBoostClassifier": "recalibrate.estimators",
    "LSBoostRegressor": "recalibrate.estimators",
    "Linear": "recalibrate.classes.linear",
    "Loop": "recalibrate.fitting.arguments",
    "Monitor": "recalibrate.monitoring",
    "Polynomial": "recalibrate.classes.polynomial",
    "Recalibrated": "recalibrate.model",
    "RecalibratedClassifier": "recalibrate.estimators",
    "RecalibratedRegressor": "recalibrate.estimators",
    "Trees": "recalibrate.classes.trees",
    "audit": "recalibrate.auditing",
    "fit": "recalibrate.fitting.entry",
    "load": "recalibrate.loading",
}


def __getattr__(name: str) -> Any:
    if name in ("losses", "metrics"):
        return import_module(f"recalibrate.{name}")
    home = _HOME.get(name)
    if home is None:
        # The wording of Python's own error, which hasattr, copy and doctest rely on.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value  # the next access does not come through here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
