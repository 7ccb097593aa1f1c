"""The syntax tree of a group expression, and its canonical text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from recalibrate.data.values import Value

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
