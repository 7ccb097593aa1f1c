"""A whole model in a file: all its parts, and what has to hold between them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.protocol import Base, ScoreColumn, class_of, reopen_base
from recalibrate.bases.wrappers import ChainedBase, Constant, GraphBase, select_columns
from recalibrate.core.boost import History, Settings
from recalibrate.core.certificate import Certificate
from recalibrate.core.family import family
from recalibrate.core.learning import Penalty
from recalibrate.core.levels import Levels, Link
from recalibrate.core.rounds import Rounds, Step
from recalibrate.data.classes import MOST_CLASSES
from recalibrate.data.labels import NO_BOUNDS, Bounds, Labels
from recalibrate.data.table import Schema
from recalibrate.data.values import Value, plain_value, tag_value, untag_value
from recalibrate.files import codec
from recalibrate.files.codec import ENCODER, SPEC, TABLE, as_storable, check_encoder, check_table
from recalibrate.files.container import pack, unpack
from recalibrate.support.checks import ModelFileError
from recalibrate.support.onnxfile import read_graph
from recalibrate.support.provenance import Provenance

if TYPE_CHECKING:
    from recalibrate.model import Recalibrated


# --- The plain records of a model: level sets, labels, settings, history, certificate, steps ----


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


class _LevelList:
    """All level sets that other parts of a model refer to."""

    def encode(self, value: None, writer: codec.Writer) -> list[Any]:
        return LEVELS.encode([levels for _, levels in writer.shared.values()], writer)

    def decode(self, data: Any, where: str, reader: codec.Reader) -> None:
        reader.shared = LEVELS.decode(data, where, reader)


class _SharedLevels:
    """Level sets by their number in the model's list, because steps share them."""

    def encode(self, value: Levels, writer: codec.Writer) -> int:
        return writer.share(value)

    def decode(self, data: Any, where: str, reader: codec.Reader) -> Any:
        return reader.shared[codec.whole(0, len(reader.shared) - 1).decode(data, where, reader)]


LINK = codec.Value("a link", lambda data: isinstance(data, str), load=lambda it: family(it).name)
LEVEL_SETS = codec.Optional(_SharedLevels())

STEP = codec.Record(
    Step, {"partition": LEVEL_SETS, "table": TABLE, "grid": LEVEL_SETS}, absent={"output": 0}
)


def _low_first(bounds: Bounds) -> bool:
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
    if len(bounds) != 2 or not _low_first(bounds):
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


# --- Base models in a file: as their own ONNX graph, by reference to a file, or not at all ------
#
# - A base with a graph is stored as that graph; loaded, it is run by onnxruntime, with bit-equal
#   scores where the base is ``exact``.
# - A base in a file of its own can be stored by reference: the file's name, size and SHA-256. Only
#   a name, never a path: the file is looked for beside the model, and opened when it is needed.
# - Otherwise (callables, arrays) the model is stored as score-only: ``predict`` needs ``base=``.


PLAIN_NAME = re.compile(r"[^\\/:*?\"<>|\x00-\x1f\x7f]{1,255}")
"""Names of files without folders, drives, streams or control characters, on any system."""


