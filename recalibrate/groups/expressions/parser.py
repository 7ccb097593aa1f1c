"""Recursive descent from tokens to a syntax tree, checked against the columns of a table."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence, Set
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING

from recalibrate.data.values import Value, category_key, family_of
from recalibrate.groups.expressions.tokens import GroupSyntaxError, Token, tokenize
from recalibrate.groups.expressions.tree import (
    MIRROR,
    And,
    Column,
    Compare,
    Condition,
    In,
    IsMissing,
    Not,
    Or,
    Predicate,
    Term,
    columns_of,
    name_text,
    nesting,
)
from recalibrate.support.notices import listed

if TYPE_CHECKING:
    from recalibrate.data import table as tables

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
        self.tokens = list(tokenize(text))
        self.at = 0
        self.depth = 0
        self.categories: dict[str, Set[object]] = {}

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
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

    def error(self, message: str, token: Token | None = None) -> GroupSyntaxError:
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

    def unquoted(self, name: str | None, op: str, token: Token) -> str:
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

    def check_constant(self, name: str, op: str, value: Value, token: Token) -> None:
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
