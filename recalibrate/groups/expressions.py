"""Group expressions: text such as ``sex * (25 <= age < 65)`` to a small syntax tree.

Nothing is ever evaluated as Python. A hand-written tokenizer and recursive descent parser give
exact positions in error messages, and the tree is small and regular so that the same object can
be a numpy mask, a class of functions for boosting, a row of an audit, and nodes of an ONNX graph.

Grammar::

    term       := factor ("*" factor)*                  # crossing; binds loosest
    factor     := column | condition
    condition  := conjunction ("or" conjunction)*
    conjunction:= negation ("and" negation)*
    negation   := "not" negation | "(" condition ")" | comparison
    comparison := column op constant | constant op column [op constant]
                | column ["not"] "in" "(" constant ("," constant)* ")"
                | column "in" "[" constant "," constant ")"     # without the upper end
                | column "is" ["not"] "missing"
    op         := "<" | "<=" | ">" | ">=" | "==" | "=" | "!="
    column     := identifier | "`" any text, a backtick doubled "`"
    constant   := number | quoted string | True | False

The names of groups in reports (``race = never married * age in [25, 40)``), which have no quotes,
are read as well where the columns are known.

Missing values: every comparison with a missing value is False, ``!=`` and ``not in`` included.
``not`` negates the truth value, so ``not (age < 25)`` is True on rows whose age is missing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol

import numpy as np

from recalibrate.data.values import Value, category_key, family_of
from recalibrate.support.notices import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalibrate.data import table as tables


__all__ = [
    "And",
    "Column",
    "Columns",
    "Compare",
    "Condition",
    "GroupSyntaxError",
    "In",
    "IsMissing",
    "Not",
    "Or",
    "Predicate",
    "Term",
    "codes_where",
    "columns_named",
    "columns_of",
    "evaluate",
    "parse",
    "to_text",
]


# --- The syntax tree of a group expression, and its canonical text ------------------------------


NAME = re.compile(r"[^\W\d]\w*")
RESERVED = frozenset({"and", "or", "not", "in", "is", "True", "False"})
MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True)
class Compare:
    """``column op value``, with op one of ``< <= > >= == !=``."""

    column: str
    op: str
    value: Value


@dataclass(frozen=True)
class In:
    """``column in values``, or ``column not in values`` when negated (False on missing rows)."""

    column: str
    values: tuple[Value, ...]
    negated: bool = False


@dataclass(frozen=True)
class IsMissing:
    """``column is missing``; its negation is ``Not(IsMissing(...))``."""

    column: str


@dataclass(frozen=True)
class And:
    """All of two or more operands, none of which is an And itself."""

    operands: tuple[Condition, ...]


@dataclass(frozen=True)
class Or:
    """Any of two or more operands, none of which is an Or itself."""

    operands: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    """Negation of the truth value."""

    operand: Condition


Condition = Compare | In | IsMissing | And | Or | Not


@dataclass(frozen=True)
class Column:
    """A factor that splits the rows by the values of a column."""

    name: str


@dataclass(frozen=True)
class Predicate:
    """A factor that keeps the rows where a condition is True."""

    condition: Condition


@dataclass(frozen=True)
class Term:
    """Crossed factors, with the text they were written as (not part of equality)."""

    factors: tuple[Column | Predicate, ...]
    text: str = field(compare=False)


def columns_of(node: Term | Column | Predicate | Condition) -> tuple[str, ...]:
    """Names of the columns a node reads, each once, in order of appearance.

    Examples
    --------
    >>> from recalibrate.groups.expressions import parse
    >>> columns_of(parse("sex * (age < 25 or sex == 'F')"))
    ('sex', 'age')
    """
    if isinstance(node, Term):
        children: tuple[Column | Predicate | Condition, ...] = node.factors
    elif isinstance(node, And | Or):
        children = node.operands
    elif isinstance(node, Predicate | Not):
        children = (node.condition if isinstance(node, Predicate) else node.operand,)
    else:
        return (node.name if isinstance(node, Column) else node.column,)
    return tuple(dict.fromkeys(name for child in children for name in columns_of(child)))


def nesting(node: Term | Column | Predicate | Condition) -> int:
    """How deep `to_text` nests brackets and negations.

    Examples
    --------
    >>> from recalibrate.groups.expressions import parse
    >>> nesting(parse("not age < 25")), nesting(parse("a == 1 or b == 1 and c == 1"))
    (2, 1)
    """
    if isinstance(node, Term):
        return max(map(nesting, node.factors)) + (len(node.factors) > 1)
    if isinstance(node, Predicate):
        return nesting(node.condition)
    if isinstance(node, And | Or):
        return max(nesting(o) + isinstance(o, And | Or) for o in node.operands)
    if isinstance(node, Not) and not isinstance(node.operand, IsMissing):
        return 1 + nesting(node.operand) + (not isinstance(node.operand, Not))
    return 0


def to_text(node: Term | Column | Predicate | Condition) -> str:
    """Canonical text; parsing it gives an equal node back.

    Examples
    --------
    >>> from recalibrate.groups.expressions import parse
    >>> to_text(parse("65>age   and 25<=age"))
    'age < 65 and age >= 25'
    >>> to_text(parse("25 <= age < 65"))
    '25 <= age < 65'
    """
    if isinstance(node, Term):
        bracket = len(node.factors) > 1
        parts = [to_text(f) for f in node.factors]
        wrapped = [
            f"({p})" if bracket and isinstance(f, Predicate) else p
            for f, p in zip(node.factors, parts, strict=True)
        ]
        return " * ".join(wrapped)
    if isinstance(node, Column):
        return name_text(node.name)
    if isinstance(node, Predicate):
        return to_text(node.condition)
    if isinstance(node, And):
        return " and ".join(_and_parts(node.operands))
    if isinstance(node, Or):
        return " or ".join(
            f"({to_text(o)})" if isinstance(o, And) else to_text(o) for o in node.operands
        )
    if isinstance(node, Not):
        if isinstance(node.operand, IsMissing):
            return f"{name_text(node.operand.column)} is not missing"
        inside = to_text(node.operand)
        return f"not {inside}" if isinstance(node.operand, Not) else f"not ({inside})"
    name = name_text(node.column)
    if isinstance(node, IsMissing):
        return f"{name} is missing"
    if isinstance(node, Compare):
        return f"{name} {node.op} {node.value!r}"
    listed = ", ".join(repr(v) for v in node.values)
    return f"{name} {'not in' if node.negated else 'in'} ({listed})"


def name_text(name: str) -> str:
    """A column's name as it is written in an expression."""
    if NAME.fullmatch(name) and name not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def _and_parts(operands: tuple[Condition, ...]) -> Iterator[str]:
    """Texts of the operands; a lower bound followed by an upper bound becomes a chain."""
    at = 0
    while at < len(operands):
        first = operands[at]
        second = operands[at + 1] if at + 1 < len(operands) else None
        at += 1
        if (
            isinstance(first, Compare)
            and isinstance(second, Compare)
            and first.column == second.column
            and first.op in (">", ">=")
            and second.op in ("<", "<=")
        ):
            at += 1
            name = name_text(first.column)
            yield f"{first.value!r} {MIRROR[first.op]} {name} {second.op} {second.value!r}"
        else:
            yield f"({to_text(first)})" if isinstance(first, Or) else to_text(first)


