"""Fitted models, pinned: a change of the code that is meant to change no model changes no bit.

Each checksum covers what a model file says about encoders, level sets and steps, and the model's
predictions. Where a change is meant to change models, write the checksums anew and say why in the
commit: ``python tests/test_pinned_models.py``.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from settings import fit_with
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeRegressor

import recalibrate as rc

STORED = Path(__file__).parent / "pinned_models.json"
ROWS = 3000


def people(n: int = ROWS, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows, base scores and labels with gaps to be found; all numbers short binary fractions."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n).astype(float)
    age[rng.random(n) < 0.04] = np.nan
    X = pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["F", "M"], n),
            "job": rng.choice(list("abcdefgh"), n),
            "town": [f"t{k}" for k in rng.integers(0, 200, n)],
            "hours": np.round(rng.random(n) * 640) / 16,
        }
    )
    score = np.round(rng.beta(3, 3, n) * 4096).clip(1, 4095) / 4096
    shift = 0.25 * (X["sex"] == "F") - 0.2 * (X["age"] < 35) + 0.1 * X["job"].isin(["a", "b"])
    mean = np.clip(score + shift.to_numpy(), 0.02, 0.98)
    return X, score, (rng.random(n) < mean).astype(float)


X, SCORE, Y = people()
WEIGHT = np.round(np.random.default_rng(1).gamma(2.0, size=ROWS) * 64 + 1) / 64
GROUPS = rc.Groups("sex", "age", "sex*job", "age < 30")
AMOUNT = np.round((40 * SCORE + 20 * (X["sex"] == "F") + 10 * Y) * 16).to_numpy() / 16
LOOP = {"levels": 5, "step": 0.25, "max_rounds": 12, "cv": 3}


RNG = np.random.default_rng(3)
KINDS = np.array(["red", "green", "blue"])
SHARES = np.stack([SCORE, 1 - SCORE, np.full(ROWS, 0.5)], axis=1)
SHARES = np.round(SHARES / SHARES.sum(axis=1, keepdims=True) * 4096) / 4096
SHARES[:, 2] = 1 - SHARES[:, 0] - SHARES[:, 1]
DRAWN = np.clip(SHARES + 0.15 * np.eye(3)[(X["job"] > "d").to_numpy().astype(int)], 0, None)
KIND = KINDS[(RNG.random((ROWS, 1)) > np.cumsum(DRAWN / DRAWN.sum(1, keepdims=True), 1)).sum(1)]
YEARS = np.round(RNG.gamma(2.0, 0.5, ROWS) * 64 + 1) / 64
CLAIMS = RNG.poisson(YEARS * SCORE * np.where(X["sex"] == "F", 1.5, 0.75))
SIZES = np.round(RNG.gamma(2.0, AMOUNT / 2) * 16 + 1) / 16
PAID = np.where(RNG.random(ROWS) < 0.4, SIZES, 0.0)
SOFT = np.round(np.clip(SCORE + 0.2 * (X["sex"] == "F") - 0.1, 0, 1) * 64).to_numpy() / 64
WIDE = pd.DataFrame({f"c{k}": np.round(RNG.random(ROWS) * 64) / 64 for k in range(300)})
FEW = slice(0, 100)


class Thresholds(BaseEstimator, ClassifierMixin):
    """A base to cross-fit whose scores are short binary fractions on every machine."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        older = X["hours"] > 20
        self.share_ = [np.round(np.mean(y[older == side]) * 64) / 64 for side in (False, True)]
        return self

    def predict_proba(self, X):
        p = np.where(X["hours"] > 20, self.share_[1], self.share_[0])
        return np.column_stack([1 - p, p])


def frame(weighted: bool = False) -> pd.DataFrame:
    rows = X.assign(y=Y, score=SCORE)
    return rows.assign(weight=WEIGHT) if weighted else rows


def streamed(H: Any = None, **options: Any) -> rc.Recalibrated:
    rows = frame(weighted="sample_weight" in options)
    pieces = [rows.iloc[a : a + 700] for a in range(0, ROWS, 700)]
    return fit_with("score", iter(pieces), "y", H, block_rows=900, **options)


