"""H in a file: the class that a model was fitted for, as the user described it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recalibrate import Estimator, Groups, Linear, Trees
from recalibrate.data.bins import MOST_BINS
from recalibrate.files.fields import Fields, number
from recalibrate.files.records import LARGEST


@dataclass(frozen=True)
class SavedDescription:
    """Stands for the regressor of a saved ``Estimator(...)``, which cannot be fitted again."""

    text: str

    def __repr__(self) -> str:
        return self.text


def encode_class(H: Any) -> dict[str, Any]:
    """H for the header."""
    if type(H) is Trees:
        return {
            "kind": "trees",
            "depth": int(H.depth),
            "leaves": None if H.leaves is None else int(H.leaves),
            "features": _names(H.features),
            "base_score": bool(H.base_score),
            "bins": H.bins if H.bins == "exact" else int(H.bins),
            "min_leaf_rows": int(H.min_leaf_rows),
            "feature_share": number(H.feature_share),
            "one_vs_rest": int(H.one_vs_rest),
            "score_order": None if H.score_order is None else int(H.score_order),
            "category_smoothing": number(H.category_smoothing),
            "bare_roots": bool(H.bare_roots),
        }
    if type(H) is Linear:
        return {
            "kind": "linear",
            "features": _names(H.features),
            "ridge": number(H.ridge),
            "base_score": bool(H.base_score),
        }
    if type(H) is Groups:
        return {"kind": "groups", "terms": list(H.terms), "min_rows": int(H.min_rows)}
    if type(H) is Estimator:
        return {
            "kind": "estimator",
            "regressor": repr(H.regressor),
            "features": _names(H.features),
            "base_score": bool(H.base_score),
            "n_jobs": int(H.n_jobs),
        }
    raise TypeError(
        f"H={H!r} is not one of the library's own classes (Trees, Linear, Groups, Estimator), "
        "so a file could not say what it means"
    )


def decode_class(fields: Fields) -> Any:
    """H of a file."""
    with fields:
        kind = fields.choice("kind", ("trees", "linear", "groups", "estimator"))
        if kind == "groups":
            return Groups(*fields.texts("terms"), min_rows=_whole(fields, "min_rows", 1))
        features = None if fields.is_null("features") else fields.texts("features")
        base_score = fields.flag("base_score")
        if kind == "linear":
            return Linear(features, fields.number("ridge", least=0.0), base_score)
        if kind == "estimator":
            described = SavedDescription(fields.text("regressor"))
            return Estimator(
                described,
                features,
                base_score,
                fields.whole("n_jobs", least=-LARGEST, most=LARGEST),
            )
        return Trees(
            depth=_whole(fields, "depth", 1),
            leaves=None if fields.is_null("leaves") else _whole(fields, "leaves", 2),
            features=features,
            base_score=base_score,
            bins=_decode_bins(fields),
            min_leaf_rows=_whole(fields, "min_leaf_rows", 1),
            feature_share=fields.number("feature_share", least=0.0, most=1.0),
            one_vs_rest=_whole(fields, "one_vs_rest", 0),
            score_order=_decode_order(fields),
            category_smoothing=fields.number("category_smoothing", least=0.0),
            bare_roots=fields.flag("bare_roots"),
        )


def _names(features: Any) -> list[str] | None:
    return None if features is None else [str(name) for name in features]


def _whole(fields: Fields, name: str, least: int) -> int:
    return fields.whole(name, least=least, most=LARGEST)


def _decode_order(fields: Fields) -> int | None:
    """Format version 1 had no orders."""
    if not fields.has("score_order") or fields.is_null("score_order"):
        return None
    return _whole(fields, "score_order", 0)


def _decode_bins(fields: Fields) -> Any:
    value = fields.raw("bins")
    if value == "exact" or (type(value) is int and 2 <= value <= MOST_BINS):
        return value
    raise fields.fault(f"bins must be 2 to {MOST_BINS} or 'exact', got {str(value)[:80]}")
