"""Rows for models of boosted trees: numbers, zeros, text and number categories."""

import numpy as np
import pandas as pd

TOWNS = ["Thun", "Bern", "Chur", "Genf", "Sion"]  # not sorted: codes follow this order
SIZES = [10, 20, 40]
ROWS = 800


def numbers(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    debt = np.where(rng.random(n) < 0.4, 0.0, rng.exponential(size=n))
    return pd.DataFrame(
        {"age": rng.normal(45, 15, n), "rooms": rng.integers(0, 6, n), "debt": debt}
    )


def categories(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed + 1000)
    return numbers(n, seed).assign(
        town=pd.Categorical(rng.choice(TOWNS, n), categories=TOWNS),
        size=pd.Categorical(rng.choice(SIZES, n), categories=SIZES),
    )


def codes(n: int, seed: int) -> pd.DataFrame:
    """The same categories as numbers from 0."""
    frame = categories(n, seed)
    return frame.assign(
        town=frame["town"].cat.codes.astype(float), size=frame["size"].cat.codes.astype(float)
    )


def margin(frame: pd.DataFrame) -> np.ndarray:
    result = frame["age"].fillna(30) / 15 - 3 + 0.2 * frame["rooms"] - frame["debt"].fillna(2)
    if "town" in frame:
        result = result + frame["town"].isin(["Thun", "Genf", 0.0, 3.0])
        result = result - frame["size"].isin([20, 1.0])
    return result.to_numpy(dtype=float)


def labels(frame: pd.DataFrame, kind: str) -> np.ndarray:
    """Outcomes: binary, regression, counts, positive, shares or three classes."""
    rng = np.random.default_rng(7)
    f = margin(frame)
    return {
        "binary": lambda: (rng.random(len(f)) < 1 / (1 + np.exp(-f))).astype(int),
        "regression": lambda: f + rng.normal(size=len(f)),
        "counts": lambda: rng.poisson(np.exp(np.clip(f, -3, 2))),
        "positive": lambda: np.exp(np.clip(f, -3, 3)) * rng.exponential(size=len(f)) + 0.01,
        "shares": lambda: 1 / (1 + np.exp(-f - rng.normal(size=len(f)))),
        "three": lambda: np.digitize(f + rng.normal(size=len(f)), [-0.5, 1.0]),
    }[kind]()


def odd_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Zeros, tiny numbers, huge ones and missing values among others."""
    odd = frame.copy()
    odd["rooms"] = odd["rooms"].astype(float)
    values = [0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e-35, 1e30, -1e30, np.nan]
    for shift, name in enumerate(["age", "rooms", "debt"]):
        for k, value in enumerate(values):
            odd.loc[odd.index[(k + shift) :: 40], name] = np.float32(value)
    return odd
