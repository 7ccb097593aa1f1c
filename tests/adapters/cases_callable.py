"""Plain functions for the contract suite."""

import numpy as np
import pandas as pd
from cases import Case


def frame(n: int, seed: int) -> pd.DataFrame:
    values = np.random.default_rng(seed).normal(size=(n, 3))
    return pd.DataFrame(values, columns=["a", "b", "c"])


def probability(X):
    """Takes columns by position, as a model without names does."""
    return 1 / (1 + np.exp(-np.asarray(X) @ [1.0, -0.5, 0.25]))


def margin(X):
    return X["a"] - X["b"]


def build_probability():
    return probability


def build_margin():
    return margin


def case(name, build, native, **more):
    return Case(
        f"callable {name}", build, frame, native, exact=False, has_graph=False, missing=False,
        named=False, rounds=False, **more,
    )  # fmt: skip


CASES = [
    case("by position", build_probability, lambda model, X: model(X), large=True, alone=True),
    case(
        "of margins",
        build_margin,
        lambda model, X: 1 / (1 + np.exp(-model(X))),
        options={"link": "logit"},
    ),
]
