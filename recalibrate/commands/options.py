"""Options that several commands share."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, _ActionsContainer
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recalibrate.core.kinds import read_text as read_class
from recalibrate.core.kinds import split_commas
from recalibrate.support.atomic import atomic_write, check_writable

if TYPE_CHECKING:
    from recalibrate.classes.groups import Groups

__all__ = [
    "read_class",
    "read_groups",
    "read_names",
]


# --- Short texts of the command line: classes of functions, groups, lists of names --------------


_CALL = re.compile(r"\s*groups\s*\((.*)\)\s*", re.DOTALL)


def read_names(texts: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Names of columns from lists with commas; a column may itself have a comma in its name.

    Examples
    --------
    >>> read_names(["id,name", "city, state"], ["id", "name", "city, state"])
    ['id', 'name', 'city, state']
    """
    known = set(columns)
    names = (
        name
        for text in texts
        for name in ([text] if text in known else [part.strip() for part in text.split(",")])
    )
    return [name for name in dict.fromkeys(names) if name]


def read_groups(text: str) -> Groups:
    """Groups from their terms, with or without ``groups(...)`` around them.

    Examples
    --------
    >>> read_groups("sex, race*sex, age < 25")
    Groups('sex', 'race*sex', 'age < 25')
    """
    from recalibrate.classes.groups import Groups

    called = _CALL.fullmatch(text)
    return Groups.read(split_commas(called[1] if called else text), text)


# --- Files that a command writes: all refused or accepted before the work starts ----------------


class Outputs:
    """The files that one command will write.

    Parameters
    ----------
    force
        Whether existing files are replaced.
    inputs
        Files that the command reads, which it never replaces; None stands for no file.
    """

    def __init__(self, force: bool, *inputs: str | None) -> None:
        self.force = force
        self._taken = {os.path.realpath(path): "is read by this command" for path in inputs if path}

    def plan(self, option: str, path: str | None, *suffixes: str) -> Path | None:
        """Check a path that will be written to; None where the user does not want the file."""
        if path is None:
            return None
        if not path.lower().endswith(suffixes):
            expected = " or ".join(suffixes)
            raise ValueError(f"{option} {path!r}: the name must end in {expected}")
        key = os.path.realpath(path)
        if key in self._taken:
            raise ValueError(f"{option} {path!r}: this file {self._taken[key]}; choose another")
        self._taken[key] = f"is written by {option}"
        try:
            check_writable(path, overwrite=self.force)
        except FileExistsError:
            raise FileExistsError(
                f"{option} {path!r}: the file exists; choose another name, or replace it with "
                "--force"
            ) from None
        return Path(path)

    def write(self, path: Path, content: bytes) -> None:
        """Write a planned file as a whole."""
        atomic_write(path, content, overwrite=self.force)


def add_common(parser: ArgumentParser, *, writes: bool) -> None:
    """Options of every command; some only of those that write files."""
    group = parser.add_argument_group("general")
    if writes:
        group.add_argument("--force", action="store_true", help="overwrite existing files")
    group.add_argument("--quiet", action="store_true", help="no progress, no summary")
    group.add_argument("--debug", action="store_true", help="show where an error comes from")


def add_table(parser: ArgumentParser, *, required: bool = True) -> None:
    """The table of rows, and how to read it."""
    group = parser.add_argument_group("rows")
    if required:
        parser.add_argument(
            "data", metavar="DATA", help="rows: .csv, .parquet, or a folder of .parquet"
        )
    else:
        group.add_argument("--data", metavar="DATA", help="rows to compare on, .csv or .parquet")
    about = "columns to be read as text although they hold numbers"
    add_names(group, "--text", about)


def add_labels(parser: ArgumentParser, *, required: bool = True) -> None:
    """Labels and weights of the rows, and columns that are no features."""
    group = parser.add_argument_group("labels")
    group.add_argument("--label", metavar="NAME", required=required, help="column of the labels")
    group.add_argument(
        "--positive",
        metavar="VALUE",
        help="the label that counts as 1; a fit on two labels keeps both. Others count as 0",
    )
    group.add_argument(
        "--skip-unlabelled",
        action="store_true",
        help="leave out rows whose label is missing, and say how many",
    )
    group.add_argument("--weight", metavar="NAME", help="column of the rows' weights")
    add_names(group, "--drop", "columns to ignore: a,b or several times --drop")


def add_base(
    parser: ArgumentParser,
    about: str = "column of base scores, for a model that was fitted on such a column",
) -> None:
    """What a saved model may need to score new rows."""
    group = parser.add_argument_group("scores")
    add_scores(group, about)
    group.add_argument(
        "--base",
        metavar="FILE",
        help="the base model's own file, for a .rcal file that does not hold the base model",
    )
    add_trust(group)


def add_trust(group: _ActionsContainer) -> None:
    """Consent to model files that can run code."""
    group.add_argument(
        "--trust",
        action="store_true",
        help="open base model files that can run any code on this machine (.pt, .pt2)",
    )


def add_names(group: _ActionsContainer, option: str, about: str) -> None:
    """Names of columns, see `recalibrate.commands.options.read_names`."""
    group.add_argument(option, metavar="NAMES", action="append", default=[], help=about)


def add_scores(group: _ActionsContainer, about: str) -> None:
    """A column of scores, or one for every class."""
    group.add_argument(
        "--score-column", metavar="NAMES", help=f"{about}; of several classes one for each: a,b,c"
    )


def add_classes(group: _ActionsContainer) -> None:
    """Names of the classes, where nothing else tells them."""
    group.add_argument(
        "--classes",
        metavar="NAMES",
        help="of several columns of scores, or a model that does not name its classes: the classes "
        "in the order of the scores, needed where labels are text",
    )


def add_reading(group: _ActionsContainer) -> None:
    """How to read a base model's file."""
    group.add_argument(
        "--model-columns",
        metavar="NAMES",
        help="columns that the model takes, in its order, if it knows no names: a,b,c",
    )
    group.add_argument(
        "--target-class", metavar="CLASS", help="of a multiclass model, the class to score"
    )
    group.add_argument(
        "--base-link",
        choices=("identity", "logit", "log"),
        help="what scores are: probabilities or means (identity), log-odds (logit), or logarithms "
        "of means (log)",
    )
