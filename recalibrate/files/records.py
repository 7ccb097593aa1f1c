"""The plain records of a model: level sets, labels, settings, history, certificate, steps."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.core.boost import History, Settings
from recalibrate.core.certificate import Certificate
from recalibrate.core.family import family
from recalibrate.core.learning import Penalty
from recalibrate.core.levels import Levels
from recalibrate.core.rounds import Step
from recalibrate.data.bounds import NO_BOUNDS, Bounds
from recalibrate.data.labels import Labels
from recalibrate.data.values import plain_value, tag_value, untag_value
from recalibrate.files import codec
from recalibrate.files.classes import TABLE
from recalibrate.support.errors import ModelFileError
from recalibrate.support.provenance import Provenance


def _make_levels(
    thresholds: NDArray[np.float64], values: NDArray[np.float64] | None, steps: int
) -> Levels:
    if not np.isfinite(thresholds).all() or (np.diff(thresholds) < 0).any():
        raise ModelFileError("thresholds must be finite and ascend")
    if values is not None and (len(values) != len(thresholds) + 1 or not np.isfinite(values).all()):
        raise ModelFileError("a grid needs one finite value per level")
    if steps and (
        steps != len(thresholds) or (thresholds != Levels.uniform(steps).thresholds).any()
    ):
        raise ModelFileError("steps are for the uniform grid only")
    return Levels(thresholds, values, steps)


LEVELS = codec.Items(codec.Record(Levels, make=_make_levels))


class LevelList:
    """All level sets that other parts of a model refer to."""

    def encode(self, value: None, writer: codec.Writer) -> list[Any]:
        return LEVELS.encode([levels for _, levels in writer.shared.values()], writer)

    def decode(self, data: Any, where: str, reader: codec.Reader) -> None:
        reader.shared = LEVELS.decode(data, where, reader)


class SharedLevels:
    """Level sets by their number in the model's list, because steps share them."""

    def encode(self, value: Levels, writer: codec.Writer) -> int:
        return writer.share(value)

    def decode(self, data: Any, where: str, reader: codec.Reader) -> Any:
        return reader.shared[codec.whole(0, len(reader.shared) - 1).decode(data, where, reader)]


LINK = codec.Value("a link", lambda data: isinstance(data, str), load=lambda it: family(it).name)
LEVEL_SETS = codec.Optional(SharedLevels())

STEP = codec.Record(
    Step, {"partition": LEVEL_SETS, "table": TABLE, "grid": LEVEL_SETS}, absent={"output": 0}
)


def low_first(bounds: Bounds) -> bool:
    """Whether bounds are finite and leave room for labels."""
    low, high = bounds
    if any(bound is not None and not isfinite(bound) for bound in bounds):
        return False
    return low is None or high is None or low < high


def _make_labels(
    *,
    kind: Any,
    low: float,
    high: float,
    bounds: Bounds | None,
    observed: bool,
    classes: tuple[Any, ...],
    chosen: Any,
    exposed: bool,
) -> Labels:
    bounds = (NO_BOUNDS if observed else (low, high)) if bounds is None else bounds
    if not (low < high and isfinite(high - low)):
        raise ModelFileError(f"labels from {low:g} to {high:g} have no range")
    if len(bounds) != 2 or not low_first(bounds):
        raise ModelFileError("bounds must be two numbers or null, the lower one first")
    if kind != "regression" and (low, high) != (0.0, 1.0):
        raise ModelFileError(f"{kind} labels lie between 0 and 1, not {low:g} and {high:g}")
    if len(set(classes)) != len(classes) or len(classes) == 1:
        raise ModelFileError("classes must differ, and there must be two at least")
    if (kind == "classes" and len(classes) < 3) or (classes and kind in ("soft", "regression")):
        raise ModelFileError(f"{len(classes)} classes do not go with {kind} labels")
    if (chosen is not None) != (kind == "binary" and len(classes) > 2):
        raise ModelFileError("one class against the rest is for more than two of them")
    if chosen is not None and chosen not in classes:
        raise ModelFileError(f"{chosen!r} is none of the classes")
    return Labels(np.empty(0), None, low, high, kind, bounds, classes, chosen, exposed)