@dataclass(frozen=True, eq=False)
class _MissingScores(ScoreColumn):
    """Score-only mode of a loaded model; ``names`` are the columns that its base took from X."""

    names: tuple[str, ...] | None = ()
    target_class: Value | None = None

    def columns(self) -> tuple[str, ...] | None:
        """Columns that the base model took from X."""
        return self.names

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Raise: the base model is not in the file."""
        raise ValueError(
            f"The base model ({self.name}) is not in the file, so new rows cannot be scored. "
            "Pass their base scores as base=, or the base model when loading: "
            "recalibrate.load(path, base=model)."
        )


@dataclass(frozen=True, eq=False)
class FileBase:
    """A base model in a file of its own, which is checked and opened when it is needed."""

    folder: Path
    file: str
    size: int
    sha256: str
    link: Link
    name: str
    names: tuple[str, ...] | None
    target_class: Value | None = None
    trust: bool = False

    @property
    def path(self) -> Path:
        """Where the file is looked for."""
        return self.folder / self.file

    @cached_property
    def opened(self) -> Base:
        """The base; an error that says what to do if the file is missing or another one."""
        advice = "or give the base model when loading: recalibrate.load(path, base=...)"
        if not self.path.is_file():
            raise FileNotFoundError(
                f"the base model is in the file {self.file!r}, which is not in "
                f"{str(self.folder)!r}; put it there, {advice}"
            )
        if (self.path.stat().st_size, sha256_of(self.path)) != (self.size, self.sha256):
            raise ModelFileError(
                f"{str(self.path)!r} is not the base model that this model was saved with: its "
                f"checksum differs; put the right file there, {advice}"
            )
        return open_file(self.path, self.link, self.target_class, trust=self.trust)

    @property
    def why_no_graph(self) -> str:
        return self.opened.why_no_graph

    @property
    def exact(self) -> bool:
        return self.opened.exact

    def columns(self) -> tuple[str, ...] | None:
        """Columns that the model takes from X."""
        return self.names

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of the model in the file."""
        return self.opened.scores(X if self.names is None else select_columns(X, self.names))

    def graph(self) -> object | None:
        """The graph of the model in the file."""
        return self.opened.graph()


@dataclass(frozen=True)
class GraphBytes:
    """Bytes of an ONNX graph, which is looked at but not run."""

    what: str

    def encode(self, value: bytes, writer: codec.Writer) -> int:
        return codec.Array(np.uint8).encode(np.frombuffer(value, dtype=np.uint8), writer)

    def decode(self, data: Any, where: str, reader: codec.Reader) -> bytes:
        content = codec.Array(np.uint8).decode(data, where, reader).tobytes()
        read_graph(content, self.what)
        return content


FILE_NAME = codec.Value(
    "the plain name of a file", lambda data: isinstance(data, str) and is_plain_name(data)
)
SHA256 = codec.Value(
    "a checksum of 64 hexadecimal digits",
    lambda data: isinstance(data, str) and bool(re.fullmatch("[0-9a-f]{64}", data)),
)

TARGET_CLASS: dict[str, codec.Codec] = {"target_class": CLASS}
NO_CLASS = {"target_class": None}
FINITE = codec.number(-1e300, 1e300)

BASES = {
    "scores": codec.Record(
        _MissingScores,
        TARGET_CLASS,
        without=("values", "exact"),
        absent=NO_CLASS,
        names={"names": "columns", "why_no_graph": "why"},
        make=lambda **told: _MissingScores(np.empty(0), **told),
    ),
    "constant": codec.Record(
        Constant,
        {"value": FINITE, "others": codec.Items(FINITE)},
        without=("why_no_graph", "exact"),
        absent={"others": ()},
    ),
    "graph": codec.Record(
        GraphBase,
        {"content": GraphBytes("the base model"), **TARGET_CLASS},
        without=("why_no_graph",),
        absent=NO_CLASS,
        names={"names": "columns", "content": "graph"},
    ),
    "file": codec.Record(
        FileBase,
        {"file": FILE_NAME, "sha256": SHA256, **TARGET_CLASS},
        without=("folder", "trust"),
        absent=NO_CLASS,
        names={"names": "columns"},
        make=lambda **told: FileBase(Path(), **told),
    ),
}
"""How bases are stored that are no models of this library."""


def _as_saved(base: Base) -> Base:
    """The form in which a file holds a base, so that a loaded model scores rows if it can."""
    if isinstance(base, Constant | FileBase | GraphBase):
        return base
    if isinstance(base, ChainedBase) and not isinstance(_as_saved(base.model.base), _MissingScores):
        return base
    told = base.link, base.name, base.why_no_graph
    known = {"names": base.columns(), "target_class": class_of(base)}
    return GraphBase.of(base) or _MissingScores(np.empty(0), *told, **known)


def _refer_to(file: Path, base: Base, *, trust: bool) -> FileBase:
    """A base by the file that it is in."""
    size, digest = file.stat().st_size, sha256_of(file)
    if not is_plain_name(file.name):
        raise ValueError(f"the base model's file has a name that cannot be saved: {file.name!r}")
    told = base.link, base.name, base.columns(), class_of(base)
    open_file(file, base.link, class_of(base), trust=trust)
    return FileBase(file.parent, file.name, size, digest, *told, trust=trust)