# --- Text of a group expression to tokens, with exact positions for error messages --------------


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
class _Token:
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


def _tokenize(text: str) -> Iterator[_Token]:
    """Tokens of an expression; the last one is of kind "end"."""
    position = 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position == len(text):
            yield _Token("end", "", position)
            return
        match = _TOKEN.match(text, position)
        if match is None:
            bad = text[position]
            hint = _HINTS.get(bad, "names that are not identifiers are written in `backticks`")
            raise GroupSyntaxError(f"cannot read {bad!r} here: {hint}", text, position)
        kind, found = match.lastgroup, match.group()
        if kind == "number":
            yield _Token("constant", _read_number(found, text, position), position)
        elif kind == "string":
            yield _Token("constant", _unescape(found, text, position), position)
        elif kind == "quoted":
            yield _Token("name", match["quoted"].replace("``", "`"), position)
        elif found in ("True", "False"):
            yield _Token("constant", found == "True", position)
        elif kind == "name":
            yield _Token("word" if found in RESERVED else "name", found, position)
        else:
            # Reports print = for groups of a column's values, so it is read, too.
            yield _Token("op", "==" if found == "=" else found, position)
        position = match.end()


# --- Recursive descent from tokens to a syntax tree, checked against the columns of a table -----


_END_OF_VALUE = re.compile(r"\s(?:and|or)\s|[*),]")
"""Where a value without quotes ends at the latest."""
_MAX_DEPTH = 50  # far beyond what people write, far below Python's recursion limit


