r"""recalibrate audit: calibration by group, and a gate for pipelines.

Measure the calibration of a model, or of a column of predictions, over all rows and in groups.
Use rows that trained neither the model nor its calibration. A saved model is compared with its
own base model. With --max-gap, --alpha or --ecce-alpha the command is a gate: exit code 1 if a
group fails.

  recalibrate audit test.csv --label y --model model.rcal \
      --groups "sex, race*sex, age < 25" --html audit.html --json audit.json
  recalibrate audit test.csv --label y --score-column p --groups "sex" --max-gap 0.02

Several models are compared on the same rows, each with the first:

  recalibrate audit test.csv --label y --model old=old.rcal --model new=new.rcal --html both.html
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from recalibrate.commands.console import Console
from recalibrate.commands.data import (
    CSV,
    PARQUET,
    Labelled,
    encode_frame,
    read_classes,
    read_labelled,
)
from recalibrate.commands.models import known_text, needs_scores, open_any, told_classes
from recalibrate.commands.options import (
    Outputs,
    add_base,
    add_classes,
    add_labels,
    add_reading,
    add_table,
    read_class,
    read_groups,
)
from recalibrate.groups.cells import BANDS
from recalibrate.metrics import read_loss
from recalibrate.support.checks import check_number

SUMMARY = "measure calibration by group; fail beyond a tolerance"


def add_arguments(parser: ArgumentParser) -> None:
    """Options of the command."""
    add_table(parser)
    add_labels(parser)
    parser.add_argument(
        "--model",
        metavar="FILE",
        action="append",
        default=[],
        help="a saved or exported model, or a base model's file; several, with names if wanted "
        "(--model old=a.rcal --model new=b.rcal), are compared on the same rows",
    )
    add_base(parser, "column of predictions to audit; with a model: of its base scores, if needed")
    group = parser.add_argument_group("reading a base model's file")
    add_reading(group)
    add_classes(group)
    _add_what(parser)
    group = parser.add_argument_group("gate")
    group.add_argument("--max-gap", type=float, help="fail groups whose gap exceeds this")
    group.add_argument(
        "--alpha",
        type=float,
        help="fail groups whose gap is more than noise; a model without gaps fails with "
        "probability at most alpha",
    )
    group.add_argument(
        "--ecce-alpha",
        type=float,
        help="fail groups whose predictions are wrong along the scores by more than noise, even "
        "if errors cancel out in the mean",
    )
    group.add_argument(
        "--rule",
        choices=("certain", "estimate", "proven"),
        default="certain",
        help="when a gap exceeds --max-gap: certainly, by its estimate, or unless proven not to",
    )
    group.add_argument(
        "--fail-on-search",
        action="store_true",
        help="judge the groups that --search finds, too",
    )
    group = parser.add_argument_group("output")
    group.add_argument("--html", metavar="FILE", help="one page that needs no network")
    group.add_argument("--json", metavar="FILE", help="everything, for programs")
    group.add_argument("--markdown", metavar="FILE", help="text for model cards, .md")
    group.add_argument(
        "--model-card", metavar="FILE", help="model card with the head of the Hugging Face hub, .md"
    )
    group.add_argument("--table", metavar="FILE", help="one row per group, .csv or .parquet")


def _add_what(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("audit")
    group.add_argument(
        "--groups",
        metavar="GROUPS",
        help='groups such as "sex, race*sex, age < 25"; default: every column',
    )
    group.add_argument("--depth", type=int, default=1, help="also cross this many of the groups")
    group.add_argument("--min-rows", type=int, help="leave smaller groups out, and do not judge")
    group.add_argument(
        "--bands", type=int, default=BANDS, help=f"bands of a numeric column, default {BANDS}"
    )
    group.add_argument("--bins", type=int, default=10, help="bins of the predictions, default 10")
    group.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        help="of the limits, for all groups at once, default .95",
    )
    group.add_argument(
        "--by",
        metavar="PERIOD",
        help="also audit slices: day, week, month, quarter, year, or a column",
    )
    group.add_argument("--time", metavar="NAME", help="column of dates, for periods")
    group.add_argument(
        "--exposure",
        metavar="NAME",
        help="column of exposures: labels are totals over them, predictions rates",
    )
    group.add_argument(
        "--loss",
        metavar="LOSS",
        help="squared, log_loss, poisson, gamma, tweedie or tweedie-1.7: reported and taken apart",
    )
    group.add_argument("--cluster", metavar="NAME", help="column of persons or households")
    group.add_argument(
        "--search",
        metavar="CLASS",
        nargs="?",
        const="",
        help='also search for other groups that are wrong, by "trees(depth=2)" if none is given',
    )
    group.add_argument("--baseline", metavar="FILE", help="model to compare with")
    group.add_argument("--baseline-column", metavar="NAME", help="predictions to compare with")
    group.add_argument(
        "--threshold",
        type=float,
        action="append",
        default=[],
        help="selection rates, impact ratios and errors of decisions at this prediction, by group",
    )
    group.add_argument(
        "--reference",
        metavar="GROUP",
        action="append",
        help='group that rates are compared with, such as "sex = M"; default: the largest',
    )


def run(args: Namespace, console: Console) -> int:
    """Audit, write the views, and judge."""
    paths = _read_models(args.model)
    outputs = Outputs(args.force, args.data, *paths.values(), args.base, args.baseline)
    html = outputs.plan("--html", args.html, ".html", ".htm")
    as_json = outputs.plan("--json", args.json, ".json")
    markdown = outputs.plan("--markdown", args.markdown, ".md")
    card = outputs.plan("--model-card", args.model_card, ".md")
    table = outputs.plan("--table", args.table, *CSV, *PARQUET)
    _check(args, len(paths))
    report = _audit(args, console, {name: open_any(path, args) for name, path in paths.items()})
    if html is not None:
        outputs.write(html, report.to_html().encode())
    if as_json is not None:
        outputs.write(as_json, report.to_json().encode())
    if markdown is not None:
        outputs.write(markdown, report.to_markdown().encode())
    if card is not None:
        outputs.write(card, report.to_model_card().encode())
    if table is not None:
        frame = report.table if len(paths) > 1 else report.full_table
        outputs.write(table, encode_frame(frame, table))
    console.say(str(report))
    for file in (html, as_json, markdown, card, table):
        if file is not None:
            console.say(f"wrote {file}")
    return _judge(args, console, report)


def _read_models(given: Sequence[str]) -> dict[str, str]:
    """Files of models by name: as in ``old=a.rcal``, else the file's own.

    Examples
    --------
    >>> _read_models(["old=a.rcal", "models/b.rcal"])
    {'old': 'a.rcal', 'models/b.rcal': 'models/b.rcal'}
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not name or not path or os.path.exists(text):
            name = path = text
        if name in found:
            raise ValueError(f"--model names {name!r} twice: give names, as in --model old={path}")
        found[name] = path
    return found


