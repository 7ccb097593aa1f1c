"""Text of a group expression to tokens, with exact positions for error messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from recalibrate.data.values import Value
from recalibrate.groups.expressions.tree import NAME, RESERVED

_TOKEN = re.compile(
    rf"""(?P<number>(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+)(?!\w)
       | (?P<name>{NAME.pattern})
       | `(?P<quoted>(?:``|[^`])*)`
       | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
       | (?P<op><=|>=|==|!=|[<>=*(),\[-])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_HINTS = {
    "&": "write `and`",
    "|": "write `or`",
    "~": "write `not`",
    "!": "write != or `not`",
    "`": "unmatched backtick; a backtick inside a name is written twice",
    "'": "unmatched quote",
    '"': "unmatched quote",
}


class GroupSyntaxError(ValueError):
    """A group expression that cannot be read; shows the place with a caret.

    Attributes
    ----------
    message : str
        What was wrong and what to do.
    text : str
        The whole expression.
    position : int
        Index into ``text``.
    """

    def __init__(self, message: str, text: str, position: int) -> None:
        # All arguments go to args, so that the error survives pickling between processes.
        super().__init__(message, text, position)
        self.message = message
        self.text = text
        self.position = position

    def __str__(self) -> str:
        # One character per character, or the caret would point elsewhere.
        shown = "".join(c if c.isprintable() else " " for c in self.text)
        return f"{self.message}\n    {shown}\n    {' ' * self.position}^"


@dataclass(frozen=True)
class Token:
    """A token and where it starts; quoted names, strings and numbers are decoded."""

    kind: str  # "name", "constant", "op", "word" (reserved), "end"
    value: Value
    start: int

    def shown(self) -> str:
        return "the end of the expression" if self.kind == "end" else repr(self.value)


def _unescape(literal: str, text: str, start: int) -> str:
    def one(match: re.Match[str]) -> str:
        code = match.group(1)
        if len(code) > 1 and int(code[1:], 16) <= 0x10FFFF:
            return chr(int(code[1:], 16))
        if code not in _ESCAPED:
            message = f"unknown escape {match.group()!r} in a string; write \\\\ for a backslash"
            raise GroupSyntaxError(message, text, start + 1 + match.start())
        return _ESCAPED[code]

    return _ESCAPE.sub(one, literal[1:-1])


def _read_number(literal: str, text: str, start: int) -> int | float:
    value = float(literal)
    if value == float("inf"):
        raise GroupSyntaxError("this number is too large for a float", text, start)
    # Leading zeros go because int() refuses very long digit strings.
    return int(literal.lstrip("0") or "0") if literal.isdigit() else value


def tokenize(text: str) -> Iterator[Token]:
    """Tokens of an expression; the last one is of kind "end"."""
    position = 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position == len(text):
            yield Token("end", "", position)
            return
        match = _TOKEN.match(text, position)
        if match is None:
            bad = text[position]
            hint = _HINTS.get(bad, "names that are not identifiers are written in `backticks`")
            raise GroupSyntaxError(f"cannot read {bad!r} here: {hint}", text, position)
        kind, found = match.lastgroup, match.group()
        if kind == "number":
            yield Token("constant", _read_number(found, text, position), position)
        elif kind == "string":
            yield Token("constant", _unescape(found, text, position), position)
        elif kind == "quoted":
            yield Token("name", match["quoted"].replace("``", "`"), position)
        elif found in ("True", "False"):
            yield Token("constant", found == "True", position)
        elif kind == "name":
            yield Token("word" if found in RESERVED else "name", found, position)
        else:
            # Reports print = for groups of a column's values, so it is read, too.
            yield Token("op", "==" if found == "=" else found, position)
        position = match.end()
