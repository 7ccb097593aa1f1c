"""Models from files: ours, and base models of frameworks."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recalibrate.commands.data import check_file, find_positive, scores_of
from recalibrate.commands.options import read_names

if TYPE_CHECKING:
    import pandas as pd

    from recalibrate.bases.protocol import Base
    from recalibrate.graph import ServedModel
    from recalibrate.model import Recalibrated

OURS = ".rcal"
ONNX = ".onnx"


def open_recalibrated(
    path: str, base: str | None = None, *, trust: bool = False
) -> Recalibrated | ServedModel:
    """A model that this library saved or exported."""
    from recalibrate import load

    check_file(path, "model")
    if not path.lower().endswith((OURS, ONNX)):
        raise ValueError(
            f"{path!r} is not a recalibrated model: these are called *{OURS} (saved) or *{ONNX} "
            "(exported)"
        )
    if base is not None:
        check_file(base, "model")
    return load(path, base=base, trust=trust)


def open_saved(path: str, base: str | None = None, *, trust: bool = False) -> Recalibrated:
    """A model that this library saved."""
    from recalibrate.model import Recalibrated

    model = open_recalibrated(path, base, trust=trust)
    if not isinstance(model, Recalibrated):
        raise ValueError(f"{path!r} is an exported graph; this needs the saved model (*{OURS})")
    return model


def open_any(path: str, args: Namespace) -> Any:
    """A model to be audited: ours, or a base model as its adapter presents it."""
    check_file(path, "model")
    lower = path.lower()
    if lower.endswith(OURS) or (lower.endswith(ONNX) and _is_exported(path)):
        return open_recalibrated(path, args.base, trust=args.trust)
    return open_base(path, args)


def open_base(path: str, args: Namespace) -> Base | Recalibrated:
    """A base model; a saved model of ours is one too."""
    from recalibrate.bases.protocol import as_base
    from recalibrate.bases.wrappers import NamedBase

    check_file(path, "model")
    if path.lower().endswith(OURS):
        return open_saved(path, trust=args.trust)
    told = {"link": args.base_link, "target_class": _read_class(args.target_class)}
    base = as_base(path, **told, trust=args.trust)
    wanted = None if args.target_class is not None else _wanted_class(base, args)
    if wanted is not None:
        base = as_base(path, link=args.base_link, target_class=wanted, trust=args.trust)
    names = args.model_columns
    if names is None:
        return base
    if base.columns() is not None:
        raise ValueError(
            f"--model-columns is for models without column names, but {path!r} has some: "
            f"{', '.join(base.columns() or ())}"
        )
    return NamedBase(base, tuple(name.strip() for name in names.split(",")))


def _wanted_class(base: Base, args: Namespace) -> Any:
    """The class to score that ``--positive`` names, if it is not the one that is scored anyway."""
    from recalibrate.bases.protocol import may_number_classes

    text, classes = getattr(args, "positive", None), told_classes(base)
    wanted = find_positive(text, classes)
    if wanted is not None and len(classes) > 2:
        raise ValueError(
            f"--positive names one of two classes, but the model has {len(classes)}: choose the "
            f"one to score with --target-class {text}"
        )
    if classes:
        return None if wanted == classes[1] else wanted
    names = getattr(args, "classes", None)
    labels = ["0", "1"] if names is None else read_names([names], [])
    first = len(labels) == 2 and labels[0] == text and may_number_classes(base)
    return 0 if first else None


def known_text(*models: Any) -> dict[str, Collection[str] | None]:
    """Columns that models know as text, however much a file's values look like numbers."""
    found: dict[str, Collection[str] | None] = {}
    for model in models:
        schema = getattr(model, "schema", None)
        if schema is not None:
            for column in schema.columns:
                if column.categories and all(isinstance(value, str) for value in column.categories):
                    found[column.name] = (*(found.get(column.name) or ()), *column.categories)
        else:  # a graph, which does not list its categories
            ports = getattr(model, "inputs", ())
            texts = [name for port in ports if port.kind == "string" for name in port.columns]
            found = {**dict.fromkeys(texts), **found}
    return found


def base_scores(model: Any, frame: pd.DataFrame, args: Namespace, data: str) -> Any:
    """Base scores for a model that cannot compute them, from the column that the user names."""
    name = args.score_column
    if name is not None:
        return scores_of(frame, name, data)
    if needs_scores(model):
        raise ValueError(
            f"the model in {args.model!r} does not hold its base model: name the column of the "
            "base model's scores with --score-column, or the base model's file with --base"
        )
    return None


def needs_scores(model: Any) -> bool:
    """Whether a model of ours needs base scores to predict."""
    from recalibrate.bases.protocol import ScoreColumn
    from recalibrate.graph.inputs import BASE_SCORE

    if isinstance(getattr(model, "base", None), ScoreColumn):
        return True
    ports = getattr(model, "inputs", ())
    return any(port.name == BASE_SCORE and not port.columns for port in ports)


def _is_exported(path: str) -> bool:
    from recalibrate.graph.facts import MARK
    from recalibrate.support.onnxfile import read_graph

    graph = read_graph(Path(path).read_bytes(), repr(path), Path(path).parent)
    return any(entry.key == MARK for entry in graph.metadata_props)


def _read_class(text: str | None) -> str | int | None:
    """Classes of a model are numbers more often than texts."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else text


def told_classes(model: Any) -> tuple[Any, ...]:
    """The classes that a model, or base, tells by their labels: then labels may be text."""
    known = getattr(getattr(model, "labels", model), "known", None)
    classes = getattr(model, "classes", None) if known is None else known.classes
    return () if classes is None or isinstance(classes, range) else tuple(classes)
