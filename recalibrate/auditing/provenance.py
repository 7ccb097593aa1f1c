"""What was audited, in words and fingerprints."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from recalibrate.auditing.measure.sample import Sample
from recalibrate.auditing.measure.segments import Segments
from recalibrate.auditing.records import Audited
from recalibrate.bases.protocol import as_base, takes_base
from recalibrate.data.fingerprints import Mark, hash_rows
from recalibrate.data.labels import Labels
from recalibrate.data.vectors import Float64
from recalibrate.support.hashing import combine
from recalibrate.support.provenance import library_version, today


def find_audited(
    model: Any,
    baseline: Any,
    predictions: Float64,
    segments: Segments,
    sample: Sample,
    labels: Labels,
) -> Audited:
    """What was audited; ``model`` and ``baseline`` are as the user gave them."""
    rows = hash_rows(None, (), [sample.y, sample.weight], sample.n_rows)
    rows = combine(rows, segments.hashes(sample.n_rows))
    scores = hash_rows(None, (), [predictions], sample.n_rows)
    about = json.dumps({"kind": labels.kind, "low": labels.low, "high": labels.high})
    return Audited(
        what=describe(model),
        baseline="" if baseline is None or baseline is False else _baseline(model, baseline),
        version=library_version(),
        date=today(),
        data=Mark.of(rows).digest(about),
        predictions=Mark.of(combine(rows, scores)).digest(about),
        **_model_facts(model),
    )


def describe(model: Any) -> str:
    """A model, callable, file, column or array in a few words."""
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        return f"model file {path.name}" if path.is_file() else f"column {model!r} of predictions"
    own = getattr(model, "base", None)
    if takes_base(model) and own is not None:
        return f"recalibrated model on {own.name}"
    if hasattr(model, "metadata") and takes_base(model):
        return f"exported model on {model.metadata.get('base', 'an unknown base')}"
    if takes_base(model):
        return f"model of type {type(model).__name__}"
    if isinstance(model, list | tuple) or hasattr(model, "__array__"):
        return "array of predictions"
    return as_base(model).name


def _baseline(model: Any, baseline: Any) -> str:
    return f"its own base, {model.base.name}" if baseline is True else describe(baseline)


def _model_facts(model: Any) -> dict[str, Any]:
    """What a recalibrated model says about itself; nothing about other predictions."""
    from recalibrate.model import Recalibrated

    if isinstance(getattr(model, "metadata", None), dict):
        return _served_facts(model.metadata)
    if not isinstance(model, Recalibrated):
        return {}
    facts: dict[str, Any] = {
        "model": model.fingerprint_,
        "base": model.base.name,
        "H": repr(model.H),
        "fitted_rows": model.n_rows or None,
    }
    origin = model.provenance
    if origin is not None:
        facts |= {
            "base_fingerprint": origin.base,
            "fitted_data": origin.data,
            "fitted_date": origin.date,
            "fitted_version": origin.version,
            "seed": origin.seed,
        }
    return facts


_SERVED = {
    "model": "model_fingerprint",
    "base": "base",
    "base_fingerprint": "base_fingerprint",
    "H": "H",
    "fitted_data": "calibration_data",
    "fitted_date": "fitted_date",
    "fitted_version": "fitted_version",
}


def _served_facts(metadata: dict[str, str]) -> dict[str, Any]:
    """The same of an exported model, as far as its graph says."""
    facts: dict[str, Any] = {name: metadata.get(key) for name, key in _SERVED.items()}
    for name, key in (("fitted_rows", "training_rows"), ("seed", "seed")):
        facts[name] = int(metadata[key]) if key in metadata else None
    return facts
