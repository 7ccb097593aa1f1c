"""The command line.

``recalibrate fit | predict | audit | monitor | export | inspect | demo | warm-up``.

Exit codes: 0 fine, 1 an audit's gate failed or a monitor has an alarm, 2 usage or bad input, or
output that could not be written, 3 a fault of this program, 130 interrupted, 143 terminated by
SIGTERM. Errors are one line on standard error; ``--debug`` shows where they come from. No file is
overwritten without ``--force``, and every file appears whole or not at all.
"""

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv
        Arguments; those of the process by default.

    Examples
    --------
    >>> from recalibrate.commands import main
    >>> main(["inspect", "no such file.rcal"])
    2
    """
    from recalibrate.commands.entry import run

    return run(argv)