CLASS = codec.Value(
    "a class with its type",
    lambda data: isinstance(data, list) and len(data) == 2,
    lambda value: tag_value(plain_value(value)),
    untag_value,
)


def _take_labels(labels: Labels) -> dict[str, Any]:
    """Bounds only where they are not what labels are scaled by, or those seen."""
    usual = NO_BOUNDS if labels.observed else (labels.low, labels.high)
    bounds = None if labels.bounds == usual else labels.bounds
    return {**vars(labels), "observed": labels.observed, "bounds": bounds}


BOUND = codec.Optional(codec.number())
LABELS = codec.Record(
    Labels,
    {
        "observed": codec.FLAG,
        "bounds": codec.Items(BOUND),
        "classes": codec.Items(CLASS),
        "chosen": CLASS,
        "exposed": codec.FLAG,
    },
    without=("values", "weight"),
    absent={"bounds": None, "classes": (), "chosen": None, "exposed": False},
    take=_take_labels,
    make=_make_labels,
)

PENALTY = codec.Record(
    Penalty,
    {
        "l2": codec.number(0.0),
        "min_gain": codec.number(0.0),
        "min_level_rows": codec.whole(1),
        "step_limit": codec.number(0.0),
    },
)

SEED = codec.Value(
    # As text, because a seed may be larger than the whole numbers of JSON.
    "a whole number of at most 100 digits, as text",
    lambda data: isinstance(data, str) and bool(re.fullmatch("-?[0-9]{1,100}", data)),
    lambda seed: str(int(seed)),
    int,
)

SETTINGS = codec.Record(
    Settings,
    {
        "grid": LEVEL_SETS,
        "levels": codec.whole(1),
        "step_doubles": codec.Optional(codec.whole(1)),
        "tables_per_round": codec.whole(1),
        "penalty": PENALTY,
        "patience": codec.Optional(codec.whole(1)),
        "link": LINK,
        "row_share": codec.number(0.0, 1.0),
        "seed": SEED,
    },
    since={"step_doubles": (2, None), "row_share": (2, 1.0)},
    absent={"least_rounds": 0, "least_gradient": 0.0},
)

HISTORY = codec.Record(History)

PROVENANCE = codec.Record(
    Provenance,
    {name: codec.text(200) for name in ("version", "date", "data", "base")} | {"seed": SEED},
)


def _take_certificate(certificate: Certificate) -> dict[str, Any]:
    """Groups and their shares as two lists: the order of an object's keys has no meaning."""
    shares = certificate.group_shares
    return {**vars(certificate), "groups": shares.keys(), "shares": shares.values()}


def _make_certificate(
    groups: tuple[str, ...], shares: tuple[float, ...], **rest: Any
) -> Certificate:
    if len(groups) != len(shares):
        raise ModelFileError("every group needs its share")
    certificate = Certificate(**rest, group_shares=dict(zip(groups, shares, strict=True)))
    if not certificate.rounds < len(certificate.errors):
        raise ModelFileError(f"there are no errors of {certificate.rounds} rounds")
    if certificate.B == 0.0:
        raise ModelFileError("B of a certificate must be positive")
    return certificate


CERTIFICATE = codec.Record(
    Certificate,
    {
        "alpha": codec.number(0.0),
        "B": codec.number(0.0),
        "m": codec.whole(1),
        "groups": codec.TEXTS,
        "shares": codec.by_type(tuple[float, ...]),
        "unit": codec.number(0.0),
        "lost": codec.number(0.0),
    },
    without=("group_shares",),
    absent={"unit": 1.0, "lost": 0.0},
    take=_take_certificate,
    make=_make_certificate,
)
