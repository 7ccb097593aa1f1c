"""The plain records of a model in the header: levels, labels, settings, history, certificate."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isfinite
from typing import Any, get_args

import numpy as np

from recalibrate.core.boost import History, Settings, StopReason
from recalibrate.core.certificate import Certificate, HeldOut
from recalibrate.core.learning import Penalty
from recalibrate.core.levels import Levels
from recalibrate.data.labels import Labels
from recalibrate.files.container import Arrays
from recalibrate.files.errors import ModelFileError
from recalibrate.files.fields import Fields, number

LINKS = ("identity", "logit")
KINDS = ("binary", "soft", "regression")
LARGEST = 2**53
"""Whole numbers in the header stay where every reader of JSON is exact."""


class LevelList:
    """Level sets of a model: each object once, because steps share them."""

    def __init__(self) -> None:
        self.found: list[Levels] = []
        self._numbers: dict[int, int] = {}

    def add(self, levels: Levels | None) -> int | None:
        """Number of the level sets in the file; None stays None."""
        if levels is None:
            return None
        if id(levels) not in self._numbers:
            self._numbers[id(levels)] = len(self.found)
            self.found.append(levels)
        return self._numbers[id(levels)]

    def encode(self, arrays: Arrays) -> list[dict[str, Any]]:
        return [
            {
                "thresholds": arrays.add(levels.thresholds),
                "values": None if levels.values is None else arrays.add(levels.values),
                "steps": int(levels.steps),
            }
            for levels in self.found
        ]


def decode_levels(entries: Iterable[Fields]) -> list[Levels]:
    """All level sets of a file; thresholds must ascend, a grid must have a value per level."""
    found = []
    for entry in entries:
        with entry:
            thresholds = entry.array("thresholds", np.float64)
            values = None if entry.is_null("values") else entry.array("values", np.float64)
            steps = entry.whole("steps", least=0, most=len(thresholds))
            if not np.isfinite(thresholds).all() or (np.diff(thresholds) < 0).any():
                raise entry.fault("thresholds must be finite and ascend")
            if values is not None and not (
                len(values) == len(thresholds) + 1 and np.isfinite(values).all()
            ):
                raise entry.fault("a grid needs one finite value per level")
            if steps and not np.array_equal(thresholds, Levels.uniform(steps).thresholds):
                raise entry.fault("steps are for the uniform grid only")
            found.append(Levels(thresholds, values, steps))
    return found


def pick_levels(fields: Fields, name: str, known: list[Levels]) -> Levels | None:
    """Level sets by their number; null stays None."""
    if fields.is_null(name):
        return None
    return known[fields.whole(name, least=0, most=len(known) - 1)]


def encode_labels(labels: Labels) -> dict[str, Any]:
    """Kind and bounds of the labels; their values stay behind."""
    return {
        "kind": labels.kind,
        "low": number(labels.low),
        "high": number(labels.high),
        "observed": bool(labels.observed),
    }


def decode_labels(fields: Fields) -> Labels:
    """Labels without values, whose bounds must have a range."""
    with fields:
        kind = fields.choice("kind", KINDS)
        low, high = fields.number("low"), fields.number("high")
        if not (low < high and isfinite(high - low)):
            raise fields.fault(f"labels from {low:g} to {high:g} have no range")
        if kind != "regression" and (low, high) != (0.0, 1.0):
            raise fields.fault(f"{kind} labels lie between 0 and 1, not {low:g} and {high:g}")
        return Labels(np.empty(0), None, low, high, kind, fields.flag("observed"))


def encode_settings(settings: Settings, levels: LevelList) -> dict[str, Any]:
    """Settings of the loop; their grid goes to ``levels``."""
    penalty = settings.penalty
    return {
        "link": settings.link,
        "grid": levels.add(settings.grid),
        "levels": int(settings.levels),
        "level_kind": settings.level_kind,
        "step": number(settings.step),
        "step_doubles": None if settings.step_doubles is None else int(settings.step_doubles),
        "tables_per_round": int(settings.tables_per_round),
        "penalty": {
            "l2": number(penalty.l2),
            "min_gain": number(penalty.min_gain),
            "min_level_rows": int(penalty.min_level_rows),
            "step_limit": number(penalty.step_limit),
        },
        "tolerance": _optional(settings.tolerance),
        "patience": None if settings.patience is None else int(settings.patience),
        "accept": _optional(settings.accept),
        "max_rounds": int(settings.max_rounds),
        "keep_unrounded": bool(settings.keep_unrounded),
        "row_share": number(settings.row_share),
        "seed": str(int(settings.seed)),
    }


def decode_settings(fields: Fields, known: list[Levels]) -> Settings:
    """Settings of the loop; format version 1 had no draws of rows and no growing steps."""
    with fields:
        newer = fields.has("row_share")
        return Settings(
            link=fields.choice("link", LINKS),
            grid=pick_levels(fields, "grid", known),
            levels=fields.whole("levels", least=1, most=LARGEST),
            level_kind=fields.choice("level_kind", ("uniform", "quantile")),
            step=fields.number("step"),
            step_doubles=_optional_whole(fields, "step_doubles") if newer else None,
            tables_per_round=fields.whole("tables_per_round", least=1, most=LARGEST),
            penalty=_decode_penalty(fields.fields("penalty")),
            tolerance=None if fields.is_null("tolerance") else fields.number("tolerance"),
            patience=_optional_whole(fields, "patience"),
            accept=None if fields.is_null("accept") else fields.number("accept"),
            max_rounds=fields.whole("max_rounds", least=0, most=LARGEST),
            keep_unrounded=fields.flag("keep_unrounded"),
            row_share=fields.number("row_share", least=0.0, most=1.0) if newer else 1.0,
            seed=_decode_seed(fields),
        )


def _decode_penalty(fields: Fields) -> Penalty:
    with fields:
        return Penalty(
            fields.number("l2", least=0.0),
            fields.number("min_gain", least=0.0),
            fields.whole("min_level_rows", least=1, most=LARGEST),
            fields.number("step_limit", least=0.0),
        )


def _optional_whole(fields: Fields, name: str) -> int | None:
    return None if fields.is_null(name) else fields.whole(name, least=1, most=LARGEST)


def _decode_seed(fields: Fields) -> int:
    """As text, because a seed may be larger than the whole numbers of JSON."""
    text = fields.text("seed", most=100)
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit():
        raise fields.fault(f"the seed {text!r} is not a whole number")
    return int(text)


def encode_history(history: History) -> dict[str, Any]:
    """What happened, round by round."""
    return {
        "errors": [number(error) for error in history.errors],
        "held_out": [number(error) for error in history.held_out],
        "unrounded": number(history.unrounded),
        "final": number(history.final),
        "skipped": number(history.skipped),
        "stopped": history.stopped,
    }


def decode_history(fields: Fields) -> History:
    """What happened, round by round."""
    with fields:
        return History(
            fields.numbers("errors"),
            fields.numbers("held_out"),
            fields.number("unrounded"),
            fields.number("final"),
            fields.number("skipped"),
            fields.choice("stopped", get_args(StopReason)),
        )


def encode_certificate(certificate: Certificate | None) -> dict[str, Any] | None:
    """What a run of Algorithm 1 proves; None stays None."""
    if certificate is None:
        return None
    held_out = certificate.held_out
    return {
        "alpha": number(certificate.alpha),
        "B": number(certificate.B),
        "m": int(certificate.m),
        "rounds": int(certificate.rounds),
        "errors": [number(error) for error in certificate.errors],
        "exact": bool(certificate.exact),
        "reason": certificate.reason,
        "bound": number(certificate.bound),
        "skipped": number(certificate.skipped),
        # A list of pairs, because the order of an object's keys has no meaning.
        "groups": list(certificate.group_shares),
        "shares": [number(share) for share in certificate.group_shares.values()],
        "held_out": None
        if held_out is None
        else {
            "rows": int(held_out.rows),
            "estimate": number(held_out.estimate),
            "low": number(held_out.low),
            "high": number(held_out.high),
            "ceiling": number(held_out.ceiling),
        },
    }


def decode_certificate(fields: Fields) -> Certificate:
    """What a run of Algorithm 1 proves."""
    with fields:
        groups, shares = fields.texts("groups"), fields.numbers("shares")
        if len(groups) != len(shares):
            raise fields.fault("every group needs its share")
        errors = fields.numbers("errors")
        if not errors:
            raise fields.fault("there are no errors")
        return Certificate(
            alpha=fields.number("alpha", least=0.0),
            B=_positive(fields, "B"),
            m=fields.whole("m", least=1, most=LARGEST),
            rounds=fields.whole("rounds", least=0, most=len(errors) - 1),
            errors=errors,
            exact=fields.flag("exact"),
            reason=fields.text("reason"),
            bound=fields.number("bound"),
            skipped=fields.number("skipped"),
            group_shares=dict(zip(groups, shares, strict=True)),
            held_out=(
                None if fields.is_null("held_out") else _decode_held_out(fields.fields("held_out"))
            ),
        )


def _decode_held_out(fields: Fields) -> HeldOut:
    with fields:
        return HeldOut(
            fields.whole("rows", least=0, most=LARGEST),
            fields.number("estimate"),
            fields.number("low"),
            fields.number("high"),
            fields.number("ceiling"),
        )


def _positive(fields: Fields, name: str) -> float:
    value = fields.number(name, least=0.0, most=inf)
    if value == 0.0:
        raise ModelFileError(f"{name} of a certificate must be positive")
    return value


def _optional(value: float | None) -> float | str | None:
    return None if value is None else number(value)