def parse(text: str, schema: tables.Schema | None = None) -> Term:
    """Read one group term.

    Parameters
    ----------
    text : str
        An expression in the grammar of `recalibrate.groups.expressions`.
    schema : Schema, optional
        When given, columns must exist in it and constants must fit their columns; the text may
        then be the name of a group as reports print it, without quotes around names and categories.

    Returns
    -------
    Term

    Raises
    ------
    GroupSyntaxError
        With the position of the problem.

    Examples
    --------
    >>> from recalibrate.groups.expressions import to_text
    >>> parse("sex * (age < 25)").factors
    (Column(name='sex'), Predicate(condition=Compare(column='age', op='<', value=25)))
    >>> to_text(parse("`hours per week` >= 40 and not sex == 'F'"))
    "`hours per week` >= 40 and not (sex == 'F')"
    """
    if not isinstance(text, str):
        raise TypeError(f"a group term is a string, got {type(text).__name__}: {text!r}")
    try:
        return _Parser(text, schema).term()
    except GroupSyntaxError:
        known = {} if schema is None else {c.name: c.categories for c in schema.columns}
        quoted = _quote_label(text, known)
        if quoted is not None:
            with suppress(GroupSyntaxError):  # the first error speaks of what the user wrote
                return _Parser(quoted, schema).term()
        raise


