r"""recalibrate monitor: watch the calibration of a served model, with control of false alarms.

init fixes groups and score bands by reference rows (no labels needed) and writes the state;
update adds a batch of rows, labelled or not yet; report shows what is known. While all gaps are
within the tolerance, the chance of ever raising an alarm is at most alpha. The exit code is 1 as
long as there is an alarm, for cron and CI.

  recalibrate monitor init calibration.csv --model model.rcal --groups "sex, race" \
      --tolerance 0.01 --state monitor.json
  recalibrate monitor update week.csv --label y --at 2024-05-31 --model model.rcal \
      --state monitor.json
  recalibrate monitor report --state monitor.json --html monitor.html
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recalibrate.commands.console import Console
from recalibrate.commands.data import (
    CSV,
    PARQUET,
    KnownText,
    Labelled,
    check_file,
    encode_frame,
    read_frame,
    read_labelled,
    take_columns,
)
from recalibrate.commands.models import known_text, needs_scores, open_any, told_classes
from recalibrate.commands.options import (
    Outputs,
    add_base,
    add_common,
    add_labels,
    add_reading,
    add_table,
    read_groups,
)
from recalibrate.support.atomic import locked
from recalibrate.support.checks import check_number

if TYPE_CHECKING:
    from recalibrate.monitoring import Monitor, MonitorReport

SUMMARY = "watch a served model, with control of false alarms"


def add_arguments(parser: ArgumentParser) -> None:
    """Options of the three actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="init|update|report")
    begin = actions.add_parser("init", help="fix groups and bands by reference rows")
    add_table(begin)
    _add_model(begin)
    group = begin.add_argument_group("rules")
    group.add_argument("--groups", help='groups such as "sex, race*sex, age < 25"')
    group.add_argument("--tolerance", type=float, default=0.01, help="of gaps, default .01")
    group.add_argument("--alpha", type=float, default=0.05, help="chance of a false alarm ever")
    group.add_argument("--levels", type=int, default=5, help="bands of the score, default 5")
    group.add_argument("--depth", type=int, default=1, help="also cross this many of the groups")
    group.add_argument("--min-rows", type=int, help="leave smaller groups out")
    group.add_argument(
        "--bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help="of regression labels"
    )
    group.add_argument("--max-weight", type=float, help="largest possible weight of a row")
    add = actions.add_parser("update", help="add a batch of rows")
    add_table(add)
    add_labels(add, required=False)
    _add_model(add)
    group = add.add_argument_group("time")
    group.add_argument("--time", metavar="NAME", help="column of the rows' times")
    group.add_argument("--at", metavar="TIME", help="one time for all rows: a date or a number")
    group.add_argument("--late", action="store_true", help="labels that arrived late")
    group = add.add_argument_group("what is refused otherwise")
    group.add_argument(
        "--force",
        "--again",
        action="store_true",
        help="add rows that are equal to those of an earlier batch",
    )
    group.add_argument(
        "--allow-unknown",
        action="store_true",
        help="add rows although most have values that no group is for, in a column of the groups",
    )
    _add_exposure(add)
    show = actions.add_parser("report", help="show what is known")
    add_table(show, required=False)
    add_labels(show, required=False)
    _add_model(show)
    _add_exposure(show)
    group = show.add_argument_group("output")
    group.add_argument("--html", metavar="FILE", help="one page that needs no network")
    group.add_argument("--json", metavar="FILE", help="everything, for programs")
    group.add_argument("--table", metavar="FILE", help="one row per group, .csv or .parquet")
    for action in (begin, add):
        action.add_argument(
            "--wait",
            type=float,
            metavar="SECONDS",
            default=60.0,
            help="for other commands that work on the same state, default 60",
        )
    for action in (begin, add, show):
        action.add_argument("--state", metavar="FILE", required=True, help="the state, .json")
        add_common(action, writes=action is not add)


def _add_model(parser: ArgumentParser) -> None:
    parser.add_argument("--model", metavar="FILE", help="the served model's file")
    add_base(parser, "column of predictions; with a model: of its base scores, if needed")
    add_reading(parser.add_argument_group("reading a base model's file"))


def _add_exposure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--exposure",
        metavar="NAME",
        help="column of exposures: labels are totals over them, predictions are rates",
    )


def run(args: Namespace, console: Console) -> int:
    """Begin, add, or show."""
    return {"init": _init, "update": _update, "report": _report}[args.action](args, console)


def _init(args: Namespace, console: Console) -> int:
    from recalibrate import Monitor

    check_number("--wait", args.wait, least=0.0)
    outputs = Outputs(args.force, args.data, args.model, args.base)
    path = outputs.plan("--state", args.state, ".json")
    model = _model(args)
    monitor = Monitor(
        model,
        None if args.groups is None else read_groups(args.groups),
        tolerance=args.tolerance,
        alpha=args.alpha,
        levels=args.levels,
        bounds=None if args.bounds is None else tuple(args.bounds),
        depth=args.depth,
        min_rows=args.min_rows,
        max_weight=args.max_weight,
    )
    console.step(f"reading {args.data}")
    frame = read_frame(args.data, text=args.text, known_text=known_text(model))
    X, found = take_columns(frame, args.data, (), scores=args.score_column)
    monitor.start(X, **_scores(args, model, found.get("scores")))
    with locked(args.state, timeout=args.wait):  # an update may be under way
        monitor.save(args.state, overwrite=args.force)
    console.say(f"wrote {path}: {monitor!r}")
    return 0


