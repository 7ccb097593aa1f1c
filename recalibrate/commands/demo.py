"""recalibrate demo: the whole workflow on simulated data, in about a minute.

Simulate a census, train a model with a planted fault (xgboost if it is installed, otherwise
scikit-learn's HistGradientBoostingClassifier), recalibrate it, audit it before and after on new
rows, export it to ONNX, check that the file gives the same predictions, and write everything
into a folder. Takes about a minute, most of it compiling on first use.

  recalibrate demo
  recalibrate demo results --rows 10000
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recalibrate.commands.console import Console

if TYPE_CHECKING:
    from recalibrate.auditing import AuditReport
    from recalibrate.commands.demonstration import Parts
    from recalibrate.model import Recalibrated

SUMMARY = "see it work: simulated census, before and after"
FOLDER = "recalibrate-demo"
LABEL = "HIGH_INCOME"
FEWEST_ROWS = 1000
KEPT_ROWS = 5000
"""Test rows that are written, to try the other commands on."""
SHOWN_GROUPS = 12


def add_arguments(parser: ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", default=FOLDER, help=f"default: {FOLDER}"
    )
    parser.add_argument(
        "--rows", type=int, default=30_000, help="rows per part (train, calibrate, test)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the simulation, default 0")


def run(args: Namespace, console: Console) -> int:
    """Do it all in a hidden folder, then move the files into place."""
    folder = Path(args.folder)
    _check(folder, args)
    with tempfile.TemporaryDirectory(prefix=".recalibrate-", dir=folder.resolve().parent) as made:
        files = _demonstrate(Path(made), folder, args, console)
        folder.mkdir(exist_ok=True)
        for name in files:
            os.replace(Path(made) / name, folder / name)
    _say_what_next(folder, files, console)
    return 0


def _check(folder: Path, args: Namespace) -> None:
    if args.rows < FEWEST_ROWS:
        raise ValueError(f"--rows must be at least {FEWEST_ROWS}, got {args.rows}")
    if args.seed < 0:
        raise ValueError(f"--seed must be at least 0, got {args.seed}")
    if not folder.resolve().parent.is_dir():
        raise FileNotFoundError(f"the folder of {str(folder)!r} does not exist; create it first")
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{str(folder)!r} is a file, not a folder")
    if folder.is_dir() and any(folder.iterdir()) and not args.force:
        raise FileExistsError(
            f"the folder {str(folder)!r} is not empty; choose another, or replace its files with "
            "--force"
        )


def _demonstrate(made: Path, folder: Path, args: Namespace, console: Console) -> list[str]:
    """Tell the story while it happens; the files' names are the result."""
    from recalibrate import load
    from recalibrate.commands import demonstration as demo

    started = time.monotonic()
    parts = demo.simulate(args.rows, args.seed)
    console.say(
        f"1. Simulated a census: 3 x {args.rows:,} people. The numbers are invented, not real.\n"
        f"   Planted fault: of the rows that train the model, half of the high incomes of women\n"
        f"   under {demo.YOUNG} are recorded as low."
    )
    base, name = demo.train_base(parts)
    console.say(
        f"2. Trained {name} on age, schooling, hours, class of worker and sex"
        + ("." if name == "xgboost" else " (xgboost is used where it is installed).")
    )
    console.step("recalibrating (the first run compiles, once)")
    model = demo.recalibrate_base(base, parts, progress=console.progress)
    console.say(
        f"3. Recalibrated it on {args.rows:,} other rows: {model.n_rounds_} rounds, "
        f"{model.n_learners_} learners, each step checked on held-out rows."
    )
    report = demo.audit_both(model, parts)
    _say_audit(report, args, console)
    _write_models(made, model, report, parts)
    parity = demo.compare_served(model, load(made / "model.onnx"), parts)
    console.say(
        f"5. Exported it to ONNX and read the file back with onnxruntime: of {parity['rows']:,} "
        f"predictions\n   {parity['differing'] or 'none'} differ from Python's (largest difference "
        f"{parity['largest']:.2g})."
    )
    facts = demo.numbers(
        report, rows_per_part=args.rows, seed=args.seed, base_model=name, parity=parity
    )
    (made / "numbers.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    console.say(f"   All of this took {time.monotonic() - started:.0f} seconds.")
    return sorted(path.name for path in made.iterdir())


def _write_models(made: Path, model: Recalibrated, report: AuditReport, parts: Parts) -> None:
    from recalibrate.commands.demonstration import before_after

    summary = {"verdict": report.verdict, "rows": report.n_rows}
    model.to_onnx(made / "model.onnx", parts.calibration.X[:1000], audit=summary)
    model.save(made / "model.rcal")
    report.to_html(made / "report.html")
    before_after(report).to_csv(made / "before_after.csv", index=False, lineterminator="\n")
    kept = parts.test.X[:KEPT_ROWS].assign(**{LABEL: parts.test.y[:KEPT_ROWS].astype(int)})
    kept.to_csv(made / "rows.csv", index=False, lineterminator="\n")


def _say_audit(report: AuditReport, args: Namespace, console: Console) -> None:
    before: Any = report.overall_before
    after = report.overall
    table = "\n".join(f"   {line}" for line in _worst_groups(report).splitlines())
    console.say(
        f"4. Audited both on {args.rows:,} rows that neither has seen (gap = observed - predicted;"
        f"\n   all rows, and the {SHOWN_GROUPS} groups with the largest gaps before):\n\n"
        f"{table}\n\n"
        f"   Groups off by more than noise: {before.n_off} of {len(report.groups)} before, "
        f"{after.n_off} after.\n"
        f"   Log loss: {before.log_loss:.4f} before, {after.log_loss:.4f} after."
    )


def _worst_groups(report: AuditReport) -> str:
    """All rows, and the groups that were furthest off."""
    from recalibrate.commands.demonstration import PLANTED, before_after

    table = before_after(report).drop(columns=["gap after, low", "gap after, high"])
    worst = table["gap before"][1:].abs().nlargest(SHOWN_GROUPS).index
    shown = table.loc[[0, *worst]]
    shown = shown.assign(group=shown["group"].replace(PLANTED, f"{PLANTED} (planted)"))
    plain = dict.fromkeys(["observed", "predicted before", "predicted after"], "{:.3f}".format)
    signed = dict.fromkeys(["gap before", "gap after"], "{:+.3f}".format)
    return shown.to_string(index=False, formatters={**plain, **signed})


def _say_what_next(folder: Path, files: list[str], console: Console) -> None:
    console.say(
        f"\nWrote {folder}: {', '.join(files)}\n"
        f"Look at it: open {folder / 'report.html'} in a browser, or\n"
        f"  recalibrate inspect {folder / 'model.onnx'}\n"
        f"  recalibrate audit {folder / 'rows.csv'} --label {LABEL} --model "
        f'{folder / "model.rcal"} \\\n      --groups "SEX, RAC1P" --max-gap 0.05'
    )