class _Parser:
    def __init__(self, text: str, schema: tables.Schema | None) -> None:
        self.text = text
        self.schema = schema
        self.tokens = list(_tokenize(text))
        self.at = 0
        self.depth = 0
        self.categories: dict[str, Set[object]] = {}

    def peek(self, ahead: int = 0) -> _Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self) -> _Token:
        token = self.peek()
        self.at += 1
        return token

    def sees(self, kind: str, values: Container[Value]) -> bool:
        # The kind matters: a column may be called `in`, a category '*'.
        return self.peek().kind == kind and self.peek().value in values

    def accept(self, kind: str, value: str) -> bool:
        found = self.sees(kind, (value,))
        if found:
            self.take()
        return found

    def expect(self, kind: str, value: str, context: str) -> None:
        if not self.accept(kind, value):
            raise self.error(f"expected {value!r} {context}, found {self.peek().shown()}")

    def error(self, message: str, token: _Token | None = None) -> GroupSyntaxError:
        return GroupSyntaxError(message, self.text, (token or self.peek()).start)

    def term(self) -> Term:
        factors: list[Column | Predicate] = []
        while True:
            start = self.peek()
            factor = self.factor()
            if isinstance(factor, Column) and factor in factors:
                raise self.error(f"column {factor.name!r} is crossed with itself", start)
            factors.append(factor)
            if self.peek().kind == "end":
                return self.checked(Term(tuple(factors), self.text.strip()))
            self.expect("op", "*", "or the end")

    def checked(self, term: Term) -> Term:
        """Refuse a term whose canonical text, which has more brackets, could not be read."""
        if nesting(term) >= _MAX_DEPTH:
            raise self.error(f"nested more than {_MAX_DEPTH} deep; split it into several terms")
        return term

    def factor(self) -> Column | Predicate:
        after = self.peek(1)
        alone = after.kind == "end" or (after.kind == "op" and after.value == "*")
        if self.peek().kind == "name" and alone:
            return Column(self.column())
        return Predicate(self.condition())

    def condition(self) -> Condition:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.error(f"nested more than {_MAX_DEPTH} deep; split it into several terms")
        parts = [self.conjunction()]
        while self.accept("word", "or"):
            parts.append(self.conjunction())
        self.depth -= 1
        flat = [p for part in parts for p in (part.operands if isinstance(part, Or) else (part,))]
        return flat[0] if len(flat) == 1 else Or(tuple(flat))

    def conjunction(self) -> Condition:
        parts = [self.negation()]
        while self.accept("word", "and"):
            parts.append(self.negation())
        flat = [p for part in parts for p in (part.operands if isinstance(part, And) else (part,))]
        return flat[0] if len(flat) == 1 else And(tuple(flat))

    def negation(self) -> Condition:
        if self.accept("word", "not"):
            self.depth += 1
            if self.depth > _MAX_DEPTH:
                raise self.error(f"more than {_MAX_DEPTH} nested `not`")
            operand = self.negation()
            self.depth -= 1
            return Not(operand)
        if self.accept("op", "("):
            inside = self.condition()
            self.expect("op", ")", "to close the bracket")
            return inside
        return self.comparison()

    def comparison(self) -> Condition:
        if self.peek().kind == "constant" or self.sees("op", "-"):
            return self.constant_first()
        name = self.column()
        if self.accept("word", "is"):
            negated = self.accept("word", "not")
            self.expect("name", "missing", "after `is`")
            return Not(IsMissing(name)) if negated else IsMissing(name)
        negated = self.accept("word", "not")
        if negated or self.sees("word", ("in",)):
            self.expect("word", "in", "after `not`")
            return self.membership(name, negated)
        if not self.sees("op", MIRROR):
            raise self.error(
                f"column {name!r} alone is not a condition: expected a comparison "
                f"(< <= > >= == != in, is missing), found {self.peek().shown()}"
            )
        found = self.compare(name)
        if self.sees("op", MIRROR):
            raise self.error("a chain has its column in the middle: 25 <= age < 65")
        return found

    def compare(self, name: str) -> Compare:
        op = str(self.take().value)
        return Compare(name, op, self.constant(name, op))

    def constant_first(self) -> Condition:
        first, value = self.peek(), self.constant(None, "")
        if not self.sees("op", MIRROR):
            raise self.error(f"expected a comparison after {value!r}, found {self.peek().shown()}")
        op = MIRROR[str(self.take().value)]
        name = self.column()
        self.check_constant(name, op, value, first)
        left = Compare(name, op, value)
        if self.sees("op", MIRROR):
            return And((left, self.compare(name)))
        return left

    def membership(self, name: str, negated: bool) -> Condition:
        if not negated and self.accept("op", "["):
            low = self.constant(name, ">=")
            self.expect("op", ",", "between the ends of an interval")
            inside = And((Compare(name, ">=", low), Compare(name, "<", self.constant(name, "<"))))
            self.expect("op", ")", "to end an interval, which does not contain its upper end")
            return inside
        self.expect("op", "(", "after `in`")
        values = [self.constant(name, "in")]
        while self.accept("op", ","):
            if self.sees("op", ")"):
                break  # a trailing comma, as Python writes tuples of one
            values.append(self.constant(name, "in"))
        self.expect("op", ")", "or a comma")
        return In(name, tuple(values), negated)

    def constant(self, name: str | None, op: str) -> Value:
        start = self.peek()
        negative = self.accept("op", "-")
        token = self.take()
        if token.kind == "name" or token.kind == "word":
            raise self.error(self.unquoted(name, op, token), token)
        if token.kind != "constant":
            raise self.error(f"expected a constant, found {token.shown()}", token)
        value = token.value
        if negative:
            if isinstance(value, str | bool):
                raise self.error("only a number can follow a minus sign", token)
            value = -value
        if name is not None:
            self.check_constant(name, op, value, start)
        return value

    def unquoted(self, name: str | None, op: str, token: _Token) -> str:
        """What is wrong with a word where a constant should be."""
        if name is not None and self.schema is not None and token.value not in self.schema.names:
            # As reports print it, which is read without quotes if there is such a category.
            meant = _END_OF_VALUE.split(self.text[token.start :])[0].strip()
            problem = self.misfit(name, op, meant)
            if problem:
                return problem
        return (
            f"expected a constant, found {token.shown()}: strings need quotes "
            f"({str(token.value)!r}), and columns cannot be compared with each other"
        )

    def column(self) -> str:
        token = self.take()
        name = str(token.value)
        names = None if self.schema is None else self.schema.names
        if token.kind == "word" and names is not None and name in names:
            raise self.error(f"{name!r} is a reserved word; write the column as `{name}`", token)
        if token.kind != "name":
            raise self.error(f"expected a column name, found {token.shown()}", token)
        if names is not None and name not in names:
            raise self.error(f"unknown column {name!r}{_suggest(name, names, 'columns')}", token)
        return name

    def check_constant(self, name: str, op: str, value: Value, token: _Token) -> None:
        problem = self.misfit(name, op, value)
        if problem:
            raise self.error(problem, token)

    def misfit(self, name: str, op: str, value: Value) -> str | None:
        """Why a column cannot be compared with a value, as far as the columns are known."""
        if self.schema is None:
            return None
        column = self.schema.columns[self.schema.index(name)]
        if name not in self.categories:  # once per column: a list may name a thousand of them
            self.categories[name] = {category_key(c) for c in column.categories}
        return _misfit(column, self.categories[name], op, value)


