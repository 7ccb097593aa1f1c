"""What the demo does: a model with a planted fault, found and put right.

All data are simulated (`recalibrate.simulate`). The fault is planted in the rows that train the
base model: half of the high incomes of young women are recorded as low, and the model learns it.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.simulate import Census, census

if TYPE_CHECKING:
    import pandas as pd

    from recalibrate.auditing import AuditReport
    from recalibrate.model import Recalibrated

SEEN = ("AGEP", "SCHL", "WKHP", "COW", "SEX")
"""Columns that the base model is trained on; race and marital status are not among them."""
TEXTS = ("COW", "SEX")
YOUNG = 40
FAULTY_SHARE = 0.5
PLANTED = f"SEX = female * AGEP < {YOUNG}"
TERMS = ("SEX", "RAC1P", "MAR", "AGEP", f"SEX*(AGEP < {YOUNG})", "SEX*MAR", "SEX*RAC1P")
COLUMNS = {
    "group": "group",
    "rows": "rows",
    "mean_outcome": "observed",
    "before_mean_prediction": "predicted before",
    "mean_prediction": "predicted after",
    "before_gap": "gap before",
    "gap": "gap after",
    "low": "gap after, low",
    "high": "gap after, high",
}


@dataclass(frozen=True, eq=False)
class Parts:
    """Three independent samples: one trains, one calibrates, one tests."""

    train: Census
    calibration: Census
    test: Census

    @property
    def recorded(self) -> NDArray[np.float64]:
        """Training labels with the planted fault."""
        X = self.train.X
        hit = (X["SEX"] == "female").to_numpy() & (X["AGEP"] < YOUNG).to_numpy()
        faulty = np.random.default_rng(0).random(len(X)) < FAULTY_SHARE
        return np.where(hit & faulty, 0.0, self.train.y)


def simulate(rows: int, seed: int) -> Parts:
    """Draw the samples."""
    first = 3 * seed
    return Parts(*(census(rows, first + k, categorical=True) for k in (1, 2, 3)))


def train_base(parts: Parts) -> tuple[Any, str]:
    """A base model trained on the faulty labels, and its name."""
    X = parts.train.X[list(SEEN)].astype(dict.fromkeys(TEXTS, "category"))
    if importlib.util.find_spec("xgboost") is not None:
        from xgboost import XGBClassifier

        model = XGBClassifier(
            n_estimators=150, max_depth=4, learning_rate=0.1, enable_categorical=True, n_jobs=2
        )
        return model.fit(X, parts.recorded), "xgboost"
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=150, max_leaf_nodes=16, categorical_features="from_dtype", random_state=0
    )
    return model.fit(X, parts.recorded), "scikit-learn's HistGradientBoostingClassifier"


def recalibrate_base(base: Any, parts: Parts, *, progress: bool | None) -> Recalibrated:
    """The base model, put right for the groups."""
    from recalibrate import Groups, fit

    rows = len(parts.calibration.y)
    groups = Groups(*TERMS, min_rows=max(50, rows // 150))
    return fit(base, parts.calibration.X, parts.calibration.y, H=groups, progress=progress)


def audit_both(model: Recalibrated, parts: Parts) -> AuditReport:
    """Before and after, on rows that neither model has seen."""
    from recalibrate import audit

    found: Any = audit(model, parts.test.X, parts.test.y, groups=model.H, baseline=True)
    report: AuditReport = found
    return report


def before_after(report: AuditReport) -> pd.DataFrame:
    """One row per group."""
    return report.full_table[list(COLUMNS)].rename(columns=COLUMNS)


def compare_served(model: Recalibrated, served: Any, parts: Parts) -> dict[str, Any]:
    """How far the file's predictions by onnxruntime are from Python's, on all test rows."""
    ours = model.predict(parts.test.X).astype(np.float32)
    off = np.abs(served.predict(parts.test.X) - ours)
    return {"rows": len(off), "differing": int((off != 0).sum()), "largest": float(off.max())}


def numbers(report: AuditReport, **more: Any) -> dict[str, Any]:
    """What happened, for programs."""
    from recalibrate import __version__

    before: Any = report.overall_before
    after: Any = report.overall
    planted: Any = {group.name: group for group in report.groups}[PLANTED]
    return {
        "simulated": True,
        "recalibrate_version": __version__,
        "groups": len(report.groups),
        "groups_off": {"before": before.n_off, "after": after.n_off},
        "log_loss": {"before": before.log_loss, "after": after.log_loss},
        "brier_score": {"before": before.mse, "after": after.mse},
        "planted_group": {
            "name": PLANTED,
            "gap_before": planted.before.gap,
            "gap_after": planted.after.gap,
        },
        "verdict": report.verdict,
        **more,
    }
