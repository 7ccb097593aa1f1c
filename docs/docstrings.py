"""Docstrings as Markdown: the reference's extension of griffe, which reads the package's source."""

import re
import textwrap
from typing import Any

import griffe

from recalibrate.estimators.documents import fill

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data):`~?([^`]+)`")
_CITATION = re.compile(r"\[(\d+)\]_")
_REFERENCE = re.compile(r"^( *)\.\. \[(\d+)\] (.*(?:\n\1 +\S.*)*)", re.MULTILINE)
_MATH = re.compile(r"^( *)\.\. math::(.*(?:\n(?:\1 +\S.*| *(?=\n)))*)", re.MULTILINE)
_LITERAL = re.compile(r"::$", re.MULTILINE)
# griffe takes the first of such choices for the default; the signature knows better.
_CHOICES = re.compile(r"^(\s*\w+(?:, \w+)* : )\{([^}]+)\}", re.MULTILINE)


class MarkdownDocstrings(griffe.Extension):
    """Turns the few directives of reStructuredText that docstrings use into Markdown."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(fill(obj.docstring.value))


def to_markdown(text: str) -> str:
    """A docstring without roles and directives; formulas are shown as they are written."""
    text = _MATH.sub(_formula, text)
    text = _REFERENCE.sub(_reference, text)
    text = _ROLE.sub(r"`\1`", text)
    text = _LITERAL.sub(":", text)
    text = _CHOICES.sub(lambda found: found[1] + found[2].replace(", ", " or "), text)
    return _CITATION.sub(r"[\1]", text)


def _formula(found: re.Match[str]) -> str:
    indent, body = found[1], textwrap.dedent(found[2]).strip()
    return textwrap.indent(f"```latex\n{body}\n```", indent)


def _reference(found: re.Match[str]) -> str:
    body = " ".join(line.strip() for line in found[3].splitlines())
    return f"{found[1]}[{found[2]}] {body}\n"