def columns_named(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """Columns that a term reads, where no more than the names of all columns is known.

    Examples
    --------
    >>> columns_named("hours per week < 20 * sex = F", ["hours per week", "sex"])
    ('hours per week', 'sex')
    """
    try:
        return columns_of(parse(text))
    except GroupSyntaxError:
        quoted = _quote_label(text, dict.fromkeys(names))
        if quoted is None:
            raise
        return columns_of(parse(quoted))


_CROSSING = " * "
_Known = Mapping[str, Sequence[Value] | None]
"""Names of columns, and the categories of each; None where they are not known."""


def _quote_label(text: str, columns: _Known) -> str | None:
    """The name of a group as reports print it, with quotes; None if it is not such a name."""
    parts: list[str] = []
    rest = text.strip()
    while rest:
        cell = _first_cell(rest, columns)
        if cell is None:
            return None
        part, length = cell
        parts.append(part)
        rest = rest[length:].removeprefix(_CROSSING)
    return _CROSSING.join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)


def _first_cell(text: str, columns: _Known) -> tuple[str, int] | None:
    """What a name begins with (a category, a band, a condition in brackets), and its length."""
    own = text.partition(_CROSSING)[0]
    if own.startswith("(") and own.endswith(")"):
        return own[1:-1], len(own)
    # Names and categories may hold anything, so the longest that fit are meant.
    for name in sorted(columns, key=len, reverse=True):
        if not text.startswith(f"{name} "):
            continue
        rest, categories = own[len(name) :], columns[name]
        if rest.startswith(" = ") and categories is None:
            return f"{name_text(name)} == {rest.removeprefix(' = ')!r}", len(own)
        for value in sorted(categories or (), key=lambda value: len(str(value)), reverse=True):
            label = f"{name} = {value}"
            if text == label or text.startswith(f"{label}{_CROSSING}"):
                return f"{name_text(name)} == {value!r}", len(label)
        if rest.startswith((" = ", " < ", " >= ", " in [", " is missing")):
            return f"{name_text(name)}{rest}", len(own)
    return None


