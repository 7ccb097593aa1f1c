"""Base models in a file: as their own ONNX graph, by reference to a file, or not at all.

- A base with a graph is stored as that graph; loaded, it is run by onnxruntime, with bit-equal
  scores where the base is ``exact``.
- A base in a file of its own can be stored by reference: the file's name, size and SHA-256. Only
  a name, never a path: the file is looked for beside the model, and opened when it is needed.
- Otherwise (callables, arrays) the model is stored as score-only: ``predict`` needs ``base=``.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.bases.constant import Constant
from recalibrate.bases.graphbase import GraphBase
from recalibrate.bases.protocol import Base, ScoreColumn, class_of, reopen_base
from recalibrate.bases.wrappers import ChainedBase, select_columns
from recalibrate.core.levels import Link
from recalibrate.data.values import Value
from recalibrate.files import codec
from recalibrate.files.records import CLASS
from recalibrate.support.errors import ModelFileError
from recalibrate.support.onnxfile import read_graph

PLAIN_NAME = re.compile(r"[^\\/:*?\"<>|\x00-\x1f\x7f]{1,255}")
"""Names of files without folders, drives, streams or control characters, on any system."""


@dataclass(frozen=True, eq=False)
class MissingScores(ScoreColumn):
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
        MissingScores,
        TARGET_CLASS,
        without=("values", "exact"),
        absent=NO_CLASS,
        names={"names": "columns", "why_no_graph": "why"},
        make=lambda **told: MissingScores(np.empty(0), **told),
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


def as_saved(base: Base) -> Base:
    """The form in which a file holds a base, so that a loaded model scores rows if it can."""
    if isinstance(base, Constant | FileBase | GraphBase):
        return base
    if isinstance(base, ChainedBase) and not isinstance(as_saved(base.model.base), MissingScores):
        return base
    told = base.link, base.name, base.why_no_graph
    known = {"names": base.columns(), "target_class": class_of(base)}
    return GraphBase.of(base) or MissingScores(np.empty(0), *told, **known)


def refer_to(file: Path, base: Base, *, trust: bool) -> FileBase:
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


def how_to_bring_back(base: Base) -> str:
    """What is lost with a base that a file cannot hold."""
    return (
        f"the base model ({base.name}) cannot be saved inside of the file: {base.why_no_graph}. "
        "The model is saved as score-only: after recalibrate.load(path), predict needs the base "
        "scores as base=, unless the base model is given again: recalibrate.load(path, "
        "base=model). A base model in a file of its own can be saved by reference: "
        "model.save(path, base=file)."
    )
