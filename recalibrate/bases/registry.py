"""Installed adapters: which package knows how to read a model or a model file.

Adapters announce themselves by entry points: in the group ``recalibrate.adapters`` under the root
module of the models they wrap, in the group ``recalibrate.model_files`` under the suffix of the
files they read (without its dot). Only metadata is looked at here; an adapter is imported when a
model or file of its own arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from recalibrate.support.errors import ModelFileError

ADAPTER_GROUP = "recalibrate.adapters"
FILE_GROUP = "recalibrate.model_files"
Factory = TypeVar("Factory", bound=Callable[..., Any])


def adapter_names() -> list[str]:
    """Root modules of the models that installed adapters know."""
    return sorted(_by_name(ADAPTER_GROUP))


def file_suffixes() -> list[str]:
    """Suffixes of the model files that installed adapters read, each with its dot."""
    return sorted(f".{name}" for name in _by_name(FILE_GROUP))


def find_adapter(model: object) -> EntryPoint | None:
    """The adapter of a model: that of the most specific of its classes which has one."""
    adapters = _by_name(ADAPTER_GROUP)
    for cls in type(model).__mro__:
        entries = adapters.get(cls.__module__.partition(".")[0], [])
        if entries:
            return _only(entries, "the adapter")
    return None


def find_reader(suffix: str) -> EntryPoint | None:
    """The adapter that reads files of a suffix (with its dot, in any case)."""
    entries = _by_name(FILE_GROUP).get(suffix.lower().removeprefix("."), [])
    return _only(entries, "the reader of files") if entries else None


def load_factory(entry: EntryPoint) -> Callable[..., Any]:
    """Import an adapter; if that fails, say whose it is."""
    try:
        factory: Callable[..., Any] = entry.load()
    except ImportError as error:
        raise ImportError(
            f"The adapter {entry.name!r} ({entry.value}, from {_owner(entry)}) could not be "
            f"loaded: {error}"
        ) from error
    return factory


def runs_code(
    why: str, *, check: Callable[[Path], None] | None = None
) -> Callable[[Factory], Factory]:
    """Mark a reader of model files that can run code of the file; ``why`` completes "it ...".

    Such a reader is called only where the user said that the file is trusted. ``check`` refuses
    files that it could not read anyway, without running anything, before trust is asked for.

    Examples
    --------
    >>> @runs_code("is a pickle")
    ... def read_file(path): ...
    >>> check_trust(read_file, Path("model.pkl"), trust=False)
    Traceback (most recent call last):
    ...
    recalibrate.support.errors.ModelFileError: the model file 'model.pkl' could run any code ...
    """

    def mark(factory: Factory) -> Factory:
        factory.runs_code = why  # type: ignore[attr-defined]
        factory.check_file = check  # type: ignore[attr-defined]
        return factory

    return mark


def check_trust(factory: Callable[..., Any], path: Path, *, trust: bool) -> None:
    """Refuse a file whose reader can run its code, unless the user trusts it."""
    why = getattr(factory, "runs_code", "")
    check: Callable[[Path], None] | None = getattr(factory, "check_file", None)
    if check is not None:
        check(path)
    if why and not trust:
        raise ModelFileError(
            f"the model file {path.name!r} could run any code on this machine when it is opened: "
            f"it {why}. If you trust whoever made it, say so: trust=True (on the command line "
            "--trust). Or open it yourself, and pass the model."
        )


def _by_name(group: str) -> dict[str, list[EntryPoint]]:
    """Entry points of a group by name; reading their metadata loads none of them."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, []).append(entry)
    return found


def _only(entries: list[EntryPoint], what: str) -> EntryPoint:
    if len({entry.value for entry in entries}) > 1:
        owners = ", ".join(sorted(f"{e.value} ({_owner(e)})" for e in entries))
        raise TypeError(
            f"Several installed packages provide {what} {entries[0].name!r}: {owners}. "
            "Uninstall all but one, so that results do not depend on the search order."
        )
    return entries[0]


def _owner(entry: EntryPoint) -> str:
    return "unknown distribution" if entry.dist is None else entry.dist.name


def existing_file(path: Path) -> str:
    """What a model file is called in messages; refused if there is none."""
    if not path.is_file():
        raise FileNotFoundError(
            f"The base model is the text {str(path)!r}, but there is no such file. "
            f"Model files are known by their suffix: {_known_suffixes()}."
        )
    return f"file {str(path)!r}"


def reader_of(suffix: str, what: str) -> EntryPoint:
    """Who reads files of a suffix; refused if nobody does."""
    entry = find_reader(suffix)
    if entry is None:
        raise ValueError(
            f"No installed adapter reads the {what} (suffix {suffix!r}). Model files are known by "
            f"their suffix: {_known_suffixes()}. Rename the file, or load the model with its own "
            "framework and pass the object."
        )
    return entry


def _known_suffixes() -> str:
    return ", ".join(file_suffixes()) or "none, as no adapter is installed"
