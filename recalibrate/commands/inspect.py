"""recalibrate inspect: what a saved or exported model holds.

Show what a saved (.rcal) or exported (.onnx) model holds: how it was fitted, which columns it
takes, what it says about itself. Nothing in the file is executed.

  recalibrate inspect model.rcal
  recalibrate inspect model.onnx --json
"""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from recalibrate.commands.console import Console
from recalibrate.commands.models import open_recalibrated
from recalibrate.support.notices import listed
from recalibrate.support.strictjson import parse

if TYPE_CHECKING:
    from recalibrate.data.table import Column
    from recalibrate.graph import ServedModel
    from recalibrate.model import Recalibrated

SUMMARY = "show what a saved or exported model holds"
SHOWN = 8


def add_arguments(parser: ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("file", metavar="FILE", help="the model, .rcal or .onnx")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(args: Namespace, console: Console) -> int:
    """Describe the file."""
    from recalibrate.model import Recalibrated

    model = open_recalibrated(args.file)
    size = os.path.getsize(args.file)
    if isinstance(model, Recalibrated):
        facts, text = _saved_facts(model), _saved_text(model)
    else:
        facts, text = _served_facts(model), _served_text(model)
    if args.json:
        facts = {"file": args.file, "bytes": size, **facts}
        console.answer(json.dumps(facts, indent=2))
    else:
        console.answer(f"{args.file}: {size / 1024:,.0f} KB\n{text}")
    return 0


def _columns(model: Recalibrated) -> list[Column]:
    """Columns of the table that the model was fitted on, without the score itself."""
    from recalibrate.core.learning import is_score

    return [column for column in model.schema.columns if not is_score(column.name)]


def _used(model: Recalibrated) -> list[str]:
    """Columns that the corrections look at."""
    from recalibrate.core.learning import is_score

    names = (name for encoder in model.rounds.encoders for name in encoder.names)
    return [name for name in dict.fromkeys(names) if not is_score(name)]


def _saved_facts(model: Recalibrated) -> dict[str, Any]:
    names = model.base.columns()
    certificate = model.certificate_
    return {
        "kind": "saved model",
        "summary": model.summary(),
        "base": {
            "name": model.base.name,
            "link": model.base.link,
            "columns": None if names is None else list(names),
        },
        "H": repr(model.H),
        "link": model.rounds.link,
        "labels": {"kind": model.labels.kind, "low": model.labels.low, "high": model.labels.high},
        "rounds": model.n_rounds_,
        "learners": model.n_learners_,
        "rows": model.n_rows,
        "columns": [{"name": c.name, "kind": c.kind} for c in _columns(model)],
        "used_by_H": _used(model),
        "origin": _origin(model),
        "certificate": None if certificate is None else str(certificate),
        "notes": list(model.notes),
    }


def _saved_text(model: Recalibrated) -> str:
    names = model.base.columns()
    own = "as they are" if names is None else listed(names) or "none: it needs base scores"
    lines = [
        model.summary(),
        f"  fitted on        {model.n_rows:,} rows",
        f"  base's columns   {own}",
        f"  used by H        {listed(_used(model)) or 'none'}",
        *(f"  {name:<16} {value}" for name, value in _origin(model).items()),
        "  columns",
    ]
    for column in _columns(model):
        more = f": {listed(column.categories, SHOWN)}" if column.categories else ""
        lines.append(f"    {column.name} ({column.kind}){more}")
    return "\n".join(lines)


def _origin(model: Recalibrated) -> dict[str, str]:
    """Where a model comes from, and its checksum."""
    found = {"fingerprint": model.fingerprint_}
    if model.provenance is not None:
        named = {"data": "calibration rows", "base": "base", "date": "date", "version": "version"}
        known = {text: str(getattr(model.provenance, name)) for name, text in named.items()}
        found |= known | {"seed": str(model.provenance.seed)}
    return found


def _served_facts(model: ServedModel) -> dict[str, Any]:
    facts: dict[str, Any] = {key: _read(value) for key, value in sorted(model.metadata.items())}
    facts["inputs"] = [port.to_dict() for port in model.inputs]
    return {"kind": "exported graph", "outputs": list(model.outputs), **facts}


def _read(value: str) -> Any:
    """A value of the metadata, which is JSON where it is more than a text."""
    if not value.startswith(("{", "[")):
        return value
    try:
        return parse(value.encode("utf-8", "surrogatepass"))
    except ValueError:
        return value


def _served_text(model: ServedModel) -> str:
    facts = _served_facts(model)
    lines = [repr(model), "  inputs"]
    for port in model.inputs:
        shape = ", ".join(str(size) for size in port.shape)
        holds = f": {listed(port.columns)}" if port.columns and port.columns != (port.name,) else ""
        users = " and ".join(port.used_by)
        lines.append(f"    {port.name} {port.kind} [{shape}], for {users}{holds}")
    lines.append(f"  {'outputs':<20} {', '.join(model.outputs)}")
    shown = sorted(set(model.metadata) - {"inputs", "columns", "own_table"})
    lines += [f"  {key:<20} {_short(facts[key])}" for key in shown]
    return "\n".join(lines)


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
