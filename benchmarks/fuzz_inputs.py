"""Hostile inputs beside .rcal files: base model files, exported graphs, random tables."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_files import damage_bytes, edit_graph

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
HOSTILE = [b"-1", b"0", b"1", b"2", b"99", b"1000000", b"2147483647", b"4294967295", b"-2147483648",
           b"1e308", b"nan", b"", b"x", b"1e-320", b"[]", b'""']  # fmt: skip
ROWS = 40
COLUMNS = ("a", "b", "c")


def sample(n: int = 300) -> tuple[Any, np.ndarray]:
    """Rows with numbers and a category, and labels."""
    import pandas as pd

    rng = np.random.default_rng(0)
    numbers = {"a": rng.normal(size=n), "b": rng.integers(0, 5, n).astype(float)}
    X = pd.DataFrame({**numbers, "c": pd.Categorical(rng.choice(list("xyz"), n))})
    return X, (rng.random(n) < 0.3 + 0.4 * (X["a"] > 0)).astype(int).to_numpy()


def write_files(folder: Path) -> None:
    """Good files of every kind: to be called in a child, because frameworks start threads."""
    import lightgbm
    import xgboost
    from catboost import CatBoostClassifier
    from skl2onnx import to_onnx
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    import recalibrate as rc

    X, y = sample()
    plain = X[["a", "b"]].to_numpy(np.float32)
    small = {"n_estimators": 4, "verbose": -1, "num_leaves": 6, "n_jobs": 1}
    lightgbm.LGBMClassifier(**small).fit(X, y).booster_.save_model(folder / "base.txt")
    lightgbm.LGBMRegressor(linear_tree=True, **small).fit(plain, y).booster_.save_model(
        folder / "linear.txt"
    )
    for kind in ("json", "ubj"):
        for name, more in (("base", {}), ("dart", {"booster": "dart"})):
            model = xgboost.XGBClassifier(
                n_estimators=4, max_depth=3, enable_categorical=True, n_jobs=1, **more
            )
            model.fit(X, y).save_model(folder / f"{name}.{kind}")
    cat = CatBoostClassifier(iterations=4, depth=3, verbose=0, allow_writing_files=False)
    cat.fit(plain, y).save_model(str(folder / "numbers.cbm"))
    options = {"zipmap": False}
    for name, model in (
        ("trees", GradientBoostingClassifier(n_estimators=4)),
        ("line", LogisticRegression()),
    ):
        graph = to_onnx(model.fit(plain, y), plain[:1], options={id(model): options})
        (folder / f"{name}.onnx").write_bytes(graph.SerializeToString())
    base = HistGradientBoostingClassifier(max_iter=4).fit(X[["a", "b"]], y)
    for name, H in (("groups", rc.Groups("c", "a > 0")), ("h", rc.Trees(depth=2))):
        loop = rc.Loop(levels=3, max_rounds=3)
        fitted = rc.fit(base, X, y, H, validation=False, loop=loop)
        fitted.to_onnx(folder / f"{name}.served.onnx", X)


def damage_file(data: bytes, suffix: str, rng: np.random.Generator) -> bytes:
    """A file with a number, a value of its graph, or some bytes changed."""
    if suffix == ".onnx" and rng.random() < 0.8:
        return edit_graph(data, rng)
    places = list(NUMBER.finditer(data)) if suffix in (".txt", ".json") else []
    if not places or rng.random() < 0.3:
        return damage_bytes(data, rng)
    for _ in range(1 + int(rng.integers(4) == 0)):
        place = places[int(rng.integers(len(places)))]
        new = bytes(HOSTILE[int(rng.integers(len(HOSTILE)))])
        data = data[: place.start()] + new + data[place.end() :]
        places = list(NUMBER.finditer(data))
    return data


def file_job(folder: Path, seed: int) -> Callable[[int], str]:
    """Damage a file, open it, score rows."""
    # Imported here, once, and not by every child; none of them starts threads for that.
    import catboost
    import lightgbm
    import onnxruntime
    import xgboost

    import recalibrate as rc
    from recalibrate.bases.protocol import as_base
    from recalibrate.support.checks import ModelFileError

    del catboost, lightgbm, onnxruntime, xgboost
    files = sorted(path for path in folder.iterdir() if path.is_file())
    contents = [path.read_bytes() for path in files]
    X = sample(ROWS)[0]
    plain = X[["a", "b"]].to_numpy(np.float32)

    def job(number: int) -> str:
        rng = np.random.default_rng([seed, number])
        k = number % len(files)
        served = files[k].name.endswith(".served.onnx")
        kind = "exported graph" if served else files[k].suffix
        with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(place) / f"damaged{files[k].suffix}"
            path.write_bytes(damage_file(contents[k], files[k].suffix, rng))
            rows = X if served or files[k].stem in ("base", "dart") else plain
            try:
                model = rc.load(path) if served else as_base(path)
            except ModelFileError:
                return f"{kind}: refused"
            except ValueError:
                return f"{kind}: says what is missing"
            try:
                found = model.predict(rows) if served else model.scores(rows)
            except ValueError:
                return f"{kind}: refuses rows"
            if np.shape(found)[:1] != (ROWS,):
                raise AssertionError(f"{kind} gives {np.shape(found)}")
        return f"{kind}: scores"

    return job


# --- tables -------------------------------------------------------------------------------------


def random_column(rng: np.random.Generator, n: int) -> Any:
    """A column as people have them, and as they should not."""
    import pandas as pd

    kind = int(rng.integers(14))
    if kind <= 2:
        values = rng.normal(size=n) * 10.0 ** rng.integers(-5, 6)
        if kind:
            odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, 1e-320, 3.4e38]
            values[rng.integers(n, size=max(1, n // 5))] = rng.choice(odd)
        return values
    if kind == 3:
        return rng.integers(-3, 4, n)
    if kind == 4:
        return rng.integers(-(2**62), 2**62, n)
    if kind == 5:
        return np.full(n, rng.choice([0.0, np.nan, 1.0, np.inf]))
    if kind == 6:
        return rng.random(n) < 0.5
    words = np.array(
        ["", "a", "b", "é", "`", "a*b", "NaN", "None", "\ud800", "x" * 50], dtype=object
    )
    if kind == 7:
        return pd.Series(rng.choice(words[: int(rng.integers(1, len(words)))], n), dtype=object)
    if kind == 8:
        return pd.Categorical(rng.choice(list("abc"), n), ordered=bool(rng.integers(2)))
    if kind == 9:
        mixed = [1, "1", True, None, 2.5, np.nan, b"x", (1,)]
        return pd.Series([mixed[int(k)] for k in rng.integers(len(mixed), size=n)], dtype=object)
    if kind == 10:
        return pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), unit="D")
    if kind == 11:
        return pd.array(rng.choice([1, 2, None], n), dtype="Int64")
    if kind == 12:
        return [f"id{k}" for k in range(n)]
    return pd.cut(pd.Series(rng.random(n)), 3)


def random_table(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """A table, labels and base scores."""
    import pandas as pd

    n = int(rng.choice([1, 2, 3, 10, 50, 200, 500]))
    columns = [pd.Series(random_column(rng, n)) for _ in range(int(rng.integers(1, 6)))]
    X = pd.concat(columns, axis=1)
    names = ["a", "b", "c", "a", "", "x y", "`", "base score", 0, "é"]
    free = rng.random() < 0.2
    X.columns = [
        names[int(rng.integers(len(names)))] if free else f"c{k}" for k in range(X.shape[1])
    ]
    y: Any = (rng.random(n) < rng.random()).astype(float)
    kind = rng.random()
    if kind < 0.2:
        y = rng.normal(size=n) * 10.0 ** rng.integers(-3, 8)
    elif kind < 0.3:
        y = random_column(rng, n)
    score = rng.random(n) * float(rng.choice([1.0, 1.0, 1.0, 1.0, 1e6]))
    return X, y, score


def table_job(seed: int) -> Callable[[int], str]:
    """Fit a random table, predict it, save the model."""
    import recalibrate as rc
    from recalibrate.files import to_bytes

    def job(number: int) -> str:
        rng = np.random.default_rng([seed, number])
        X, y, score = random_table(rng)
        H = [None, "trees", "linear", rc.Groups(*map(str, X.columns[:1])), rc.Trees(depth=1)]
        chosen = H[int(rng.integers(len(H)))]
        loop = None if rng.random() < 0.3 else rc.Loop(levels=3, max_rounds=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                validation = None if loop is None else False
                model = rc.fit(score, X, y, chosen, validation=validation, loop=loop)
            except (ValueError, TypeError) as error:
                if not str(error).strip():
                    raise
                return "table: refused"
            found = model.predict(X, base=score)
            to_bytes(model)
        if len(found) != len(X) or not np.isfinite(found).all():
            raise AssertionError(f"predicts {found[:3]} for {len(X)} rows")
        return "table: predicts"

    return job
