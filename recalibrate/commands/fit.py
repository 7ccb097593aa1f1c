r"""recalibrate fit: a base model and labelled rows to a recalibrated model.

Recalibrate a trained model on labelled rows that it was not trained on. The model is a file
(xgboost .json or .ubj, lightgbm .txt, catboost .cbm, .onnx, TorchScript .pt, or .rcal), or just a
column of its scores. All columns but those named in other options may be used by H.

  recalibrate fit rows.csv --label y --model xgb.json -o model.rcal
  recalibrate fit rows.parquet --label y --score-column p --drop id \
      --H "groups(sex, race*sex, age < 25)" -o model.rcal --onnx model.onnx
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from recalibrate.commands.console import Console
from recalibrate.commands.data import Labelled, read_classes, read_labelled
from recalibrate.commands.models import open_base, told_classes
from recalibrate.commands.options import (
    Outputs,
    add_classes,
    add_labels,
    add_names,
    add_reading,
    add_scores,
    add_table,
    add_trust,
    read_class,
    read_names,
)

if TYPE_CHECKING:
    from recalibrate.model import Recalibrated

SUMMARY = "recalibrate a trained model on labelled rows"
PARITY_ROWS = 1000
"""Rows of the table that an exported graph is compared on, besides those made for it."""
PLAIN_OPTIONS = ("alpha", "B", "cv", "validation", "link", "seed")


def add_arguments(parser: ArgumentParser) -> None:
    """Options of the command."""
    add_table(parser)
    add_labels(parser)
    group = parser.add_argument_group("base model")
    either = group.add_mutually_exclusive_group(required=True)
    either.add_argument("--model", metavar="FILE", help="the base model's file")
    add_scores(either, "column of the base model's scores instead")
    add_reading(group)
    add_classes(group)
    add_trust(group)
    group = parser.add_argument_group("fit")
    group.add_argument(
        "--H",
        metavar="CLASS",
        help='groups or function class (H): "trees", "trees(depth=2)", "linear", '
        '"groups(sex, race*sex, age < 25)"; default: trees on all columns',
    )
    add_names(group, "--categorical", "columns of numbers that are categories")
    group.add_argument("--alpha", type=float, help="run the paper's Algorithm 1 with this alpha")
    group.add_argument("--B", type=float, help="bound on h^2 of Algorithm 1, default 1")
    group.add_argument("--cv", type=int, metavar="FOLDS", help="number of folds, default 5")
    group.add_argument("--validation", type=float, metavar="SHARE", help="hold out this share")
    group.add_argument(
        "--bounds",
        type=_bound,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="of a regression's labels; none where there is no bound, as in: 0 none",
    )
    group.add_argument("--levels", type=int, help="number of level sets")
    group.add_argument(
        "--exposure",
        metavar="NAME",
        help="column of exposures: labels are totals over them, predictions are rates",
    )
    group.add_argument(
        "--link",
        metavar="LINK",
        help="scale of the updates: identity, logit, log (Poisson), log-gamma, log-tweedie-1.5; "
        "default: as the base model was trained",
    )
    group.add_argument("--threads", type=int, help="the model is the same for any number")
    group.add_argument("--seed", type=int, default=0, help="seed of the folds, default 0")
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--out", metavar="FILE", required=True, help="the model, .rcal")
    group.add_argument("--onnx", metavar="FILE", help="also export the model, .onnx")
    group.add_argument(
        "--by-reference",
        action="store_true",
        help="save the name and checksum of the base model's file instead of its graph",
    )


def _bound(text: str) -> float | None:
    """A bound, or none."""
    return None if text.lower() == "none" else float(text)


def run(args: Namespace, console: Console) -> int:
    """Fit, save, and export if asked to."""
    outputs = Outputs(args.force, args.data, args.model)
    saved = outputs.plan("--out", args.out, ".rcal")
    exported = outputs.plan("--onnx", args.onnx, ".onnx")
    if args.by_reference and (args.model is None or args.model.lower().endswith(".rcal")):
        raise ValueError("--by-reference needs a base model in a file of its framework: --model")
    H = None if args.H is None else read_class(args.H)
    base = None if args.model is None else open_base(args.model, args)
    console.step(f"reading {args.data}")
    others = {"score": args.score_column, "exposure": args.exposure}
    rows = read_labelled(args, classes=told_classes(base), **others)
    model = _fit(args, console, rows, rows.others["score"] if base is None else base, H)
    console.check_interrupts()  # an interrupted fit gives the rounds that it has
    if exported is not None:
        console.step("exporting, and comparing the graph with the model")
        sample = slice(0, PARITY_ROWS)
        scores = rows.others["score"][sample] if base is None else None
        model.to_onnx(exported, rows.X.iloc[sample], base=scores, overwrite=args.force)
    reference = _reference(args, model)
    model.save(str(saved), overwrite=args.force, base=reference, trust=args.trust)
    console.say(model.summary())
    for path in (saved, exported):
        if path is not None:
            console.say(f"wrote {path} ({path.stat().st_size / 1024:,.0f} KB)")
    if reference is not None:
        console.say(f"the base model is not inside: keep {reference} beside {saved}")
    return 0


def _fit(args: Namespace, console: Console, rows: Labelled, base: Any, H: Any) -> Recalibrated:
    import recalibrate

    given = {name: getattr(args, name) for name in PLAIN_OPTIONS}
    return recalibrate.fit(
        base,
        rows.X,
        rows.y,
        H=H,
        sample_weight=rows.weight,
        exposure=rows.others.get("exposure"),
        bounds=None if args.bounds is None else tuple(args.bounds),
        positive=rows.positive,
        classes=read_classes(args.classes, rows.y),
        # A base that was opened from a file has its link already.
        base_link=args.base_link if args.model is None else None,
        categorical=read_names(args.categorical, [str(name) for name in rows.X.columns]) or None,
        exportable=args.onnx is not None,
        loop=recalibrate.Loop(levels=args.levels),
        engine=recalibrate.Engine(threads=args.threads),
        progress=console.progress,
        **given,
    )


def _reference(args: Namespace, model: Recalibrated) -> str | None:
    """The base model's file, where the saved model refers to it rather than holding a graph."""
    if args.model is None or args.model.lower().endswith(".rcal"):
        return None
    if args.target_class is not None or args.base_link is not None:
        if args.by_reference:
            raise ValueError("--by-reference does not keep --target-class or --base-link")
        return None
    return args.model if args.by_reference or model.base.graph() is None else None
