"""recalibrate demo: the whole workflow on simulated data, in about a minute.

Simulate a census, train a model with a planted fault (xgboost if it is installed, otherwise
scikit-learn's HistGradientBoostingClassifier), recalibrate it, audit it before and after on new
rows, export it to ONNX, check that the file gives the same predictions, and write everything
into a folder. Takes about a minute, most of it compiling on first use.

  recalibrate demo
  recalibrate demo results --rows 10000
"""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.commands.console import Console
from recalibrate.simulate import Census, census

if TYPE_CHECKING:
    import pandas as pd

    from recalibrate.auditing import AuditReport
    from recalibrate.model import Recalibrated


# --- What the demo does: a model with a planted fault, found and put right ----------------------
#
# All data are simulated (`recalibrate.simulate`). The fault is planted in the rows that train the
# base model: half of the high incomes of young women are recorded as low, and the model learns it.


SEEN = ("AGEP", "SCHL", "WKHP", "COW", "SEX")
"""Columns that the base model is trained on; race and marital status are not among them."""
TEXTS = ("COW", "SEX")
YOUNG = 40
FAULTY_SHARE = 0.5
PLANTED = f"SEX = female * AGEP < {YOUNG}"
TERMS = ("SEX", "RAC1P", "MAR", "AGEP", f"SEX*(AGEP < {YOUNG})", "SEX*MAR", "SEX*RAC1P")
COLUMNS = {
    "group": "group",
    "rows": "rows",
    "mean_outcome": "observed",
    "before_mean_prediction": "predicted before",
    "mean_prediction": "predicted after",
    "before_gap": "gap before",
    "gap": "gap after",
    "low": "gap after, low",
    "high": "gap after, high",
}


@dataclass(frozen=True, eq=False)
class _Parts:
    """Three independent samples: one trains, one calibrates, one tests."""

    train: Census
    calibration: Census
    test: Census

    @property
    def recorded(self) -> NDArray[np.float64]:
        """Training labels with the planted fault."""
        X = self.train.X
        hit = (X["SEX"] == "female").to_numpy() & (X["AGEP"] < YOUNG).to_numpy()
        faulty = np.random.default_rng(0).random(len(X)) < FAULTY_SHARE
        return np.where(hit & faulty, 0.0, self.train.y)


def simulate(rows: int, seed: int) -> _Parts:
    """Draw the samples."""
    first = 3 * seed
    return _Parts(*(census(rows, first + k, categorical=True) for k in (1, 2, 3)))


def train_base(parts: _Parts) -> tuple[Any, str]:
    """A base model trained on the faulty labels, and its name."""
    X = parts.train.X[list(SEEN)].astype(dict.fromkeys(TEXTS, "category"))
    if importlib.util.find_spec("xgboost") is not None:
        from xgboost import XGBClassifier

        model = XGBClassifier(
            n_estimators=150, max_depth=4, learning_rate=0.1, enable_categorical=True, n_jobs=2
        )
        return model.fit(X, parts.recorded), "xgboost"
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=150, max_leaf_nodes=16, categorical_features="from_dtype", random_state=0
    )
    return model.fit(X, parts.recorded), "scikit-learn's HistGradientBoostingClassifier"


def _recalibrate_base(base: Any, parts: _Parts, *, progress: bool | None) -> Recalibrated:
    """The base model, put right for the groups."""
    from recalibrate import Groups, fit

    rows = len(parts.calibration.y)
    groups = Groups(*TERMS, min_rows=max(50, rows // 150))
    return fit(base, parts.calibration.X, parts.calibration.y, H=groups, progress=progress)


def _audit_both(model: Recalibrated, parts: _Parts) -> AuditReport:
    """Before and after, on rows that neither model has seen."""
    from recalibrate import audit

    found: Any = audit(model, parts.test.X, parts.test.y, groups=model.H, baseline=True)
    report: AuditReport = found
    return report


def _before_after(report: AuditReport) -> pd.DataFrame:
    """One row per group."""
    return report.full_table[list(COLUMNS)].rename(columns=COLUMNS)


def _compare_served(model: Recalibrated, served: Any, parts: _Parts) -> dict[str, Any]:
    """How far the file's predictions by onnxruntime are from Python's, on all test rows."""
    ours = model.predict(parts.test.X).astype(np.float32)
    off = np.abs(served.predict(parts.test.X) - ours)
    return {"rows": len(off), "differing": int((off != 0).sum()), "largest": float(off.max())}


def numbers(report: AuditReport, **more: Any) -> dict[str, Any]:
    """What happened, for programs."""
    from recalibrate import __version__

    before: Any = report.overall_before
    after: Any = report.overall
    planted: Any = {group.name: group for group in report.groups}[PLANTED]
    return {
        "simulated": True,
        "recalibrate_version": __version__,
        "groups": len(report.groups),
        "groups_off": {"before": before.n_off, "after": after.n_off},
        "log_loss": {"before": before.log_loss, "after": after.log_loss},
        "brier_score": {"before": before.mse, "after": after.mse},
        "planted_group": {
            "name": PLANTED,
            "gap_before": planted.before.gap,
            "gap_after": planted.after.gap,
        },
        "verdict": report.verdict,
        **more,
    }


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

    started = time.monotonic()
    parts = simulate(args.rows, args.seed)
    console.say(
        f"1. Simulated a census: 3 x {args.rows:,} people. The numbers are invented, not real.\n"
        f"   Planted fault: of the rows that train the model, half of the high incomes of women\n"
        f"   under {YOUNG} are recorded as low."
    )
    base, name = train_base(parts)
    console.say(
        f"2. Trained {name} on age, schooling, hours, class of worker and sex"
        + ("." if name == "xgboost" else " (xgboost is used where it is installed).")
    )
    console.step("recalibrating (the first run compiles, once)")
    model = _recalibrate_base(base, parts, progress=console.progress)
    console.say(
        f"3. Recalibrated it on {args.rows:,} other rows: {model.n_rounds_} rounds, "
        f"{model.n_learners_} learners, each step checked on held-out rows."
    )
    report = _audit_both(model, parts)
    _say_audit(report, args, console)
    _write_models(made, model, report, parts)
    parity = _compare_served(model, load(made / "model.onnx"), parts)
    console.say(
        f"5. Exported it to ONNX and read the file back with onnxruntime: of {parity['rows']:,} "
        f"predictions\n   {parity['differing'] or 'none'} differ from Python's (largest difference "
        f"{parity['largest']:.2g})."
    )
    facts = numbers(report, rows_per_part=args.rows, seed=args.seed, base_model=name, parity=parity)
    (made / "numbers.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    console.say(f"   All of this took {time.monotonic() - started:.0f} seconds.")
    return sorted(path.name for path in made.iterdir())


def _write_models(made: Path, model: Recalibrated, report: AuditReport, parts: _Parts) -> None:

    summary = {"verdict": report.verdict, "rows": report.n_rows}
    model.to_onnx(made / "model.onnx", parts.calibration.X[:1000], audit=summary)
    model.save(made / "model.rcal")
    report.to_html(made / "report.html")
    _before_after(report).to_csv(made / "before_after.csv", index=False, lineterminator="\n")
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
    table = _before_after(report).drop(columns=["gap after, low", "gap after, high"])
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