def _update(args: Namespace, console: Console) -> int:
    from recalibrate.monitoring import Monitor

    if args.time is not None and args.at is not None:
        raise ValueError("give either --time NAME (a column) or --at TIME, not both")
    check_number("--wait", args.wait, least=0.0)
    check_file(args.state, "state")
    model = _model(args)
    with locked(args.state, timeout=args.wait):
        before = Path(args.state).read_bytes()
        monitor = Monitor.load(args.state, model)
        console.step(f"reading {args.data}")
        rows = _rows(args, known_text(model, monitor.groups), model)
        new = monitor.update(
            rows.X,
            None if args.label is None else rows.y,
            time=rows.others.get("time", _at(args.at)),
            sample_weight=rows.weight,
            exposure=rows.others.get("exposure"),
            late=args.late,
            force=args.force,
            allow_unknown=args.allow_unknown,
            **_scores(args, model, rows.others.get("scores")),
        )
        console.check_interrupts()
        # Commands wait for each other; a program that calls Monitor.save does not.
        if Path(args.state).read_bytes() != before:
            raise ValueError(
                f"{args.state!r} was changed by another program meanwhile; nothing was added, run "
                "again"
            )
        monitor.save(args.state)
        console.done.append(f"the batch was added to {args.state!r} all the same")
    for group in new:
        console.fail(f"new alarm: {group}")
    return _judge(monitor, console)


def _report(args: Namespace, console: Console) -> int:
    from recalibrate.monitoring import Monitor

    outputs = Outputs(args.force, args.state, args.data, args.model, args.base)
    html = outputs.plan("--html", args.html, ".html", ".htm")
    as_json = outputs.plan("--json", args.json, ".json")
    table = outputs.plan("--table", args.table, *CSV, *PARQUET)
    check_file(args.state, "state")
    monitor = Monitor.load(args.state, None if args.model is None else open_any(args.model, args))
    report = monitor.report() if args.data is None else _with_recent(monitor, args)
    if html is not None:
        outputs.write(html, report.to_html().encode())
    if as_json is not None:
        outputs.write(as_json, report.to_json().encode())
    if table is not None:
        outputs.write(table, encode_frame(report.table, table))
    console.say(str(report))
    for file in (html, as_json, table):
        if file is not None:
            console.say(f"wrote {file}")
    return 1 if monitor.alarm else 0


def _with_recent(monitor: Monitor, args: Namespace) -> MonitorReport:
    """The report with advice on a refit on recent rows."""
    if args.label is None:
        raise ValueError("--data gives recent rows to try a refit on: name their --label, too")
    model = _model(args) if monitor.model is None else monitor.model
    rows = _rows(args, known_text(model, monitor.groups), model)
    given = _scores(args, model, rows.others.get("scores"))
    given["exposure"] = rows.others.get("exposure")
    return monitor.report(rows.X, rows.y, sample_weight=rows.weight, **given)


def _judge(monitor: Monitor, console: Console) -> int:
    console.say(f"{monitor!r}\n{monitor.report().verdict}")
    return 1 if monitor.alarm else 0


def _model(args: Namespace) -> Any:
    if args.model is None and args.score_column is None:
        raise ValueError("say what to watch: --model FILE, or --score-column NAME")
    return None if args.model is None else open_any(args.model, args)


def _rows(args: Namespace, text: KnownText, model: Any) -> Labelled:
    named = {
        "scores": args.score_column,
        "time": getattr(args, "time", None),
        "exposure": args.exposure,
    }
    if args.label is not None:
        classes = told_classes(model)
        rows = read_labelled(args, known_text=text, classes=classes, **named)
        if classes or rows.positive is None:
            return rows
        return replace(rows, y=rows.y == rows.positive)  # scores are about this label
    frame = read_frame(args.data, text=args.text, known_text=text)
    X, found = take_columns(frame, args.data, args.drop, weight=args.weight, **named)
    return Labelled(X, None, found.pop("weight", None), found)  # type: ignore[arg-type]


def _scores(args: Namespace, model: Any, scores: Any) -> dict[str, Any]:
    """Predictions, or base scores of a model that needs them."""
    from recalibrate.commands.audit import as_means

    if model is None:
        return {"scores": as_means(scores, args)}
    if scores is None and needs_scores(model):
        raise ValueError(f"{args.model!r} needs base scores: --score-column, or --base FILE")
    return {"base": scores}


def _at(text: str | None) -> str | float | None:
    """A date, or a number."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
