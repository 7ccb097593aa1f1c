"""A torch network on images, recalibrated for groups that a table beside the images names.

    python examples/torch_model.py

The images are simulated scans with a bright spot on the sick ones. Scanners at one hospital are
dimmer and its patients are sicker, which the network cannot see: it is too low there. ``Z=``
hands the table to H, while the network gets the tensor of images alone.
"""

import numpy as np
import pandas as pd
import torch
from torch import nn

import recalibrate as rc


def scans(n: int, seed: int) -> tuple[torch.Tensor, pd.DataFrame, np.ndarray]:
    """Images, a table about the patients, and who is sick."""
    rng = np.random.default_rng(seed)
    patients = pd.DataFrame(
        {"hospital": rng.choice(["east", "west"], n), "age": rng.integers(20, 90, n)}
    )
    west = (patients["hospital"] == "west").to_numpy()
    sick = rng.random(n) < np.where(west, 0.45, 0.25) + 0.003 * (patients["age"].to_numpy() - 55)
    images = rng.normal(0, 1, size=(n, 1, 8, 8))
    images[:, 0, 2:5, 2:5] += (sick * np.where(west, 0.4, 0.8))[:, None, None]
    return torch.tensor(images, dtype=torch.float32), patients, sick.astype(float)


def train(images: torch.Tensor, sick: np.ndarray) -> nn.Module:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 1), nn.Flatten(0)
    )
    labels = torch.tensor(sick, dtype=torch.float32)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(network(images), labels).backward()
        optimizer.step()
    return network


def main() -> None:
    images, _, sick = scans(4000, seed=1)
    network = train(images, sick)

    # Other rows than those that trained the network; it gives logits, which has to be said.
    images, patients, sick = scans(8000, seed=2)
    groups = rc.Groups("hospital", "age < 40", "hospital*(age < 40)")
    model = rc.fit(network, images, sick, H=groups, Z=patients, base_link="logit")

    images, patients, sick = scans(8000, seed=3)
    before = 1 / (1 + np.exp(-model.base.scores(images)))
    after = model.predict(images, Z=patients)
    report = rc.audit(after, patients, sick, groups=groups, baseline=before)
    table = report.table.set_index("group")[["rows", "mean_outcome", "before_gap", "gap", "gap_se"]]
    print("Mean outcome minus mean prediction on 8,000 new scans, before and after:\n")
    print(table.round(3).to_string())
    print()
    print(model.summary())


if __name__ == "__main__":
    main()
