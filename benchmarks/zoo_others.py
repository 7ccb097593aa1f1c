"""torch modules, ONNX files, functions and arrays, for the zoo."""

# ruff: noqa: E501 - a table of models: one line each reads best

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from zoo import Case, Given
from zoo_sklearn import NUMBERS, labels, table

import recalibrate as rc


def cases() -> Iterator[Case]:
    for name, make in _modules().items():
        yield Case(f"torch {name}", make)
    for name, make in _files().items():
        yield Case(f"ONNX {name}", make)
    for name, make in _plain().items():
        yield Case(name, make)


def _scaled(X: Any) -> Any:
    own = X[NUMBERS].to_numpy(dtype=np.float64)
    return ((own - [45, 25, 2]) / [15, 12, 1.5]).astype(np.float32)


def _torch(
    model: Any, X: Any, Z: Any = None, y: Any = None, mean: Any = None, **options: Any
) -> Given:
    import torch

    rows = table(2)

    def means(X: Any) -> Any:
        arrays = [X] if not isinstance(X, tuple) else list(X)
        with torch.no_grad():
            out = model.eval()(*(torch.as_tensor(a) for a in arrays)).numpy().astype(float)
        return out if mean is None else mean(out)

    y = labels(rows, "three" if "target_class" in options else "binary") if y is None else y
    H = None if Z is not None else rc.Groups("x0 < 0")
    return Given(model, X, y, means, H, Z, options)