def is_plain_name(name: str) -> bool:
    """Whether a text names a file and nothing else: no folder, drive, or special name.

    Examples
    --------
    >>> [is_plain_name(name) for name in ("xgb.json", "../xgb.json", "C:xgb.json", "..")]
    [True, False, False, False]
    """
    return (
        bool(PLAIN_NAME.fullmatch(name))
        and name.strip(". ") != ""
        and os.path.basename(name) == name
    )


def open_file(path: Path, link: Link, target_class: Any, *, trust: bool) -> Base:
    """The base in a model file, whose scores must be on the expected scale."""
    base = reopen_base(path, link, target_class, trust=trust)
    if base.link != link:
        raise ValueError(
            f"the scores of the base model in {str(path)!r} are on the {base.link} scale, but "
            f"this model was fitted on scores on the {link} scale"
        )
    return base


def sha256_of(path: Path) -> str:
    """Checksum of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _how_to_bring_back(base: Base) -> str:
    """What is lost with a base that a file cannot hold."""
    return (
        f"the base model ({base.name}) cannot be saved inside of the file: {base.why_no_graph}. "
        "The model is saved as score-only: after recalibrate.load(path), predict needs the base "
        "scores as base=, unless the base model is given again: recalibrate.load(path, "
        "base=model). A base model in a file of its own can be saved by reference: "
        "model.save(path, base=file)."
    )


def to_bytes(
    model: Recalibrated, *, base_file: Path | None = None, trust: bool = False
) -> tuple[bytes, str]:
    """Bytes of a model's file, the same for the same model; and a warning, or nothing."""
    own = model.base
    referred = None if base_file is None else _refer_to(base_file, own, trust=trust)
    base = referred or _as_saved(own)
    lost = isinstance(base, _MissingScores) and not isinstance(own, ScoreColumn)
    writer = codec.Writer()
    header = MODEL.encode(replace(model, base=base), writer)
    return pack(header, writer.arrays), _how_to_bring_back(own) if lost else ""


def fingerprint(model: Recalibrated) -> str:
    """A checksum of what a model predicts: its base, which counts by its own, and its steps."""
    origin = model.provenance
    known = model.base.name if origin is None else origin.base
    stub = _MissingScores(np.empty(0), model.base.link, known)
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
        _check_rounds(rounds, parts["schema"], where)
        if parts["labels"].outputs != rounds.outputs:
            raise ModelFileError(f"{where}.outputs must be one, or one for every class")
        if isinstance(parts["base"], FileBase):
            parts["base"] = replace(parts["base"], folder=reader.folder, trust=reader.trust)
        model: Recalibrated = reader.build(rounds=rounds, **parts)
        return model


MODEL = Model()
CHAINED = codec.Record(
    ChainedBase,
    {"model": MODEL},
    without=("_graphs",),
    take=lambda base: {"model": replace(base.model, base=_as_saved(base.model.base))},
)
PARTS = codec.Record(
    dict,
    {
        "base": codec.OneOf(lambda: {**BASES, "model": CHAINED}.items()),
        "steps": codec.Items(STEP),
        "encoders": codec.Items(ENCODER),
        "start": LEVEL_SETS,
        "link": LINK,
        "H": SPEC,
        "schema": codec.own_form(Schema),
        "labels": LABELS,
        "settings": SETTINGS,
        "history_": HISTORY,
        "certificate_": codec.Optional(CERTIFICATE),
        "clip": codec.FLAG,
        "notes": codec.TEXTS,
        "own_table": codec.FLAG,
        "n_rows": codec.whole(0),
        "outputs": codec.whole(3, MOST_CLASSES),
        "provenance": codec.Optional(PROVENANCE),
        "levels": _LevelList(),
    },
    names={"history_": "history", "certificate_": "certificate"},
    take=dict,
    absent={"outputs": 1, "provenance": None},
)
"""Attributes of a model and of its rounds, and the level sets that they refer to."""


def _check_rounds(rounds: Rounds, schema: Schema, where: str) -> None:
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