def on_dask() -> rc.Recalibrated:
    distributed = pytest.importorskip("distributed")
    import dask
    import dask.dataframe as dd

    with (
        dask.config.set({"distributed.worker.memory.terminate": False}),
        distributed.Client(processes=False, n_workers=2, dashboard_address=None) as client,
    ):
        table = dd.from_pandas(frame(), npartitions=4)
        return fit_with("score", table, "y", rc.Trees(depth=2), client=client, **LOOP)


FITS: dict[str, Callable[[], rc.Recalibrated]] = {
    "default": lambda: rc.fit(SCORE, X, Y),
    "default, weights": lambda: rc.fit(SCORE, X, Y, sample_weight=WEIGHT),
    "default, regression": lambda: rc.fit(50 * SCORE, X, AMOUNT),
    "default, groups": lambda: rc.fit(SCORE, X, Y, GROUPS),
    "default, linear": lambda: rc.fit(SCORE, X, Y, rc.Linear()),
    "default, in pieces": lambda: streamed(sample_weight="weight"),
    "trees": lambda: fit_with(SCORE, X, Y, rc.Trees(depth=3, base_score=True), **LOOP),
    "trees, best first": lambda: fit_with(
        SCORE, X, Y, rc.Trees(depth=4, leaves=5, one_vs_rest=4, score_order=2, bins=20), **LOOP
    ),
    "groups, weights": lambda: fit_with(SCORE, X, Y, GROUPS, sample_weight=WEIGHT, **LOOP),
    "linear": lambda: fit_with(SCORE, X, Y, rc.Linear(base_score=True), **LOOP),
    "rounded": lambda: rc.fit(
        SCORE,
        X,
        Y,
        rc.Trees(depth=1),
        loop=rc.Loop(rounded=True, levels=20, level_kind="quantile"),
        cv=3,
    ),
    "paper": lambda: rc.fit(SCORE, X, Y, rc.Trees(depth=1), alpha=0.02),
    "paper, regression": lambda: rc.fit(50 * SCORE, X, AMOUNT, GROUPS, alpha=0.02, validation=0.25),
    "paper, linear": lambda: rc.fit(SCORE, X, Y, rc.Linear(), alpha=0.05),
    "in pieces": lambda: streamed(rc.Trees(depth=2), **LOOP),
    "in pieces, groups": lambda: streamed(
        GROUPS, sample_weight="weight", validation=0.25, step=0.5
    ),
    "in pieces, paper": lambda: streamed(rc.Linear(), alpha=0.05, validation=0.25),
    "on Dask": on_dask,
    "three classes": lambda: rc.fit(SHARES, X, KIND, classes=KINDS),
    "three classes, groups": lambda: rc.fit(SHARES, X, KIND, GROUPS, classes=KINDS),
    "three classes, linear, weights": lambda: rc.fit(
        SHARES, X, KIND, rc.Linear(), classes=KINDS, sample_weight=WEIGHT
    ),
    "counts with exposure": lambda: rc.fit(SCORE, X, CLAIMS, exposure=YEARS),
    "counts with exposure, groups": lambda: rc.fit(SCORE, X, CLAIMS, GROUPS, exposure=YEARS),
    "gamma": lambda: rc.fit(50 * SCORE, X, SIZES, link="log-gamma"),
    "tweedie, groups": lambda: rc.fit(20 * SCORE, X, PAID, GROUPS, link="log-tweedie-1.5"),
    "soft labels": lambda: rc.fit(SCORE, X, SOFT),
    "a hundred rows, groups": lambda: rc.fit(SCORE[FEW], X[FEW], Y[FEW], rc.Groups("sex")),
    "300 columns": lambda: rc.fit(SCORE, pd.concat([X, WIDE], axis=1), Y),
    "polynomial": lambda: rc.fit(SCORE, X[["age", "sex"]].fillna(0), Y, rc.Polynomial(degree=2)),
    "estimator": lambda: fit_with(
        SCORE, X[["hours"]], Y, rc.Estimator(DecisionTreeRegressor(max_depth=2)), **LOOP
    ),
    "Z": lambda: rc.fit(SCORE, np.zeros((ROWS, 2)), Y, GROUPS, Z=X),
    "cross-fitted": lambda: rc.fit(Thresholds(), X, Y, GROUPS, cv=3),
    "held-out rows of one's own": lambda: rc.fit(
        SCORE[1000:],
        X[1000:],
        Y[1000:],
        validation={"X": X[:1000], "y": Y[:1000], "base": SCORE[:1000]},
    ),
}


