"""A whole model in a file: all its parts, and what has to hold between them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recalibrate.bases.protocol import ScoreColumn
from recalibrate.bases.wrappers import ChainedBase
from recalibrate.core.boost import History, Settings
from recalibrate.core.rounds import Rounds
from recalibrate.data.classes import MOST_CLASSES
from recalibrate.data.table import Schema
from recalibrate.files import bases, codec, records
from recalibrate.files.classes import ENCODER, SPEC, as_storable, check_encoder, check_table
from recalibrate.files.container import pack, unpack
from recalibrate.support.errors import ModelFileError

if TYPE_CHECKING:
    from recalibrate.model import Recalibrated


def to_bytes(
    model: Recalibrated, *, base_file: Path | None = None, trust: bool = False
) -> tuple[bytes, str]:
    """Bytes of a model's file, the same for the same model; and a warning, or nothing."""
    own = model.base
    referred = None if base_file is None else bases.refer_to(base_file, own, trust=trust)
    base = referred or bases.as_saved(own)
    lost = isinstance(base, bases.MissingScores) and not isinstance(own, ScoreColumn)
    writer = codec.Writer()
    header = MODEL.encode(replace(model, base=base), writer)
    return pack(header, writer.arrays), bases.how_to_bring_back(own) if lost else ""


def fingerprint(model: Recalibrated) -> str:
    """A checksum of what a model predicts: its base, which counts by its own, and its steps."""
    origin = model.provenance
    known = model.base.name if origin is None else origin.base
    stub = bases.MissingScores(np.empty(0), model.base.link, known)
    writer = codec.Writer()
    bare = replace(
        model,
        base=stub,
        settings=Settings(link=model.rounds.link),
        history_=History(),
        certificate_=None,
        notes=(),
        provenance=None,
        # Rates with weights are the same model; predictions do not depend on the words for it.
        labels=replace(model.labels, exposed=False),
    )
    header = MODEL.encode(bare, writer)
    return f"sha256:{hashlib.sha256(pack(header, writer.arrays)).hexdigest()}"


def from_bytes(
    data: bytes, folder: Path, build: Callable[..., Recalibrated], *, trust: bool = False
) -> Recalibrated:
    """The model of a file's bytes, built of its attributes.

    ``folder`` is where the file lies; ``trust`` says whether a base model's own file there may
    run code.
    """
    version, header, arrays = unpack(data)
    reader = codec.Reader(version, list(arrays), folder, trust, build)
    try:
        model: Recalibrated = MODEL.decode(header, "model", reader)
        reader.check_empty()
    except ModelFileError:
        raise
    except UNFORESEEN as error:
        raise ModelFileError(
            f"the file does not describe a model: {type(error).__name__}: {error}"
        ) from error
    return model


UNFORESEEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What readers of schemas and groups, or a rule that was forgotten, say about a forged file."""


class Model:
    """A model, the one of the file or the base of another."""

    def encode(self, value: Recalibrated, writer: codec.Writer) -> dict[str, Any]:
        rounds = value.rounds
        steps = [
            replace(step, table=as_storable(step.table, rounds.encoders[step.encoder]))
            for step in rounds.steps
        ]
        parts = {**vars(value), **vars(rounds), "steps": steps, "levels": None}
        return PARTS.encode(parts, codec.Writer(writer.arrays))

    def decode(self, data: Any, where: str, reader: codec.Reader) -> Recalibrated:
        parts = PARTS.decode(data, where, replace(reader))
        del parts["levels"]
        rounds = Rounds(*(parts.pop(name) for name in ROUNDS))
        check_rounds(rounds, parts["schema"], where)
        if parts["labels"].outputs != rounds.outputs:
            raise ModelFileError(f"{where}.outputs must be one, or one for every class")
        if isinstance(parts["base"], bases.FileBase):
            parts["base"] = replace(parts["base"], folder=reader.folder, trust=reader.trust)
        model: Recalibrated = reader.build(rounds=rounds, **parts)
        return model


MODEL = Model()
CHAINED = codec.Record(
    ChainedBase,
    {"model": MODEL},
    without=("_graphs",),
    take=lambda base: {"model": replace(base.model, base=bases.as_saved(base.model.base))},
)
PARTS = codec.Record(
    dict,
    {
        "base": codec.OneOf(lambda: {**bases.BASES, "model": CHAINED}),
        "steps": codec.Items(records.STEP),
        "encoders": codec.Items(ENCODER),
        "start": records.LEVEL_SETS,
        "link": records.LINK,
        "H": SPEC,
        "schema": codec.own_form(Schema),
        "labels": records.LABELS,
        "settings": records.SETTINGS,
        "history_": records.HISTORY,
        "certificate_": codec.Optional(records.CERTIFICATE),
        "clip": codec.FLAG,
        "notes": codec.TEXTS,
        "own_table": codec.FLAG,
        "n_rows": codec.whole(0),
        "outputs": codec.whole(3, MOST_CLASSES),
        "provenance": codec.Optional(records.PROVENANCE),
        "levels": records.LevelList(),
    },
    names={"history_": "history", "certificate_": "certificate"},
    take=dict,
    absent={"outputs": 1, "provenance": None},
)
"""Attributes of a model and of its rounds, and the level sets that they refer to."""


def check_rounds(rounds: Rounds, schema: Schema, where: str) -> None:
    """Refuse encoders, tables and level sets that do not fit each other."""
    for k, encoder in enumerate(rounds.encoders):
        with codec.located(f"{where}.encoders[{k}]"):
            check_encoder(encoder, schema)
    drawn = rounds.start  # the level sets that a row is in before a step
    if drawn is not None and drawn.values is None:
        raise ModelFileError(f"{where}.start: {NO_VALUES}")
    for k, step in enumerate(rounds.steps):
        with codec.located(f"{where}.steps[{k}]"):
            drawn = step.partition or drawn
            if drawn is None:
                raise ModelFileError("the first step has to draw its level sets")
            if step.output >= rounds.outputs:
                raise ModelFileError(f"there is no class {step.output}")
            if rounds.outputs > 1 and (step.replace or step.grid is not None):
                raise ModelFileError("scores of several classes are neither replaced nor rounded")
            if step.encoder >= len(rounds.encoders):
                raise ModelFileError(f"there is no encoder {step.encoder}")
            check_table(step.table, rounds.encoders[step.encoder], drawn.count)
            if step.grid is not None and step.grid.values is None:
                raise ModelFileError(NO_VALUES)
            drawn = step.grid or drawn


ROUNDS = ("link", "start", "encoders", "steps", "outputs")
NO_VALUES = "scores cannot be rounded to level sets without values"
