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
from recalibrate.bases.protocol import Base, Link, ScoreColumn, reopen_base
from recalibrate.bases.wrappers import ChainedBase, select_columns
from recalibrate.data.values import Value, plain_value, tag_value, untag_value
from recalibrate.files.container import Arrays
from recalibrate.files.errors import ModelFileError
from recalibrate.files.fields import Fields, number
from recalibrate.files.graphs import GraphBase, as_array, check_graph, to_bytes
from recalibrate.files.records import LARGEST, LINKS

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
        return open_file(self.path, self.link, self.target_class)

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


def encode_base(base: Base, arrays: Arrays, file: Path | None) -> tuple[dict[str, Any], str]:
    """A base for the header, and a warning where something of it is lost."""
    if isinstance(base, Constant):
        return {"kind": "constant", "link": base.link, "value": number(base.value)}, ""
    names = base.columns()
    entry: dict[str, Any] = {
        "link": base.link,
        "name": base.name,
        "columns": None if names is None else list(names),
    }
    target_class = getattr(base, "target_class", None)
    if target_class is not None:
        entry["target_class"] = tag_value(plain_value(target_class))
    if file is not None:
        size, digest = file.stat().st_size, sha256_of(file)
        if not is_plain_name(file.name):
            raise ValueError(
                f"the base model's file has a name that cannot be saved: {file.name!r}"
            )
        open_file(file, base.link, target_class)
        return {**entry, "kind": "file", "file": file.name, "size": size, "sha256": digest}, ""
    if isinstance(base, FileBase):
        own = {"kind": "file", "file": base.file, "size": base.size, "sha256": base.sha256}
        return {**entry, **own}, ""
    graph = base.graph()
    if graph is not None:
        return {
            **entry,
            "kind": "graph",
            "graph": arrays.add(as_array(to_bytes(graph))),  # type: ignore[arg-type]
            "exact": bool(base.exact),
        }, ""
    lost = "" if isinstance(base, ScoreColumn) else _how_to_bring_back(base)
    return {**entry, "kind": "scores", "why": base.why_no_graph}, lost


def has_place(base: Base) -> bool:
    """Whether a file can hold a base, so that the loaded model scores new rows by itself."""
    while isinstance(base, ChainedBase):
        base = base.model.base
    return isinstance(base, Constant | FileBase) or base.graph() is not None


def decode_base(fields: Fields, folder: Path) -> Base:
    """A base of a file that lies in ``folder``; nothing is run, no other file is opened."""
    with fields:
        kind = fields.choice("kind", ("scores", "constant", "graph", "file"))
        link = fields.choice("link", LINKS)
        if kind == "constant":
            return Constant(fields.number("value", least=-1e300, most=1e300), link)
        name = fields.text("name")
        names = None if fields.is_null("columns") else fields.texts("columns")
        target_class = _read_class(fields)
        if kind == "scores":
            why = fields.text("why")
            return MissingScores(
                np.empty(0), link, name, why, names=names, target_class=target_class
            )
        if kind == "file":
            file, digest = fields.text("file"), fields.text("sha256")
            if not is_plain_name(file) or not re.fullmatch("[0-9a-f]{64}", digest):
                raise fields.fault(
                    f"{file[:80]!r} is not the plain name of a file with its checksum"
                )
            size = fields.whole("size", least=0, most=LARGEST)
            return FileBase(folder, file, size, digest, link, name, names, target_class)
        content = fields.array("graph", np.uint8).tobytes()
        check_graph(content, "the base model")
        exact = fields.flag("exact")
        return GraphBase(content, link, name, names, exact, target_class=target_class)


def _read_class(fields: Fields) -> Value | None:
    if not fields.has("target_class"):
        return None
    try:
        return untag_value(fields.raw("target_class"))
    except (TypeError, ValueError) as error:
        raise fields.fault(f"target_class is not a class: {error}") from error


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


def open_file(path: Path, link: Link, target_class: Any) -> Base:
    """The base in a model file, whose scores must be on the expected scale."""
    base = reopen_base(path, link, target_class)
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
    return (
        f"the base model ({base.name}) cannot be saved inside of the file: {base.why_no_graph}. "
        "The model is saved as score-only: after recalibrate.load(path), predict needs the base "
        "scores as base=, unless the base model is given again: recalibrate.load(path, "
        "base=model). A base model in a file of its own can be saved by reference: "
        "model.save(path, base=file)."
    )