def _suggest(wrong: Value, known: tuple[Value, ...], what: str) -> str:
    # Comparing with hundreds of thousands of categories would take seconds.
    close = get_close_matches(str(wrong), [str(k) for k in known[:1000]], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{hint} {what}: {listed(known, 10)}"


def _misfit(column: tables.Column, known: Set[object], op: str, value: Value) -> str | None:
    """Why ``column op value`` makes no sense, or None."""
    if column.kind == "numeric":
        if isinstance(value, str):
            return f"column {column.name!r} is numeric; compare it with a number, not {value!r}"
        return None
    if op in ("==", "!=", "in"):
        if category_key(value) in known:
            return None
        return f"column {column.name!r} has no category {value!r}" + _suggest(
            value, column.categories, "categories"
        )
    if {family_of(type(other)) for other in (*column.categories, value)} == {"number"}:
        return None
    return (
        f"column {column.name!r} is categorical and has no order for {op!r} {value!r}; "
        "use == or in, or make the column numeric"
    )


# --- What a condition means: its truth on the rows of a table -----------------------------------


_OPERATORS: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


class Columns(Protocol):
    """What evaluation needs of a table."""

    @property
    def schema(self) -> tables.Schema: ...
    @property
    def n_rows(self) -> int: ...
    def column(self, name: str, /, *, copy: bool = True) -> NDArray[np.float32]: ...


def codes_where(node: Compare | In, column: tables.Column) -> NDArray[np.bool_]:
    """Truth of a comparison for each code of a categorical column.

    Parameters
    ----------
    node : Compare or In
    column : recalibrate.data.table.Column
        A categorical column.

    Returns
    -------
    ndarray of bool, shape (len(column.categories) + 1,)
        Entry k is for ``categories[k - 1]``; entry 0, for missing, is False.

    Examples
    --------
    >>> from recalibrate.data.table import Column
    >>> codes_where(Compare("sex", "!=", "F"), Column("sex", "categorical", ("F", "M")))
    array([False, False,  True])
    """
    truth = np.zeros(len(column.categories) + 1, dtype=bool)
    if isinstance(node, Compare) and node.op not in ("==", "!="):
        compare = _OPERATORS[node.op]
        truth[1:] = [compare(c, node.value) for c in column.categories]
        return truth
    values = node.values if isinstance(node, In) else (node.value,)
    negated = node.negated if isinstance(node, In) else node.op == "!="
    wanted = {category_key(v) for v in values}
    truth[1:] = [(category_key(c) in wanted) != negated for c in column.categories]
    return truth


def _to_float32(values: tuple[Value, ...]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # beyond float32 is infinite, as it is in the column
        return np.array([float(v) for v in values], dtype=np.float64).astype(np.float32)


def _evaluate_leaf(node: Compare | In, table: Columns) -> NDArray[np.bool_]:
    column = table.schema.columns[table.schema.index(node.column)]
    values = table.column(node.column)
    if column.kind == "categorical":
        return codes_where(node, column)[np.nan_to_num(values, nan=0.0).astype(np.intp)]
    constants = _to_float32(node.values if isinstance(node, In) else (node.value,))
    if isinstance(node, Compare) and node.op != "!=":
        return _OPERATORS[node.op](values, constants[0])
    found = np.isin(values, constants)
    if isinstance(node, In) and not node.negated:
        return found
    return ~found & ~np.isnan(values)


def evaluate(node: Condition, table: Columns) -> NDArray[np.bool_]:
    """Truth of a condition on every row.

    Values are cast to float32 before they meet a numeric (float32) column. A comparison with
    a missing value is False, also ``!=`` and ``not in``.

    Parameters
    ----------
    node : Condition
        The ``condition`` of a `Predicate`.
    table : recalibrate.data.table.Table

    Returns
    -------
    ndarray of bool, shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from recalibrate.groups.expressions import parse
    >>> from recalibrate.data.table import read_table
    >>> table = read_table(np.array([[20.0], [30.0], [np.nan]]))
    >>> evaluate(parse("x0 < 25").factors[0].condition, table)
    array([ True, False, False])
    >>> evaluate(parse("not (x0 < 25)").factors[0].condition, table)
    array([False,  True,  True])
    """
    if isinstance(node, And | Or):
        combine = np.logical_and if isinstance(node, And) else np.logical_or
        result = evaluate(node.operands[0], table)
        for operand in node.operands[1:]:
            result = combine(result, evaluate(operand, table))
        return result
    if isinstance(node, Not):
        return ~evaluate(node.operand, table)
    if isinstance(node, IsMissing):
        return np.isnan(table.column(node.column))
    return _evaluate_leaf(node, table)