def _modules() -> dict[str, Callable[[], Given]]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    rows = table(2)
    X, Z = _scaled(rows), rows[["sex"]]
    sigmoid = lambda out: 1 / (1 + np.exp(-out))  # noqa: E731

    class Whole(nn.Module):
        """Embeddings of whole numbers."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(40, 3)
            self.last = nn.Linear(3, 1)

        def forward(self, x: Any) -> Any:
            return torch.sigmoid(self.last(self.table(x[:, 0])))

    class Branch(nn.Module):
        """Control flow that depends on the rows."""

        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(3, 1)

        def forward(self, x: Any) -> Any:
            return torch.sigmoid(self.l(x) + (1.0 if float(x.max()) > 99 else 0.0))

    class Two(nn.Module):
        """Two inputs."""

        def __init__(self) -> None:
            super().__init__()
            self.l, self.e = nn.Linear(3, 4), nn.Embedding(40, 4)
            self.last = nn.Linear(8, 1)

        def forward(self, x: Any, k: Any) -> Any:
            return torch.sigmoid(self.last(torch.cat([self.l(x), self.e(k[:, 0])], dim=1)))

    class Vector(nn.Module):
        """A vector [N] of probabilities."""

        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(3, 1)

        def forward(self, x: Any) -> Any:
            return torch.sigmoid(self.l(x)).squeeze(1)

    net = lambda *last: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1), *last)  # noqa: E731
    image = np.random.default_rng(0).normal(size=(len(rows), 1, 6, 6)).astype(np.float32)
    visits = rows[["visits"]].to_numpy(dtype=np.int64)
    named = net(nn.Sigmoid())
    named.feature_names = NUMBERS
    trained = nn.Sequential(
        nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1), nn.Sigmoid()
    )
    return {
        "sigmoid": lambda: _torch(net(nn.Sigmoid()), X),
        "logit": lambda: _torch(net(), X, mean=sigmoid, base_link="logit"),
        "regression": lambda: _torch(net(), X, y=labels(rows, "number"), base_link="identity"),
        "softmax": lambda: _torch(
            nn.Sequential(nn.Linear(3, 2), nn.Softmax(1)), X, mean=lambda out: out[:, 1]
        ),
        "three classes": lambda: _torch(
            nn.Sequential(nn.Linear(3, 3), nn.Softmax(1)), X, mean=lambda out: out[:, 2], target_class=2
        ),
        "three logits": lambda: _torch(
            nn.Linear(3, 3), X, mean=lambda out: (np.exp(out) / np.exp(out).sum(1, keepdims=True))[:, 2],
            target_class=2, base_link="logit",
        ),
        "vector": lambda: _torch(Vector(), X),
        "batch norm, dropout": lambda: _torch(trained, X),
        "double": lambda: _torch(net(nn.Sigmoid()).double(), X.astype(np.float64)),
        "names, more columns": lambda: Given(
            named, rows, labels(rows, "binary"),
            lambda T: named(torch.as_tensor(T[NUMBERS].to_numpy(np.float32))).detach().numpy(),
        ),
        "no names, more columns": lambda: Given(net(nn.Sigmoid()), rows, labels(rows, "binary")),
        "frame": lambda: Given(net(nn.Sigmoid()), rows[NUMBERS] / 50, labels(rows, "binary"), None, rc.Groups("age < 1")),
        "embeddings": lambda: _torch(Whole(), visits, Z),
        "embeddings, tensor": lambda: _torch(Whole(), torch.as_tensor(visits), Z),
        "embeddings, int32": lambda: _torch(Whole(), visits.astype(np.int32), Z),
        "control flow": lambda: _torch(Branch(), X, base_link="identity"),
        "two inputs": lambda: _torch(Two(), (X, visits), Z),
        "image": lambda: _torch(
            nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 1), nn.Sigmoid()), image, Z
        ),
        "script": lambda: _torch(torch.jit.script(net(nn.Sigmoid())), X),
        "exported program": lambda: Given(
            torch.export.export(net(nn.Sigmoid()).eval(), (torch.as_tensor(X[:2]),), dynamic_shapes=({0: torch.export.Dim("n")},)),
            X, labels(rows, "binary"), None, rc.Groups("x0 < 0"),
        ),
        "half": lambda: Given(net(nn.Sigmoid()).half(), X, labels(rows, "binary"), None, rc.Groups("x0 < 0")),
        "attention": lambda: _torch(
            nn.Sequential(nn.Unflatten(1, (3, 1)), nn.Linear(1, 4), nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
                          nn.Flatten(), nn.Linear(12, 1), nn.Sigmoid()), X
        ),
        "GRU": lambda: _torch(_gru(), X),
        "GELU, LayerNorm": lambda: _torch(nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1), nn.Sigmoid()), X),
    }  # fmt: skip


def _gru() -> Any:
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.g, self.l = nn.GRU(1, 4, batch_first=True), nn.Linear(4, 1)

        def forward(self, x: Any) -> Any:
            return torch.sigmoid(self.l(self.g(x.unsqueeze(2))[0][:, -1]))

    return Recurrent()


def _files() -> dict[str, Callable[[], Given]]:
    from skl2onnx import to_onnx

    train, rows = table(0), table(2)
    T, X = train[NUMBERS].to_numpy(np.float32), rows[NUMBERS].to_numpy(np.float32)
    y_train, y = labels(train, "binary"), labels(rows, "binary")

    def given(model: Any, zipmap: bool, kind: Any = np.float32) -> Given:
        fitted = model.fit(T.astype(kind), y_train)
        options = None if zipmap else {id(fitted): {"zipmap": False}}
        proto = to_onnx(fitted, T[:1].astype(kind), options=options)
        return Given(
            proto, X, y, lambda X: fitted.predict_proba(X.astype(kind))[:, 1], rc.Groups("x0 < 40")
        )

    return {
        "LogisticRegression": partial(given, LogisticRegression(max_iter=1000), False),
        "LogisticRegression, maps": partial(given, LogisticRegression(max_iter=1000), True),
        "forest": partial(given, RandomForestClassifier(5, random_state=0), False),
        "forest, maps": partial(given, RandomForestClassifier(5, random_state=0), True),
        "LogisticRegression, double": partial(
            given, LogisticRegression(max_iter=1000), False, np.float64
        ),
    }


def _plain() -> dict[str, Callable[[], Given]]:
    train, rows = table(0), table(2)
    y_train, y = labels(train, "binary"), labels(rows, "binary")
    model = LogisticRegression(max_iter=1000).fit(train[NUMBERS], y_train)
    score = lambda X: model.predict_proba(X[NUMBERS])[:, 1]  # noqa: E731
    half = len(y) // 2
    return {
        "function": lambda: Given(score, rows, y, score),
        "function of log-odds": lambda: Given(
            lambda X: model.decision_function(X[NUMBERS]),
            rows,
            y,
            score,
            options={"base_link": "logit"},
        ),
        "array of scores": lambda: Given(score(rows.iloc[:half]), rows, y, score),
        "list of scores": lambda: Given(score(rows.iloc[:half]), rows, y, score),
        "recalibrated model": lambda: Given(
            rc.fit(
                model,
                rows.iloc[:400],
                y[:400],
                H=rc.Groups("sex"),
                loop=rc.Loop(levels=2, max_rounds=2),
            ),
            rows,
            y,
        ),
    }
