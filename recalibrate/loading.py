"""load: a model from a file, whatever the file is called."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recalibrate.bases.protocol import Base, class_of, reopen_base
from recalibrate.bases.wrappers import NamedBase
from recalibrate.files import MAGIC, ModelFileError, from_bytes, read_bytes
from recalibrate.files.document import FileBase, open_file, sha256_of
from recalibrate.model import Recalibrated
from recalibrate.support.checks import check_flag

if TYPE_CHECKING:
    from recalibrate.graph import ServedModel


def load(
    path: str | os.PathLike[str], *, base: Any = None, trust: bool = False
) -> Recalibrated | ServedModel:
    """A model from a file: one that was saved (.rcal), or one that was exported (.onnx).

    What the file holds decides, not its name. A damaged or forged file is refused; loading runs
    no code from it, and neither does predicting, unless the base model lies in a file of its own
    that can, and is trusted.

    Parameters
    ----------
    path
        The file.
    base
        The base model, for a file that does not hold it (callables, models without a graph): a
        model, a callable, or the path of a model file. Not needed where ``predict`` is given
        the base scores as ``base=``.
    trust
        Whether a base model in a file of its own (given as ``base``, or beside the model) may be
        of a kind that can run any code when it is opened: TorchScript (.pt) and .pt2 files.

    Returns
    -------
    Recalibrated or ServedModel
        From a .rcal file the model as it was: predictions are bit-equal with those before saving
        where the base model is ``exact``. From an exported graph a model that predicts through
        onnxruntime.

    Raises
    ------
    ModelFileError
        A ValueError, if the file is not a model, is damaged, or comes from a newer version.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import numpy as np, pandas as pd, pathlib, tempfile, recalibrate as rc
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"sex": rng.choice(["F", "M"], 4000)})
    >>> y = rng.random(4000) < np.where(X["sex"] == "F", 0.3, 0.5)
    >>> scores = np.full(4000, 0.4)
    >>> model = rc.fit(scores, X, y, H=rc.Groups("sex"))
    >>> path = model.save(pathlib.Path(tempfile.mkdtemp()) / "model.rcal")
    >>> again = rc.load(path)
    >>> np.array_equal(again.predict(X, base=scores), model.predict(X, base=scores))
    True
    """
    path = Path(path)
    if _begins_like_onnx(path):
        return _load_onnx(path, base)
    check_flag("trust", trust)
    model = from_bytes(read_bytes(path), path.resolve().parent, Recalibrated, trust=trust)
    return model if base is None else replace(model, base=_given_base(model.base, base, trust))


def _begins_like_onnx(path: Path) -> bool:
    """Whether the first field is an ONNX graph's ir_version; ours always write it first."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        start = file.read(len(MAGIC))
    return start[:1] == b"\x08"


def _load_onnx(path: Path, base: Any) -> ServedModel:
    from recalibrate.graph import load_served

    if base is not None:
        raise ValueError(
            "base= is for saved models without their base; an exported graph holds all it needs, "
            "or takes base scores as an input: leave base= out"
        )
    return load_served(path)


def _given_base(saved: Base, base: Any, trust: bool) -> Base:
    """The base model that the caller brings, on the columns that it had when it was saved."""
    given = _open_given(saved, base, trust)
    names = saved.columns()
    return NamedBase(given, names) if names and given.columns() is None else given


def _open_given(saved: Base, base: Any, trust: bool) -> Base:
    """The base model that the caller brings, checked as far as the file allows it."""
    target_class = class_of(saved)
    if isinstance(base, str | os.PathLike):
        file = Path(base)
        if isinstance(saved, FileBase) and file.is_file() and sha256_of(file) != saved.sha256:
            raise ModelFileError(
                f"{str(file)!r} is not the base model that this model was saved with: its "
                "checksum differs; give the right file"
            )
        return open_file(file, saved.link, target_class, trust=trust)
    given = reopen_base(base, saved.link, target_class)
    if given.link != saved.link:
        raise ValueError(
            f"the given base model's scores are on the {given.link} scale, but this model was "
            f"fitted on scores on the {saved.link} scale ({saved.name}); give the same model"
        )
    return given
