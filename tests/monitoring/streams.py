"""Small streams whose truth is known."""

import pandas as pd

import recalibrate as rc

GROUPS = ["sex", "region"]


def batch(rng, n=600, *, gap=0.0, band=None):
    """Rows, right scores, and labels of which those of women are more frequent by ``gap``."""
    X = pd.DataFrame(
        {"sex": rng.choice(["F", "M"], n), "region": rng.choice(["N", "S", "W"], n), "age": 1.0}
    )
    p = rng.uniform(0.1, 0.8, n)
    off = X["sex"].to_numpy() == "F"
    if band is not None:
        off &= (p >= band[0]) & (p < band[1])
    return X, p, (rng.random(n) < p + gap * off).astype(float)


def run(rng, n_batches=12, change=6, gap=0.25, n=600, **options):
    """A monitor after a stream that goes wrong for women at some batch."""
    monitor = rc.Monitor(groups=GROUPS, **options)
    for k in range(n_batches):
        X, p, y = batch(rng, n, gap=gap if k >= change else 0.0)
        monitor.update(X, y, scores=p, time=k)
    return monitor


def rows_of(table):
    return table.set_index("group")
