"""A whole model in a file: all its parts, and what has to hold between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recalibrate.bases.protocol import Base
from recalibrate.bases.wrappers import ChainedBase
from recalibrate.core.boost import History, Settings
from recalibrate.core.certificate import Certificate
from recalibrate.core.levels import Levels
from recalibrate.core.rounds import Encoder, Rounds, Step
from recalibrate.data.labels import Labels
from recalibrate.data.table import Schema
from recalibrate.files.bases import decode_base, encode_base, has_place
from recalibrate.files.container import Arrays, pack, unpack
from recalibrate.files.encoders import decode_encoder, encode_encoder
from recalibrate.files.errors import ModelFileError
from recalibrate.files.fields import Fields, Store
from recalibrate.files.functionclasses import decode_class, encode_class
from recalibrate.files.records import (
    LARGEST,
    LINKS,
    LevelList,
    decode_certificate,
    decode_history,
    decode_labels,
    decode_levels,
    decode_settings,
    encode_certificate,
    encode_history,
    encode_labels,
    encode_settings,
    pick_levels,
)
from recalibrate.files.tables import decode_table, encode_table

if TYPE_CHECKING:
    from recalibrate.model import Recalibrated


@dataclass(frozen=True, eq=False)
class Parts:
    """What a model is made of; the names are those of :class:`recalibrate.Recalibrated`."""

    base: Base
    rounds: Rounds
    H: Any
    schema: Schema
    labels: Labels
    settings: Settings
    history_: History
    certificate_: Certificate | None
    clip: bool
    notes: tuple[str, ...]
    own_table: bool
    n_rows: int


Build = Callable[[Parts], "Recalibrated"]


def to_bytes(model: Recalibrated, *, base_file: Path | None = None) -> tuple[bytes, str]:
    """Bytes of a model's file, the same for the same model; and a warning, or nothing."""
    arrays = Arrays()
    encoded, lost = _encode_model(model, arrays, base_file)
    return pack(encoded, arrays), lost


def from_bytes(data: bytes, folder: Path, build: Build) -> Recalibrated:
    """The model of a file's bytes; ``folder`` is where the file lies."""
    version, model, arrays = unpack(data)
    store = Store(arrays)
    try:
        built = READERS[version](Fields(model, "model", store), folder, build)
        store.check_empty()
    except ModelFileError:
        raise
    except UNFORESEEN as error:
        raise ModelFileError(
            f"the file does not describe a model: {type(error).__name__}: {error}"
        ) from error
    return built


UNFORESEEN = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What readers of schemas and groups, or a rule that was forgotten, say about a forged file."""


def _encode_model(
    model: Recalibrated, arrays: Arrays, base_file: Path | None
) -> tuple[dict[str, Any], str]:
    levels = LevelList()
    rounds = model.rounds
    if isinstance(model.base, ChainedBase) and base_file is None and has_place(model.base):
        inner, lost = _encode_model(model.base.model, arrays, None)
        base: dict[str, Any] = {"kind": "model", "model": inner}
    else:
        base, lost = encode_base(model.base, arrays, base_file)
    steps = [
        {
            "partition": levels.add(step.partition),
            "table": encode_table(step.table, rounds.encoders[step.encoder], arrays),
            "encoder": int(step.encoder),
            "replace": bool(step.replace),
            "grid": levels.add(step.grid),
        }
        for step in rounds.steps
    ]
    return {
        "base": base,
        "link": rounds.link,
        "start": levels.add(rounds.start),
        "encoders": [encode_encoder(encoder, arrays) for encoder in rounds.encoders],
        "steps": steps,
        "H": encode_class(model.H),
        "schema": model.schema.to_dict(),
        "labels": encode_labels(model.labels),
        "settings": encode_settings(model.settings, levels),
        "history": encode_history(model.history_),
        "certificate": encode_certificate(model.certificate_),
        "clip": bool(model.clip),
        "notes": list(model.notes),
        "own_table": bool(model.own_table),
        "n_rows": int(model.n_rows),
        "levels": levels.encode(arrays),
    }, lost


def _decode_model(fields: Fields, folder: Path, build: Build) -> Recalibrated:
    with fields:
        known = decode_levels(fields.items("levels"))
        schema = Schema.from_dict(fields.raw("schema"))
        encoders = tuple(decode_encoder(entry, schema) for entry in fields.items("encoders"))
        start = pick_levels(fields, "start", known)
        if start is not None and start.values is None:
            raise fields.fault("scores cannot be rounded to level sets without values")
        rounds = Rounds(
            fields.choice("link", LINKS),
            start,
            encoders,
            _decode_steps(fields.items("steps"), encoders, start, known),
        )
        return build(
            Parts(
                base=_decode_base(fields.fields("base"), folder, build),
                rounds=rounds,
                H=decode_class(fields.fields("H")),
                schema=schema,
                labels=decode_labels(fields.fields("labels")),
                settings=decode_settings(fields.fields("settings"), known),
                history_=decode_history(fields.fields("history")),
                certificate_=(
                    None
                    if fields.is_null("certificate")
                    else decode_certificate(fields.fields("certificate"))
                ),
                clip=fields.flag("clip"),
                notes=fields.texts("notes"),
                own_table=fields.flag("own_table"),
                n_rows=fields.whole("n_rows", least=0, most=LARGEST),
            )
        )


def _decode_base(fields: Fields, folder: Path, build: Build) -> Base:
    if fields.has("model"):
        with fields:
            fields.choice("kind", ("model",))
            return ChainedBase(_decode_model(fields.fields("model"), folder, build))
    return decode_base(fields, folder)


def _decode_steps(
    entries: list[Fields],
    encoders: tuple[Encoder, ...],
    drawn: Levels | None,
    known: list[Levels],
) -> tuple[Step, ...]:
    """Steps in their order; ``drawn`` are the level sets that a row is in before the first."""
    steps = []
    for entry in entries:
        with entry:
            partition = pick_levels(entry, "partition", known)
            drawn = drawn if partition is None else partition
            if drawn is None:
                raise entry.fault("the first step has to draw its level sets")
            encoder = entry.whole("encoder", least=0, most=len(encoders) - 1)
            table = decode_table(entry.fields("table"), encoders[encoder], drawn.count)
            grid = pick_levels(entry, "grid", known)
            if grid is not None and grid.values is None:
                raise entry.fault("scores cannot be rounded to level sets without values")
            steps.append(Step(partition, table, encoder, entry.flag("replace"), grid))
            drawn = drawn if grid is None else grid
    return tuple(steps)


READERS: dict[int, Callable[[Fields, Path, Build], Recalibrated]] = {
    1: _decode_model,  # without drawn rows, growing steps and orders, which have defaults
    2: _decode_model,
}
"""How each format version is read; old ones stay."""
