"""Docstrings as Markdown: the reference's extension of griffe, which reads the package's source."""

import re
import textwrap
from typing import Any

import griffe

from recalibrate.estimators import fill

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data):`~?([^`]+)`")
_CITATION = re.compile(r"\[(\d+)\]_")
_REFERENCE = re.compile(r"^( *)\.\. \[(\d+)\] (.*(?:\n\1 +\S.*)*)", re.MULTILINE)
_MATH = re.compile(r"^( *)\.\. math::(.*(?:\n(?:\1 +\S.*| *(?=\n)))*)", re.MULTILINE)
_LITERAL = re.compile(r"::$", re.MULTILINE)
# griffe takes the first of such choices for the default; the signature knows better.
_CHOICES = re.compile(r"^(\s*\w+(?:, \w+)* : )\{([^}]+)\}", re.MULTILINE)


# Several parameters with one description: each gets its own row, with its own type.
_SHARED = re.compile(r"^(\w+(?:, \w+)+)((?: : .*)?)\n((?: +\S.*\n| *\n(?= +\S))+)", re.MULTILINE)
# What is annotated as Any, because it comes from many libraries, in words.
_WORDS = {
    "base": "array | model",
    "base_model": "model | path | function | array",
    "client": "dask.distributed.Client",
    "costs": "matrix",
    "cv": "int | splitter | folds",
    "estimator": "estimator",
    "exposure": "array | str",
    "H": "class | list[str] | str",
    "model": "Recalibrated | None",
    "positive": "label",
    "random_state": "int | RandomState | None",
    "regressor": "regressor",
    "sample_weight": "array | str",
    "scores": "array",
    "target_class": "label",
    "validation": "rows | float | False",
    "X": "table | array | files",
    "X_sample": "table",
    "y": "array | str",
    "Z": "table",
}
_UNTYPED = re.compile(r"^(\w+)\n(?= +\S)", re.MULTILINE)


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
    text = _SHARED.sub(_one_each, text + "\n").rstrip("\n")
    text = _UNTYPED.sub(_in_words, text)
    text = _CHOICES.sub(lambda found: found[1] + found[2].replace(", ", " or "), text)
    return _CITATION.sub(r"[\1]", text)


def _one_each(found: re.Match[str]) -> str:
    return "".join(f"{name}{found[2]}\n{found[3]}" for name in found[1].split(", "))


def _in_words(found: re.Match[str]) -> str:
    return f"{found[1]} : {_WORDS[found[1]]}\n" if found[1] in _WORDS else found[0]


def _formula(found: re.Match[str]) -> str:
    indent, body = found[1], textwrap.dedent(found[2]).strip()
    return textwrap.indent(f"```latex\n{body}\n```", indent)


def _reference(found: re.Match[str]) -> str:
    body = " ".join(line.strip() for line in found[3].splitlines())
    return f"{found[1]}[{found[2]}] {body}\n"
