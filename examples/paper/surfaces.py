"""The paper's two synthetic targets: functions on a square, without noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import Features, Floats

MAP_SIDE = 200
"""Pictures are maps of this many points by this many."""


def c0(x: Floats, y: Floats) -> Floats:
    """Four bowls, one in each quadrant."""
    return _toward_centre(x) ** 2 + _toward_centre(y) ** 2


def c1(x: Floats, y: Floats) -> Floats:
    """Waves that grow towards the upper and lower edge, on a slope."""
    waves = 20.0 * x * y**2 * np.cos(8.0 * x) * np.sin(8.0 * y)
    bowls = (1.5 * x + 4.0) * _toward_centre(x) ** 2 / (y + 3.0) + _toward_centre(y) ** 2
    return x + waves * bowls


def _toward_centre(x: Floats) -> Floats:
    """Distance from the centre of the own half, -1 or 1 (on the axis either gives the same)."""
    return np.where(x > 0.0, x - 1.0, x + 1.0)


@dataclass(frozen=True)
class Surface:
    """A function on the square [-edge, edge]^2."""

    function: Callable[[Floats, Floats], Floats]
    edge: float


C0 = Surface(c0, 2.0)
C1 = Surface(c1, 1.0)


@dataclass(frozen=True, eq=False)
class Data:
    """Points and labels; labels are scaled so that those to train on fill [0, 1]."""

    surface: Surface
    train: tuple[Features, Floats]
    test: tuple[Features, Floats]
    map: tuple[Features, Floats]


def sample(surface: Surface, rows: int, test_rows: int, seed: int) -> Data:
    """Uniform points to train and to test on, and a regular map of the square."""
    rng = np.random.default_rng(seed)
    train, test = (_uniform(rng, surface.edge, n) for n in (rows, test_rows))
    side = (np.arange(MAP_SIDE) + 0.5) / MAP_SIDE * 2.0 * surface.edge - surface.edge
    plane = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2).astype(np.float32)
    raw = [surface.function(*X.T.astype(np.float64)) for X in (train, test, plane)]
    low, high = raw[0].min(), raw[0].max()
    labels = [(y - low) / (high - low) for y in raw]
    return Data(surface, (train, labels[0]), (test, labels[1]), (plane, labels[2]))


def _uniform(rng: np.random.Generator, edge: float, rows: int) -> Features:
    return rng.uniform(-edge, edge, size=(rows, 2)).astype(np.float32)


def draw_map(axes: Any, data: Data, values: Floats, title: str, **colours: Any) -> Any:
    """A map of the square in colours; labels' range unless told otherwise."""
    edge = data.surface.edge
    image = axes.imshow(
        values.reshape(MAP_SIDE, MAP_SIDE),
        origin="lower",
        extent=(-edge, edge, -edge, edge),
        **{"vmin": 0.0, "vmax": 1.0, "cmap": "viridis", **colours},
    )
    axes.set_title(title, fontsize=10)
    axes.set_xticks([-edge, 0, edge])
    axes.set_yticks([-edge, 0, edge])
    axes.tick_params(labelsize=8)
    return image
