"""From arguments to an exit code: the parser, and what becomes of errors."""

from __future__ import annotations

import argparse
import io
import re
import signal
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import NoReturn

from recalibrate import __version__
from recalibrate.commands import audit, demo, export, fit, inspect, monitor, predict, warm_up
from recalibrate.commands.console import (
    Console,
    flush_streams,
    report_lost,
    shown_warnings,
    watch_interrupts,
)
from recalibrate.commands.options import add_common
from recalibrate.groups.expressions import GroupSyntaxError

BAD_INPUT, FAULT = 2, 3
COMMANDS = (fit, predict, audit, monitor, export, inspect, demo, warm_up)
BAD_INPUT_ERRORS = (OSError, ValueError, TypeError, ImportError, MemoryError)
"""What the library raises for things that the user can put right."""

_ARGUMENT = re.compile(r"\b(base_link|target_class|categorical|bounds)=")
_SWITCH = re.compile(r"\b(force|late|allow_unknown)=True\b")
"""Python's arguments in messages of the library that are options here."""

_EPILOG = """\
examples:
  recalibrate demo
  recalibrate fit rows.csv --label y --model xgb.json --H "groups(sex, race)" -o model.rcal
  recalibrate audit test.csv --label y --model model.rcal --groups "sex, race*sex" --html a.html

exit codes: 0 fine, 1 an audit's gate failed or a monitor has an alarm, 2 usage or bad input,
3 a fault of this program, 130 interrupted, 143 terminated
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    parser = _Parser(
        prog="recalibrate",
        description="Multicalibrate a trained model on labelled rows, audit it, serve it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"recalibrate {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        about, first, examples = (module.__doc__ or "").partition("\n  recalibrate ")
        own = commands.add_parser(
            module.__name__.rpartition(".")[2].replace("_", "-"),
            help=module.SUMMARY,
            # A command's docstring is a line on the module, a description and examples.
            description=about.partition("\n\n")[2],
            epilog=f"examples:{first}{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(own)
        if module is not monitor:  # whose actions have options of their own
            add_common(own, writes=module not in (inspect, warm_up))
        own.set_defaults(run=module.run)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command; see `recalibrate.commands.main`."""
    lost: list[str] = []
    done: list[str] = []
    try:
        code = _run(argv, lost, done)
    finally:
        flush_streams(lost)
        report_lost(lost, done)
    return code or (BAD_INPUT if lost else 0)


def _run(argv: Sequence[str] | None, lost: list[str], done: list[str]) -> int:
    asked = io.StringIO()  # argparse would not notice that it cannot write
    try:
        with redirect_stdout(asked):
            args = build_parser().parse_args(argv)
    except SystemExit as end:  # --help, --version, or wrong usage, already explained
        if asked.getvalue():
            Console("", lost=lost).answer(asked.getvalue().removesuffix("\n"))
        return int(end.code or 0)
    with watch_interrupts() as interrupts:
        console = Console(args.command, args.quiet, interrupts, lost, done)
        try:
            with shown_warnings(console):
                code: int = args.run(args, console)
            console.check_interrupts()
            return code
        except KeyboardInterrupt:
            return _interrupted(console)
        except Exception as error:
            if interrupts.seen:
                return _interrupted(console)
            fault = not isinstance(error, BAD_INPUT_ERRORS)
            _explain(console, error, debug=args.debug, fault=fault)
            return FAULT if fault else BAD_INPUT


def _interrupted(console: Console) -> int:
    number = console.interrupts.number or signal.SIGINT
    what = "interrupted" if number == signal.SIGINT else "terminated"
    console.error(f"{what}; no file was left half-written")
    return 128 + number  # as shells report it


def _explain(console: Console, error: Exception, *, debug: bool, fault: bool) -> None:
    if debug:
        traceback.print_exception(error)
    text = str(error) or type(error).__name__
    if isinstance(error, GroupSyntaxError):  # a caret needs a line of its own
        text = f"{error.message} (in {error.text!r}, character {error.position + 1})"
    text = _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} ", text)
    text = _SWITCH.sub(lambda found: f"--{found[1].replace('_', '-')}", text)
    if fault:
        text = f"{type(error).__name__}: {text} (a fault of this program; --debug shows where)"
    console.error(text)