def _check(args: Namespace, models: int) -> None:
    if not models and args.score_column is None:
        raise ValueError("say what to audit: --model FILE, or --score-column NAME")
    for option in ("model_card", "fail_on_search"):
        if models > 1 and getattr(args, option):
            raise ValueError(f"--{option.replace('_', '-')} is for one model, got {models}")
    if args.loss is not None:
        read_loss(args.loss)
    if args.baseline is not None and args.baseline_column is not None:
        raise ValueError("give either --baseline or --baseline-column, not both")
    if not 0.5 <= args.confidence < 1:
        raise ValueError(f"--confidence must be at least .5 and below 1, got {args.confidence:g}")
    if args.fail_on_search and args.search is None:
        raise ValueError("--fail-on-search judges what --search finds: give --search, too")
    if args.fail_on_search and args.max_gap is None and args.alpha is None:
        raise ValueError("--fail-on-search needs a tolerance: --max-gap or --alpha")
    check_number("--max-gap", args.max_gap, least=0.0)
    check_number("--alpha", args.alpha, above=0.0, most=1.0)
    check_number("--ecce-alpha", args.ecce_alpha, above=0.0, most=1.0)


def _audit(args: Namespace, console: Console, models: dict[str, Any]) -> Any:
    """The report, or the comparison of several models."""
    import recalibrate

    groups = True if args.groups is None else read_groups(args.groups)
    H = True if args.search == "" else args.search and read_class(args.search)
    console.step(f"reading {args.data}")
    rows = read_labelled(
        args,
        known_text=known_text(*models.values()),
        classes=next(filter(None, map(told_classes, models.values())), ()),
        scores=args.score_column,
        cluster=args.cluster,
        exposure=args.exposure,
        time=args.time,
        baseline=args.baseline_column,
    )
    scores = rows.others.get("scores")
    for name, model in models.items():
        if scores is None and needs_scores(model):
            raise ValueError(f"{name!r} needs base scores: --score-column, or --base FILE")
    alone = next(iter(models.values())) if len(models) == 1 else None
    what = models if len(models) > 1 else as_means(scores, args) if alone is None else alone
    console.step("auditing")
    return recalibrate.audit(
        what,
        rows.X,
        rows.y,
        groups=groups,
        base=scores if models else None,
        positive=rows.positive,
        classes=read_classes(args.classes, rows.y),
        baseline=_baseline(args, alone, rows),
        H=H or None,
        cluster=rows.others.get("cluster"),
        sample_weight=rows.weight,
        exposure=rows.others.get("exposure"),
        loss=args.loss,
        thresholds=tuple(args.threshold),
        reference=args.reference,
        by=args.by,
        time=rows.others.get("time"),
        depth=args.depth,
        min_rows=args.min_rows,
        bands=args.bands,
        bins=args.bins,
        alpha=round(1.0 - args.confidence, 12),
    )


def as_means(scores: Any, args: Namespace) -> Any:
    """Predictions on the scale of the label."""
    from recalibrate.core.levels import from_margin
    from recalibrate.data.labels import read_scores

    if args.base_link in (None, "identity"):
        return scores
    values = read_scores(scores, n_rows=len(scores), probability=False, outputs=None)
    return from_margin(values, args.base_link)


def _baseline(args: Namespace, model: Any, rows: Labelled) -> Any:
    """What to compare with: as given, else a saved model's own base."""
    from recalibrate.model import Recalibrated

    if args.baseline_column is not None:
        return rows.others["baseline"]
    if args.baseline is not None:
        return open_any(args.baseline, args)
    return True if isinstance(model, Recalibrated) else None


def _judge(args: Namespace, console: Console, report: Any) -> int:
    from recalibrate.auditing.comparison import AuditComparison

    tolerance = {"max_gap": args.max_gap, "alpha": args.alpha, "ecce_alpha": args.ecce_alpha}
    if all(value is None for value in tolerance.values()):
        return 0
    tolerance["rule"] = args.rule
    tolerance["min_rows"] = args.min_rows or 1
    if isinstance(report, AuditComparison):
        by_model = report.violations(**tolerance)
        found = [f"{name}: {each}" for name, own in by_model.items() for each in own]
    else:
        found = list(report.violations(**tolerance, search=args.fail_on_search))
    if not found:
        console.say("gate passed")
        return 0
    for violation in found:
        console.fail(f"gate failed: {violation}")
    return 1
