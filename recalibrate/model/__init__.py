"""The fitted model as users hold it: base, schema and rounds come in, predictions and files leave.

``fit`` and ``load`` make it; audits, estimators and commands use it.
"""

from recalibrate.model.recalibrated import Recalibrated

__all__ = ["Recalibrated"]
