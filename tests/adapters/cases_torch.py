"""torch models for the contract suite: modules, TorchScript and exported programs."""

import warnings

import numpy as np
import pandas as pd
import torch
from cases import Case
from torch import nn

NAMES = ("age", "hours", "score", "weight")


def frame(n: int, seed: int) -> pd.DataFrame:
    values = np.random.default_rng(seed).normal(size=(n, len(NAMES)))
    return pd.DataFrame(values, columns=list(NAMES))


def network(*end: nn.Module, outputs: int = 1) -> nn.Module:
    """A small network, left in training mode: adapters must not rely on the user's eval()."""
    torch.manual_seed(7)
    model = nn.Sequential(
        nn.Linear(len(NAMES), 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(16, outputs), *end,
    )  # fmt: skip
    model(torch.randn(64, len(NAMES)))  # batch statistics that are not the initial ones
    return model.train()


class Named(nn.Module):
    """A model of a user, with a name for every column and a gate that is not its last layer."""

    feature_names = NAMES

    def __init__(self) -> None:
        super().__init__()
        self.body = network()
        self.gate = nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.body(x) * (1 + self.gate(x[:, :1]))).squeeze(-1)


def outputs_of(model, X: pd.DataFrame) -> torch.Tensor:
    """What the model itself says in eval mode."""
    rows = torch.tensor(X.to_numpy(dtype=np.float64))
    if isinstance(model, torch.export.ExportedProgram):
        with torch.no_grad():
            return model.module()(rows.float()).double()
    precision = next(model.parameters()).dtype
    model.eval()
    with torch.no_grad():
        outputs = model(rows.to(precision))
    model.train()
    return outputs.double()


def plain(model, X):
    return outputs_of(model, X).reshape(-1).numpy()


def from_logits(model, X):
    return torch.sigmoid(outputs_of(model, X)).reshape(-1).numpy()


def third_of_softmax(model, X):
    return torch.softmax(outputs_of(model, X), dim=1)[:, 2].numpy()


def second_column(model, X):
    return outputs_of(model, X)[:, 1].numpy()


def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(network(nn.Sigmoid()))


def program():
    model = network(nn.Sigmoid()).eval()
    rows = {0: torch.export.Dim("N")}
    return torch.export.export(model, (torch.zeros(2, len(NAMES)),), dynamic_shapes=(rows,))


def save_script(model, folder):
    path = folder / "model.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model.save(str(path))
    return path


def save_program(model, folder):
    path = folder / "model.pt2"
    torch.export.save(model, path)
    return path


def state(model):
    """Every tensor and every training flag."""
    tensors = model.state_dict if hasattr(model, "graph_signature") else model.state_dict()
    flags = [m.training for m in model.modules()] if isinstance(model, nn.Module) else []
    return {name: value.tolist() for name, value in tensors.items()}, flags


def case(name, build, native, **more):
    return Case(
        f"torch {name}", build, frame, native, exact=False, has_graph=True, missing=False,
        frameworks=("torch",), state=state, **{"named": False, **more},
    )  # fmt: skip


CASES = [
    case("named", Named, plain, named=True, large=True, alone=True),
    case("sigmoid", lambda: network(nn.Sigmoid()), plain),
    case("logits", network, from_logits, options={"link": "logit"}),
    case("regression", lambda: network(nn.Flatten(0)), plain, options={"link": "identity"}),
    case(
        "three classes",
        lambda: network(outputs=3),
        third_of_softmax,
        options={"link": "logit", "target_class": 2},
    ),
    case("softmax", lambda: network(nn.Softmax(1), outputs=2), second_column),
    case("double", lambda: network(nn.Sigmoid()).double(), plain, rounds=False),
    case("script", scripted, plain, save=save_script),
    case("program", program, plain, save=save_program),
]