NEW, NEW_SCORE, _ = people(500, seed=2)
"""Rows to predict."""
PREDICTIONS: dict[str, Callable[[rc.Recalibrated], np.ndarray]] = {
    "default, regression": lambda model: model.predict(NEW, base=50 * NEW_SCORE),
    "paper, regression": lambda model: model.predict(NEW, base=50 * NEW_SCORE),
    "gamma": lambda model: model.predict(NEW, base=50 * NEW_SCORE),
    "tweedie, groups": lambda model: model.predict(NEW, base=20 * NEW_SCORE),
    "three classes": lambda model: model.predict_proba(NEW, base=SHARES[:500]),
    "three classes, groups": lambda model: model.predict_proba(NEW, base=SHARES[:500]),
    "three classes, linear, weights": lambda model: model.predict_proba(NEW, base=SHARES[:500]),
    "300 columns": lambda model: model.predict(
        pd.concat([NEW, WIDE[:500]], axis=1), base=NEW_SCORE
    ),
    "polynomial": lambda model: model.predict(NEW[["age", "sex"]].fillna(0), base=NEW_SCORE),
    "estimator": lambda model: model.predict(NEW[["hours"]], base=NEW_SCORE),
    "Z": lambda model: model.predict(np.zeros((500, 2)), base=NEW_SCORE, Z=NEW),
    "cross-fitted": lambda model: model.predict(NEW),
}
"""Where they take other scores or tables than `NEW_SCORE` and `NEW`."""


def checksum(name: str, model: rc.Recalibrated) -> str:
    """Of the fitted steps, and of what they say about new rows."""
    from recalibrate.files.container import unpack

    with tempfile.TemporaryDirectory() as folder:
        data = Path(model.save(Path(folder) / "model.rcal")).read_bytes()
    _, said, arrays = unpack(data)
    digest = hashlib.sha256()
    kept = {key: said[key] for key in ("link", "start", "encoders", "steps", "levels")}
    digest.update(json.dumps(kept, sort_keys=True).encode())
    for array in arrays:
        digest.update(array.tobytes())
    predict = PREDICTIONS.get(name, lambda model: model.predict(NEW, base=NEW_SCORE))
    digest.update(np.ascontiguousarray(predict(model)).tobytes())
    return digest.hexdigest()[:16]


def arithmetic() -> str:
    """Checksum of what exp and log give here: other bits of theirs mean other models."""
    grid = np.arange(-4000, 4000) / 128
    values = [np.exp(grid), np.log1p(np.exp(grid)), np.logaddexp(0.0, grid)]
    return hashlib.sha256(np.concatenate(values).tobytes()).hexdigest()[:16]


# Dask's own housekeeping: sockets, and a port that another cluster has.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore:.*port .* is already in use.*:UserWarning")
# `Thresholds` has no graph; the file then holds the steps alone, which is all that is pinned.
@pytest.mark.filterwarnings("ignore:the base model .* cannot be saved inside:UserWarning")
@pytest.mark.parametrize("name", FITS)
def test_the_model_is_the_pinned_one(name):
    stored = json.loads(STORED.read_text())
    if arithmetic() != stored["arithmetic"]:
        pytest.skip("this machine's exp and log differ in their last bits from the pinned ones")
    model = FITS[name]()
    assert model.n_rounds_ > 0, "nothing was learned, so nothing is pinned"
    assert checksum(name, model) == stored["models"][name]


if __name__ == "__main__":
    found = {name: checksum(name, fitted()) for name, fitted in FITS.items()}
    record = {"arithmetic": arithmetic(), "models": found}
    STORED.write_text(json.dumps(record, indent=1) + "\n")
